package lent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/tree/index"
)

// fileOf returns a file with invented stat data.
func fileOf(path string, size int64) File {
	return File{Path: path, Stat: index.Stat{Size: size, MTime: -3, CTime: 5, Inode: 7, ReadAt: 9, Mode: 11}}
}

// chunkOf returns the chunk number n of a file, at an offset.
func chunkOf(n int, offset uint64) object.ChunkAt {
	return object.ChunkAt{ChunkRef: object.ChunkRef{ID: object.Sum(fmt.Append(nil, n)), Size: uint32(n%1000 + 1)}, Offset: offset}
}

// editOf returns an edit that adds files with chunks.
func editOf(keep func(string) bool, files []File, chunks [][]object.ChunkAt) Edit {
	return Edit{Keep: keep, Files: files, Chunks: func(_ context.Context, i int) iter.Seq2[object.ChunkAt, error] {
		return func(yield func(object.ChunkAt, error) bool) {
			for _, c := range chunks[i] {
				if !yield(c, nil) {
					return
				}
			}
		}
	}}
}

// wantPlaces checks that an index has these places and no others.
func wantPlaces(t *testing.T, dir string, want map[object.ID]string) {
	t.Helper()
	x, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := x.Verify(); err != nil {
		t.Error(err)
	}
	if x.Len() != len(want) {
		t.Errorf("%d chunks, want %d", x.Len(), len(want))
	}
	for id, at := range want {
		p, f, ok, err := x.find(id)
		if got := fmt.Sprint(f.Path, " ", p.offset); err != nil || !ok || got != at || f != f.plain() {
			t.Errorf("chunk %s: %q, %v, %v, want %q", id, got, ok, err, at)
		}
	}
	if _, _, ok, err := x.find(object.ID{}); ok || err != nil {
		t.Errorf("an absent chunk: %v, %v", ok, err)
	}
}

func TestApply(t *testing.T) {
	dir := t.TempDir()
	const far = 5 << 40 // beyond four bytes
	a, b := fileOf("a/film.raw", far+2000), fileOf("b.raw", 9000)
	first := editOf(nil, []File{a, b}, [][]object.ChunkAt{{chunkOf(1, 0), chunkOf(2, far), chunkOf(1, 50)}, {chunkOf(3, 7)}})
	if err := Apply(t.Context(), dir, first); err != nil {
		t.Fatal(err)
	}
	id := func(n int) object.ID { return chunkOf(n, 0).ID }
	wantPlaces(t, dir, map[object.ID]string{id(1): "a/film.raw 0", id(2): fmt.Sprint("a/film.raw ", int64(far)), id(3): "b.raw 7"})

	// A place that is added replaces an old one; a file that is not kept loses its places.
	second := editOf(func(path string) bool { return path != "b.raw" }, []File{fileOf("c", 9000)}, [][]object.ChunkAt{{chunkOf(2, 20), chunkOf(4, 30)}})
	if err := Apply(t.Context(), dir, second); err != nil {
		t.Fatal(err)
	}
	wantPlaces(t, dir, map[object.ID]string{id(1): "a/film.raw 0", id(2): "c 20", id(4): "c 30"})

	// A damaged file counts as empty, and a file without places is removed.
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte("kistlent"), 0o600); err != nil {
		t.Fatal(err)
	}
	third := editOf(func(string) bool { return true }, []File{b}, [][]object.ChunkAt{{chunkOf(3, 8)}})
	if err := Apply(t.Context(), dir, third); err != nil {
		t.Fatal(err)
	}
	wantPlaces(t, dir, map[object.ID]string{id(3): "b.raw 8"})
	if err := Apply(t.Context(), dir, Edit{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing is lent: %v, want no file", err)
	}
}

// TestParts checks that places sorted in parts give the file that places sorted at once give.
func TestParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var files []File
	var chunks [][]object.ChunkAt
	for i := range 20 {
		files = append(files, fileOf(fmt.Sprint("file", i), 1<<40))
		var list []object.ChunkAt
		for range 50 {
			list = append(list, chunkOf(rng.IntN(400), uint64(rng.IntN(1<<30))))
		}
		chunks = append(chunks, list)
	}

	dir := t.TempDir()
	if err := Apply(t.Context(), dir, editOf(nil, files[:10], chunks[:10])); err != nil {
		t.Fatal(err)
	}
	old, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	var want []byte
	for _, part := range []int{maxSorted, 1, 7, 100} {
		keep := func(path string) bool { return path != "file3" }
		w := &writer{Edit: editOf(keep, files[10:], chunks[10:]), old: old, part: part}
		var got bytes.Buffer
		err := w.chooseFiles()
		if err == nil {
			err = w.count(t.Context())
		}
		if err == nil {
			err = w.write(t.Context(), &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got.Bytes()
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%d places at once give another file", part)
		}
	}
}

// encodeFile returns a file with one chunk, after change has changed its header and the records of files and paths.
func encodeFile(t testing.TB, f File, p place, change func(b []byte)) []byte {
	t.Helper()
	b := append([]byte(magic), Version, 0, 0, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, 1)
	b = binary.BigEndian.AppendUint64(b, uint64(len(f.Path)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	b = appendFile(append(b, 0, 0, 0, 0), &f, 0)
	b = append(b, f.Path...)
	change(b)
	binary.BigEndian.PutUint32(b[32:], crc32.Checksum(b[:32], castagnoli))
	var x bytes.Buffer
	w := keys.NewWriter(&x, 1)
	if err := errors.Join(w.Add(p.record()), w.Finish()); err != nil {
		t.Fatal(err)
	}
	return append(b, x.Bytes()...)
}

// resum corrects the checksum of the only file.
func resum(b []byte, path string) {
	r := b[headerSize:]
	binary.BigEndian.PutUint32(r[44:], crc32.Update(crc32.Checksum(r[:44], castagnoli), castagnoli, []byte(path)))
}

func TestHostileFile(t *testing.T) {
	id := object.Sum([]byte("x"))
	for _, c := range []struct {
		name   string
		path   string
		place  place
		change func(b []byte)
		newer  bool
	}{
		{name: "intact", path: "a/b", place: place{id, 10, 0, 5}},
		{name: "magic", path: "a", place: place{id: id}, change: func(b []byte) { b[0] = 'K' }},
		{name: "later version", path: "a", place: place{id: id}, change: func(b []byte) { b[8] = 2 }, newer: true},
		{name: "version 0", path: "a", place: place{id: id}, change: func(b []byte) { b[8] = 0 }},
		{name: "reserved", path: "a", place: place{id: id}, change: func(b []byte) { b[12] = 1 }},
		{name: "reserved at the end", path: "a", place: place{id: id}, change: func(b []byte) { b[38] = 1 }},
		{name: "too many files", path: "a", place: place{id: id}, change: func(b []byte) { b[16] = 0x80 }},
		{name: "more files than bytes", path: "a", place: place{id: id}, change: func(b []byte) { b[22] = 1 }},
		{name: "too many paths", path: "a", place: place{id: id}, change: func(b []byte) { b[24] = 0xff }},
		{name: "path outside", path: "../a", place: place{id: id}},
		{name: "absolute path", path: "/etc/passwd", place: place{id: id}},
		{name: "no path", path: "", place: place{id: id}},
		{name: "path with a zero byte", path: "a\x00b", place: place{id: id}},
		{name: "path beyond the paths", path: "a", place: place{id: id}, change: func(b []byte) { b[headerSize+7] = 1; resum(b, "a") }},
		{name: "offset of a path that overflows", path: "a", place: place{id: id}, change: func(b []byte) {
			for i := range 8 {
				b[headerSize+i] = 0xff
			}
			resum(b, "a")
		}},
		{name: "long path", path: "a", place: place{id: id}, change: func(b []byte) { b[headerSize+8] = 1; resum(b, "a") }},
		{name: "checksum of a file", path: "a", place: place{id: id}, change: func(b []byte) { b[headerSize+20]++ }},
		{name: "unknown file", path: "a", place: place{id: id, file: 1}},
		{name: "offset beyond the file", path: "a", place: place{id, 10, 0, 91}},
		{name: "offset that overflows", path: "a", place: place{id, 10, 0, 1<<64 - 5}},
		{name: "large chunk", path: "a", place: place{id, object.MaxChunkSize + 1, 0, 0}},
	} {
		change := func([]byte) {}
		if c.change != nil {
			change = c.change
		}
		data := encodeFile(t, fileOf(c.path, 100), c.place, change)
		x, err := read(bytes.NewReader(data), int64(len(data)))
		if err == nil {
			_, _, _, err = x.find(id)
			if verr := x.Verify(); (verr == nil) != (err == nil) {
				t.Errorf("%s: find returns %v, but Verify %v", c.name, err, verr)
			}
		}
		switch {
		case c.name == "intact":
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		case c.newer != errors.Is(err, object.ErrNewerFormat), !c.newer && !errors.Is(err, ErrDamaged):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	id := object.Sum([]byte("x"))
	f.Add(encodeFile(f, fileOf("a/b", 100), place{id, 10, 0, 5}, func([]byte) {}))
	f.Add([]byte(magic))

	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := read(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			if !isNone(err) {
				t.Errorf("an error that is no damage: %v", err)
			}
			return
		}
		if err := x.Verify(); err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("an error that is no damage: %v", err)
		}

		var ids []object.ID
		for p, err := range x.all() {
			if err != nil {
				break
			}
			ids = append(ids, p.id)
		}
		for _, id := range append(ids, id) {
			p, f, ok, err := x.find(id)
			if err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("an error that is no damage: %v", err)
			}
			if ok && (f.Path == "" || int64(p.offset)+int64(p.size) > f.Stat.Size) {
				t.Errorf("%d bytes at %d of a file of %d", p.size, p.offset, f.Stat.Size)
			}
		}
	})
}

// TestFlips flips each byte of a file: the reader reports damage, or finds the same.
func TestFlips(t *testing.T) {
	id := object.Sum([]byte("x"))
	want := place{id, 10, 0, 5}
	data := encodeFile(t, fileOf("a/b", 100), want, func([]byte) {})
	for i := range data {
		flipped := slices.Clone(data)
		flipped[i] ^= 4
		x, err := read(bytes.NewReader(flipped), int64(len(flipped)))
		if err != nil {
			continue
		}
		p, f, ok, err := x.find(id)
		if err == nil && ok && (p != want || f != fileOf("a/b", 100).plain()) {
			t.Errorf("byte %d: %v in %v", i, p, f)
		}
	}
	for n := range data {
		if x, err := read(io.NewSectionReader(bytes.NewReader(data), 0, int64(n)), int64(n)); err == nil && x.Verify() == nil {
			t.Errorf("%d of %d bytes are taken for a file", n, len(data))
		}
	}
}
