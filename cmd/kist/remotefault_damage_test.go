package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// damaged is a remote in a folder that a test damages.
type damaged struct {
	*testing.T
	store string
	blobs map[string]string // intact content by path below store
	want  files             // files of its default branch
	seen  *shell            // a clone from before the damage
	away  *shell            // the folder for new clones
}

// newDamaged makes a remote with packs of nodes and of chunks, index files, state
// files and roots.
func newDamaged(t *testing.T) *damaged {
	t.Helper()
	s := newShell(t)
	rng := rand.New(rand.NewPCG(11, 12))
	d := &damaged{T: t, store: s.path("../store"), away: s}
	if err := os.Mkdir(d.store, 0o777); err != nil {
		t.Fatal(err)
	}

	s.succeeds("init", "--chunk-size", "64KiB", "source")
	source := s.in("source")
	source.succeeds("remote", "add", "origin", d.store)

	for round := range 3 {
		for i := range 200 {
			source.write(map[string]string{fmt.Sprintf("%d/%d/small", round, i): noise(rng, 100+rng.IntN(500))})
		}
		source.write(map[string]string{"large": noise(rng, 300<<10), "text": strings.Repeat(fmt.Sprintf("line %d\n", round), 10000)})
		source.succeeds("add", "-A", ".")
		source.succeeds("commit", "-m", fmt.Sprint(round))
		for i := range 25 { // the names fill state files
			source.succeeds("branch", fmt.Sprintf("%d-%d-%x", round, i, noise(rng, 110)))
		}
		source.succeeds("push", "--all")
	}

	d.want = source.readFiles(".")
	s.succeeds("clone", d.store, "seen")
	d.seen = s.in("seen")
	d.blobs = map[string]string{}
	kinds := map[string]int{}
	err := filepath.WalkDir(d.store, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(d.store, path)
		d.blobs[name] = string(data)
		kinds[strings.Split(name, "/")[0]]++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	for _, kind := range []string{"kist.json", "packs", "index", "state", "root"} {
		if kinds[kind] == 0 {
			t.Fatalf("the remote has %v, but no %s", kinds, kind)
		}
	}

	t.Logf("the remote has %v", kinds)
	return d
}

// names returns the sorted names of the remote's files of some kinds.
func (d *damaged) names(kinds ...string) (list []string) {
	for name := range d.blobs {
		if slices.Contains(kinds, strings.Split(name, "/")[0]) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// set replaces the content of a file of the remote, or removes it if data is nil.
func (d *damaged) set(name string, data []byte) {
	d.Helper()
	path := filepath.Join(d.store, name)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		d.Fatal(err)
	}
	if data == nil {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		d.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o444); err != nil {
		d.Fatal(err)
	}
}

// try clones and verifies a remote with damage in the named files, and then
// restores these files. Errors must name one of them, and no wrong byte may enter
// a repository. A failed clone must continue after the restore. It reports
// whether the first clone failed.
func (d *damaged) try(damage string, names ...string) bool {
	d.Helper()
	clone := d.away.in("clone")
	o := d.away.here("clone", "--json", d.store, "clone")
	_, message := o.failed()
	switch {
	case o.status == 0:
		clone.wantFiles(clone.readFiles("."), d.want)
	case o.status != 11 && (o.status != 12 || !strings.Contains(message, "newer format")):
		d.Errorf("%s: wrong exit status: %v", damage, o)
	case strings.HasPrefix(damage, "bit") && strings.HasPrefix(names[0], "packs/") && !strings.Contains(message, "offset "):
		d.Errorf("%s: the error has no offset: %v", damage, o)
	case !d.isNamed(message, names):
		d.Errorf("%s: the error does not name the file: %v", damage, o)
	}

	if _, err := os.Stat(clone.path(".kist/config")); err == nil {
		if v := clone.here("verify", "--read-data"); v.status != 0 {
			d.Errorf("%s: verify after the clone: %v", damage, v)
		}
	}

	for _, s := range []*shell{d.seen, clone} {
		if _, err := os.Stat(s.path(".kist/config")); err != nil {
			continue
		}
		v := s.here("verify", "--remote", "origin", "--read-data", "--json")
		switch {
		case v.status != 11 && v.status != 12 && v.status != 15:
			d.Errorf("%s: verify in %s does not find it: %v", damage, s.dir, v)
		case v.status == 12 && !strings.Contains(v.stdout, "newer format"), v.status == 15 && !strings.Contains(v.stdout, "rolled back"):
			d.Errorf("%s: verify in %s reports another error: %v", damage, s.dir, v)
		case !d.isNamed(v.stdout, names) && v.status != 15:
			d.Errorf("%s: verify does not name the file: %v", damage, v)
		}
	}

	for _, name := range names {
		d.set(name, []byte(d.blobs[name]))
	}
	if o.status != 0 {
		if retry := d.away.here("clone", d.store, "clone"); retry.status != 0 {
			d.Errorf("%s: the clone does not continue after the restore: %v", damage, retry)
		} else {
			clone.wantFiles(clone.readFiles("."), d.want)
			clone.succeeds("verify", "--read-data")
		}
	}

	removeAll(d, clone.dir)
	return o.status != 0
}

// isNamed reports whether a message has the base name of one of the files. For a
// root, the word "root" is enough: its damage may show in the next root.
func (d *damaged) isNamed(message string, names []string) bool {
	for _, name := range names {
		if strings.Contains(message, filepath.Base(name)) || strings.HasPrefix(name, "root/") && strings.Contains(message, "root") {
			return true
		}
	}
	return false
}

// TestRemoteDamage checks that clone and verify find each damage of a remote:
// flipped bits, and files that are cut off, missing or swapped.
func TestRemoteDamage(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	rng := objecttest.Rand(14)
	failed := 0
	n := objecttest.Rounds(t, 6)
	kinds := []string{"packs", "packs", "index", "root", "state", "kist.json"}
	for i := range n {
		names := d.names(kinds[i%len(kinds)])
		name := names[rng.IntN(len(names))]
		data := []byte(d.blobs[name])
		bit := rng.IntN(8 * len(data))
		data[bit/8] ^= 1 << (bit % 8)
		d.set(name, data)
		if d.try(fmt.Sprintf("bit %d of byte %d of %s", bit%8, bit/8, name), name) {
			failed++
		}
	}
	t.Logf("clones failed after %d of %d flipped bits", failed, n)
	if failed < n/2 {
		t.Errorf("clones failed after %d of %d flipped bits, want at least half", failed, n)
	}

	for _, kind := range []string{"packs", "index", "root", "state", "kist.json"} {
		names := d.names(kind)
		one, other := names[0], names[len(names)-1]
		data := d.blobs[other]
		for _, size := range []int{0, len(data) / 2, len(data) - 1} {
			d.set(other, []byte(data)[:size])
			d.try(fmt.Sprintf("%s cut off after %d of %d bytes", other, size, len(data)), other)
		}
		if kind != "root" { // without its last root, a log is only shorter
			d.set(other, nil)
			d.try(other+" missing", other)
		}
		d.set(one, nil)
		d.try(one+" missing", one)
		if one != other {
			d.set(one, []byte(d.blobs[other]))
			d.set(other, []byte(d.blobs[one]))
			d.try(fmt.Sprintf("%s and %s swapped", one, other), one, other)
		}
	}
	d.away.succeeds("clone", d.store, "whole")
	d.away.in("whole").succeeds("verify", "--remote", "origin", "--read-data")
}
