package main

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// badDay is how a store behaves that has trouble.
var badDay = remotetest.S3Rates{Busy: 0.10, Reset: 0.01, Lost: 0.01, Cut: 0.01}

// cycles is two clones of a remote whose people push and pull in turn.
type cycles struct {
	*testing.T
	fake    *remotetest.FakeS3
	rng     *rand.Rand
	clones  [2]*shell
	run     func(s *shell, args ...string) outcome
	commits map[string]bool // that were pushed
	again   int             // commands that were given again
}

// newCycles makes a remote and two clones of it. Push and pull are run by run.
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

// cycle has one clone commit and push, and the other pull.
func (c *cycles) cycle(n int) {
	c.Helper()
	id := c.commit(n)
	c.must(c.clones[n%2], "push")
	c.commits[id] = true
	c.must(c.clones[(n+1)%2], "pull", "--ff-only")
}

// must runs a command, which nobody has a reason to reject. That it is to be
// given again is what it may say now and then, when many requests in a row have
// bad luck.
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
		c.Logf("given again: %v", o)
		c.again++
	}
}

// wantWhole wants all commits in both clones, and nothing damaged anywhere.
func (c *cycles) wantWhole() {
	c.Helper()
	for _, s := range c.clones {
		s.wantInHistory(c.commits)
		s.succeeds("verify", "--read-data")
		s.succeeds("verify", "--remote", "origin", "--read-data")
		if got := s.succeeds("status", "--porcelain"); got != "" {
			c.Errorf("status:\n%s", got)
		}
	}
	c.clones[0].wantFiles(c.clones[1].readFiles("."), c.clones[0].readFiles("."))
}

// TestRemoteBadDay has two people push and pull through a connection that has
// trouble: nothing is lost, no push is rejected, and little is sent twice.
func TestRemoteBadDay(t *testing.T) {
	t.Parallel()
	seed := objecttest.Seed()
	n := objecttest.Rounds(t, 10)
	measured := min(n, 40) // cycles that are also done without trouble
	traffic := func(bad bool, n int) (first int64) {
		c := newCycles(t, seed, (*shell).here)
		start, hurt := c.fake.Traffic(), 0
		if bad {
			answers := badDay.Answers(seed)
			c.fake.SetAnswers(func(r remotetest.S3Request) *remotetest.S3Answer {
				a := answers(r)
				if a != nil {
					hurt++
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
		c.wantWhole()
		t.Logf("seed %d: %d cycles, %d requests, of which %d had trouble; %d commands were given again", seed, n, c.fake.Count(), hurt, c.again)
		if bad && hurt < n {
			t.Errorf("only %d requests had trouble", hurt)
		}
		if c.again > 1+n/50 {
			t.Errorf("%d commands had to be given again", c.again)
		}
		return first
	}
	good, bad := traffic(false, measured), traffic(true, n)
	t.Logf("in %d cycles %d bytes, with trouble %d: %.2f times as many", measured, good, bad, float64(bad)/float64(good))
	if float64(bad) > 1.3*float64(good) {
		t.Errorf("trouble takes %.2f times the traffic", float64(bad)/float64(good))
	}
}

// TestRemoteBadDayProcesses does a little of it with real processes, which wait
// before they try again.
func TestRemoteBadDayProcesses(t *testing.T) {
	t.Parallel()
	seed := objecttest.Seed()
	c := newCycles(t, seed, (*shell).run)
	c.fake.SetAnswers(badDay.Answers(seed))
	for i := range 4 {
		c.cycle(i + 1)
	}
	c.fake.SetAnswers()
	c.wantWhole()
}
