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

// collectRemote is a gc of a remote that has no grace and tolerates no garbage.
var collectRemote = []string{"remote", "gc", "origin", "--grace", "now", "--max-waste", "0"}

// repackRemote is collectRemote with repacking.
var repackRemote = append(collectRemote[:len(collectRemote):len(collectRemote)], "--repack")

// collected is the output of remote gc --json.
type collected struct {
	Removed   int64 `json:"objects_removed"`
	Before    int64 `json:"bytes_before"`
	After     int64 `json:"bytes_after"`
	Marked    int   `json:"marked"`
	Rewritten int   `json:"rewritten"`
	Repacked  int   `json:"repacked"`
	Deleted   int   `json:"deleted"`
	Forgotten int   `json:"forgotten"`
	Waiting   int   `json:"waiting"`
}

// collect runs a remote gc and returns its output.
func (s *shell) collect(args ...string) (c collected) {
	s.Helper()
	if err := json.Unmarshal([]byte(s.kist(append(args, "--json")...)), &c); err != nil {
		s.Fatal(err)
	}
	return c
}

// wantNoGarbage checks that three collections leave only live files on the remote,
// and that a fourth finds nothing to do.
func (p *place) wantNoGarbage(s *shell) {
	p.Helper()
	for range 3 {
		s.collect(collectRemote...)
	}
	before := p.list()
	if c := s.collect(collectRemote...); c.Marked+c.Deleted+c.Forgotten+c.Waiting > 0 {
		p.Errorf("the fourth collection still finds garbage: %+v", c)
	}
	head := p.head()
	live := map[string]bool{}
	for _, f := range head.Indexes {
		live[f.Name.IndexPath()] = true
	}
	for _, name := range head.NamedFiles() {
		live[name] = true
	}
	for name := range before {
		switch kind, _, _ := strings.Cut(name, "/"); {
		case kind == "packs" && len(head.Refs) > 0: // the fourth collection found no garbage in them
		case kind == "packs" || kind == "index" || kind == "state":
			if !live[name] {
				p.Errorf("garbage is left: %s", name)
			}
		}
	}
}

// wantRepacked checks that three repacks leave nothing to repack.
func (p *place) wantRepacked(s *shell) {
	p.Helper()
	s.collect(repackRemote...)
	s.kist("verify", "--remote", "origin", "--read-data")
	for range 2 {
		s.collect(repackRemote...)
	}
	if c := s.collect(repackRemote...); c.Repacked+c.Marked+c.Deleted+c.Forgotten+c.Waiting > 0 {
		p.Errorf("the fourth collection still finds garbage: %+v", c)
	}
}

// TestRemoteGCEverything deletes all branches in steps. Gc frees their space each time.
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
		if c := s.collect("remote", "gc", "origin"); c.Marked == 0 || c.Waiting < c.Marked || c.Deleted > 0 {
			p.Errorf("gc within the grace: %+v, want files marked and none deleted", c)
		}

		p.wantIntact()
		if c := s.collect("remote", "gc", "origin", "--grace", "now"); c.Deleted == 0 || c.Waiting > 0 || c.Before-c.After < full*4/10 {
			p.Errorf("gc without grace: %+v, want 40%% of %d bytes freed", c, full)
		}

		p.wantNoGarbage(s)
		p.wantIntact()
		if now := size(); now > full*6/10 {
			p.Errorf("%d of %d bytes are left, want at most 60%%", now, full)
		}

		s.kist("checkout", "branch-1")
		s.kist("push")
		p.wantIntact()
		s.kist("push", "origin", "--delete", "branch-0", "branch-1", "branch-3", "main")
		p.wantNoGarbage(s)

		for name := range p.list() {
			if strings.HasPrefix(name, "packs/") || strings.HasPrefix(name, "index/") {
				p.Errorf("left without branches: %s", name)
			}
		}

		s.kist("push", "--all")
		p.wantIntact()
	})
}

// TestRemoteGCDamaged checks that gc refuses a remote with damaged live packs, and
// changes nothing, if it has no other copy of the commits.
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
			t.Errorf("want an error about a live pack and a hint to verify: %v", o)
		}
	}
	if len(p.list()) != len(before) || p.head().Seq != head {
		t.Error("the refused gc changed the remote")
	}

	// A clone with the commits knows the live objects.
	if c := s.collect("remote", "gc", "origin", "--grace", "now"); c.Deleted == 0 {
		t.Errorf("gc by a clone with the commits: %+v, want files deleted", c)
	}
}

// TestRemoteGCStopped checks that a push notices a gc that deletes objects it relies
// on. The push is stopped after it looked up the missing objects. Meanwhile another
// clone deletes its base branch and collects garbage. With grace "now", gc also
// deletes the packs that the push has sent. The push then repeats the look-up.
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
		p.wantIntact()
	})
}

// TestRemoteGCKill kills collections at random moments. The remote stays intact, and
// later collections finish the work.
func TestRemoteGCKill(t *testing.T) {
	onEachStore(t, func(p *place) {
		rng := objecttest.Rand(24)
		cut := atRandom(rng, 100*time.Millisecond)
		s := p.begin()
		rounds, killed := objecttest.Rounds(p, 2), 0

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
		p.wantRepacked(s)
		p.wantIntact()
		p.Logf("%d collections were killed", killed)
		if killed == 0 {
			p.Error("no collection was killed")
		}
	})
}

// TestRemoteGCBesideOthers checks that acknowledged pushes survive concurrent gc. Four
// clones push to branches of their own, and make and delete more. Two clones fetch,
// and two collect garbage with almost no grace.
//
// All pause after three rounds. Without a pause, a collector may replan forever,
// because others keep deleting its files.
func TestRemoteGCBesideOthers(t *testing.T) {
	onEachStore(t, func(p *place) {
		first := p.begin()
		var deleted, collections, fetches, failed atomic.Int64
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
			if rng.IntN(4) == 0 { // the next push makes the branch again
				s.kist("push", "origin", "--delete", own)
			}
		}

		rounds := objecttest.Rounds(p, 2)
		for from := 0; from < rounds && !p.Failed(); from += 3 {
			var over atomic.Bool
			var pushes, others sync.WaitGroup
			for i, s := range pushers {
				pushes.Go(func() {
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
						// A fetch fails if its branch is deleted and collected meanwhile.
						switch o := s.run("fetch", "--json"); {
						case o.status == 0:
							fetches.Add(1)
						case o.status == 1 && strings.Contains(o.stderr, "deleted or expired on the remote meanwhile"):
							failed.Add(1)
						default:
							p.Errorf("%v", o)
						}
					}
				})
			}

			pushes.Wait()
			over.Store(true)
			others.Wait()
		}

		if p.Failed() {
			return
		}
		for i, s := range pushers {
			if own := fmt.Sprint("person-", i); p.at(own) != idOf(s, s.kist("log", "-1", "--json", own)) {
				p.Errorf("%s is at %s, want the pusher's last commit", own, p.at(own))
			}
		}

		for _, s := range fetchers { // no other process runs now
			s.kist("fetch")
			deleted.Add(int64(s.collect(collectRemote...).Deleted))
		}

		p.wantNoGarbage(fetchers[0])
		p.wantIntact()
		p.Logf("%d collections deleted %d files; %d fetches succeeded, %d failed", collections.Load(), deleted.Load(), fetches.Load(), failed.Load())
		if deleted.Load() == 0 {
			p.Error("no collection deleted a file")
		}
	})
}
