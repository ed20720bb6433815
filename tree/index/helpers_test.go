package index

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// file returns an entry for a file with number n, with its own content and stat data. n modulo 3
// decides whether the content is empty, inline or a chunk.
func file(n int) Entry {
	e := Entry{Type: object.TypeFile, Mode: 0o644, MTime: object.Time{Sec: int64(n), Nsec: 7}}
	switch n % 3 {
	case 1:
		e.Data = fmt.Sprint("content ", n)
		e.Size = uint64(len(e.Data))
	case 2:
		e.Size = 1000 + uint64(n)
		e.Content = object.Key{Kind: object.KindChunk, ID: object.Sum(fmt.Append(nil, n))}
	}
	e.Stat = Stat{Size: int64(e.Size), MTime: int64(n)*1e9 + 7, CTime: int64(n)*1e9 + 8, Inode: uint64(n), Mode: 0o100644, ReadAt: int64(n)*1e9 + 9e11}
	return e
}

// randomEntry returns an entry of a random shape.
func randomEntry(r *rand.Rand) Entry {
	e := file(r.IntN(1000))
	switch r.IntN(10) {
	case 0:
		e = Entry{Type: object.TypeSymlink, Mode: 0o777, Data: fmt.Sprint("../", r.IntN(100))}
		e.Stat = Stat{Size: 5, MTime: -1, CTime: -1, ReadAt: 1}
	case 1:
		e = Entry{Type: object.TypeFIFO, Mode: 0o600}
	case 2:
		e.Content, e.Data, e.Size = object.Key{Kind: object.KindManifest, ID: object.Sum(fmt.Append(nil, r.IntN(9)))}, "", 1<<40
	case 3:
		e.Stat = Stat{}
	case 4:
		e.Stat.CTime = e.Stat.MTime
		e.MTime = timeOf(e.Stat.MTime)
	case 5:
		e.Stat.Size++
		e.Mode = 0o4755
	case 6:
		e.MTime = object.Time{Sec: -62135596800}
	case 7:
		e.Meta = "\xa1\x08\xa1\x41k\x41v" // only an attribute
	}
	return e
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func set(t testing.TB, x *Index, path string, e Entry) {
	t.Helper()
	must(t, x.Set(path, e))
}

// image encodes an index. Only equal indexes have equal images.
func image(t testing.TB, x *Index) []byte {
	t.Helper()
	check(t, x)
	var b bytes.Buffer
	if _, _, err := x.writeBase(&b); err != nil {
		t.Fatal(err)
	}
	for i := range x.conflicts {
		b.Write(appendConflict(nil, &x.conflicts[i]))
	}
	for _, s := range x.skipped {
		fmt.Fprintf(&b, "%q %q\n", s.Path, s.Reason)
	}
	return b.Bytes()
}

// same fails the test if two indexes differ.
func same(t testing.TB, got, want *Index) {
	t.Helper()
	if bytes.Equal(image(t, got), image(t, want)) {
		return
	}
	t.Fatalf("indexes differ (-want +got):\n%s", cmp.Diff(lines(want), lines(got)))
}

func lines(x *Index) (list []string) {
	for path, d := range x.Dirs() {
		list = append(list, fmt.Sprintf("%q/ %o %v", path, d.mode, d.tree))
	}
	for path, e := range x.All() {
		list = append(list, fmt.Sprintf("%q %+v", path, *e))
	}
	for _, c := range x.conflicts {
		list = append(list, fmt.Sprintf("conflict %q %+v %+v %+v", c.Path, c.Base, c.Ours, c.Theirs))
	}
	for _, s := range x.skipped {
		list = append(list, fmt.Sprintf("skipped %+v", s))
	}
	return list
}

// check fails the test if an index breaks an invariant of its structure.
func check(t testing.TB, x *Index) {
	t.Helper()
	entries, dirs := 0, 0
	for path, d := range x.Dirs() {
		dirs++
		entries += d.entries.n
		last, n := "", 0
		for _, block := range d.entries.blocks {
			if len(block) == 0 || len(block) > blockSize {
				t.Fatalf("%q: a block has %d entries", path, len(block))
			}
			n += len(block)
		}
		if n != d.entries.n {
			t.Fatalf("%q: recorded %d entries, counted %d", path, d.entries.n, n)
		}

		for e, sub := range d.Children() {
			name := ""
			if sub != nil {
				name = sub.name
				switch {
				case sub.parent != d:
					t.Fatalf("%q: wrong parent of %q", path, name)
				case sub.dirty && !d.dirty:
					t.Fatalf("%q is dirty, %q is not", name, path)
				case sub.inBase && !d.inBase:
					t.Fatalf("%q is in the base, %q is not", name, path)
				case sub.tree.ID.IsZero() && !d.tree.ID.IsZero():
					t.Fatalf("%q has no tree, %q has one", name, path)
				}
			} else {
				name = e.Name
			}

			if name <= last {
				t.Fatalf("%q: %q comes after %q", path, name, last)
			}
			last = name
		}
	}
	if dirs != x.dirs || entries != x.entries {
		t.Fatalf("recorded %d directories and %d entries, counted %d and %d", x.dirs, x.entries, dirs, entries)
	}
}

// roundTrip saves an index and returns the loaded one.
func roundTrip(t testing.TB, x *Index) *Index {
	t.Helper()
	dir := t.TempDir()
	must(t, x.save(dir, disk.Write))
	y, err := Load(dir)
	must(t, err)
	return y
}
