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

// flipped is a flipped bit of a file.
type flipped struct {
	file string // relative to the damaged folder
	bit  int
}

// flip flips a random bit of a file.
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

// repairable is a repository with all sorts of files. A remote has all its content.
type repairable struct {
	*shell
	revs   []string   // commits
	trees  []files    // by index in revs
	groups [][]string // see fileGroups
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

// fileGroups returns the repository's files that repair restores. Damage in one group
// is independent of damage in another.
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
				return nil // a lock, or rewritten by each use of the remote
			}
		case name != "HEAD" && parts[0] != "refs" && parts[0] != "logs":
			return nil // config and caches
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

// TestRepairFlips flips bits in copies of a repository. Verify finds all of them,
// restore writes no wrong byte, and repair restores everything from the remote.
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
				file = r.groups[i][log] // it has most of the data
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

// verified has the parts of the output of verify --json that tests use.
type verified struct {
	Errors                []verifyError
	Repaired, Quarantined []struct{ File string }
	Lost                  []struct{ File, Problem string }
}

type verifyError struct{ File, Problem string }

// check runs verify, which must end with a status, and returns its output.
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

// try checks verify, restore and repair in a copy of the repository with flipped
// bits.
func (r *repairable) try(s *shell, flips []flipped, rng *rand.Rand) {
	r.Helper()
	found := s.check(11, "--read-data")
	for _, f := range flips {
		if !slices.ContainsFunc(found.Errors, func(e verifyError) bool {
			return e.File == f.file || strings.HasPrefix(f.file, "volumes/") && strings.HasPrefix(e.File, filepath.Dir(f.file))
		}) {
			r.Errorf("verify does not find bit %d of %s: %v", f.bit, f.file, found)
		}
	}

	// Restore writes only committed content.
	i := rng.IntN(len(r.revs))
	s.here("restore", "--to", "out", "--source", r.revs[i])
	if got, err := os.Stat(s.path("out")); err == nil && got.IsDir() {
		for name, content := range s.readFiles("out") {
			if want := r.trees[i][name]; want != content {
				r.Errorf("with %v, restore wrote %s as %q, want %q", flips, name, content, want)
			}
		}
	}

	removeAll(r, s.path("out"))
	if o := s.here("verify", "--repair", "--dry-run"); o.status != 0 {
		_, lost, _ := strings.Cut(o.stdout, "would move")
		r.Errorf("with %v, a dry run would not repair everything: %s", flips, lost)
	}
	if again := s.check(11, "--read-data"); len(again.Errors) != len(found.Errors) {
		r.Errorf("the errors after a dry run are %v, want as many as before", again)
	}
	if repair := s.check(0, "--repair"); len(repair.Lost) > 0 || len(repair.Repaired) == 0 || len(repair.Quarantined) == 0 {
		r.Errorf("with %v, repair reports %v", flips, repair)
	}
	if o := s.here("verify", "--read-data"); o.status != 0 {
		r.Fatalf("with %v, verify after the repair: %v", flips, o)
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

// TestRepairRemoteFlips flips bits of packs and index files on a remote. Verify finds
// all of them, and repair restores everything from a clone. Half of the clones have no
// copies of index files.
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
			named = flips[i : i+1] // a damaged index file can hide other damage
		}
		for _, f := range named {
			if !strings.Contains(found.stdout, filepath.Base(f.file)) || found.status != 11 {
				t.Errorf("verify does not find bit %d of %s: %v", f.bit, f.file, found)
			}
		}
		if o := clone.here("verify", "--remote", "origin", "--repair", "-n"); o.status != 0 || !strings.Contains(o.stdout, "would replace ") {
			t.Errorf("with %v, a dry run: %v", flips, o)
		}
		if o := clone.here("verify", "--remote", "origin", "--repair"); o.status != 0 {
			t.Fatalf("with %v, repair: %v", flips, o)
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

		// Reset the remote and the clone.
		removeAll(t, d.store)
		for name, data := range d.blobs {
			d.set(name, []byte(data))
		}
		removeAll(t, d.seen.path(".kist/remotes"))
		d.seen.succeeds("fetch", "-q")
	}
}
