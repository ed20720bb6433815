package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a running kist.
type process struct {
	*shell
	args           []string
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	ended          chan struct{} // closed when the process has ended
}

// start starts kist in a process that is killed when the test ends.
func (s *shell) start(args ...string) *process {
	s.Helper()
	p := &process{shell: s, args: args, cmd: s.command(context.Background(), args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { p.cmd.Process.Kill() })
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	return p
}

// outcome waits for the process to end. The process may crash.
func (p *process) outcome() outcome {
	<-p.ended
	return outcomeOf(p.cmd, p.args, &p.stdout, &p.stderr)
}

// wait waits for the process to end. A crash fails the test.
func (p *process) wait() outcome {
	p.Helper()
	o := p.outcome()
	p.wantNoCrash(o)
	return o
}

// hasEnded reports whether the process has ended.
func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// signal sends a signal to the process.
func (p *process) signal(signal syscall.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.Fatal(err)
	}
}

// startHeld starts kist and stops it with SIGSTOP while it writes a volume. If kist
// ends before the signal, again recreates the work and startHeld retries.
func (s *shell) startHeld(again func(), args ...string) *process {
	s.Helper()
	for began := time.Now(); time.Since(began) < commandTime; again() {
		others := s.unpublished()
		p := s.start(args...)
		for s.unpublished() <= others && !p.hasEnded() {
			time.Sleep(time.Millisecond)
		}
		if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil && !errors.Is(err, os.ErrProcessDone) {
			s.Fatal(err)
		}
		if s.unpublished() > others {
			return p
		}
		p.cmd.Process.Signal(syscall.SIGCONT)
		if o := p.wait(); o.status != 0 {
			s.Fatal(o)
		}
	}
	s.Fatalf("kist %q always ended before it could be stopped", args)
	return nil
}

// unpublished returns the number of value logs in volumes that are not sealed.
func (s *shell) unpublished() int {
	s.Helper()
	found, err := filepath.Glob(s.path(".kist/volumes/tmp-*/*.vlog"))
	if err != nil {
		s.Fatal(err)
	}
	return len(found)
}

// TestLongAdd checks that other commands do not wait for a running add, and that the
// add stores all its files. Two adds are stopped while the other commands run.
func TestLongAdd(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"kept": "the first version of a file that is kept"})
	s.kist("add", ".")
	s.kist("commit", "-m", "first")
	fill := func(dir string) {
		for i := range 4 {
			s.write(map[string]string{fmt.Sprintf("%s/%d", dir, i): noise(rng, 8<<20)})
		}
	}
	fill("one")
	fill("two")
	one := s.startHeld(func() { fill("one") }, "add", "one")
	two := s.startHeld(func() { fill("two") }, "add", "two")

	s.write(map[string]string{"kept": "the second version of a file that is kept", "other": "new"})
	for _, args := range [][]string{
		{"log"}, {"status"}, {"cat", "HEAD:kept"}, {"diff"}, {"ls", "-r", "HEAD"}, {"show"}, {"verify", "--read-data"},
		{"add", "kept", "other"}, {"commit", "-m", "second"}, {"branch", "side"}, {"tag", "v2"},
		{"restore", "--source", "HEAD~1", "--to", tempDir(t), "."},
		{"restore", "--source", "HEAD~1", "kept"}, {"restore", "kept"}, {"checkout", "side"}, {"checkout", "main"},
	} {
		began := time.Now()
		s.kist(args...)
		t.Logf("%6.3f s: %s", time.Since(began).Seconds(), strings.Join(args, " "))
	}
	want := s.readFiles(".")
	two.signal(syscall.SIGCONT)
	one.signal(syscall.SIGCONT)
	for _, p := range []*process{one, two} {
		if o := p.wait(); o.status != 0 {
			t.Error(o)
		}
	}
	if got := s.kist("log", "--oneline"); strings.Count(got, "\n") != 2 {
		t.Errorf("log, want 2 commits:\n%s", got)
	}
	if got := s.kist("status", "--porcelain"); strings.Count(got, "A  ") != 8 || strings.Count(got, "\n") != 8 {
		t.Errorf("status after both adds, want 8 added files:\n%s", got)
	}
	s.kist("commit", "-m", "third")
	out := tempDir(t)
	s.kist("restore", "--source", "HEAD", "--to", out, ".")
	s.wantFiles(s.readFiles(out), want)
	s.verify()
	s.wantStoredOnce()
}

// TestConcurrentCommits checks that commits that race for one branch either stay in
// the history, or fail because the branch has moved.
func TestConcurrentCommits(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	s.kist("commit", "--allow-empty", "-m", "first")

	const racers, rounds = 4, 3
	want := map[string]bool{}
	lost := 0
	for round := range rounds {
		var running []*process
		for i := range racers {
			running = append(running, s.start("commit", "--json", "--allow-empty", "-m", fmt.Sprintf("%d/%d", round, i)))
		}

		won := 0
		for _, p := range running {
			switch o := p.wait(); o.status {
			case 0:
				want[idOf(s, o.stdout)] = true
				won++
			case 13:
				lost++
			default:
				t.Errorf("want exit status 0 or 13: %v", o)
			}
		}
		if won == 0 {
			t.Errorf("round %d: all commits failed", round)
		}
	}

	s.wantInHistory(want)
	if n := strings.Count(s.kist("log", "--oneline"), "\n"); n != len(want)+1 {
		t.Errorf("log has %d commits, want %d", n, len(want)+1)
	}

	t.Logf("%d commits succeeded, %d lost the race", len(want), lost)
	s.verify()
}

// idOf returns the ID in the JSON output of commit.
func idOf(s *shell, stdout string) string {
	var commit struct{ ID string }
	if err := json.Unmarshal([]byte(stdout), &commit); err != nil || commit.ID == "" {
		s.Errorf("no commit ID in %q: %v", stdout, err)
	}
	return commit.ID
}

// wantInHistory fails the test if a commit is not reachable from HEAD.
func (s *shell) wantInHistory(ids map[string]bool) {
	s.Helper()
	history := s.kist("log", "--json")
	for id := range ids {
		if !strings.Contains(history, `{"id":"`+id+`"`) {
			s.Errorf("commit %s is not reachable from HEAD", id)
		}
	}
}

// TestManyProcesses checks that concurrent commands and gc lose no commit and no file.
// Eight writers work in one folder, each with its own files.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init", "--chunk-size", "64KiB")
	s.write(map[string]string{"first": "the first file"})
	s.kist("add", ".")
	s.kist("commit", "-m", "first")
	s.apart = true

	var mu sync.Mutex
	committed := map[string]bool{}
	var group sync.WaitGroup
	for writer := range 8 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(writer), 8))
			dir := fmt.Sprintf("writer-%d", writer)
			for i := range 6 {
				for range 1 + rng.IntN(3) {
					s.write(map[string]string{fmt.Sprintf("%s/%d/f%d", dir, rng.IntN(3), rng.IntN(9)): noise(rng, rng.IntN(200_000))})
				}
				args := [][]string{
					{"add", "-A", dir}, {"add", "-A", dir}, {"add", "-A", dir},
					{"commit", "--json", "-m", fmt.Sprintf("%d of %s", i, dir)},
					{"commit", "--json", "-m", fmt.Sprintf("%d of %s", i, dir)},
					{"status"}, {"log", "--stat"}, {"gc", "--auto"}, {"branch", fmt.Sprintf("%s-%d", dir, i)},
				}[rng.IntN(9)]
				o := s.run(args...)
				switch {
				case o.status == 0 && args[0] == "commit":
					mu.Lock()
					committed[idOf(s, o.stdout)] = true
					mu.Unlock()
				case o.status == 0:
				case args[0] == "commit" && o.status == 13:
				case args[0] == "commit" && o.status == 1 && strings.Contains(o.stderr, "nothing to commit"):
				case args[0] == "gc" && o.status == 14:
				default:
					t.Errorf("unexpected exit status: %v", o)
				}
			}
		})
	}
	group.Wait()
	if t.Failed() {
		return
	}
	s.wantInHistory(committed)
	t.Logf("%d commits", len(committed))
	s.kist("add", "-A", ".")
	s.kist("commit", "--allow-empty", "-m", "last")
	out := tempDir(t)
	s.kist("restore", "--source", "HEAD", "--to", out, ".")
	s.wantFiles(s.readFiles(out), s.readFiles("."))
	s.verify()
}
