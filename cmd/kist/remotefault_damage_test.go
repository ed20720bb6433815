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

// damaged is a remote in a folder, to be damaged.
type damaged struct {
	*testing.T
	store string
	blobs map[string]string // all that is there, by path below the folder
	want  files             // of its default branch
	seen  *shell            // a clone from before
	away  *shell            // where clones are made
}

// newDamaged makes a remote with packs of nodes and of chunks, index files, a
// state file, and some roots.
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
		for i := range 150 {
			source.succeeds("branch", fmt.Sprintf("a-branch-with-a-rather-long-name-%d-%d", round, i))
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
			t.Fatalf("the remote has %v, and no %s", kinds, kind)
		}
	}
	t.Logf("the remote has %v", kinds)
	return d
}

// names returns the names of what is on the remote, of some kinds.
func (d *damaged) names(kinds ...string) (list []string) {
	for name := range d.blobs {
		if slices.Contains(kinds, strings.Split(name, "/")[0]) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// set replaces what is stored under a name; nil removes it.
func (d *damaged) set(name string, data []byte) {
	d.Helper()
	path := filepath.Join(d.store, name)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		d.Fatal(err)
	}
	if data == nil {
		return
	}
	if err := os.WriteFile(path, data, 0o444); err != nil {
		d.Fatal(err)
	}
}

// try clones the remote, which somebody has damaged, and checks it. What is
// wrong must be told, with its name; nothing wrong may be kept; and after the
// remote was mended the same clone goes on. It reports whether the clone came
// to grief.
func (d *damaged) try(what string, names ...string) bool {
	d.Helper()
	clone := d.away.in("clone")
	o := d.away.here("clone", "--json", d.store, "clone")
	_, message := o.failed()
	switch {
	case o.status == 0:
		clone.wantFiles(clone.readFiles("."), d.want)
	case o.status != 11 && (o.status != 12 || !strings.Contains(message, "newer format")):
		d.Errorf("%s: %v", what, o)
	case strings.HasPrefix(what, "bit") && strings.HasPrefix(names[0], "packs/") && !strings.Contains(message, "offset "):
		d.Errorf("%s: does not say where: %v", what, o)
	case !d.isNamed(message, names):
		d.Errorf("%s: does not name it: %v", what, o)
	}
	if _, err := os.Stat(clone.path(".kist/config")); err == nil {
		if v := clone.here("verify", "--read-data"); v.status != 0 {
			d.Errorf("%s: after the clone: %v", what, v)
		}
	}
	for _, s := range []*shell{d.seen, clone} {
		if _, err := os.Stat(s.path(".kist/config")); err != nil {
			continue
		}
		v := s.here("verify", "--remote", "origin", "--read-data", "--json")
		switch {
		case v.status != 11 && v.status != 12 && v.status != 15:
			d.Errorf("%s: not found by verify in %s: %v", what, s.dir, v)
		case v.status == 12 && !strings.Contains(v.stdout, "newer format"), v.status == 15 && !strings.Contains(v.stdout, "rolled back"):
			d.Errorf("%s: verify in %s says something else: %v", what, s.dir, v)
		case !d.isNamed(v.stdout, names) && v.status != 15:
			d.Errorf("%s: verify does not name it: %v", what, v)
		}
	}
	for _, name := range names {
		d.set(name, []byte(d.blobs[name]))
	}
	if o.status != 0 {
		o = d.away.here("clone", d.store, "clone")
		if o.status != 0 {
			d.Errorf("%s: after it was mended: %v", what, o)
			removeAll(d, clone.dir)
			return true
		}
		clone.wantFiles(clone.readFiles("."), d.want)
		clone.succeeds("verify", "--read-data")
		removeAll(d, clone.dir)
		return true
	}
	removeAll(d, clone.dir)
	return false
}

// isNamed reports whether a message names one of several blobs, as its name is
// or without folders. The damage of kist.json and of a root may show in the
// next root.
func (d *damaged) isNamed(message string, names []string) bool {
	for _, name := range names {
		if strings.Contains(message, filepath.Base(name)) || strings.HasPrefix(name, "root/") && strings.Contains(message, "root") {
			return true
		}
	}
	return false
}

// TestRemoteDamage damages a remote, one thing at a time.
func TestRemoteDamage(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	rng := objecttest.Rand(14)
	felt := 0
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
			felt++
		}
	}
	t.Logf("%d of %d flipped bits kept a clone from being made", felt, n)
	if felt < n/2 {
		t.Errorf("only %d of %d flipped bits kept a clone from being made", felt, n)
	}

	for _, kind := range []string{"packs", "index", "root", "state", "kist.json"} {
		names := d.names(kind)
		one, other := names[0], names[len(names)-1]
		data := d.blobs[other]
		for _, size := range []int{0, len(data) / 2, len(data) - 1} {
			d.set(other, []byte(data)[:size])
			d.try(fmt.Sprintf("%s cut off after %d of %d bytes", other, size, len(data)), other)
		}
		if kind != "root" { // then it is a log that is shorter
			d.set(other, nil)
			d.try(other+" gone", other)
		}
		d.set(one, nil)
		d.try(one+" gone", one)
		if one != other {
			d.set(one, []byte(d.blobs[other]))
			d.set(other, []byte(d.blobs[one]))
			d.try(fmt.Sprintf("%s and %s swapped", one, other), one, other)
		}
	}
	d.away.succeeds("clone", d.store, "whole")
	d.away.in("whole").succeeds("verify", "--remote", "origin", "--read-data")
}
