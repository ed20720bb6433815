package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/refs"
)

// killed is a command that TestKill kills at random moments.
type killed struct {
	name string

	// prepare makes the state that the command starts from. Main is checked out
	// and clean before.
	prepare func(k *killer)
	command []string

	// finish completes the killed command. It is not called if the command was
	// already complete. By default, the command runs again.
	finish func(k *killer, now state)

	maintains bool // it changes only volumes: it always runs again, and may store objects twice
}

var killedCommands = []killed{
	{
		name:    "add",
		prepare: func(k *killer) { k.change("."); k.change("big") },
		command: []string{"add", "-A", "."},
	},
	{
		name:    "commit",
		prepare: func(k *killer) { k.change("."); k.touch(); k.kist("add", "-A", ".") },
		command: []string{"commit", "-m", "killed"},
	},
	{
		name:    "commit -a",
		prepare: func(k *killer) { k.change("."); k.touch() },
		command: []string{"commit", "-a", "-m", "killed"},
	},
	{
		name:    "backup",
		prepare: func(k *killer) { k.change("."); k.touch(); k.change("big") },
		command: []string{"backup", "-m", "killed"},
	},
	{
		name:    "checkout",
		prepare: func(k *killer) { k.fork(k.change) },
		command: []string{"checkout", "side"},
	},
	{
		name: "checkout --force",
		prepare: func(k *killer) {
			k.fork(k.change)
			k.change(".")
			k.touch()
		},
		command: []string{"checkout", "--force", "side"},
	},
	{
		name: "checkout, files and folders changing places",
		prepare: func(k *killer) {
			k.fork(func(dir string) {
				for i := range 4 {
					name := k.path(fmt.Sprintf("%s/swap%d", dir, i))
					info, err := os.Lstat(name)
					if err == nil && info.IsDir() {
						removeAll(k, name)
						k.write(map[string]string{name: noise(k.rng, 100)})
					} else {
						os.Remove(name)
						k.write(map[string]string{name + "/a": noise(k.rng, 100), name + "/b/c": noise(k.rng, 100)})
					}
				}
				k.change(dir)
			})
		},
		command: []string{"checkout", "side"},
	},
	{
		name:    "merge",
		prepare: func(k *killer) { k.diverge() },
		command: []string{"merge", "side"},
		finish:  func(k *killer, now state) { k.finishMerge(now, "merge", "side") },
	},
	{
		name: "merge with conflicts",
		prepare: func(k *killer) {
			k.fork(func(dir string) {
				k.change(dir)
				k.write(map[string]string{"tracked": noise(k.rng, 100), "d0/both": noise(k.rng, 100)})
			})
			k.write(map[string]string{"tracked": noise(k.rng, 100), "d0/both": noise(k.rng, 100)})
			k.kist("add", "-A", ".")
			k.kist("commit", "-m", "on main")
		},
		command: []string{"merge", "side"},
		finish:  func(k *killer, now state) { k.finishMerge(now, "merge", "side") },
	},
	{
		name: "revert",
		prepare: func(k *killer) {
			k.touch()
			k.change(".")
			k.kist("add", "-A", ".")
			k.kist("commit", "-m", "to be reverted")
		},
		command: []string{"revert", "HEAD"},
		finish:  func(k *killer, now state) { k.finishMerge(now, "revert", "HEAD") },
	},
	{
		name: "reset --hard",
		prepare: func(k *killer) {
			k.kist("tag", "--force", "start")
			for range 4 {
				k.change(".")
			}
			k.touch()
			k.kist("add", "-A", ".")
			k.kist("commit", "-m", "to be given up")
			k.change(".")
			k.touch()
			k.kist("add", "tracked")
		},
		command: []string{"reset", "--hard", "start"},
	},
	{
		name: "restore",
		prepare: func(k *killer) {
			k.fork(k.change)
			k.change(".")
			k.touch()
		},
		command: []string{"restore", "--source", "side", "--staged", "--worktree", "--force", "."},
	},
	{
		name:    "stash",
		prepare: func(k *killer) { k.beginStash(); k.local() },
		command: []string{"stash", "-u", "-m", "killed"},
		finish:  func(k *killer, now state) { k.finishStash(now, "stash", "-u", "-m", "killed") },
	},
	{
		name:    "stash --keep-index",
		prepare: func(k *killer) { k.beginStash(); k.local() },
		command: []string{"stash", "-k", "-m", "killed"},
		finish:  func(k *killer, now state) { k.finishStash(now, "stash", "-k", "-m", "killed") },
	},
	{
		name: "stash pop",
		prepare: func(k *killer) {
			k.beginStash()
			k.local()
			k.kist("stash", "-u")
		},
		command: []string{"stash", "pop"},
		finish: func(k *killer, now state) {
			if _, ok := now.refs[refs.Stash]; !ok {
				k.Fatal("pop dropped the stash before it restored all changes")
			}
			k.kist("reset", "--hard")
			k.kist("clean", "-fd")
			k.kist("stash", "pop")
		},
	},
	{
		name: "gc",
		prepare: func(k *killer) {
			for range 8 { // one volume each for the files and the trees
				k.touch()
				k.kist("add", "tracked")
				k.kist("commit", "-m", "more")
			}
		},
		command:   []string{"gc"},
		maintains: true,
	},
	{
		name: "gc of what is garbage",
		prepare: func(k *killer) {
			for range 3 {
				k.fork(k.change)
				k.kist("branch", "-D", "side")
				k.touch()
				k.kist("add", "tracked") // the object staged before becomes garbage
				k.kist("commit", "-m", "more")
			}
			k.kist("config", "gc.reflog-expire-unreachable", "now")
		},
		command:   collectAll,
		maintains: true,
	},
	{
		name: "rewrite",
		prepare: func(k *killer) {
			k.kist("hold", "add", "HEAD") // before the secret, because a hold blocks a rewrite of its commit
			for i := range 4 {
				k.write(map[string]string{"secret": noise(k.rng, 1000)})
				k.touch()
				k.kist("add", "tracked", "secret")
				k.kist("commit", "-m", "with a secret")
				k.kist("tag", "--force", fmt.Sprintf("t%d", i))
				k.kist("tag", "--force", "-m", "noted", fmt.Sprintf("noted%d", i))
				k.kist("checkout", "-B", fmt.Sprintf("b%d", i))
				k.kist("checkout", "main")
			}
			k.kist("commit", "--allow-empty", "-m", "expires")
			k.kist("commit", "--allow-empty", "-m", "last")
			k.kist("expire", "HEAD~1")
		},
		command: []string{"rewrite", "--yes", "--all-history", "secret"},
	},
	{
		name: "rm",
		prepare: func(k *killer) {
			k.write(map[string]string{"d0/tracked": "x"})
			k.kist("add", "d0")
			k.kist("commit", "--allow-empty", "-m", "all")
		},
		command: []string{"rm", "-r", "d0"},
	},
	{
		name: "mv",
		prepare: func(k *killer) {
			k.write(map[string]string{"d1/tracked": noise(k.rng, 50)})
			k.kist("add", "-A", ".")
			k.kist("commit", "--allow-empty", "-m", "all")
		},
		command: []string{"mv", "d1", "moved"},
		finish: func(k *killer, now state) {
			if k.run("mv", "d1", "moved").status != 0 { // moved, but not staged
				if err := os.Rename(k.path("moved"), k.path("d1")); err != nil {
					k.Fatal(err)
				}
				k.kist("mv", "d1", "moved")
			}
		},
	},
}

// TestKill checks that a command that is killed or interrupted at a random moment leaves
// an intact repository. HEAD, the index, each ref and each file are in the old or the new
// state. Then the command can be completed.
func TestKill(t *testing.T) {
	for _, c := range killedCommands {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			kills := objecttest.Rounds(t, 1)
			k := &killer{rng: objecttest.Rand(uint64(len(c.name))), expect: 100 * time.Millisecond}
			for i := range kills {
				if i%20 == 0 {
					k.begin(t)
				}
				k.round(c, i)
			}
			t.Logf("%d kills, %d of them too late, %d followed by a reset", kills, k.late, k.resets)
		})
	}
}

// killer kills commands in a repository.
type killer struct {
	*shell
	rng    *rand.Rand
	expect time.Duration // how long the command takes
	late   int           // kills after the end of the command
	resets int           // killed merges that had changed only the index or the worktree

	changed files  // before a stash
	status  string // with these files
}

// begin makes a new repository with some history.
func (k *killer) begin(t *testing.T) {
	k.shell = newShell(t)
	k.env = []string{"KIST_DATE=2026-01-31T12:00:00Z"}
	k.kist("init", "--chunk-size", "64KiB")
	for range 30 {
		k.change(".")
	}
	k.change("big")
	k.touch()
	k.kist("add", "-A", ".")
	k.kist("commit", "-m", "first")
}

// change creates, changes or removes a few files below a folder.
func (k *killer) change(dir string) {
	for range 1 + k.rng.IntN(4) {
		name := path.Join(dir, fmt.Sprintf("d%d/f%d", k.rng.IntN(4), k.rng.IntN(12)))
		if k.rng.IntN(5) == 0 {
			os.Remove(k.path(name))
			continue
		}
		size := []int{0, 20, 100, 5000, 100_000}[k.rng.IntN(5)]
		if dir == "big" {
			size = 1 << 20
		}
		k.write(map[string]string{name: noise(k.rng, size)})
	}
}

// touch changes a tracked file.
func (k *killer) touch() {
	k.write(map[string]string{"tracked": noise(k.rng, 1000)})
}

// fork commits changes on the branch "side", and checks out main.
func (k *killer) fork(change func(dir string)) {
	k.kist("checkout", "-B", "side")
	for range 5 {
		change(".")
	}
	change("big")
	k.kist("add", "-A", ".")
	k.kist("commit", "--allow-empty", "-m", "on the side")
	k.kist("checkout", "main")
}

// diverge commits to "side" and to main. The commits merge without conflicts.
func (k *killer) diverge() {
	k.fork(k.change)
	k.write(map[string]string{"of-main/" + noiseName(k.rng): noise(k.rng, 100), "tracked": noise(k.rng, 100)})
	k.kist("add", "-A", ".")
	k.kist("commit", "-m", "on main")
}

// beginStash commits all changes, and drops the stashes of former rounds.
func (k *killer) beginStash() {
	k.touch()
	k.kist("add", "-A", ".")
	k.kist("commit", "-m", "more")
	k.kist("stash", "clear")
}

// local makes staged, unstaged and untracked changes, and remembers them.
func (k *killer) local() {
	k.change(".")
	k.kist("add", "-A", ".")
	k.change(".")
	k.touch()
	k.write(map[string]string{"new/" + noiseName(k.rng): noise(k.rng, 100)})
	k.changed, k.status = k.readFiles("."), k.kist("status", "--porcelain", "-uall")
}

// finishStash completes a killed stash. If the stash was recorded before the kill, it must
// have all changes. Then finishStash removes them from the worktree.
func (k *killer) finishStash(now state, command ...string) {
	if _, ok := now.refs[refs.Stash]; !ok {
		k.kist(command...)
		return
	}
	for _, s := range []*shell{k.copyFolder(), k.shell} {
		s.kist("reset", "--hard")
		if slices.Contains(command, "-u") {
			s.kist("clean", "-fd")
		}
		if s == k.shell {
			break
		}
		s.kist("stash", "pop", "--index")
		s.wantFiles(s.readFiles("."), k.changed)
		if got := s.kist("status", "--porcelain", "-uall"); got != k.status {
			k.Fatalf("status after pop:\n%s\nwant\n%s", got, k.status)
		}
		os.RemoveAll(s.dir)
	}
	if slices.Contains(command, "-k") {
		k.kist("restore", "--source", "stash^2", "--staged", "--worktree", ".")
	}
}

// finishMerge completes a killed merge or revert. It commits or continues an operation in
// progress. Otherwise it repeats the command. A kill before the operation is recorded can
// leave changes that block the command. finishMerge resets them.
func (k *killer) finishMerge(now state, command ...string) {
	switch {
	case now.operation != "" && now.conflicts == "[]" && command[0] == "revert":
		k.kist("revert", "--continue")
	case now.operation != "" && now.conflicts == "[]":
		k.kist("commit")
	case now.operation == "":
		if o := k.run(command...); o.status != 0 && o.status != 3 {
			k.resets++
			k.kist("reset", "--hard")
			k.run(command...)
		}
	}
}

// noise returns random bytes, which do not compress.
func noise(rng *rand.Rand, size int) string {
	data := make([]byte, size)
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rng.Uint32())
	}
	rand.NewChaCha8(seed).Read(data)
	return string(data)
}

func noiseName(rng *rand.Rand) string { return fmt.Sprintf("%x", rng.Uint32()) }

// round kills a command once, and checks the state before and after its completion.
func (k *killer) round(c killed, i int) {
	c.prepare(k)
	old := k.readState()
	reference := k.copyFolder()
	began := time.Now()
	if o := reference.runProcess(c.command...); o.status != 0 && o.status != 3 { // takes as long as the killed one
		k.Fatal(o)
	}
	k.expect = (3*k.expect + time.Since(began)) / 4
	new := reference.readState()
	os.RemoveAll(reference.dir)

	delay := time.Duration(k.rng.Int64N(int64(k.expect)))
	signal := syscall.SIGKILL
	if k.rng.IntN(4) == 0 {
		signal = syscall.SIGTERM
	}
	if !k.kill(delay, signal, c.command) {
		k.late++
	}
	check := func(when string, lines []string) {
		if len(lines) > 0 {
			k.Fatalf("round %d, %v after %v, %s:\n%s", i, signal, delay, when, strings.Join(lines, "\n"))
		}
	}
	now := k.readState()
	if signal == syscall.SIGTERM {
		// An interrupted command stages the files that it has processed.
		new := new
		new.index, new.conflicts = now.index, now.conflicts
		check("after the kill", now.mix(old, new))
	} else {
		check("after the kill", now.mix(old, new))
	}
	k.verify()
	if len(now.diff(new)) > 0 || c.maintains {
		if c.finish != nil {
			c.finish(k, now)
		} else {
			k.run(c.command...)
		}
		check("after completion", k.readState().diff(new))
		k.verify()
	}
	if !c.maintains {
		k.wantStoredOnce()
	}
	k.touch()
	k.kist("add", "tracked")
	k.kist("checkout", "--force", "main")
	k.wantNothingLeft()
}

// kill sends a signal to a command. It returns false if the command completed nevertheless.
func (k *killer) kill(delay time.Duration, signal syscall.Signal, args []string) bool {
	cmd := k.command(context.Background(), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	time.Sleep(delay)
	cmd.Process.Signal(signal)
	cmd.Wait()
	switch o := outcomeOf(cmd, args, &stdout, &stderr); o.status {
	case -1, 130: // -1 also if SIGTERM comes before its handler is set
		return true
	case 0, 3:
		return false
	default:
		k.Fatal(o)
		return false
	}
}

// wantNothingLeft fails the test if temporary files of a killed command are left after
// other commands have stored objects and checked out files.
func (k *killer) wantNothingLeft() {
	for _, pattern := range []string{"volumes/*tmp-*", "volumes/salvage-*", "tmp/*", "*.new", "refs.tmp/*"} {
		if found, err := filepath.Glob(k.path(".kist/" + pattern)); err != nil || len(found) > 0 {
			k.Errorf("temporary files of a killed command: %q, %v", found, err)
		}
	}
}
