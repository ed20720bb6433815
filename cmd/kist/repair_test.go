package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// flipped is a bit that was flipped in a copy of a repository.
type flipped struct {
	file string // below the folder that flips are made in
	bit  int
}

// flip flips a bit of a file, at random.
func flip(t testing.TB, rng *rand.Rand, dir, file string) flipped {
	t.Helper()
	path := filepath.Join(dir, file)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := flipped{file, rng.IntN(8 * len(data))}
	data[f.bit/8] ^= 1 << (f.bit % 8)
	os.Remove(path) // it may be read-only
	if err := os.WriteFile(path, data, 0o444); err != nil {
		t.Fatal(err)
	}
	return f
}

// repairable is a repository with all sorts of files, all of which is on a
// remote, too.
type repairable struct {
	*shell
	revs   []string // commits
	trees  []files  // of these
	groups [][]string
}

func newRepairable(t *testing.T) *repairable {
	s := newShell(t)
	store := s.path("../store")
	if err := os.Mkdir(store, 0o777); err != nil {
		t.Fatal(err)
	}
	s.succeeds("init", "-q", "--chunk-size", "64KiB", "source")
	r := &repairable{shell: s.in("source")}
	r.succeeds("remote", "add", "-q", "origin", store)
	rng := rand.New(rand.NewPCG(21, 22))
	for i := range 8 {
		r.write(map[string]string{
			"large":                           noise(rng, 400_000),
			"text":                            strings.Repeat(fmt.Sprintf("line %d\n", i), 5000),
			fmt.Sprintf("dir/%d/small", i):    noise(rng, 200),
			fmt.Sprintf("dir/%d/other", i):    noise(rng, 50),
			fmt.Sprintf("far/down/here%d", i): noise(rng, 20),
		})
		r.succeeds("add", "-q", "-A", ".")
		r.revs = append(r.revs, idOf(r.shell, r.succeeds("commit", "--json", "-m", fmt.Sprintf("commit %d", i))))
		r.trees = append(r.trees, r.readFiles("."))
		switch i {
		case 2:
			r.succeeds("tag", "light")
			r.succeeds("checkout", "-q", "-b", "side")
		case 4:
			r.succeeds("checkout", "-q", "main")
		case 5:
			r.succeeds("tag", "-m", "a tag with a message", "heavy")
		}
	}
	r.succeeds("push", "-q", "--all", "--tags")
	r.groups = r.fileGroups()
	return r
}

// fileGroups returns the files of the repository whose damage is independent of
// each other's, but for that of files in the same group.
func (r *repairable) fileGroups() (groups [][]string) {
	at := map[string]int{}
	err := filepath.WalkDir(r.path(".kist"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(r.path(".kist"), path)
		group := name
		switch parts := strings.Split(name, "/"); {
		case strings.HasSuffix(name, ".lock"):
			return nil
		case parts[0] == "volumes" && len(parts) == 3:
			group = parts[1]
		case strings.HasPrefix(name, "index"):
			group = "index"
		case parts[0] == "remotes":
			if base := parts[len(parts)-1]; base == "lock" || base == "remote" {
				return nil // any use of the remote writes the second one again
			}
		case name != "HEAD" && parts[0] != "refs" && parts[0] != "logs":
			return nil // config, and what is a help only
		}
		if _, ok := at[group]; !ok {
			at[group] = len(groups)
			groups = append(groups, nil)
		}
		groups[at[group]] = append(groups[at[group]], name)
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
	return groups
}

// TestRepairFlips flips single bits of a repository, some in each copy of it:
// verify finds all of them, no command writes a wrong byte, and repair restores
// everything from the remote.
func TestRepairFlips(t *testing.T) {
	t.Parallel()
	r := newRepairable(t)
	rng := objecttest.Rand(3)
	n := objecttest.Rounds(t, 25)
	done, kinds := 0, map[string]int{}
	for done < n {
		dir := tempDir(t)
		if err := copyTree(r.path(".kist"), filepath.Join(dir, ".kist")); err != nil {
			t.Fatal(err)
		}
		var flips []flipped
		for _, i := range rng.Perm(len(r.groups))[:min(len(r.groups)*2/3, n-done)] {
			file := r.groups[i][rng.IntN(len(r.groups[i]))]
			if log := slices.IndexFunc(r.groups[i], func(name string) bool { return strings.HasSuffix(name, ".vlog") }); log >= 0 && rng.IntN(2) == 0 {
				file = r.groups[i][log] // there is most in these
			}
			flips = append(flips, flip(t, rng, filepath.Join(dir, ".kist"), file))
			kinds[strings.Split(file, "/")[0]+filepath.Ext(file)]++
		}
		r.try(r.in(dir), flips, rng)
		done += len(flips)
		removeAll(t, dir)
	}
	t.Logf("%d bits flipped: %v", done, kinds)
}

// verified is what verify tells, as far as it is looked at here.
type verified struct {
	Errors []struct {
		File, Problem string
		Paths         []string
	}
	Repaired, Quarantined []struct{ File string }
	Lost                  []struct{ File, Problem string }
}

// check runs verify, and returns what it told.
func (s *shell) check(status int, args ...string) (v verified) {
	s.Helper()
	o := s.here(append([]string{"verify", "--json"}, args...)...)
	if o.status != status {
		s.Fatalf("want exit status %d: %v", status, o)
	}
	if err := json.Unmarshal([]byte(o.stdout), &v); err != nil {
		s.Fatalf("%v: %v", err, o)
	}
	return v
}

// try looks at a copy of the repository in which bits were flipped, and has it
// repaired.
func (r *repairable) try(s *shell, flips []flipped, rng *rand.Rand) {
	r.Helper()
	found := s.check(11, "--read-data")
	for _, f := range flips {
		if !slices.ContainsFunc(found.Errors, func(e struct {
			File, Problem string
			Paths         []string
		}) bool {
			return e.File == f.file || strings.HasPrefix(f.file, "volumes/") && strings.HasPrefix(e.File, filepath.Dir(f.file))
		}) {
			r.Errorf("bit %d of %s is not found: %v", f.bit, f.file, found)
		}
	}
	// What a command writes is what was committed.
	i := rng.IntN(len(r.revs))
	s.here("restore", "--to", "out", "--source", r.revs[i])
	if got, err := os.Stat(s.path("out")); err == nil && got.IsDir() {
		for name, content := range s.readFiles("out") {
			if want := r.trees[i][name]; want != content {
				r.Errorf("with %v, %s was written as %q, want %q", flips, name, content, want)
			}
		}
	}
	removeAll(r, s.path("out"))
	if o := s.here("verify", "--repair", "--dry-run"); o.status != 0 {
		_, lost, _ := strings.Cut(o.stdout, "would move")
		r.Errorf("with %v, a dry run does not know that all can be repaired: %s", flips, lost)
	}
	if again := s.check(11, "--read-data"); len(again.Errors) != len(found.Errors) {
		r.Errorf("a dry run changed something: %v", again)
	}
	if mended := s.check(0, "--repair"); len(mended.Lost) > 0 || len(mended.Repaired) == 0 || len(mended.Quarantined) == 0 {
		r.Errorf("with %v, repair says %v", flips, mended)
	}
	if o := s.here("verify", "--read-data"); o.status != 0 {
		r.Fatalf("with %v, after the repair: %v", flips, o)
	}
	for i, rev := range r.revs {
		s.succeeds("restore", "-q", "--to", fmt.Sprint("out", i), "--source", rev)
		s.wantFiles(s.readFiles(fmt.Sprint("out", i)), r.trees[i])
		removeAll(r, s.path(fmt.Sprint("out", i)))
	}
	for _, rev := range []string{"HEAD", "main", "side", "light", "heavy", "origin/main", "origin/side"} {
		if got, want := s.succeeds("log", "--json", "-n", "1", rev), r.succeeds("log", "--json", "-n", "1", rev); got != want {
			r.Errorf("with %v, after the repair %s is %s, want %s", flips, rev, got, want)
		}
	}
	s.succeeds("checkout", "-q", "--force", "main")
	s.wantFiles(s.readFiles("."), r.trees[len(r.trees)-1])
}

// TestRepairRemoteFlips flips single bits of packs and index files on a remote:
// verify finds all of them, and repair restores everything from a clone, which has
// no copies of index files half of the time.
func TestRepairRemoteFlips(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	rng := objecttest.Rand(4)
	n := objecttest.Rounds(t, 5)
	names := d.names("packs", "index")
	for done := 0; done < n; {
		var flips []flipped
		for _, i := range rng.Perm(len(names))[:1+rng.IntN(len(names)-1)] {
			flips = append(flips, flip(t, rng, d.store, names[i]))
		}
		done += len(flips)
		clone := d.seen.copyFolder()
		if rng.IntN(2) == 0 {
			removeAll(t, clone.path(".kist/remotes"))
		}
		found := clone.here("verify", "--remote", "origin", "--read-data", "--json")
		named := flips
		if i := slices.IndexFunc(flips, func(f flipped) bool { return strings.HasPrefix(f.file, "index") }); i >= 0 {
			named = flips[i : i+1] // without a copy of it, nothing more can be looked for
		}
		for _, f := range named {
			if !strings.Contains(found.stdout, filepath.Base(f.file)) || found.status != 11 {
				t.Errorf("bit %d of %s is not found: %v", f.bit, f.file, found)
			}
		}
		if o := clone.here("verify", "--remote", "origin", "--repair", "-n"); o.status != 0 || !strings.Contains(o.stdout, "would replace ") {
			t.Errorf("%v: a dry run: %v", flips, o)
		}
		if o := clone.here("verify", "--remote", "origin", "--repair"); o.status != 0 {
			t.Fatalf("%v: repair: %v", flips, o)
		}
		clone.succeeds("verify", "--remote", "origin", "--read-data")
		d.away.succeeds("clone", "-q", d.store, "new")
		again := d.away.in("new")
		again.wantFiles(again.readFiles("."), d.want)
		again.succeeds("verify", "--read-data")
		again.succeeds("remote", "gc", "origin", "--grace", "0")
		again.succeeds("verify", "--remote", "origin", "--read-data")
		d.seen.succeeds("fetch", "-q")
		d.seen.succeeds("verify", "--remote", "origin", "--read-data")
		removeAll(t, again.dir)
		removeAll(t, clone.dir)

		// Back to the beginning.
		removeAll(t, d.store)
		for name, data := range d.blobs {
			d.write(name, data)
		}
		removeAll(t, d.seen.path(".kist/remotes"))
		d.seen.succeeds("fetch", "-q")
	}
}

// write puts a blob into the store.
func (d *damaged) write(name, data string) {
	d.Helper()
	path := filepath.Join(d.store, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		d.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o444); err != nil {
		d.Fatal(err)
	}
}
