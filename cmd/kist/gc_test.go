package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// collectAll is a gc that leaves no garbage.
var collectAll = []string{"gc", "--prune", "now", "--max-waste", "0"}

// repackAll is collectAll with a repack.
var repackAll = append([]string{"gc", "--repack"}, collectAll[1:]...)

// wording returns a version of a text. Versions differ in one or two lines.
func wording(rng *rand.Rand) string {
	var text strings.Builder
	changed := rng.IntN(300)
	for i := range 300 {
		if i == changed {
			fmt.Fprintf(&text, "a line that is changed: %s\n", noiseName(rng))
		} else {
			fmt.Fprintf(&text, "line %d, which all versions have: %x\n", i, i*i*i)
		}
	}
	return text.String()
}

// wantEmptyStore removes all gc roots. It fails the test if gc then leaves an object.
func (s *shell) wantEmptyStore() {
	s.Helper()
	for _, pattern := range []string{"refs/*/*", "logs", "records", "index*", "*_HEAD", "*_MSG"} {
		found, err := filepath.Glob(s.path(".kist/" + pattern))
		if err != nil {
			s.Fatal(err)
		}
		for _, path := range found {
			removeAll(s.TB, path)
		}
	}
	s.write(map[string]string{".kist/HEAD": "ref: refs/heads/none\n"})
	s.kist(collectAll...)
	entries, err := os.ReadDir(s.path(".kist/volumes"))
	if err != nil {
		s.Fatal(err)
	}
	for _, e := range entries {
		s.Errorf("gc without gc roots left %s", e.Name())
	}
}

// TestGCBesideOthers checks that gc with no minimum age removes no live object while
// other processes work. Four writers add, commit, amend, and change branches and tags. Two
// processes run gc, and one reads.
func TestGCBesideOthers(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init", "--chunk-size", "64KiB")
	s.kist("config", "gc.reflog-expire", "now")
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 3 {
		s.write(map[string]string{"first": noise(rng, 200_000), "again": fmt.Sprintf("the text of version number %d", i)})
		s.kist("add", ".")
		s.kist("commit", "-m", fmt.Sprintf("first %d", i))
	}
	s.kist("branch", "stable")
	stable := s.readFiles(".")
	s.apart = true

	var over atomic.Bool
	var collected, removed, refused atomic.Int64
	var writers, others sync.WaitGroup
	for writer := range 4 {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(writer), 9))
			dir := fmt.Sprintf("writer-%d", writer)
			branch := func() string { return fmt.Sprintf("%s-%d", dir, rng.IntN(3)) }
			for i := range 14 {
				for range 1 + rng.IntN(3) {
					s.write(map[string]string{fmt.Sprintf("%s/%d/f%d", dir, rng.IntN(3), rng.IntN(4)): noise(rng, rng.IntN(200_000))})
					s.write(map[string]string{dir + "/text": wording(rng)})
				}
				message := fmt.Sprintf("%d of %s", i, dir)
				args := [][]string{
					{"add", "-A", dir}, {"add", "-A", dir}, {"add", "-A", dir},
					{"commit", "-m", message}, {"commit", "-m", message}, {"commit", "--amend", "-m", message},
					{"branch", "--force", branch()}, {"branch", "-D", branch()},
					{"tag", "--force", "-m", message, branch()}, {"tag", "-d", branch()},
					{"reset", "--soft", "stable"},
				}[rng.IntN(11)]
				o := s.run(args...)
				switch {
				case o.status == 0:
				case o.status == 13 || o.status == 14: // a ref moved, or a lock is held
					refused.Add(1)
				case o.status == 1 && (strings.Contains(o.stderr, "nothing to commit") || strings.Contains(o.stderr, "not found") || strings.Contains(o.stderr, "unknown")):
				default:
					t.Errorf("unexpected exit status: %v", o)
				}
			}
		})
	}
	for side := range 2 {
		others.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(side), 10))
			for !over.Load() && !t.Failed() {
				o := s.run(append([][]string{collectAll, repackAll}[rng.IntN(2)], "--json")...)
				var result struct {
					Removed int64 `json:"objects_removed"`
				}
				switch {
				case o.status == 14:
				case o.status != 0 || json.Unmarshal([]byte(o.stdout), &result) != nil:
					t.Errorf("gc fails: %v", o)
				default:
					collected.Add(1)
					removed.Add(result.Removed)
				}
			}
		})
	}
	others.Go(func() {
		for !over.Load() && !t.Failed() {
			s.kist("log", "--stat", "stable")
			s.kist("ls", "-r", "stable")
			out := tempDir(t)
			s.kist("restore", "--source", "stable", "--to", out, ".")
			s.wantFiles(s.readFiles(out), stable)
		}
	})
	writers.Wait()
	over.Store(true)
	others.Wait()
	if t.Failed() {
		return
	}
	s.verify()
	s.kist("add", "-A", ".")
	s.kist("commit", "--allow-empty", "-m", "last")
	removed.Add(s.collect(collectAll...).Removed)
	s.verify()
	s.wantStoredOnce()
	out := tempDir(t)
	s.kist("restore", "--source", "HEAD", "--to", out, ".")
	s.wantFiles(s.readFiles(out), s.readFiles("."))
	t.Logf("%d collections removed %d objects; %d commands met a moved ref or a held lock", collected.Load(), removed.Load(), refused.Load())
	if removed.Load() == 0 {
		t.Error("gc never removed an object")
	}
	s.wantEmptyStore()
}
