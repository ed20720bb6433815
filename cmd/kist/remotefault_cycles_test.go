package main

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// badDay has the fault rates of a store in trouble.
var badDay = remotetest.S3Rates{Busy: 0.10, Reset: 0.01, Lost: 0.01, Cut: 0.01}

// cycles has two clones of a remote that push and pull in turn.
type cycles struct {
	*testing.T
	fake    *remotetest.FakeS3
	rng     *rand.Rand
	clones  [2]*shell
	run     func(s *shell, args ...string) outcome
	commits map[string]bool // pushed so far
	retries int
}

// newCycles makes a remote and two clones of it. The clones push and pull with run.
func newCycles(t *testing.T, seed uint64, run func(*shell, ...string) outcome) *cycles {
	t.Helper()
	fake, s := newFake(t, seed)
	c := &cycles{T: t, fake: fake, rng: rand.New(rand.NewPCG(seed, 2)), run: run, commits: map[string]bool{}}
	c.clones = [2]*shell{s.in("a"), s.in("b")}
	s.succeeds("init", "--chunk-size", "64KiB", "a")
	c.clones[0].succeeds("remote", "add", "origin", fake.URL("cycles"))
	c.commit(0)
	c.clones[0].succeeds("push")
	s.succeeds("clone", fake.URL("cycles"), "b")
	return c
}

// commit changes a clone's files and commits.
func (c *cycles) commit(n int) string {
	c.Helper()
	s := c.clones[n%2]
	s.write(map[string]string{
		fmt.Sprintf("media/%d", n%7): noise(c.rng, 20<<10+c.rng.IntN(100<<10)),
		"notes":                      fmt.Sprintf("cycle %d\n%s", n, noise(c.rng, 1000)),
	})
	s.succeeds("add", "-A", ".")
	return idOf(s, s.succeeds("commit", "--json", "-m", fmt.Sprintf("cycle %d", n)))
}

// cycle lets one clone commit and push, and the other pull.
func (c *cycles) cycle(n int) {
	c.Helper()
	id := c.commit(n)
	c.must(c.clones[n%2], "push")
	c.commits[id] = true
	c.must(c.clones[(n+1)%2], "pull", "--ff-only")
}

// must runs a command until it succeeds. It retries at most three times, and only
// after exit status 15: too many requests in a row had faults.
func (c *cycles) must(s *shell, args ...string) {
	c.Helper()
	for try := 0; ; try++ {
		o := c.run(s, args...)
		switch {
		case o.status == 0:
			return
		case o.status != 15 || try == 3:
			c.Fatalf("%v", o)
		}
		c.Logf("retried: %v", o)
		c.retries++
	}
}

// wantIntact checks that both clones have all commits, and that nothing is damaged.
func (c *cycles) wantIntact() {
	c.Helper()
	for _, s := range c.clones {
		s.wantInHistory(c.commits)
		s.succeeds("verify", "--read-data")
		s.succeeds("verify", "--remote", "origin", "--read-data")
		if got := s.succeeds("status", "--porcelain"); got != "" {
			c.Errorf("status is not empty:\n%s", got)
		}
	}
	c.clones[0].wantFiles(c.clones[1].readFiles("."), c.clones[0].readFiles("."))
}

// TestRemoteBadDay checks that two clones lose nothing over a connection with
// faults. No push is rejected, and the traffic grows by at most 30%.
func TestRemoteBadDay(t *testing.T) {
	t.Parallel()
	seed := objecttest.Seed()
	n := objecttest.Rounds(t, 10)
	measured := min(n, 40) // cycles that also run without faults

	traffic := func(bad bool, n int) (first int64) {
		c := newCycles(t, seed, (*shell).here)
		start, faults := c.fake.Traffic(), 0
		if bad {
			answers := badDay.Answers(seed)
			c.fake.SetAnswers(func(r remotetest.S3Request) *remotetest.S3Answer {
				a := answers(r)
				if a != nil {
					faults++
				}
				return a
			})
		}

		for i := range n {
			c.cycle(i + 1)
			if i+1 == measured {
				first = c.fake.Traffic() - start
			}
		}

		c.fake.SetAnswers()
		c.wantIntact()
		t.Logf("seed %d: %d cycles, %d requests, %d with faults; %d commands were retried", seed, n, c.fake.Count(), faults, c.retries)
		if bad && faults < n {
			t.Errorf("%d requests had faults, want at least %d", faults, n)
		}
		if c.retries > 1+n/50 {
			t.Errorf("%d commands were retried, want at most %d", c.retries, 1+n/50)
		}
		return first
	}

	good, bad := traffic(false, measured), traffic(true, n)
	t.Logf("%d cycles sent and received %d bytes, with faults %d: %.2f times as many", measured, good, bad, float64(bad)/float64(good))
	if float64(bad) > 1.3*float64(good) {
		t.Errorf("with faults, the traffic is %.2f times as high, want at most 1.3", float64(bad)/float64(good))
	}
}

// TestRemoteBadDayProcesses runs a few cycles in separate processes, which wait
// before they retry.
func TestRemoteBadDayProcesses(t *testing.T) {
	t.Parallel()
	seed := objecttest.Seed()
	c := newCycles(t, seed, (*shell).runProcess)
	c.fake.SetAnswers(badDay.Answers(seed))
	for i := range 4 {
		c.cycle(i + 1)
	}
	c.fake.SetAnswers()
	c.wantIntact()
}
