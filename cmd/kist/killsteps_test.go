package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/work/operation"
)

// killedSteps is a command of a cherry-pick or rebase that TestKillSteps kills.
type killedSteps struct {
	name      string
	operation operation.Operation
	conflicts bool     // the second of three commits conflicts
	detached  bool     // HEAD is detached
	elsewhere bool     // HEAD is on another branch than main
	stashes   bool     // the operation stashes local changes
	begin     []string // begins the operation, if command does not
	resolve   bool     // resolve the conflicts before command
	command   []string // the command to kill
}

var killedStepsCommands = []killedSteps{
	{name: "cherry-pick", operation: operation.Picking, command: []string{"cherry-pick", "main..side"}},
	{name: "cherry-pick with conflicts", operation: operation.Picking, conflicts: true, command: []string{"cherry-pick", "main..side"}},
	{name: "cherry-pick -n", operation: operation.Picking, command: []string{"cherry-pick", "-n", "side~2"}},
	{name: "cherry-pick -n with conflicts", operation: operation.Picking, conflicts: true, command: []string{"cherry-pick", "-n", "side~1"}},
	{
		name: "cherry-pick --continue", operation: operation.Picking, conflicts: true, resolve: true,
		begin: []string{"cherry-pick", "main..side"}, command: []string{"cherry-pick", "--continue"},
	},
	{
		name: "cherry-pick --abort", operation: operation.Picking, conflicts: true,
		begin: []string{"cherry-pick", "main..side"}, command: []string{"cherry-pick", "--abort"},
	},
	{name: "rebase", operation: operation.Rebasing, command: []string{"rebase", "side"}},
	{name: "rebase with conflicts", operation: operation.Rebasing, conflicts: true, command: []string{"rebase", "side"}},
	{name: "rebase, detached", operation: operation.Rebasing, conflicts: true, detached: true, command: []string{"rebase", "side"}},
	{
		name: "rebase --continue", operation: operation.Rebasing, conflicts: true, resolve: true,
		begin: []string{"rebase", "side"}, command: []string{"rebase", "--continue"},
	},
	{
		name: "rebase --skip", operation: operation.Rebasing, conflicts: true,
		begin: []string{"rebase", "side"}, command: []string{"rebase", "--skip"},
	},
	{
		name: "rebase --abort", operation: operation.Rebasing, conflicts: true,
		begin: []string{"rebase", "side"}, command: []string{"rebase", "--abort"},
	},
	{name: "rebase --autostash", operation: operation.Rebasing, stashes: true, command: []string{"rebase", "--autostash", "side"}},
	{
		name: "rebase --autostash with conflicts", operation: operation.Rebasing, conflicts: true, stashes: true,
		command: []string{"rebase", "--autostash", "side"},
	},
	{
		name: "rebase --abort with a stash", operation: operation.Rebasing, conflicts: true, stashes: true,
		begin: []string{"rebase", "--autostash", "side"}, command: []string{"rebase", "--abort"},
	},
	{
		name: "rebase --autostash UPSTREAM BRANCH", operation: operation.Rebasing, stashes: true, elsewhere: true,
		command: []string{"rebase", "--autostash", "side", "main"},
	},
	{
		name: "rebase --autostash UPSTREAM BRANCH, up to date", operation: operation.Rebasing, stashes: true, elsewhere: true,
		command: []string{"rebase", "--autostash", "main~2", "main"},
	},
}

// TestKillSteps kills cherry-picks and rebases at system calls that change the
// repository. Then status names the operation, and verify finds no errors. --abort restores
// HEAD, the branches, the index and the worktree with its local changes. After a rebase of
// another branch than HEAD's, HEAD may be on that branch. In a copy, --continue leads to the
// same state as without a kill.
func TestKillSteps(t *testing.T) {
	for n, c := range killedStepsCommands {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := &stepsKiller{killedSteps: c, rng: objecttest.Rand(uint64(1000 + n))}
			k.prepare(t)
			during := 0
			kills := objecttest.Rounds(t, 1)
			for range kills {
				during += k.round()
			}
			t.Logf("%d kills, %d left an operation in progress; it makes %d calls", kills, during, len(k.calls))
		})
	}
}

type stepsKiller struct {
	killedSteps
	*shell
	rng   *rand.Rand
	calls []string // the command's system calls, in order
	old   state    // before the operation
	main  state    // the same with HEAD on main
	end   state    // after the operation
}

// commit writes files and commits them.
func (k *stepsKiller) commit(message string, files map[string]string) {
	k.write(files)
	k.kist("add", "-A", ".")
	k.kist("commit", "-m", message)
}

// prepare makes a repository with the branches main and side. It records the system calls
// of the command, and the states before and after the operation.
func (k *stepsKiller) prepare(t *testing.T) {
	k.shell = newShell(t)
	k.env = []string{"KIST_DATE=2026-01-31T12:00:00Z", "GOMAXPROCS=1"}
	k.kist("init", "--chunk-size", "64KiB")
	text := func(line string) string { return "a\nb\nc\n" + line + "\nd\ne\nf\n" }
	files := map[string]string{"both": text("base"), "d/e/f": "f", "local": "a\nb\nc\ntracked", "mine": text("base")}
	for i := range 8 {
		files[fmt.Sprintf("d/f%d", i)] = noise(k.rng, 100<<k.rng.IntN(11))
	}
	k.commit("base", files)

	mine := "mine"
	if k.conflicts {
		mine = "both"
	}
	k.kist("checkout", "-b", "side")
	side := map[string]string{"d/side": "side", "d/f1": noise(k.rng, 300_000)}
	if k.stashes {
		side["local"] = "side\nb\nc\ntracked"
	}
	k.commit("side 1", side)
	k.commit("side 2", map[string]string{"both": text("side"), "side/new": "new"})
	removeAll(k, k.path("d/e/f"))
	k.commit("side 3", map[string]string{"d/f1": noise(k.rng, 3000), "d/e/f/g": "now a folder"})
	k.kist("checkout", "main")
	k.commit("main 1", map[string]string{"d/main": "main", "d/f2": noise(k.rng, 300_000)})
	k.commit("main 2", map[string]string{mine: text("main"), "d/f2": noise(k.rng, 3000), "main/new": "new"})
	k.commit("main 3", map[string]string{"d/f3": noise(k.rng, 3000)})
	if k.detached {
		k.kist("checkout", "--detach")
	}

	k.write(map[string]string{"untracked": "only here"})
	if k.elsewhere {
		k.kist("checkout", "-b", "other", "side")
	}
	if k.operation == operation.Picking {
		k.write(map[string]string{"local": "a local change"})
	}
	if k.stashes { // a commit of side changes the same file
		old, err := os.ReadFile(k.path("local"))
		if err != nil {
			k.Fatal(err)
		}
		k.write(map[string]string{"local": string(old) + "\na local change", "staged": "staged"})
		k.kist("add", "staged")
	}
	k.old = k.readState()
	onMain := k.copyFolder()
	if k.elsewhere {
		onMain.kist("stash")
		onMain.kist("checkout", "main")
		onMain.kist("stash", "pop", "--index")
	}
	k.main = onMain.readState()
	if k.begin != nil {
		k.exits(3, k.begin...)
	}
	if k.resolve {
		k.write(map[string]string{"both": text("resolved")})
		k.kist("add", "both")
	}

	reference := k.copyFolder()
	k.calls = k.strace(reference, "", 0)
	k.finish(reference)
	k.end = reference.readState()
}

// stepsCalls are the system calls at which a command is killed.
var stepsCalls = []string{"rename", "renameat", "renameat2", "unlink", "unlinkat", "fsync", "fdatasync", "mkdirat", "pwrite64", "write", "openat", "symlinkat", "linkat"}

// strace runs the command in a folder, and returns its system calls. If call is not empty,
// the n-th call of that name kills the command.
func (k *stepsKiller) strace(s *shell, call string, n int) []string {
	k.Helper()
	path := objecttest.NeedProgram(k, "strace")
	ctx, cancel := context.WithTimeout(k.Context(), commandTime)
	defer cancel()
	cmd := s.command(ctx, k.killedSteps.command...)
	folder := tempDir(k)
	program, log := filepath.Join(folder, "kist"), filepath.Join(folder, "log") // TestMain runs kist under this name
	if err := os.Symlink(cmd.Path, program); err != nil {
		k.Fatal(err)
	}
	args := []string{path, "-f", "-qq", "-o", log, "-e", "trace=" + strings.Join(stepsCalls, ",")}
	if call != "" {
		args = append(args, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n))
	}
	cmd.Args, cmd.Path = append(append(args, program), k.killedSteps.command...), path
	out, err := cmd.CombinedOutput()
	if status := cmd.ProcessState.ExitCode(); call == "" && status != 0 && status != 3 {
		k.Fatalf("kist %q: %v\n%s", k.killedSteps.command, err, out)
	}

	data, err := os.ReadFile(log)
	if err != nil {
		k.Fatal(err)
	}
	var calls []string
	for line := range strings.Lines(string(data)) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name, _, ok := strings.Cut(strings.TrimSpace(text), "("); ok && !strings.ContainsAny(name, " <+") {
			calls = append(calls, name)
		}
	}
	return calls
}

// finish resolves conflicts and continues until the operation is over.
func (k *stepsKiller) finish(s *shell) {
	k.Helper()
	for range 10 {
		now := s.readState()
		switch {
		case now.operation == "":
			return
		case now.conflicts != "[]":
			s.write(map[string]string{"both": "resolved\n"})
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // the tree records the mtime
			if err := os.Chtimes(s.path("both"), at, at); err != nil {
				k.Fatal(err)
			}
			s.kist("add", "both")
		}
		if o := s.run(string(k.operation), "--continue"); o.status != 0 && o.status != 3 && s.readState().conflicts == "[]" {
			k.Fatal(o)
		}
	}
	k.Fatalf("the operation does not end: %s", s.kist("status"))
}

// round kills the command once. It returns 1 if the kill leaves an operation in progress, else 0.
func (k *stepsKiller) round() int {
	k.Helper()
	// Most calls write the store. The interesting ones come at the end.
	at := k.rng.IntN(len(k.calls))
	if k.rng.IntN(3) > 0 {
		at = len(k.calls) - 1 - k.rng.IntN(len(k.calls)/3)
	}
	call, n := k.calls[at], 0
	for _, name := range k.calls[:at+1] {
		if name == call {
			n++
		}
	}

	s := k.copyFolder()
	k.strace(s, call, n)
	check := func(when string, lines []string) {
		k.Helper()
		if len(lines) > 0 {
			k.Errorf("killed at %s %d, %s:\n%s", call, n, when, strings.Join(lines, "\n"))
		}
	}
	status := s.kist("status")
	s.verify()
	now := s.readState()
	delete(now.refs, "refs/stash") // the local changes may be stashed
	if now.operation == "" {
		if lines := now.diff(k.old); len(lines) > 0 {
			check("no operation in progress, want the old state or the end", now.diff(k.end))
		}
		return 0
	}

	name := map[operation.Operation]string{operation.Picking: "You are currently cherry-picking commit ", operation.Rebasing: "rebase in progress; onto "}[k.operation]
	if !strings.Contains(status, name) {
		check("status does not name the operation", []string{status})
	}
	other := s.copyFolder()
	s.kist(string(k.operation), "--abort")
	aborted := s.readState()
	delete(aborted.refs, "refs/stash")
	if len(aborted.diff(k.main)) > 0 {
		check("aborted", aborted.diff(k.old))
	}
	s.verify()

	if k.stashes && (now.head == k.old.head || now.head == k.main.head) && other.run("rebase", "--continue").status == 1 {
		return 1 // the local changes are still in the worktree
	}
	if how := k.killedSteps.command[1]; how != "-n" && how != "--skip" && how != "--abort" {
		k.finish(other)
		check("continued", other.readState().diff(k.end))
		other.verify()
	}
	return 1
}
