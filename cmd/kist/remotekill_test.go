package main

import (
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/objecttest"
)

// A cutter runs a command and kills it midway. It returns false if the command ended
// before the kill.
type cutter func(s *shell, args ...string) bool

// atRandom returns a cutter that kills after a random part of the expected time.
// Expect is a first estimate, which the cutter adapts. Some kills come too late.
func atRandom(rng *rand.Rand, expect time.Duration) cutter {
	return func(s *shell, args ...string) bool {
		killed := (&killer{shell: s}).kill(time.Duration(rng.Int64N(int64(expect))), syscall.SIGKILL, args)
		if killed {
			expect += expect / 10
		} else {
			expect -= expect / 4
		}
		return killed
	}
}

// remoteKills counts killed commands by their effect: none, complete, or ended before the kill.
type remoteKills struct {
	old, done, late int
	midway          int // clones killed while they wrote files
}

// TestRemoteKillPush kills pushes at random moments. The remote stays intact, in the
// old or the new state. The next push finishes the work and does not resend noted
// packs.
func TestRemoteKillPush(t *testing.T) {
	onEachStore(t, func(p *place) {
		rng := objecttest.Rand(4)
		cut := atRandom(rng, 100*time.Millisecond)
		s := p.begin()
		var kills remoteKills
		for range objecttest.Rounds(p, 2) {
			kills.push(p, s, s.change(rng), cut)
		}
		s.wantFiles(p.wantIntact().readFiles("."), s.readFiles("."))
		p.Logf("%+v", kills)
	})
}

// change commits changes of a few small files, and returns the commit.
func (s *shell) change(rng *rand.Rand) (id string) {
	s.Helper()
	for range 1 + rng.IntN(3) {
		s.write(map[string]string{"d" + noiseName(rng)[:1] + "/f": noise(rng, rng.IntN(8000))})
	}
	return s.commit("change " + noiseName(rng))
}

// isNext reports whether head follows before after one push. The push may add a root
// of its own for merged packs.
func isNext(head, before uint64) bool { return head == before+1 || head == before+2 }

// push kills a push of a commit, checks remote and repository, and pushes again.
func (k *remoteKills) push(p *place, s *shell, tip string, cut cutter) {
	p.Helper()
	before, old, seq := packs(p.list()), p.at("main"), p.head().Seq
	killed := cut(s, "push")
	noted, head := len(s.noted()), p.head() // the head may still move: the server finishes requests
	now := branchAt(head, "main")
	switch {
	case !killed:
		k.late++
	case now == old && head.Seq == seq:
		k.old++
	case now == tip && isNext(head.Seq, seq):
		k.done++
	default:
		p.Fatalf("the branch is at %s, want %s or %s; the head is root %d, before the push %d", now, old, tip, head.Seq, seq)
	}

	if at := s.tracking("main"); at != old && at != tip {
		p.Fatalf("the remote-tracking branch is at %s, want %s or %s", at, old, tip)
	}
	clone := p.clone()
	clone.verify()
	clone.drop()
	again := s.push()
	if p.at("main") != tip || !isNext(p.head().Seq, seq) || s.tracking("main") != tip {
		p.Fatalf("after a retry the branch is at %s, tracked at %s, want %s; root %d, want the one after %d", p.at("main"), s.tracking("main"), tip, p.head().Seq, seq)
	}

	if again.Refs[0].Status == "up to date" { // only a push that sends something removes the notes
		return
	}
	if now == tip {
		p.Errorf("a complete push was repeated: %+v", again)
	}

	// A push needs two packs: of nodes, and of chunks. The retry uses noted packs, but
	// not the unfinished pack of each worker. A merge makes two more.
	merged := 2 * int(p.head().Seq-seq-1)
	if sent := packs(p.list()) - before - merged; sent > 4-noted {
		p.Errorf("%d packs were sent, want at most %d: %d were noted at the kill", sent, 4-noted, noted)
	}
	if n := len(s.noted()); n > 0 {
		p.Errorf("%d packs are still noted", n)
	}
}

// packs returns the number of packs in a list.
func packs(list map[string]int64) (n int) {
	for name := range list {
		if strings.HasPrefix(name, "packs/") {
			n++
		}
	}
	return n
}

// TestRemoteKillFetch kills fetches and clones at random moments. The repository stays
// intact, and its remote-tracking branches have the old or the new commit. A retry
// finishes the work.
func TestRemoteKillFetch(t *testing.T) {
	onEachStore(t, func(p *place) {
		rng := objecttest.Rand(5)
		cut, cutClone := atRandom(rng, 100*time.Millisecond), atRandom(rng, 100*time.Millisecond)
		from := p.begin()
		s := p.clone()
		var fetches, clones remoteKills
		for range objecttest.Rounds(p, 2) {
			from.change(rng)
			from.kist("push")
			fetches.fetch(p, s, cut)
			clones.clone(p, from, cutClone)
		}
		s.kist("merge", "--ff-only", "origin/main")
		s.wantFiles(s.readFiles("."), from.readFiles("."))
		p.Logf("fetches: %+v, clones: %+v", fetches, clones)
	})
}

// TestRemoteKillCloneLarge kills clones of large files. A clone writes such files while
// it receives their chunks.
func TestRemoteKillCloneLarge(t *testing.T) {
	onEachStore(t, func(p *place) {
		rng := objecttest.Rand(8)
		from := p.folder()
		from.kist("init", "--chunk-size", "64KiB")
		from.kist("remote", "add", "--no-check", "origin", p.url)
		common := noise(rng, 3<<20)
		large := map[string]string{
			"a": common, "d/the same": common, "d/e/shared": noise(rng, 1<<20) + common,
			"zeros": strings.Repeat("\x00", 2<<20) + noise(rng, 1<<20), "x": noise(rng, 2<<20),
		}

		for i := range 6 {
			large["f/"+noiseName(rng)] = noise(rng, i<<19)
		}
		from.write(large)

		for name, mode := range map[string]os.FileMode{"x": 0o755, "a": 0o444, "f": 0o555} {
			if err := os.Chmod(from.path(name), mode); err != nil {
				p.Fatal(err)
			}
		}

		from.commit("large files")
		from.kist("push")
		began := time.Now()
		p.clone().drop()

		cut := atRandom(rng, time.Since(began))
		var clones remoteKills
		for range objecttest.Rounds(p, 2) {
			clones.clone(p, from, cut)
		}
		p.Logf("%+v", clones)
	})
}

// fetch kills a fetch, checks the repository, and fetches again.
func (k *remoteKills) fetch(p *place, s *shell, cut cutter) {
	p.Helper()
	old, tip := s.tracking("main"), p.at("main")
	killed := cut(s, "fetch")
	switch now := s.tracking("main"); {
	case !killed:
		k.late++
	case now == old:
		k.old++
	case now == tip:
		k.done++
	default:
		p.Fatalf("the branch is at %s, want %s or %s", now, old, tip)
	}
	s.verify()
	s.kist("fetch")
	if now := s.tracking("main"); now != tip {
		p.Fatalf("after a retry the branch is at %s, want %s", now, tip)
	}
	s.verify()
}

// clone kills a clone, checks its folder, and clones again into it. A file gets its
// name only when it is complete.
func (k *remoteKills) clone(p *place, from *shell, cut cutter) {
	p.Helper()
	s := p.folder()
	killed := cut(s, "clone", p.url, ".")

	tip, files := p.at("main"), from.readFiles(".")
	for name, now := range s.readFiles(".") {
		if now != files[name] && !strings.HasPrefix(now, "d") { // folders get their modes last
			p.Fatalf("after the kill, %q is %s, want %s", name, now, files[name])
		}
	}

	if left, err := os.ReadDir(s.path(".kist/tmp")); err == nil && len(left) > 0 {
		k.midway++
	}
	begun := exists(s.path(".kist/config"))
	if begun {
		s.verify()
		switch now := s.tracking("main"); {
		case !killed:
			k.late++
		case now == "":
			k.old++
		case now == tip:
			k.done++
		default:
			p.Fatalf("the branch is at %s, want %s", now, tip)
		}
	}

	// The kill may come after the clone was complete.
	if killed && (!begun || exists(s.path(".kist/CLONING"))) {
		s.kist("clone", p.url, ".")
	}
	if status := s.kist("status", "--porcelain"); s.tracking("main") != tip || status != "" {
		p.Fatalf("the clone is at %s, want %s:\n%s", s.tracking("main"), tip, status)
	}

	s.wantFiles(s.readFiles("."), files)
	if killed { // a complete clone leaves temporary files to the next command that stores something
		s.write(map[string]string{"more": strings.Repeat("that is in no commit\n", 100)})
		s.kist("add", "more")
	}
	(&killer{shell: s}).wantNothingLeft()

	if o := s.run("clone", p.url, "."); o.status != 1 || !strings.Contains(o.stderr, "not empty") {
		p.Fatalf("cloning into a clone: want exit status 1 and \"not empty\": %v", o)
	}
	s.verify()
	s.drop()
}
