package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostileOwner makes the repository somebody else's.
func hostileOwner(v *victim, _ securityCommand) *shell {
	v.owners = []int{os.Geteuid() + 1}
	v.untouched = v.in("..").readFiles("work/.kist")
	return nil
}

// TestSecurityOwner has root use a repository of another user.
func TestSecurityOwner(t *testing.T) {
	needsRoot(t)
	v := newVictim(t)
	give := func(path string, owner int) {
		if err := os.Chown(v.path(path), owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(hint string) {
		t.Helper()
		if o := v.in("folder").exits(1, "status"); !strings.Contains(o.stderr, hint) {
			t.Errorf("no hint %q: %v", hint, o)
		}
	}
	real, err := filepath.EvalSymlinks(v.dir)
	if err != nil {
		t.Fatal(err)
	}
	command := []string{"config", "--global", "--add", "safe.directory", real}
	for _, path := range []string{".", ".kist"} {
		give(path, nobody)
		refused("kist " + strings.Join(command, " ") + "\n")
		v.exits(1, "clone", "../remote", ".")
		v.exits(1, "init")
		give(path, 0)
	}

	// Whoever called sudo may use the own repository.
	give(".kist", nobody)
	v.env = append(v.env, fmt.Sprint("SUDO_UID=", nobody))
	v.kist("status")
	v.env = append(v.env, fmt.Sprint("SUDO_UID=", nobody+1))
	refused("safe.directory")

	// The command that the hint prints is the way out.
	v.in("../outside").kist(command...)
	refused("safe.directory") // not there: each folder of the tests is a home
	v.env = append(v.env, "XDG_CONFIG_HOME="+v.path("../outside/.config"))
	v.kist("status")
}

// repositoryLinks are names in .kist that the scenarios below replace with
// symlinks: files and folders that are there, and locks.
var repositoryLinks = []string{
	"config", "HEAD", "index", "records", "refs", "refs/heads", "refs/heads/main", "logs", "logs/HEAD", "logs/refs",
	"remotes", "remotes/origin", "volumes", "volumes/*", "tmp",
}

// hostileLink moves a file or folder of .kist outside and links to it. The
// folder ../outside has all that a command may not touch.
func hostileLink(name string) func(*victim, securityCommand) *shell {
	return func(v *victim, _ securityCommand) *shell {
		found, err := filepath.Glob(v.path(filepath.Join(".kist", name)))
		if err != nil || len(found) == 0 {
			v.Fatalf("no .kist/%s: %v", name, err)
		}
		for i, path := range found {
			moved := v.path(fmt.Sprintf("../outside/%d", i))
			for _, err := range []error{os.Rename(path, moved), os.Symlink(moved, path)} {
				if err != nil {
					v.Fatal(err)
				}
			}
		}
		v.untouched = v.readFiles("../outside")
		return nil
	}
}

// hostileLock makes all locks symlinks to files that are not there, and to one
// that is.
func hostileLock(v *victim, _ securityCommand) *shell {
	for i, name := range []string{"index", "refs", "records", "gc", "maintenance", "config"} {
		target := v.path("../outside/secret")
		if i%2 == 0 {
			target = v.path("../outside/made-by-a-lock")
		}
		path := v.path(".kist/" + name + ".lock")
		os.Remove(path)
		if err := os.Symlink(target, path); err != nil {
			v.Fatal(err)
		}
	}
	v.untouched = v.readFiles("../outside")
	return nil
}

// wantOutsideUntouched wants the folder ../outside as it was before a command.
func wantOutsideUntouched(v *victim, c securityCommand, o outcome) {
	v.wantFiles(v.readFiles("../outside"), v.untouched)
	if o.status == 2 {
		v.Errorf("did not run: %v", o)
	}
}

func init() {
	for _, name := range repositoryLinks {
		securityScenarios = append(securityScenarios, securityScenario{
			name: ".kist/" + strings.ReplaceAll(name, "/", "-") + " is a symlink", hostile: hostileLink(name),
			check: func(v *victim, c securityCommand, o outcome) {
				wantOutsideUntouched(v, c, o)
				if c.name == "verify" && name != "tmp" && o.status == 0 {
					v.Errorf("follows the symlink: %v", o)
				}
			},
		})
	}
	securityScenarios = append(securityScenarios, securityScenario{name: "locks are symlinks", hostile: hostileLock, check: wantOutsideUntouched})
}

// TestSecurityMessageFile has a commit whose message is edited in a file that
// is a symlink.
func TestSecurityMessageFile(t *testing.T) {
	v := newVictim(t)
	if err := os.Symlink(v.path("../outside/secret"), v.path(".kist/COMMIT_EDITMSG")); err != nil {
		t.Fatal(err)
	}
	untouched := v.readFiles("../outside")
	v.env = append(v.env, "KIST_EDITOR=echo edited >")
	o := v.run("commit", "-a")
	v.wantFiles(v.readFiles("../outside"), untouched)
	if o.status != 0 {
		t.Error(o)
	}
}

// TestSecurityRemoteFolder has a remote in a folder with something else where
// the next root belongs: push fails, and does not try for ever.
func TestSecurityRemoteFolder(t *testing.T) {
	v := newVictim(t)
	roots, err := os.ReadDir(v.path("../remote/root"))
	if err != nil {
		t.Fatal(err)
	}
	next := v.path(fmt.Sprintf("../remote/root/%020d", len(roots)+1))
	if err := os.Mkdir(next, 0o777); err != nil {
		t.Fatal(err)
	}
	if o := v.exits(15, "push", "origin", "main"); !strings.Contains(o.stderr, "in the way") {
		t.Errorf("does not say why: %v", o)
	}
	for _, err := range []error{os.Remove(next), os.Symlink("nowhere", next)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	v.exits(11, "push", "origin", "main")
}
