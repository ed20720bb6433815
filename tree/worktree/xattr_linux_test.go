package worktree

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// Apply writes a file, a folder and a symlink although the file system cannot hold an extended
// attribute. The error names each path and the attribute, and other paths are written.
func TestApplyWithoutLargeXattr(t *testing.T) {
	f := newReal(t)
	value := make([]byte, 60_000)
	probe := filepath.Join(f.root, "probe")
	f.check(os.WriteFile(probe, nil, 0o600))
	if err := unix.Setxattr(probe, "user.large", value, 0); !isTooLarge(err) {
		objecttest.Skip(t, "the file system holds large extended attributes, or none: ", err)
	}
	f.check(os.Remove(probe))

	meta := &object.Metadata{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Xattrs: map[string][]byte{"user.large": value, "user.small": []byte("x")}}
	file, folder := f.file("content"), dir(0o750)
	file.Meta, folder.Meta = meta, meta
	ops := []Op{{Path: "d", New: folder}, {Path: "file", New: file}, {Path: "z", New: f.file("other")}}
	for what, o := range map[string]ApplyOptions{"plain": {}, "full": {Metadata: &FullMetadata{NumericIDs: true}}} {
		applied, err := f.w.Apply(ctx, f.store, ops, o)
		var failed *ApplyError
		if !errors.As(err, &failed) || failed.Stopped || len(failed.Failed) != 2 {
			t.Fatalf("%s: %v, want an error about two paths that ends nothing", what, err)
		}
		for i, path := range []string{"d", "file"} {
			var xattr *XattrError
			if at := failed.Failed[i]; at.Path != path || !errors.As(at.Err, &xattr) || xattr.Name != "user.large" {
				t.Errorf("%s: %v, want the attribute user.large of %s", what, at, path)
			}
		}
		if len(applied) != len(ops) {
			t.Errorf("%s: applied %v, want all", what, applied)
		}

		for path, content := range map[string]string{"file": "content", "z": "other"} {
			if data, err := os.ReadFile(filepath.Join(f.root, path)); err != nil || string(data) != content {
				t.Errorf("%s: %s has %q, %v", what, path, data, err)
			}
		}
		for _, path := range []string{"d", "file"} {
			small := make([]byte, 8)
			if n, err := unix.Getxattr(filepath.Join(f.root, path), "user.small", small); err != nil || string(small[:n]) != "x" {
				t.Errorf("%s: the small attribute of %s is %q, %v", what, path, small, err)
			}
		}
		f.check(os.RemoveAll(filepath.Join(f.root, "file")))
	}
}

// xattrFolder is a folder whose files have the given extended attributes.
type xattrFolder struct {
	folder
	all map[string][]byte
}

type xattrFile struct {
	file
	all map[string][]byte
}

func (d xattrFolder) open(name string) (file, error) {
	f, err := d.folder.open(name)
	return xattrFile{f, d.all}, err
}

func (f xattrFile) xattrs(want wantXattr) (map[string][]byte, error) {
	names := strings.Join(slices.Collect(maps.Keys(f.all)), "\x00") + "\x00"
	read := func(value string, buf []byte) (int, error) {
		if len(buf) > 0 && len(buf) < len(value) {
			return 0, syscall.ERANGE
		}
		copy(buf, value)
		return len(value), nil
	}
	return readXattrs(want,
		func(buf []byte) (int, error) { return read(names, buf) },
		func(name string, buf []byte) (int, error) {
			if name == "user.refused" {
				return 0, syscall.E2BIG
			}
			return read(string(f.all[name]), buf)
		})
}

// A file with extended attributes that no entry can hold is stored with the others. The result
// names the missing attributes, and the file stays one that the next scan reads.
func TestStoreLargeXattrs(t *testing.T) {
	f := newReal(t)
	f.w.opt.Metadata = true
	f.check(os.WriteFile(filepath.Join(f.root, "file"), []byte("content"), 0o644))
	for what, c := range map[string]struct {
		sizes      map[string]int
		kept, left []string
	}{
		"one of 64 KiB":      {map[string]int{"user.a": 10, "user.b": 65_536, "user.c": 10}, []string{"user.a", "user.c"}, []string{"user.b"}},
		"many together":      {map[string]int{"user.a": 40_000, "user.b": 40_000}, []string{"user.a"}, []string{"user.b"}},
		"by the entry's own": {map[string]int{"user.a": 5, "user.b": 65_500}, []string{"user.a"}, []string{"user.b"}},
		"too large to read":  {map[string]int{"user.a": 5, "user.refused": 5}, []string{"user.a"}, []string{"user.refused"}},
		"all fit":            {map[string]int{"user.a": 5, "user.b": 60_000}, []string{"user.a", "user.b"}, nil},
	} {
		all := map[string][]byte{}
		for name, size := range c.sizes {
			all[name] = make([]byte, size)
		}
		d, err := f.w.openFolder("")
		f.check(err)
		s := f.w.newStorer(f.store, nil)
		s.folder = xattrFolder{d, all}

		stored, err := s.storeItem(ctx, "file", nil, nil)
		s.close()
		if err != nil || string(stored.Entry.Inline) != "content" || stored.Entry.Meta == nil {
			t.Fatalf("%s: %v, %v, want the content and the metadata", what, stored.Entry, err)
		}
		if kept := slices.Sorted(maps.Keys(stored.Entry.Meta.Xattrs)); !slices.Equal(kept, c.kept) {
			t.Errorf("%s: kept %q, want %q", what, kept, c.kept)
		}
		var want error
		if c.left != nil {
			want = &LeftXattrsError{c.left}
		}
		if !reflect.DeepEqual(stored.LeftXattrs, want) || stored.Stat.IsZero() != (want != nil) {
			t.Errorf("%s: left out %v, stat %v, want %v", what, stored.LeftXattrs, stored.Stat, want)
		}
	}
}

// The options select the attributes that are read, before they are counted, and that are written.
func TestXattrSelection(t *testing.T) {
	for _, test := range []struct {
		include, exclude []string
		want             []string
	}{
		{nil, nil, []string{"system.acl", "user.a", "user.b/c"}},
		{nil, []string{"*"}, nil},
		{nil, []string{"user.*"}, []string{"system.acl"}},
		{[]string{"user.*"}, nil, []string{"user.a", "user.b/c"}},
		{[]string{"user.*", "system.acl"}, []string{"user.b*"}, []string{"system.acl", "user.a"}},
		{[]string{"user.b/?"}, nil, []string{"user.b/c"}},
	} {
		wants := SelectXattrs(test.include, test.exclude)
		var got []string
		for _, name := range []string{"system.acl", "user.a", "user.b/c"} {
			if wants(name) {
				got = append(got, name)
			}
		}
		same(t, strings.Join(test.include, " ")+" without "+strings.Join(test.exclude, " "), got, test.want)
	}

	all := map[string][]byte{"user.a": make([]byte, 60_000), "user.large": make([]byte, 60_000), "user.small": {1}}
	got, err := xattrFile{all: all}.xattrs(SelectXattrs(nil, []string{"user.a"}))
	if names := slices.Sorted(maps.Keys(got)); err != nil || !slices.Equal(names, []string{"user.large", "user.small"}) {
		t.Errorf("read %q, %v, want all but user.a", names, err)
	}
}
