package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// small makes a folder with an index of a base and a head, which has records of all kinds. It
// returns the folder, the paths of head and base, and the index.
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
		t.Fatalf("bases are %q, want one", bases)
	}
	return dir, filepath.Join(dir, "index"), bases[0], x
}

// mustBeNamed checks that Load returns an error that names the damaged file.
func mustBeNamed(t *testing.T, dir, file, what string) {
	t.Helper()
	_, err := Load(dir)
	var corrupt *object.DamageError
	if !errors.As(err, &corrupt) || !errors.Is(err, object.ErrCorrupt) || !errors.Is(err, ErrDamaged) || corrupt.Name != filepath.Base(file) {
		t.Fatalf("%s: error %v, want a DamageError for %s", what, err, file)
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
				t.Fatalf("%s, %s at %d: accepted", file.name, what, at)
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

// TestDamagedFile checks that the error names the damaged file.
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
	must(t, os.Rename(filepath.Join(dir, x.file.base.fileName()), base))
	mustBeNamed(t, dir, base, "another base of another size")
}

// Load refuses another intact base, even if its size is right.
func TestAnotherBaseOfTheSameSize(t *testing.T) {
	dir := t.TempDir()
	must(t, Update(ctx, dir, func(x *Index) error { x.fold = true; return x.Set("a", file(2)) }))
	base, _ := filepath.Glob(filepath.Join(dir, "index.base-*"))
	x := New()
	set(t, x, "b", file(2))
	must(t, x.saveBase(dir))
	must(t, os.Rename(filepath.Join(dir, x.file.base.fileName()), base[0]))
	mustBeNamed(t, dir, base[0], "another base")
}

func TestNewerVersion(t *testing.T) {
	dir, head, base, _ := small(t)
	for _, file := range []string{base, head} {
		data, err := os.ReadFile(file)
		must(t, err)
		data[9] = 3
		binary.LittleEndian.PutUint32(data[12:], crc32.Checksum(data[:12], castagnoli))
		must(t, os.WriteFile(file, data, 0o600))
		_, err = Load(dir)
		var newer *VersionError
		if !errors.As(err, &newer) || !errors.Is(err, object.ErrNewerFormat) || errors.Is(err, object.ErrCorrupt) || newer.File != file || newer.Version != 3 {
			t.Errorf("Load: error %v, want a VersionError for %s", err, file)
		}
		if err := Update(ctx, dir, func(x *Index) error { return nil }); !errors.As(err, &newer) {
			t.Errorf("Update: error %v, want a VersionError", err)
		}
	}
}
