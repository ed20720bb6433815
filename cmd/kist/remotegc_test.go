package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/objecttest"
)

// collectRemote is the command that leaves no garbage on a remote.
var collectRemote = []string{"remote", "gc", "origin", "--grace", "now", "--max-waste", "0"}

// repackRemote is collectRemote, and repacks.
var repackRemote = append(collectRemote[:len(collectRemote):len(collectRemote)], "--repack")

// collected is what gc of a remote prints with --json.
type collected struct {
	Removed   int64 `json:"objects_removed"`
	Before    int64 `json:"bytes_before"`
	After     int64 `json:"bytes_after"`
	Condemned int   `json:"condemned"`
	Repacked  int   `json:"repacked"`
	Optimised int   `json:"optimised"`
	Deleted   int   `json:"deleted"`
	Delisted  int   `json:"delisted"`
	Waiting   int   `json:"waiting"`
}

// collect collects the garbage of a remote.
func (s *shell) collect(args ...string) (c collected) {
	s.Helper()
	if err := json.Unmarshal([]byte(s.kist(append(args, "--json")...)), &c); err != nil {
		s.Fatal(err)
	}
	return c
}

// wantNoGarbage wants that three collections leave nothing on the remote that
// is not needed.
func (p *place) wantNoGarbage(s *shell) {
	p.Helper()
	for range 3 {
		s.collect(collectRemote...)
	}
	before := p.list()
	if c := s.collect(collectRemote...); c.Condemned+c.Deleted+c.Delisted+c.Waiting > 0 {
		p.Errorf("there is always something to do: %+v", c)
	}
	head := p.head()
	needed := map[string]bool{}
	for _, f := range head.Indexes {
		needed[f.Name.IndexPath()] = true
	}
	for _, name := range head.StateFiles() {
		needed[name] = true
	}
	for name := range before {
		switch kind, _, _ := strings.Cut(name, "/"); {
		case kind == "packs" && len(head.Refs) > 0: // which of them are needed, collections agree on
		case kind == "packs" || kind == "index" || kind == "state":
			if !needed[name] {
				p.Errorf("left: %s", name)
			}
		}
	}
}

// wantOptimised wants that there is nothing to optimise, once it was done.
func (p *place) wantOptimised(s *shell) {
	p.Helper()
	s.collect(repackRemote...)
	s.kist("verify", "--remote", "origin", "--read-data")
	for range 2 {
		s.collect(repackRemote...)
	}
	if c := s.collect(repackRemote...); c.Optimised+c.Condemned+c.Deleted+c.Delisted+c.Waiting > 0 {
		p.Errorf("there is always something to do: %+v", c)
	}
}

// TestRemoteGCEverything deletes all branches, bit by bit.
func TestRemoteGCEverything(t *testing.T) {
	onEachStore(t, func(p *place) {
		rng := rand.New(rand.NewPCG(21, 1))
		s := p.begin()
		for i := range 4 {
			s.kist("checkout", "-b", fmt.Sprint("branch-", i), "main")
			for f := range 150 {
				s.write(map[string]string{fmt.Sprintf("b%d/%d", i, f): noise(rng, 10+rng.IntN(2000))})
			}
			s.write(map[string]string{"large": noise(rng, 200<<10)})
			s.commit("some")
			s.kist("push")
		}
		size := func() (n int64) {
			for name, size := range p.list() {
				if !strings.HasPrefix(name, "root/") {
					n += size
				}
			}
			return n
		}
		full := size()
		s.kist("push", "origin", "--delete", "branch-1", "branch-2")
		if c := s.collect("remote", "gc", "origin"); c.Condemned == 0 || c.Waiting < c.Condemned || c.Deleted > 0 {
			p.Errorf("%+v", c)
		}
		p.wantWhole()
		if c := s.collect("remote", "gc", "origin", "--grace", "now"); c.Deleted == 0 || c.Waiting > 0 || c.Before-c.After < full*4/10 {
			p.Errorf("%+v of %d bytes", c, full)
		}
		p.wantNoGarbage(s)
		p.wantWhole()
		if now := size(); now > full*6/10 {
			p.Errorf("%d of %d bytes are left", now, full)
		}
		s.kist("checkout", "branch-1")
		s.kist("push")
		p.wantWhole()
		s.kist("push", "origin", "--delete", "branch-0", "branch-1", "branch-3", "main")
		p.wantNoGarbage(s)
		for name := range p.list() {
			if strings.HasPrefix(name, "packs/") || strings.HasPrefix(name, "index/") {
				p.Errorf("left: %s", name)
			}
		}
		s.kist("push", "--all")
		p.wantWhole()
	})
}

// TestRemoteGCDamaged has a pack on the remote damaged that is needed, and
// whoever collects has no other copy.
func TestRemoteGCDamaged(t *testing.T) {
	t.Parallel()
	p := newPlaceInFolder(t)
	rng := rand.New(rand.NewPCG(22, 1))
	s := p.begin()
	s.kist("checkout", "-b", "other")
	s.change(rng)
	s.kist("push")
	s.kist("push", "origin", "--delete", "other")
	away := p.folder()
	away.kist("init")
	away.kist("remote", "add", "--no-check", "origin", p.url)
	before := p.blobs()
	for name, data := range before {
		if !strings.HasPrefix(name, "packs/") {
			continue
		}
		path := p.url + "/" + name
		damaged := []byte(data)
		damaged[40] ^= 4
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, damaged, 0o444); err != nil {
			t.Fatal(err)
		}
	}
	head := p.head().Seq
	for _, args := range [][]string{collectRemote, {"remote", "gc", "origin", "-n"}} {
		o := away.run(args...)
		if o.status != 11 || !strings.Contains(o.stderr, "needed by refs/heads/main") || !strings.Contains(o.stderr, "kist verify --remote origin") {
			t.Errorf("%v", o)
		}
	}
	if len(p.list()) != len(before) || p.head().Seq != head {
		t.Error("something was changed")
	}
	// Who has the commits can tell what is needed.
	if c := s.collect("remote", "gc", "origin", "--grace", "now"); c.Deleted == 0 {
		t.Errorf("%+v", c)
	}
}

// TestRemoteGCStopped stops a push that has found out what the remote lacks.
// Meanwhile the branch that it builds on is deleted, and garbage is collected
// and deleted: also what the push has sent, in one of two cases.
// The push goes on, and finds out again.
func TestRemoteGCStopped(t *testing.T) {
	onEachStore(t, func(p *place) {
		rng := rand.New(rand.NewPCG(23, 3))
		s := p.begin()
		other := p.clone()
		for i, grace := range []string{"1s", "now"} {
			base, topic := fmt.Sprint("base-", i), fmt.Sprint("topic-", i)
			s.kist("checkout", "-b", base, "main")
			for f := range 3 {
				s.write(map[string]string{fmt.Sprint("base/", f): noise(rng, 20<<10)})
			}
			s.commit("base")
			s.kist("push")
			s.kist("checkout", "-b", topic)
			s.write(map[string]string{"topic": noise(rng, 64<<10)})
			tip := s.commit("topic")
			push := s.start("push", "--json", "--limit-upload", "48KiB")
			push.holdWhileSending()
			other.kist("push", "origin", "--delete", base)
			for deleted := 0; deleted == 0; {
				deleted = other.collect(append(collectRemote, "--grace", grace)...).Deleted
			}
			other.collect(append(collectRemote, "--grace", grace)...)
			push.signal(syscall.SIGCONT)
			if o := push.wait(); o.status != 0 {
				p.Fatal(o)
			}
			if p.at(topic) != tip {
				p.Errorf("%s is at %s, want %s", topic, p.at(topic), tip)
			}
			clone := p.folder()
			clone.kist("clone", "-b", topic, p.url, ".")
			clone.kist("verify", "--remote", "origin", "--read-data")
			clone.wantFiles(clone.readFiles("."), s.readFiles("."))
		}
		p.wantNoGarbage(other)
		p.wantWhole()
	})
}

// TestRemoteGCKill kills collections at random moments. The remote is whole, and
// the next ones do the rest.
func TestRemoteGCKill(t *testing.T) {
	onEachStore(t, func(p *place) {
		rng := objecttest.Rand(24)
		cut := atRandom(rng, 100*time.Millisecond)
		s := p.begin()
		rounds, killed := objecttest.Rounds(p, 3), 0
		for i := 0; i < rounds || killed == 0 && i < 10*rounds; i++ {
			branch := fmt.Sprint("b", i)
			s.kist("checkout", "-b", branch, "main")
			for f := range 3 {
				s.write(map[string]string{fmt.Sprint("f", f): noise(rng, rng.IntN(8000)), "text": wording(rng)})
			}
			s.commit(branch)
			s.kist("push")
			s.kist("checkout", "main")
			s.change(rng)
			s.kist("push")
			if i%3 > 0 {
				s.kist("push", "origin", "--delete", branch)
			}
			if cut(s, [][]string{collectRemote, repackRemote}[rng.IntN(2)]...) {
				killed++
			}
			s.kist("verify", "--remote", "origin", "--read-data")
		}
		p.wantNoGarbage(s)
		p.wantOptimised(s)
		p.wantWhole()
		p.Logf("%d collections were killed", killed)
		if killed == 0 {
			p.Error("no collection was killed")
		}
	})
}

// TestRemoteGCBesideOthers has four people push to branches of their own, make
// and delete more, and two fetch, while two collect garbage without any grace.
// What a push has acknowledged is there in the end.
//
// All pause after three rounds: a collector whose files others delete at once, all
// the time, may plan again and again until they pause.
func TestRemoteGCBesideOthers(t *testing.T) {
	onEachStore(t, func(p *place) {
		first := p.begin()
		var deleted, collections, fetches, unlucky atomic.Int64
		all := p.copies(first, 8)
		pushers, collectors, fetchers := all[:4], all[4:6], all[6:]
		random := make([]*rand.Rand, len(pushers))
		for i, s := range pushers {
			random[i] = rand.New(rand.NewPCG(uint64(i), 25))
			s.kist("checkout", "-b", fmt.Sprint("person-", i))
		}
		push := func(i, round int) {
			s, rng, own := pushers[i], random[i], fmt.Sprint("person-", i)
			s.change(rng)
			s.kist("push")
			side := fmt.Sprintf("%s-%d", own, round)
			s.kist("checkout", "-b", side)
			s.change(rng)
			s.kist("push")
			s.kist("checkout", own)
			if rng.IntN(4) > 0 {
				s.kist("push", "origin", "--delete", side)
			}
			if rng.IntN(4) == 0 { // what it has goes, and comes back
				s.kist("push", "origin", "--delete", own)
			}
		}
		rounds := objecttest.Rounds(p, 2)
		for from := 0; from < rounds && !p.Failed(); from += 3 {
			var over atomic.Bool
			var people, others sync.WaitGroup
			for i, s := range pushers {
				people.Go(func() {
					for round := from; round < min(from+3, rounds); round++ {
						push(i, round)
					}
					s.kist("push")
				})
			}
			for i, s := range collectors {
				others.Go(func() {
					args := collectRemote
					if i == 1 {
						args = append(args[:len(args):len(args)], "--grace", "1s", "--repack")
					}
					for !over.Load() && !p.Failed() {
						deleted.Add(int64(s.collect(args...).Deleted))
						collections.Add(1)
					}
				})
			}
			for _, s := range fetchers {
				others.Go(func() {
					for !over.Load() && !p.Failed() {
						// A branch that is deleted, and collected at once, may be
						// what a fetch was after.
						switch o := s.run("fetch", "--json"); {
						case o.status == 0:
							fetches.Add(1)
						case o.status == 1 && strings.Contains(o.stderr, "deleted or expired on the remote meanwhile"):
							unlucky.Add(1)
						default:
							p.Errorf("%v", o)
						}
					}
				})
			}
			people.Wait()
			over.Store(true)
			others.Wait()
		}
		if p.Failed() {
			return
		}
		for i, s := range pushers {
			if own := fmt.Sprint("person-", i); p.at(own) != idOf(s, s.kist("log", "-1", "--json", own)) {
				p.Errorf("%s is at %s", own, p.at(own))
			}
		}
		for _, s := range fetchers { // nobody else is at work
			s.kist("fetch")
			deleted.Add(int64(s.collect(collectRemote...).Deleted))
		}
		p.wantNoGarbage(fetchers[0])
		p.wantWhole()
		p.Logf("%d collections have deleted %d files; %d fetches, %d in vain", collections.Load(), deleted.Load(), fetches.Load(), unlucky.Load())
		if deleted.Load() == 0 {
			p.Error("nothing was ever deleted")
		}
	})
}
