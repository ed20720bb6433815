package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands"
)

// securityCommand is a row of the security suite: a command, and arguments for the
// repository of [newVictim].
type securityCommand struct {
	name   string // as in "hold add"
	args   []string
	beside bool // the command uses no repository
	silent bool // the command succeeds and prints nothing if it refuses a repository
	status int  // exit status when nothing is hostile
}

// refused reports whether the command refused the repository with a message that has text.
func (c securityCommand) refused(o outcome, text string) bool {
	if c.silent {
		return o.status == 0 && o.stdout+o.stderr == ""
	}
	return o.status == 1 && strings.Contains(o.stderr, text)
}

// securityCommands has every leaf of the command tree. A new command needs a line
// here.
var securityCommands = []securityCommand{
	{name: "add", args: []string{"add", "."}},
	{name: "archive", args: []string{"archive", "-o", "../made.tar", "HEAD"}},
	{name: "attr get", args: []string{"attr", "get", "c.txt", "tags"}},
	{name: "attr list", args: []string{"attr", "list", "c.txt"}},
	{name: "attr remove", args: []string{"attr", "remove", "c.txt", "tags"}},
	{name: "attr set", args: []string{"attr", "set", "c.txt", "tags=made"}},
	{name: "backup", args: []string{"backup"}},
	{name: "bisect bad", args: []string{"bisect", "bad"}, status: 1},
	{name: "bisect good", args: []string{"bisect", "good"}, status: 1},
	{name: "bisect log", args: []string{"bisect", "log"}, status: 1},
	{name: "bisect reset", args: []string{"bisect", "reset"}},
	{name: "bisect run", args: []string{"bisect", "run", "true"}, status: 1},
	{name: "bisect skip", args: []string{"bisect", "skip"}, status: 1},
	{name: "bisect start", args: []string{"bisect", "start", "HEAD", "HEAD~1"}},
	{name: "blame", args: []string{"blame", "a.txt"}},
	{name: "branch", args: []string{"branch", "made"}},
	{name: "cat", args: []string{"cat", "HEAD:a.txt"}},
	{name: "check-age", args: []string{"check-age", "--max", "never"}},
	{name: "checkout", args: []string{"checkout", "topic"}},
	{name: "cherry-pick", args: []string{"cherry-pick", "topic"}},
	{name: "clean", args: []string{"clean", "-fdx"}},
	{name: "clone", args: []string{"clone", "../remote", "../cloned"}, beside: true},
	{name: "commit", args: []string{"commit", "-a", "-m", "made"}},
	{name: "completion", args: []string{"completion", "bash"}, beside: true},
	{name: "config", args: []string{"config", "user.name", "Anna"}},
	{name: "describe", args: []string{"describe", "--always"}},
	{name: "diff", args: []string{"diff"}},
	{name: "difftool", args: []string{"difftool", "-x", "true"}},
	{name: "docs", args: []string{"docs", "../docs"}, beside: true},
	{name: "du", args: []string{"du"}},
	{name: "expire", args: []string{"expire", "--keep-last", "1"}},
	{name: "export git", args: []string{"export", "git", "../exported"}},
	{name: "evict", args: []string{"evict"}},
	{name: "fetch", args: []string{"fetch"}},
	{name: "find", args: []string{"find", "*.txt"}},
	{name: "gc", args: []string{"gc", "--prune", "now", "--repack"}},
	{name: "grep", args: []string{"grep", "-c", ""}},
	{name: "help", args: []string{"help", "add"}, beside: true},
	{name: "history", args: []string{"history", "a.txt"}},
	{name: "hold add", args: []string{"hold", "add", "HEAD"}},
	{name: "hold list", args: []string{"hold", "list"}},
	{name: "hold remove", args: []string{"hold", "remove", "v1"}},
	{name: "import git", args: []string{"import", "git", "../absent"}, status: 1},
	{name: "import restic", args: []string{"import", "restic", "../absent"}, status: 1},
	{name: "import tar", args: []string{"import", "tar", "../absent.tar"}, status: 1},
	{name: "init", args: []string{"init", "../made"}, beside: true},
	{name: "key add", args: []string{"key", "add", "origin", "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"}, status: 15},
	{name: "key export", args: []string{"key", "export", "origin", "../made.keyset"}, status: 15},
	{name: "key list", args: []string{"key", "list", "origin"}, status: 15},
	{name: "key new", args: []string{"key", "new", "../made.key"}, beside: true},
	{name: "key remove", args: []string{"key", "remove", "origin", "old"}, status: 15},
	{name: "key rotate", args: []string{"key", "rotate", "origin"}, status: 15},
	{name: "log", args: []string{"log", "--stat"}},
	{name: "ls", args: []string{"ls", "-r"}},
	{name: "ls-remote", args: []string{"ls-remote"}},
	{name: "merge-base", args: []string{"merge-base", "HEAD", "topic"}},
	{name: "merge", args: []string{"merge", "topic"}},
	{name: "mount", args: []string{"mount", "."}, status: 1},
	{name: "mv", args: []string{"mv", "a.txt", "moved.txt"}},
	{name: "prompt", args: []string{"prompt"}, silent: true},
	{name: "pull", args: []string{"pull", "origin", "theirs"}},
	{name: "purge", args: []string{"purge", "--yes", "HEAD:c.txt"}},
	{name: "push", args: []string{"push", "origin", "main"}},
	{name: "rebase", args: []string{"rebase", "--autostash", "topic"}},
	{name: "reflog", args: []string{"reflog"}},
	{name: "refs-of", args: []string{"refs-of", "a.txt"}},
	{name: "remote add", args: []string{"remote", "add", "second", "../second"}},
	{name: "remote check", args: []string{"remote", "check", "origin"}},
	{name: "remote copy", args: []string{"remote", "copy", "origin", "origin"}, status: 15},
	{name: "remote gc", args: []string{"remote", "gc", "origin", "--repack"}},
	{name: "remote list", args: []string{"remote", "list"}},
	{name: "remote log", args: []string{"remote", "log", "origin"}},
	{name: "remote prune", args: []string{"remote", "prune", "origin"}},
	{name: "remote rename", args: []string{"remote", "rename", "origin", "other"}},
	{name: "remote show", args: []string{"remote", "show", "origin"}},
	{name: "remote get-url", args: []string{"remote", "get-url", "origin"}},
	{name: "remote set-url", args: []string{"remote", "set-url", "origin", "../remote"}},
	{name: "remote remove", args: []string{"remote", "remove", "origin"}},
	{name: "reset", args: []string{"reset", "--hard", "HEAD~1"}},
	{name: "restore", args: []string{"restore", "a.txt"}},
	{name: "rev-parse", args: []string{"rev-parse", "HEAD"}},
	{name: "revert", args: []string{"revert", "--no-edit", "HEAD"}},
	{name: "rewrite", args: []string{"rewrite", "--yes", "HEAD:c.txt"}},
	{name: "rm", args: []string{"rm", "folder/b.txt"}},
	{name: "schedule add", args: []string{"schedule", "add", "--daily", "02:30"}, status: 1},
	{name: "schedule list", args: []string{"schedule", "list"}, beside: true, status: 1},
	{name: "schedule remove", args: []string{"schedule", "remove"}, status: 1},
	{name: "serve", args: []string{"serve", "--listen", "unix:none/socket"}, status: 1},
	{name: "shortlog", args: []string{"shortlog", "-se"}},
	{name: "show", args: []string{"show"}},
	{name: "sparse add", args: []string{"sparse", "add", "sub"}, status: 1},
	{name: "sparse off", args: []string{"sparse", "off"}},
	{name: "sparse set", args: []string{"sparse", "set", "sub"}},
	{name: "stash apply", args: []string{"stash", "apply"}, status: 1},
	{name: "stash branch", args: []string{"stash", "branch", "made"}, status: 1},
	{name: "stash clear", args: []string{"stash", "clear"}},
	{name: "stash drop", args: []string{"stash", "drop"}, status: 1},
	{name: "stash list", args: []string{"stash", "list"}},
	{name: "stash pop", args: []string{"stash", "pop"}, status: 1},
	{name: "stash push", args: []string{"stash", "push", "-u"}},
	{name: "stash show", args: []string{"stash", "show"}, status: 1},
	{name: "stats", args: []string{"stats"}},
	{name: "status", args: []string{"status"}},
	{name: "switch", args: []string{"switch", "topic"}},
	{name: "tag", args: []string{"tag", "-a", "-m", "made", "v2"}},
	{name: "upgrade", args: []string{"upgrade"}},
	{name: "verify", args: []string{"verify", "--read-data"}},
	{name: "view add", args: []string{"view", "add", "made", "{path}"}},
	{name: "view list", args: []string{"view", "list"}},
	{name: "view rebuild", args: []string{"view", "rebuild", "absent"}, status: 1},
	{name: "view remove", args: []string{"view", "remove", "absent"}, status: 1},
	{name: "view verify", args: []string{"view", "verify", "absent"}, status: 1},
	{name: "version", args: []string{"version"}, beside: true},
}

// securityScenario makes something hostile, runs every command, and checks its
// effect. Each scenario has its own [newVictim], restored before each command.
type securityScenario struct {
	name   string
	beside bool // run the commands that use no repository, too

	// hostile changes the victim before a command runs. If it returns a shell,
	// the command runs in that one.
	hostile func(v *victim, c securityCommand) *shell

	// check looks at the outcome, and at the victim's files.
	check func(v *victim, c securityCommand, o outcome)

	// run runs the command; nil: in the process of the test.
	run func(s *shell, args ...string) outcome
}

// securityScenarios are run over all commands.
var securityScenarios = []securityScenario{
	{
		name:   "nothing hostile", // each command does its work
		beside: true,
		check: func(v *victim, c securityCommand, o outcome) {
			if o.status != c.status {
				v.Errorf("want exit status %d: %v", c.status, o)
			}
		},
	},
	{
		name:    "the repository is another user's",
		hostile: hostileOwner,
		check: func(v *victim, c securityCommand, o outcome) {
			if !c.refused(o, "kist config --global --add safe.directory ") {
				v.Errorf("not refused: %v", o)
			}
			v.wantFiles(v.in("..").readFiles("work/.kist"), v.untouched)
		},
	},
	{
		name:    ".kist is a symlink",
		hostile: hostileRepositoryLink,
		check: func(v *victim, c securityCommand, o outcome) {
			if !c.refused(o, "symlink") {
				v.Errorf("not refused: %v", o)
			}
			v.wantFiles(v.readFiles("inside"), v.in("../../master/work").readFiles(".kist"))
		},
	},
	{
		name:    "main and topic stand for 2^60 paths", // see also TestHostileBombs
		hostile: hostileBranches,
		run:     (*shell).runProcess, // measures the memory
		check: func(v *victim, c securityCommand, o outcome) {
			if o.memory > hostileMemory && !raceDetector {
				v.Errorf("took %d bytes of memory, want at most %d: %v", o.memory, hostileMemory, o)
			}
		},
	},
}

// hostileRepositoryLink makes .kist a symlink to a folder of the worktree. If kist
// followed it, add would store the repository in itself, and checkout would remove it.
func hostileRepositoryLink(v *victim, _ securityCommand) *shell {
	for _, err := range []error{os.Rename(v.path(".kist"), v.path("inside")), os.Symlink("inside", v.path(".kist"))} {
		if err != nil {
			v.Fatal(err)
		}
	}
	return nil
}

// TestSecurity runs every scenario over every command.
func TestSecurity(t *testing.T) {
	for _, scenario := range securityScenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t)
			for _, c := range securityCommands {
				if c.beside && !scenario.beside {
					continue
				}
				t.Run(c.name, func(t *testing.T) { v.runScenario(t, scenario, c) })
			}
		})
	}
}

// TestSecurityCommands checks that the table has every command of kist.
func TestSecurityCommands(t *testing.T) {
	var leaves, rows []string
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if !cmd.HasSubCommands() {
			leaves = append(leaves, strings.TrimPrefix(cmd.CommandPath(), "kist "))
		}
	}
	walk(cli.New(&cli.Env{Commands: commands.All}))

	for _, c := range securityCommands {
		rows = append(rows, c.name)
		if !strings.HasPrefix(strings.Join(c.args, " "), c.name) {
			t.Errorf("the row %q runs %q", c.name, c.args)
		}
	}
	for _, name := range leaves {
		if !slices.Contains(rows, name) {
			t.Errorf("securityCommands has no row for kist %s", name)
		}
	}
	for _, name := range rows {
		if !slices.Contains(leaves, name) {
			t.Errorf("securityCommands has %q, which is no command", name)
		}
	}
}

// victim is a repository with a remote, both prepared so that every command
// has something to do. Its shell is in the worktree.
type victim struct {
	*shell
	base, master string                 // the folder that commands change, and its original
	restored     map[string]fs.FileInfo // of base after the last restore, by path
	untouched    files                  // of a folder that commands may not change
}

// newVictim prepares a repository. The worktree has a changed file, a.txt, and
// an untracked one. Branch topic merges without conflict. The remote, in
// ../remote, does not have the last commit of main, and has a branch to fetch.
func newVictim(t testing.TB) *victim {
	dir := tempDir(t)
	v := &victim{base: filepath.Join(dir, "base"), master: filepath.Join(dir, "master"), restored: map[string]fs.FileInfo{}}
	v.shell = &shell{TB: t, dir: filepath.Join(v.base, "work"), program: "kist"}
	other := v.in("../other")
	for _, dir := range []string{v.dir, other.dir, v.path("../outside")} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	v.write(map[string]string{"a.txt": "a\n", "folder/b.txt": "b\n", "c.txt": strings.Repeat("long enough for a chunk\n", 9), "../outside/secret": "kept\n"})
	v.commands("init", "add .", "commit -m first", "tag v1", "branch topic", "hold add v1",
		"remote add origin ../remote", "push -u origin main", "checkout topic")
	v.write(map[string]string{"folder/b.txt": "changed on topic\n"})
	v.commands("commit -a -m topic", "checkout main")

	other.commands("clone ../remote .", "checkout -b theirs")
	other.write(map[string]string{"theirs.txt": "theirs\n"})
	other.commands("add .", "commit -m theirs", "push origin theirs")

	v.write(map[string]string{"c.txt": strings.Repeat("changed on main\n", 9)})
	v.commands("attr set c.txt tags=hostile", "commit -a -m second")
	v.write(map[string]string{"a.txt": "not staged\n", "untracked.txt": "new\n"})
	if err := copyTree(v.base, v.master); err != nil {
		t.Fatal(err)
	}
	return v
}

// commands runs commands, which must succeed. Spaces separate their arguments.
func (s *shell) commands(lines ...string) {
	s.Helper()
	for _, line := range lines {
		if o := s.run(strings.Fields(line)...); o.status != 0 {
			s.Fatal(o)
		}
	}
}

// restore makes base equal to master. It removes and copies only what differs from the last restore,
// because a command changes few files.
func (v *victim) restore() {
	v.Helper()
	missing := maps.Clone(v.restored)
	folders := map[string]bool{} // with changed entries
	err := filepath.WalkDir(v.base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if isSameState(v.restored[path], info) {
			delete(missing, path)
			return nil
		}

		removeAll(v, path)
		folders[filepath.Dir(path)] = true
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		v.Fatal(err)
	}

	if len(v.restored) == 0 {
		missing[v.base] = nil
	}
	for _, path := range slices.Sorted(maps.Keys(missing)) {
		if _, err := os.Lstat(path); err == nil {
			continue // copied with its folder
		}
		v.copyMaster(path)
		folders[filepath.Dir(path)] = true
	}
	for folder := range folders {
		if was := v.restored[folder]; was != nil {
			if err := os.Chtimes(folder, time.Time{}, was.ModTime()); err != nil {
				v.Fatal(err)
			}
		}
	}
}

// copyMaster copies a file or folder to its path in base, and notes its state.
func (v *victim) copyMaster(path string) {
	v.Helper()
	err := copyTree(v.master+strings.TrimPrefix(path, v.base), path)
	if err == nil {
		err = filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
			if err == nil {
				v.restored[path], err = d.Info()
			}
			return err
		})
	}
	if err != nil {
		v.Fatal(err)
	}
}

// isSameState reports whether nothing has changed a file or folder since then. Of a folder, its entries
// do not count.
func isSameState(then, now fs.FileInfo) bool {
	return then != nil && os.SameFile(then, now) && then.Mode() == now.Mode() &&
		(now.IsDir() || then.Size() == now.Size() && then.ModTime().Equal(now.ModTime()))
}

// TestVictimRestored checks that a victim equals its original after changes of each kind.
func TestVictimRestored(t *testing.T) {
	v := newVictim(t)
	v.restore()
	for _, err := range []error{
		os.WriteFile(v.path("a.txt"), []byte("NOT STAGED\n"), 0o644), // of the same size
		os.Chmod(v.path("untracked.txt"), 0o755),
		os.Remove(v.path(".kist/HEAD")),
		os.Rename(v.path(".kist/refs"), v.path("../outside/refs")), os.Symlink("../../outside/refs", v.path(".kist/refs")),
		os.MkdirAll(v.path("new/folder"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}

	v.restore()
	v.wantFiles(v.in(v.base).readFiles("."), v.in(v.master).readFiles("."))
	v.succeeds("verify", "--read-data")
}

// runScenario restores the victim and runs one command.
func (v *victim) runScenario(t *testing.T, scenario securityScenario, c securityCommand) {
	s := *v.shell
	s.TB = t
	v = &victim{shell: &s, base: v.base, master: v.master, restored: v.restored}
	v.restore()

	in := v.shell
	if scenario.hostile != nil {
		if changed := scenario.hostile(v, c); changed != nil {
			in = changed
		}
	}
	run := scenario.run
	if run == nil {
		run = (*shell).run
	}
	scenario.check(v, c, run(in, c.args...))
}
