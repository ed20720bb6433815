package index

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kist-vcs/kist/object"
)

func TestRacy(t *testing.T) {
	const second = int64(1e9)
	for _, test := range []struct {
		name         string
		mtime, ctime int64
		readAt       int64
		racy         bool
	}{
		{"old", 0, 0, 100 * second, false},
		{"written as it is read", 100 * second, 100 * second, 100 * second, true},
		{"on the edge", 40 * second, 0, 100 * second, true},
		{"beyond the edge", 40*second - 1, 0, 100 * second, false},
		{"only ctime", 0, 41 * second, 100 * second, true},
		{"a little in the future", 160 * second, 0, 100 * second, true},
		{"far in the future", 161 * second, 0, 100 * second, false},
		{"extremes", math.MinInt64, math.MinInt64, math.MaxInt64, false},
	} {
		st := Stat{MTime: test.mtime, CTime: test.ctime, ReadAt: test.readAt, Inode: 1}
		if got := st.Racy(); got != test.racy {
			t.Errorf("%s: got %v, want %v", test.name, got, test.racy)
		}
	}
	if !(&Entry{}).Stat.Racy() {
		t.Error("an entry without stat data is not racy")
	}
}

func TestSame(t *testing.T) {
	st := file(2).Stat
	later := st
	later.ReadAt++
	if !st.Same(later) {
		t.Error("Same compares ReadAt")
	}
	if (Stat{}).Same(Stat{}) || (Stat{}).Same(Stat{ReadAt: 1}) {
		t.Error("a zero Stat is the same as another one")
	}
	for _, change := range []func(*Stat){
		func(s *Stat) { s.Size++ }, func(s *Stat) { s.MTime++ }, func(s *Stat) { s.CTime++ },
		func(s *Stat) { s.Inode++ }, func(s *Stat) { s.Mode++ },
	} {
		other := st
		change(&other)
		if st.Same(other) {
			t.Errorf("Same ignores a difference of %+v and %+v", st, other)
		}
	}
}

func TestObject(t *testing.T) {
	key := object.Key{Kind: object.KindChunk, ID: object.Sum(nil)}
	for _, o := range []object.Entry{
		{Name: "file", Type: object.TypeFile, Mode: 0o755, Size: 100, Content: key, MTime: object.Time{Sec: -1, Nsec: 3}},
		{Name: "inline", Type: object.TypeFile, Size: 2, Inline: []byte("hi")},
		{Name: "empty", Type: object.TypeFile},
		{Name: "link", Type: object.TypeSymlink, Target: "../x"},
		{Name: "fifo", Type: object.TypeFIFO},
	} {
		e := NewEntry(o, file(1).Stat)
		if err := checkEntry(&e); err != nil {
			t.Errorf("%s: %v", o.Name, err)
		}
		if diff := cmp.Diff(o, e.Object()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", o.Name, diff)
		}
	}
}

func TestSetRefuses(t *testing.T) {
	chunk := object.Key{Kind: object.KindChunk, ID: object.Sum(nil)}
	tree := object.Key{Kind: object.KindTree, ID: object.Sum(nil)}
	for name, o := range map[string]object.Entry{
		"directory":         {Type: object.TypeDir, Content: tree},
		"no type":           {},
		"unknown type":      {Type: 8},
		"mode":              {Type: object.TypeFile, Mode: 0o10000},
		"nanoseconds":       {Type: object.TypeFile, MTime: object.Time{Nsec: 1e9}},
		"empty metadata":    {Type: object.TypeFile, Meta: &object.Metadata{}, Attrs: map[string]string{"k": "v"}},
		"metadata":          {Type: object.TypeFile, Meta: &object.Metadata{Device: 1}},
		"count of files":    {Type: object.TypeFile, Files: 1},
		"file with target":  {Type: object.TypeFile, Target: "x"},
		"no content":        {Type: object.TypeFile, Size: 1},
		"two contents":      {Type: object.TypeFile, Size: 1, Inline: []byte("x"), Content: chunk},
		"inline too long":   {Type: object.TypeFile, Size: 33, Inline: make([]byte, 33)},
		"size not inline's": {Type: object.TypeFile, Size: 3, Inline: []byte("x")},
		"small, in a chunk": {Type: object.TypeFile, Size: 3, Content: chunk},
		"large, in a chunk": {Type: object.TypeFile, Size: object.MaxChunkSize + 1, Content: chunk},
		"too large":         {Type: object.TypeFile, Size: 1 << 63, Content: chunk},
		"tree as content":   {Type: object.TypeFile, Size: 100, Content: tree},
		"no target":         {Type: object.TypeSymlink},
		"NUL in target":     {Type: object.TypeSymlink, Target: "a\x00"},
		"target too long":   {Type: object.TypeSymlink, Target: string(make([]byte, 5000))},
		"symlink, inline":   {Type: object.TypeSymlink, Target: "a", Inline: []byte("x")},
		"symlink, content":  {Type: object.TypeSymlink, Target: "a", Content: chunk},
		"FIFO with content": {Type: object.TypeFIFO, Size: 1},
	} {
		x := New()
		before := image(t, x)
		if err := x.Set("a/b", NewEntry(o, Stat{})); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if x.changed || string(image(t, x)) != string(before) {
			t.Errorf("%s: the index changed", name)
		}
	}
}
