package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostileOwner makes the owner of the repository untrusted.
func hostileOwner(v *victim, _ securityCommand) *shell {
	v.owners = []int{os.Geteuid() + 1}
	v.untouched = v.in("..").readFiles("work/.kist")
	return nil
}

// TestSecurityOwner checks when root may use another user's repository: if it is in
// safe.directory, or if its owner called sudo.
func TestSecurityOwner(t *testing.T) {
	needsRoot(t)
	v := newVictim(t)
	v.apart = true // a process learns from SUDO_UID who called sudo

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

	// The user who called sudo may use their own repository.
	give(".kist", nobody)
	v.env = append(v.env, fmt.Sprint("SUDO_UID=", nobody))
	v.kist("status")
	v.env = append(v.env, fmt.Sprint("SUDO_UID=", nobody+1))
	refused("safe.directory")

	// The command in the hint makes the repository trusted.
	v.in("../outside").kist(command...)
	refused("safe.directory") // HOME, and so the configuration, differs in each test folder
	v.env = append(v.env, "XDG_CONFIG_HOME="+v.path("../outside/.config"))
	v.kist("status")
}

// repositoryLinks are the files and folders in .kist that the scenarios below replace
// with symlinks.
var repositoryLinks = []string{
	"config", "HEAD", "index", "records", "refs", "refs/heads", "refs/heads/main", "logs", "logs/HEAD", "logs/refs",
	"remotes", "remotes/origin", "volumes", "volumes/*", "tmp",
}

// hostileLink moves a file or folder of .kist outside and links to it. No command may
// change the folder ../outside.
func hostileLink(name string) func(*victim, securityCommand) *shell {
	return func(v *victim, _ securityCommand) *shell {
		found, err := filepath.Glob(v.path(filepath.Join(".kist", name)))
		if err != nil || len(found) == 0 {
			v.Fatalf(".kist/%s is missing: %v", name, err)
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

// hostileLock makes all locks symlinks, to a missing file and to an existing one.
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

// wantOutsideUntouched checks that a command ran and did not change ../outside.
func wantOutsideUntouched(v *victim, c securityCommand, o outcome) {
	v.wantFiles(v.readFiles("../outside"), v.untouched)
	if o.status == 2 {
		v.Errorf("the command did not run: %v", o)
	}
}

func init() {
	for _, name := range repositoryLinks {
		securityScenarios = append(securityScenarios, securityScenario{
			name: ".kist/" + strings.ReplaceAll(name, "/", "-") + " is a symlink", hostile: hostileLink(name),
			check: func(v *victim, c securityCommand, o outcome) {
				wantOutsideUntouched(v, c, o)
				if c.name == "verify" && name != "tmp" && o.status == 0 {
					v.Errorf("verify finds no error: %v", o)
				}
			},
		})
	}
	securityScenarios = append(securityScenarios, securityScenario{name: "locks are symlinks", hostile: hostileLock, check: wantOutsideUntouched})
}

// TestSecurityMessageFile checks that commit edits no message through a symlink to a
// file outside.
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

// TestSecurityRemoteFolder checks that push fails, without endless retries, if a folder
// or symlink has the name of the remote's next root.
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
		t.Errorf("the error does not name the reason: %v", o)
	}
	for _, err := range []error{os.Remove(next), os.Symlink("nowhere", next)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	v.exits(11, "push", "origin", "main")
}
