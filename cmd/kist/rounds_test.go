package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/objecttest"
)

// rounds runs random commands in clones of a remote, round by round.
type rounds struct {
	*place
	rng    *rand.Rand
	clones []*shell

	done, refused, killed int
	reasons               map[string]int // of refusals
}

// TestRounds runs random commands in three clones and kills some of them. The commands
// change branches and records, purge files, push, fetch, and collect garbage without
// grace, here and on the remote. After each round, all live objects are intact. In the
// end, after everything is given up, all stores are empty.
func TestRounds(t *testing.T) {
	onEachStore(t, func(p *place) {
		r := &rounds{place: p, rng: objecttest.Rand(11), reasons: map[string]int{}}
		r.clones = []*shell{p.begin(), p.clone(), p.clone()}
		for _, s := range r.clones {
			s.kist("config", "gc.reflog-expire", "now")
			s.kist("config", "gc.reflog-expire-unreachable", "now")
		}
		for n := range objecttest.Rounds(p, 4) {
			for range 1 + r.rng.IntN(4) {
				r.act()
			}
			r.wantIntact(n)
		}
		r.end()
		p.Logf("%d commands succeeded, %d were refused, %d killed", r.done, r.refused, r.killed)
		if r.done+r.refused >= 20 && r.done < r.refused { // fewer may be chance
			p.Error("more commands were refused than succeeded")
		}
	})
}

// act runs a random command in a random clone.
func (r *rounds) act() {
	r.Helper()
	s := r.clones[r.rng.IntN(len(r.clones))]
	branch := func() string { return fmt.Sprintf("b%d", r.rng.IntN(3)) }
	back := fmt.Sprintf("HEAD~%d", 1+r.rng.IntN(4))
	commands := [][]string{
		{"commit"}, {"commit"}, {"commit"}, {"commit"},
		{"branch", "--force", branch()}, {"branch", "-D", branch()},
		{"checkout", branch()}, {"checkout", "main"},
		{"reset", "--hard", back},
		{"expire", back}, {"expire", "--keep-last", "2"}, {"expire", "--undo", back},
		{"hold", "add", back, "--reason", "needed"}, {"hold", "remove", back},
		{"push", "origin", "main"}, {"push", "--force", "origin", "main"}, {"push", "--force", "--all"}, {"push", "--delete", "origin", branch()},
		{"pull", "--ff-only", "origin", "main"}, {"fetch", "--prune"}, {"fetch", "--prune"},
		{"fetch", "--records", "accept"}, {"fetch", "--records", "refuse"},
		{"purge", "--yes", "HEAD:text"}, {"purge", "--yes", "HEAD:text"},
		collectAll, collectAll, repackAll, repackAll, collectRemote, collectRemote, repackRemote, repackRemote,
	}
	args := commands[r.rng.IntN(len(commands))]
	if args[0] == "commit" {
		s.write(map[string]string{fmt.Sprintf("d%d/f%d", r.rng.IntN(3), r.rng.IntN(5)): noise(r.rng, r.rng.IntN(100_000)), "text": wording(r.rng)})
		if o := s.run("add", "-A", "."); o.status != 0 && o.status != 3 { // add skips purged files
			r.Fatalf("%v", o)
		}
		args = []string{"commit", "--allow-empty", "-m", "change " + noiseName(r.rng)}
	}

	p := s.start(args...)
	if r.rng.IntN(4) == 0 {
		time.Sleep(time.Duration(r.rng.IntN(60)) * time.Millisecond)
		p.cmd.Process.Kill()
	}
	switch o := p.outcome(); o.status {
	case -1:
		r.killed++
	case 0:
		r.done++
	case 1, 2, 3, 13, 14: // the commit or branch is missing, checked out, held or moved
		r.refused++
		r.reasons[args[0]+": "+strings.SplitN(o.stderr, "\n", 2)[0]]++
	default:
		r.Fatalf("%v", o)
	}
}

// wantIntact checks that verify finds no error in the clones and on the remote.
func (r *rounds) wantIntact(round int) {
	r.Helper()
	for i, s := range r.clones {
		if o := s.run("verify", "-q", "--read-data"); o.status != 0 {
			r.Fatalf("round %d, clone %d: %v", round, i, o)
		}
	}
	if o := r.clones[0].run("verify", "-q", "--remote", "origin", "--read-data"); o.status != 0 {
		r.Fatalf("round %d, remote: %v", round, o)
	}
}

// end gives everything up and checks that all stores are empty.
func (r *rounds) end() {
	r.Helper()
	s := r.clones[0]
	for reason, n := range r.reasons {
		r.Logf("%d times %s", n, reason)
	}
	s.kist("fetch", "--prune")
	for line := range strings.Lines(s.kist("hold", "list", "--json")) {
		s.kist("hold", "remove", idOf(s, line))
	}
	s.kist("push", "--all", "--force")
	for name := range r.head().Refs {
		s.kist("push", "--delete", "origin", name)
	}
	for range 3 {
		s.kist(collectRemote...)
	}
	for name := range r.list() {
		if strings.HasPrefix(name, "packs/") || strings.HasPrefix(name, "index/") {
			r.Errorf("left on the remote: %s", name)
		}
	}
	for _, s := range r.clones {
		s.wantEmptyStore()
	}
}
