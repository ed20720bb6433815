package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSetsAreTheSameEachTime(t *testing.T) {
	sets := []dataSet{mediaSet(1 << 20), manySet(300), databaseSet(1 << 20), wideSet(50), largeSet(1 << 20), historySet()}
	for _, set := range sets {
		t.Run(set.name, func(t *testing.T) {
			a, b := t.TempDir(), t.TempDir()
			check(t, set.make(t.Context(), a))
			check(t, set.make(t.Context(), b))
			about, err := set.about(t.Context())
			check(t, err)
			held, err := count(a)
			check(t, err)
			if held.files != about.files {
				t.Errorf("%d files, want %d as in about", held.files, about.files)
			}
			if held.bytes > about.bytes*5/4 || held.bytes < about.bytes*3/4 {
				t.Errorf("%d bytes, want about %d", held.bytes, about.bytes)
			}
			wantEqual(t, a, b)
			if set.mutate == nil {
				return
			}
			check(t, set.mutate(a, 1))
			if n := differing(t, a, b); n != 1 {
				t.Errorf("mutate changed %d files, want 1", n)
			}
			check(t, set.mutate(b, 1))
			wantEqual(t, a, b)
		})
	}
}

func wantEqual(t *testing.T, a, b string) {
	t.Helper()
	check(t, same(a, b))
	if n := differing(t, a, b); n != 0 {
		t.Errorf("%d files differ", n)
	}
}

// differing returns the number of files that differ between a and b.
func differing(t *testing.T, a, b string) (n int) {
	t.Helper()
	check(t, filepath.WalkDir(a, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(a, path)
		check(t, err)
		if !bytes.Equal(read(t, path), read(t, filepath.Join(b, name))) {
			n++
		}
		return nil
	}))
	return n
}

func TestChangePages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	check(t, writeDatabase(path, 1000, 1))
	before := read(t, path)
	check(t, changePages(path, 0.02, 7))
	after := read(t, path)
	if len(after) != 1000*pageSize || len(before) != len(after) {
		t.Fatalf("%d bytes became %d", len(before), len(after))
	}
	changed := 0
	for i := 0; i < len(before); i += pageSize {
		if !bytes.Equal(before[i:i+pageSize], after[i:i+pageSize]) {
			changed++
		}
	}
	if changed < 15 || changed > 20 {
		t.Errorf("%d pages changed, want about 20", changed)
	}
}

func TestMirror(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	write := func(dir, name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o777))
		check(t, os.WriteFile(path, []byte(content), 0o666))
	}
	write(from, "a/same", "same")
	write(from, "a/other", "new")
	write(from, "b", "file")
	check(t, os.Symlink("b", filepath.Join(from, "link")))
	check(t, os.Chmod(filepath.Join(from, "a", "same"), 0o444))
	write(to, "a/other", "old")
	write(to, "gone/deep/file", "")
	write(to, "b/was/a/folder", "")
	write(from, "was/a/file", "in a folder now")
	write(to, "was/a", "a file")
	write(from, "was/a/link/too", "in a folder now")
	check(t, os.MkdirAll(filepath.Join(to, "link", "was", "a", "folder"), 0o777))
	check(t, mirror(t.Context(), from, to))
	wantEqual(t, from, to)
	if link, err := os.Readlink(filepath.Join(to, "link")); err != nil || link != "b" {
		t.Errorf("link %q, %v", link, err)
	}
	if _, err := os.Stat(filepath.Join(to, "gone")); !os.IsNotExist(err) {
		t.Errorf("an extra folder was not removed: %v", err)
	}
	before, err := os.Stat(filepath.Join(to, "a", "same"))
	check(t, err)
	if before.Mode() != 0o644 {
		t.Errorf("mode %v, want 0644", before.Mode())
	}
	check(t, mirror(t.Context(), from, to))
	if after, err := os.Stat(filepath.Join(to, "a", "same")); err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("an equal file was rewritten: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := mirror(ctx, from, to); err == nil {
		t.Error("mirror succeeds with a cancelled context")
	}
}
