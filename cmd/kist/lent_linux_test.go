package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/objecttest"
)

// lentShell makes the repository of pushedShell. The content of its large files is away.
func lentShell(t *testing.T, rng *rand.Rand) *shell {
	t.Helper()
	s := pushedShell(t, rng)
	s.kist("evict")
	return s
}

// pushedShell makes a repository with the branches main and side, which are pushed.
func pushedShell(t *testing.T, rng *rand.Rand) *shell {
	t.Helper()
	s := newShell(t)
	s.env = []string{"KIST_DATE=2026-01-31T12:00:00Z", "GOMAXPROCS=1"}
	s.makePushed(rng, s.path("../backup"))
	return s
}

// makePushed makes the repository of pushedShell with a remote in a folder.
func (s *shell) makePushed(rng *rand.Rand, folder string) {
	s.Helper()
	s.kist("init", "--chunk-size", "64KiB")
	s.kist("remote", "add", "origin", folder)
	take := noise(rng, 1_500_000)
	s.write(map[string]string{"film/a.raw": take, "film/b.raw": noise(rng, 1_200_000), "text/notes": "notes\n", "text/small": noise(rng, 300_000)})
	s.commit("main")
	s.kist("checkout", "-b", "side")
	s.write(map[string]string{"film/a.raw": take[:700_000] + noise(rng, 400_000) + take[700_000:], "film/c.raw": noise(rng, 1_100_000), "text/notes": "side\n"})
	s.commit("side")
	s.kist("push", "--all", "origin")
	s.kist("checkout", "main")
}

// offline runs f while the remote does not answer.
func (s *shell) offline(f func()) {
	s.Helper()
	if err := os.Rename(s.path("../backup"), s.path("../away")); err != nil {
		s.Fatal(err)
	}
	f()
	if err := os.Rename(s.path("../away"), s.path("../backup")); err != nil {
		s.Fatal(err)
	}
}

// wantLent fails the test if the repository stores more than the small files and some nodes.
func (s *shell) wantLent() {
	s.Helper()
	if size := folderSize(s, s.path(".kist/volumes")); size > 500_000 {
		s.Errorf("the local volumes have %d bytes, want at most 500000", size)
	}
}

// TestLent checks that files of the worktree are the only copy here, and that all commands read them.
func TestLent(t *testing.T) {
	t.Parallel()
	s := lentShell(t, objecttest.Rand(1))
	s.wantLent()
	main := s.readFiles(".")
	s.offline(func() {
		s.kist("restore", "--source", "main", "--to", "../out")
		s.wantFiles(s.in("../out").readFiles("."), main)
		if err := os.RemoveAll(s.path("../out")); err != nil {
			t.Fatal(err)
		}
		s.kist("verify", "--read-data")
	})

	// A checkout writes the content of large files to these files only.
	s.kist("checkout", "side")
	s.wantLent()
	side := s.readFiles(".")
	s.offline(func() {
		if got := s.kist("cat", "side:film/c.raw"); len(got) != 1_100_000 {
			t.Errorf("%d bytes, want 1100000", len(got))
		}
	})

	// A renamed file is lent, too, and a second remote gets content from the files.
	s.kist("mv", "film/c.raw", "moved.raw")
	if err := os.Rename(s.path("film/a.raw"), s.path("film/d.raw")); err != nil {
		t.Fatal(err)
	}
	s.commit("moved")
	s.wantLent()
	s.offline(func() {
		for name, size := range map[string]int{"side~1:film/c.raw": 1_100_000, "side~1:film/a.raw": 1_900_000} {
			if got := s.kist("cat", name); len(got) != size {
				t.Errorf("%s: %d bytes, want %d", name, len(got), size)
			}
		}
	})
	s.kist("push", "origin")
	s.kist("checkout", "side~1")
	s.wantLent()
	s.kist("checkout", "main")
	s.wantFiles(s.readFiles("."), main)
	s.kist("checkout", "side~1")
	s.wantFiles(s.readFiles("."), side)
	s.kist("remote", "add", "second", s.path("../second"))
	s.kist("push", "second", "main", "side")
	s.kist("verify", "--remote", "second", "--read-data")
	s.kist("evict") // what no file lent was fetched for the push, and stayed
	s.wantLent()
	s.verify()
}

// TestLentOffline checks that no command makes content unreachable while the remote does not answer.
func TestLentOffline(t *testing.T) {
	t.Parallel()
	s := lentShell(t, objecttest.Rand(2))
	before := s.readFiles(".")
	refused := func(args ...string) {
		t.Helper()
		if o := s.exits(1, args...); !strings.Contains(o.stderr, "cannot be asked") {
			t.Errorf("%v", o)
		}
		s.wantFiles(s.readFiles("."), before)
	}
	s.offline(func() {
		refused("rm", "film/a.raw")
		s.kist("rm", "text/small")
		s.kist("reset", "--hard")
		s.kist("rm", "--cached", "film/b.raw")
		refused("clean", "--force")
		s.kist("add", "film/b.raw")
	})

	o := s.exits(0, "rm", "film/a.raw")
	if !strings.Contains(o.stderr, "is now only away") {
		t.Errorf("rm does not say how much is only away: %v", o)
	}
	s.kist("reset", "--hard")
	s.wantFiles(s.readFiles("."), before)
	s.kist("evict") // an add without the remote has stored film/b.raw
	s.wantLent()
	s.offline(func() { s.kist("rm", "--force", "film/a.raw") })
	s.kist("reset", "--hard")
	s.wantFiles(s.readFiles("."), before)
	s.verify()
}

// TestLentMoved checks that a checkout takes the content of moved files from their old paths, and that one which cannot changes nothing
// while the remote does not answer.
func TestLentMoved(t *testing.T) {
	t.Parallel()
	s := lentShell(t, objecttest.Rand(5))
	main := s.readFiles(".")
	commit := func(branch string, moves ...string) files {
		t.Helper()
		s.kist("checkout", "-b", branch, "main")
		for i := 0; i < len(moves); i += 2 {
			if err := os.MkdirAll(filepath.Dir(s.path(moves[i+1])), 0o777); err != nil {
				t.Fatal(err)
			}
			s.kist("mv", moves[i], moves[i+1])
		}
		s.kist("commit", "-m", branch)
		return s.readFiles(".")
	}
	folder := commit("folder", "film", "films")
	under := commit("under", "film/a.raw", "film/a", "film/b.raw", "b.raw")
	swapped := commit("swapped", "film/a.raw", "x", "film/b.raw", "film/a.raw", "x", "film/b.raw")
	below := commit("below", "film/a.raw", "x", "x", "film/a.raw/x") // a folder comes in the place of the file
	s.kist("push", "--all", "origin")
	s.kist("checkout", "main")

	s.offline(func() {
		for _, step := range []struct {
			branch string
			want   files
		}{{"folder", folder}, {"main", main}, {"under", under}, {"folder", folder}, {"main", main}} {
			s.kist("checkout", step.branch)
			s.wantFiles(s.readFiles("."), step.want)
		}
		if _, err := os.Stat(s.path("films")); !os.IsNotExist(err) {
			t.Errorf("the folder films is left: %v", err)
		}
		for _, branch := range []string{"swapped", "below"} {
			if o := s.exits(15, "checkout", branch); !strings.Contains(o.stderr, "does not answer") {
				t.Errorf("%v", o)
			}
			s.wantFiles(s.readFiles("."), main)
		}
	})
	for branch, want := range map[string]files{"swapped": swapped, "below": below} {
		s.kist("checkout", branch)
		s.wantFiles(s.readFiles("."), want)
		s.kist("checkout", "main")
	}
	s.wantFiles(s.readFiles("."), main)
	s.verify()
}

// TestLentSmall checks that the content of small files stays, unless a path names them.
func TestLentSmall(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	s.kist("remote", "add", "origin", s.path("../backup"))
	s.write(map[string]string{"a": noise(objecttest.Rand(3), 900_000), "b": noise(objecttest.Rand(4), 1<<20)})
	s.commit("first")
	s.kist("push")
	o := s.exits(0, "evict", "--keep-local", "500KB")
	if size := folderSize(t, s.path(".kist/volumes")); size < 900_000 || size > 1_000_000 || !strings.Contains(o.stderr, "kist evict PATH") {
		t.Errorf("%d bytes are left: %v", size, o)
	}
	s.kist("evict", "a")
	s.wantLent()
	s.verify()
}

// TestLentSparse checks that sparse set says how much is only away, and changes nothing offline.
func TestLentSparse(t *testing.T) {
	t.Parallel()
	s := lentShell(t, objecttest.Rand(5))
	before := s.readFiles(".")
	s.offline(func() {
		if o := s.exits(1, "sparse", "set", "text"); !strings.Contains(o.stderr, "cannot be asked") {
			t.Errorf("%v", o)
		}
		s.wantFiles(s.readFiles("."), before)
		if got := s.kist("sparse"); !strings.Contains(got, "all folders") {
			t.Errorf("the folders are %q", got)
		}
		s.kist("sparse", "set", "film") // text has small files only
		s.kist("sparse", "off")
	})
	s.wantFiles(s.readFiles("."), before)

	if o := s.exits(0, "sparse", "set", "text"); !strings.Contains(o.stderr, "2.6 MiB of content is now only away") {
		t.Errorf("sparse set does not say how much is only away: %v", o)
	}
	s.offline(func() {
		s.exits(15, "sparse", "add", "film")
		if got := s.kist("sparse"); got != "text\n" {
			t.Errorf("the folders are %q", got)
		}
	})
	s.kist("sparse", "off")
	s.wantFiles(s.readFiles("."), before)
	s.wantLent()
	s.verify()
}

// TestLentFullDisk runs commands with lent content on a full disk. Nothing is lost, and they succeed when there is space.
func TestLentFullDisk(t *testing.T) {
	s := onTmpfs(t, "size=32m")
	if s == nil {
		return
	}
	rng, full := objecttest.Rand(41), 0
	for _, free := range []int64{0, 100 << 10} {
		s := s.in("folder")
		s.write(map[string]string{"empty": ""})
		s.makePushed(rng, filepath.Join(t.TempDir(), "backup"))
		main := s.readFiles(".")

		for _, args := range [][]string{{"evict"}, {"checkout", "side"}, {"checkout", "main"}, {"fetch", "--data", "film"}} {
			s.fill(free)
			o := s.run(append(args, "--json")...)
			if args[0] == "evict" && o.status == 15 || s.wantDiskFull(o) { // evict says which remotes cannot keep the content
				full++
				s.verify()
				removeAll(t, s.path("../ballast"))
				s.kist(args...)
			}
			removeAll(t, s.path("../ballast"))
			s.verify()
		}
		s.wantFiles(s.readFiles("."), main)
		removeAll(t, s.dir)
	}
	if full == 0 {
		t.Error("no command met a full disk: the test has no effect")
	}
}

// TestLentOracle runs the same random commands in a full clone and in one whose content is lent. Outputs and states are equal.
func TestLentOracle(t *testing.T) {
	t.Parallel()
	rng := objecttest.Rand(11)
	rounds := objecttest.Rounds(t, 1)
	if rounds > 1 {
		rounds *= 50 // 1,000 in 'make soak'
	}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) { compareLent(t, rng) })
	}
}

// compareLent runs 25 steps in a full clone and in one whose content is lent.
func compareLent(t *testing.T, rng *rand.Rand) {
	full := pushedShell(t, rng)
	lent := full.copyFolder()
	lent.kist("evict")
	for step := range 25 {
		pair := &lentPair{shell: lent, full: full, rng: rng, at: time.Unix(1_800_000_000+int64(step), 0)}
		pair.step()
		if lines := lent.readState().diff(full.readState()); len(lines) > 0 {
			t.Fatalf("step %d: %s", step, strings.Join(lines, "\n"))
		}
	}
	lent.verify()
}

// lentPair is a repository with lent content, and a full one with the same history.
type lentPair struct {
	*shell
	full *shell
	rng  *rand.Rand
	at   time.Time // the mtime of files that the step changes
}

// both runs a command in both repositories.
func (p *lentPair) both(args ...string) {
	p.Helper()
	got, want := p.run(args...), p.full.run(args...)
	if got.status != want.status || workDone.ReplaceAllString(got.stdout, "") != workDone.ReplaceAllString(want.stdout, "") {
		p.Fatalf("lent: %v\nfull: %v", got, want)
	}
}

// workDone finds figures that may differ. A file that changed just before the index was written is read again, and the clock decides
// which one that is. A keep ref has stored an empty tree, which is then not new for a commit.
var workDone = regexp.MustCompile(`[0-9.]+ [KM]?i?B read|; [0-9.]+ B new, [0-9.]+ B stored`)

// step changes some files, and runs a random command.
func (p *lentPair) step() {
	p.Helper()
	names := []string{"film/a.raw", "film/b.raw", "film/c.raw", "film/new.raw", "text/notes"}
	name := names[p.rng.IntN(len(names))]

	switch n := p.rng.IntN(14); n {
	case 0, 1, 2: // an edit in place
		seed := p.rng.Uint64()
		for _, s := range []*shell{p.shell, p.full} {
			p.edit(s, name, rand.New(rand.NewPCG(seed, 1)))
		}
	case 3:
		data := noise(p.rng, 1_000_000+p.rng.IntN(500_000))
		for _, s := range []*shell{p.shell, p.full} {
			s.write(map[string]string{name: data})
			p.touch(s, name)
		}
	case 4:
		p.both("mv", name, fmt.Sprint("film/", p.rng.IntN(4), ".raw"))
	case 5:
		p.both("rm", name)
	case 6, 7:
		p.both("add", "-A", ".")
		p.both("commit", "-m", fmt.Sprint(p.rng.Uint32()))
	case 8, 9:
		p.both("checkout", []string{"main", "side"}[p.rng.IntN(2)])
	case 10:
		p.both("restore", ".")
	case 11:
		p.both("push", "--all", "--quiet", "origin")
		p.kist("evict")
	case 12:
		p.kist("evict", "--keep-local", "1MB")
		p.both("reset", "--hard", "HEAD~1")
		p.both("reset", "--hard", "HEAD@{1}")
	case 13:
		p.both("cat", "side:film/a.raw")
		p.both("diff", "--stat", "main", "side")
	}
	p.both("status", "--porcelain")
}

// touch sets the mtime of a file, which a commit records.
func (p *lentPair) touch(s *shell, name string) {
	p.Helper()
	if err := os.Chtimes(s.path(name), p.at, p.at); err != nil {
		p.Fatal(err)
	}
}

// edit changes a file in place, if there is one: it writes in the middle, shortens it, or replaces it.
func (p *lentPair) edit(s *shell, name string, rng *rand.Rand) {
	p.Helper()
	data, err := os.ReadFile(s.path(name))
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		p.Fatal(err)
	}
	switch at := rng.IntN(len(data) + 1); rng.IntN(3) {
	case 0:
		err = os.Truncate(s.path(name), int64(at))
	case 1:
		err = os.WriteFile(s.path("new"), slices.Concat(data[at:], data[:at]), 0o666)
		if err == nil {
			err = os.Rename(s.path("new"), s.path(name))
		}
	default:
		var f *os.File
		if f, err = os.OpenFile(s.path(name), os.O_WRONLY, 0); err == nil {
			_, err = f.WriteAt([]byte(noise(rng, 1000)), int64(at))
			f.Close()
		}
	}
	if err != nil {
		p.Fatal(err)
	}
	p.touch(s, name)
}

// killedLent is a command that TestKillLent kills, in the repository of lentShell.
type killedLent struct {
	command []string
	begin   func(k *stepsKiller, n int) // before each kill
	stores  bool                        // afterwards, the content is here
}

var killedLentCommands = map[string]killedLent{
	"checkout": {command: []string{"checkout", "side"}, begin: func(k *stepsKiller, _ int) { k.kist("checkout", "main") }},
	"moves": {command: []string{"checkout", "moved"}, begin: func(k *stepsKiller, n int) {
		if n < 0 {
			k.kist("checkout", "-b", "moved")
			k.kist("mv", "film", "films")
			k.kist("commit", "-m", "moved")
			k.kist("push", "--all", "origin")
		}
		k.kist("checkout", "main")
	}},
	"evict": {command: []string{"evict"}, begin: func(k *stepsKiller, n int) {
		k.write(map[string]string{"film/new.raw": noise(k.rng, 1_100_000)})
		k.shell.commit(fmt.Sprint(n))
		k.kist("push")
	}},
	"fetch": {command: []string{"fetch", "--data", "film"}, begin: func(k *stepsKiller, _ int) { k.kist("evict") }, stores: true},
}

// TestKillLent kills commands at system calls that change the disk: in a long run, at each. Then all content is here, lent or kept, and the
// repeated command succeeds.
func TestKillLent(t *testing.T) {
	for name, c := range killedLentCommands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := objecttest.Rand(21)
			k := &stepsKiller{killedSteps: killedSteps{command: c.command}, shell: lentShell(t, rng), rng: rng}
			c.begin(k, -1)
			k.calls = k.strace(k.shell, "", 0)
			want := k.readFiles(".")

			rounds := objecttest.Rounds(t, 1)
			for n := range rounds {
				c.begin(k, n)
				if c.command[0] != "checkout" {
					want = k.readFiles(".")
				}
				at := rng.IntN(len(k.calls))
				if rounds >= len(k.calls) {
					at = n % len(k.calls)
				}
				call, count := k.calls[at], 0
				for _, other := range k.calls[:at+1] {
					if other == call {
						count++
					}
				}

				k.strace(k.shell, call, count)
				k.verify()
				k.kist("checkout", "--force", "HEAD")
				k.kist(c.command...)
				k.wantFiles(k.readFiles("."), want)
				if !c.stores {
					k.wantLent()
				}
				k.verify()
			}
		})
	}
}
