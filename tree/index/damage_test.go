package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// small makes a folder with an index that has something of everything, in a
// base and in a head, and returns it with the paths of both.
func small(t testing.TB) (dir, head, base string, x *Index) {
	dir = t.TempDir()
	must(t, Update(ctx, dir, func(x *Index) error {
		for i, path := range []string{"a/b/f", "a/b/g", "a/h", "c/d/f", "e/f", "i"} {
			must(t, x.Set(path, file(i)))
		}
		x.fold = true
		_, err := x.WriteTree(ctx, objecttest.NewMemory())
		return err
	}))
	must(t, Update(ctx, dir, func(got *Index) error {
		x = got
		set(t, x, "a/b/f", file(7))
		set(t, x, "a/b/new", file(8))
		set(t, x, "e", Entry{Type: object.TypeSymlink, Data: "target"})
		x.Remove("a/h")
		x.Remove("c/d")
		set(t, x, "c/d/x", file(9))
		must(t, x.SetSkipped("a/s", "reason"))
		return x.SetConflict("i", nil, &object.Entry{Type: object.TypeFile, Size: 1, Inline: []byte("x")},
			&object.Entry{Type: object.TypeDir, Content: object.Key{Kind: object.KindTree, ID: object.Sum(nil)}})
	}))
	bases, err := filepath.Glob(filepath.Join(dir, "index.base-*"))
	must(t, err)
	if len(bases) != 1 {
		t.Fatalf("bases: %q", bases)
	}
	return dir, filepath.Join(dir, "index"), bases[0], x
}

// mustBeNamed loads an index one of whose files is damaged.
func mustBeNamed(t *testing.T, dir, file, what string) {
	t.Helper()
	_, err := Load(dir)
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || !errors.Is(err, object.ErrCorrupt) || corrupt.File != file {
		t.Fatalf("%s: %v", what, err)
	}
}

// loadBytes loads an index from the bytes of its files.
func loadBytes(head, base []byte) (*Index, error) {
	return readHead(head, func(ref baseRef) (*Index, error) {
		return checkBase(bytes.NewReader(base), int64(len(base)), ref)
	})
}

func TestDamage(t *testing.T) {
	_, headFile, baseFile, x := small(t)
	head, err := os.ReadFile(headFile)
	must(t, err)
	base, err := os.ReadFile(baseFile)
	must(t, err)
	good, err := loadBytes(head, base)
	must(t, err)
	same(t, good, x)

	for _, file := range []struct {
		name string
		data []byte
		load func(data []byte) (*Index, error)
	}{
		{"head", head, func(data []byte) (*Index, error) { return loadBytes(data, base) }},
		{"base", base, func(data []byte) (*Index, error) { return loadBytes(head, data) }},
	} {
		refuse := func(data []byte, what string, at int) {
			t.Helper()
			if _, err := file.load(data); err == nil {
				t.Fatalf("%s, %s at %d: not noticed", file.name, what, at)
			}
		}
		for bit := range 8 * len(file.data) {
			data := bytes.Clone(file.data)
			data[bit/8] ^= 1 << (bit % 8)
			refuse(data, "bit flipped", bit)
		}
		for n := range file.data {
			refuse(file.data[:n], "cut short", n)
			refuse(append(bytes.Clone(file.data[:n]), make([]byte, len(file.data)-n)...), "zeros", n)
		}
		for _, more := range []string{"\x00", "x", string(file.data)} {
			refuse(append(bytes.Clone(file.data), more...), "longer", len(file.data))
		}
	}
}

// TestDamagedFile checks that the damaged file is named.
func TestDamagedFile(t *testing.T) {
	dir, head, base, _ := small(t)
	for _, file := range []string{base, head} {
		data, err := os.ReadFile(file)
		must(t, err)
		for _, at := range []int{0, 8, 9, 15, 20, 100, len(data) - 1} {
			data[at] ^= 1
			must(t, os.WriteFile(file, data, 0o600))
			mustBeNamed(t, dir, file, "flipped bit")
			data[at] ^= 1
		}
		for _, n := range []int{0, 10, 20, 100, len(data) - 1} {
			must(t, os.WriteFile(file, data[:n], 0o600))
			mustBeNamed(t, dir, file, "cut short")
		}
		must(t, os.WriteFile(file, append(data, 0), 0o600))
		mustBeNamed(t, dir, file, "longer")
		must(t, os.WriteFile(file, data, 0o600))
	}
}

func TestAnotherBase(t *testing.T) {
	dir, _, base, _ := small(t)
	_, _, other, _ := small(t)
	data, err := os.ReadFile(other)
	must(t, err)
	if want, _ := os.ReadFile(base); !bytes.Equal(data, want) {
		t.Fatal("the same index has two different bases")
	}
	x := New()
	set(t, x, "i", file(0))
	must(t, x.saveBase(dir))
	must(t, os.Rename(filepath.Join(dir, x.file.base.name()), base))
	mustBeNamed(t, dir, base, "another base of another size")
}

// TestAnotherBaseOfTheSameSize checks that a whole base file in the place of
// another is noticed, too.
func TestAnotherBaseOfTheSameSize(t *testing.T) {
	dir := t.TempDir()
	must(t, Update(ctx, dir, func(x *Index) error { x.fold = true; return x.Set("a", file(2)) }))
	base, _ := filepath.Glob(filepath.Join(dir, "index.base-*"))
	x := New()
	set(t, x, "b", file(2))
	must(t, x.saveBase(dir))
	must(t, os.Rename(filepath.Join(dir, x.file.base.name()), base[0]))
	mustBeNamed(t, dir, base[0], "another base")
}

func TestNewerVersion(t *testing.T) {
	dir, head, base, _ := small(t)
	for _, file := range []string{base, head} {
		data, err := os.ReadFile(file)
		must(t, err)
		data[9] = 2
		binary.LittleEndian.PutUint32(data[12:], crc32.Checksum(data[:12], castagnoli))
		must(t, os.WriteFile(file, data, 0o600))
		_, err = Load(dir)
		var newer *VersionError
		if !errors.As(err, &newer) || !errors.Is(err, object.ErrNewerFormat) || errors.Is(err, object.ErrCorrupt) || newer.File != file || newer.Version != 2 {
			t.Errorf("got %v", err)
		}
		if err := Update(ctx, dir, func(x *Index) error { return nil }); !errors.As(err, &newer) {
			t.Errorf("update: %v", err)
		}
	}
}

// TestHostileBase checks bases whose checksums are right and that say what no
// index can.
func TestHostileBase(t *testing.T) {
	sub := func(d *Dir, name string) *Dir {
		s := &Dir{name: name, parent: d, mode: 0o755}
		d.subs = append(d.subs, s)
		return s
	}
	add := func(d *Dir, names ...string) {
		for _, name := range names {
			if len(d.entries.blocks) == 0 {
				d.entries.blocks = [][]Entry{nil}
			}
			e := file(1)
			e.Name = name
			d.entries.blocks[0] = append(d.entries.blocks[0], e)
			d.entries.n++
		}
	}
	last := func(d *Dir) *Entry { return &d.entries.blocks[0][d.entries.n-1] }
	for name, make := range map[string]func(d *Dir){
		"names not sorted":           func(d *Dir) { add(d, "b", "a") },
		"name twice":                 func(d *Dir) { add(d, "a", "a") },
		"no name":                    func(d *Dir) { add(d, "") },
		"parent":                     func(d *Dir) { add(d, "..") },
		"slash":                      func(d *Dir) { add(d, "a/b") },
		"form of .kist":              func(d *Dir) { add(d, ".Kist ") },
		"root with a name":           func(d *Dir) { d.name = "a" },
		"directory called ..":        func(d *Dir) { sub(d, "..") },
		"directory called .kist":     func(d *Dir) { sub(d, ".kist") },
		"directory with a slash":     func(d *Dir) { sub(d, "a/b") },
		"directories not sorted":     func(d *Dir) { sub(d, "b"); sub(d, "a") },
		"directory twice":            func(d *Dir) { sub(d, "a"); sub(d, "a") },
		"directory and entry":        func(d *Dir) { add(d, "a"); sub(d, "a") },
		"mode of a directory":        func(d *Dir) { sub(d, "a").mode = 0o10000 },
		"known above unknown":        func(d *Dir) { sub(d, "a"); d.tree.ID[0] = 1 },
		"type of an entry":           func(d *Dir) { add(d, "a"); last(d).Type = object.TypeDir },
		"removed entry":              func(d *Dir) { add(d, "a"); *last(d) = Entry{Name: "a"} },
		"mode of an entry":           func(d *Dir) { add(d, "a"); last(d).Mode = 0o10000 },
		"size":                       func(d *Dir) { add(d, "a"); last(d).Size++ },
		"nanoseconds":                func(d *Dir) { add(d, "a"); last(d).MTime.Nsec = 1e9 },
		"target of a file":           func(d *Dir) { add(d, "a"); last(d).Data = strings.Repeat("x", 33); last(d).Size = 33 },
		"symlink without target":     func(d *Dir) { add(d, "a"); last(d).Type, last(d).Data, last(d).Size = object.TypeSymlink, "", 0 },
		"entry in too deep a folder": func(d *Dir) { add(deep(d, sub, object.MaxDepth), "a") },
		"too deep":                   func(d *Dir) { deep(d, sub, object.MaxDepth+1) },
	} {
		x := New()
		make(x.root)
		var b bytes.Buffer
		size, _, err := x.writeBase(&b)
		must(t, err)
		if _, _, err := readBase(&b, size); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func deep(d *Dir, sub func(*Dir, string) *Dir, n int) *Dir {
	for range n {
		d = sub(d, "d")
	}
	return d
}

// TestHostileHead is TestHostileBase for what a head says of a base.
func TestHostileHead(t *testing.T) {
	for name, change := range map[string]func(x *Index){
		"removed entry that is not there": func(x *Index) { x.root.edits = map[string]bool{"nothing": true} },
		"removed directory not there":     func(x *Index) { x.root.lost = map[string]struct{}{"nothing": {}} },
		"new directory that is there":     func(x *Index) { a := x.Dir("a"); a.inBase, a.dirty = false, true },
		"change of a directory not there": func(x *Index) { x.Dir("n").inBase = true },
		"entry where a directory is": func(x *Index) {
			e := file(1)
			e.Name = "a"
			x.root.entries.put(e)
			x.root.edits = map[string]bool{"a": false}
		},
		"directory where an entry is": func(x *Index) {
			x.root.subs = append(x.root.subs, &Dir{name: "z", parent: x.root, dirty: true})
		},
		"number of entries":     func(x *Index) { x.entries++ },
		"number of directories": func(x *Index) { x.dirs-- },
		"all of it fresh":       func(x *Index) { x.root.inBase = false },
		"unknown below known":   func(x *Index) { x.root.tree.ID[0] = 1 },
		"conflicts not sorted":  func(x *Index) { x.conflicts = []Conflict{{Path: "b"}, {Path: "a"}} },
		"conflict's path":       func(x *Index) { x.conflicts = []Conflict{{Path: "../a"}} },
		"conflict's side":       func(x *Index) { x.conflicts = []Conflict{{Path: "a", Ours: &object.Entry{Type: 9}}} },
		"skipped not sorted":    func(x *Index) { x.skipped = []skipped{{Path: "b"}, {Path: "a"}} },
		"skipped path":          func(x *Index) { x.skipped = []skipped{{Path: "a/../b"}} },
		"reason":                func(x *Index) { x.skipped = []skipped{{Path: "a", Reason: "\x1b"}} },
		"base without an ID":    func(x *Index) { x.file.base.id = baseID{} },
	} {
		dir := t.TempDir()
		x := New()
		set(t, x, "a/f", file(1))
		set(t, x, "z", file(1))
		must(t, x.saveBase(dir))
		set(t, x, "n/f", file(1))
		good := encodeHead(t, x)
		base := func(ref baseRef) (*Index, error) { return loadBase(filepath.Join(dir, x.file.base.name()), ref) }
		if _, err := readHead(good, base); err != nil {
			t.Fatal(err)
		}
		ref := x.file.base
		change(x)
		bad := encodeHead(t, x)
		x.file.base = ref
		if _, err := readHead(bad, base); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func encodeHead(t testing.TB, x *Index) []byte {
	var b bytes.Buffer
	must(t, x.writeHead(&b, 1<<30))
	return b.Bytes()
}
