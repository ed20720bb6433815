package convert_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/convert"
	"github.com/kist-vcs/kist/tree/worktree"
)

// makeFolder makes a folder to import and delete.
func makeFolder(t *testing.T, above string) string {
	t.Helper()
	dir := filepath.Join(above, "copy-2024-01-31")
	for path, text := range map[string]string{"a": "a", "d/b": "bb", "d/e/c": string(kisttest.Noise(2, 300<<10)), "f/g": "g"} {
		kisttest.Check(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755))
		kisttest.Check(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644))
	}
	kisttest.Check(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	kisttest.Check(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	kisttest.Check(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "f/a")))
	kisttest.Check(t, os.Chmod(filepath.Join(dir, "f"), 0o555))
	t.Cleanup(func() {
		_ = filepath.WalkDir(above, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_ = os.Chmod(path, 0o755)
			}
			return nil
		})
	})
	return dir
}

// tip returns the commit of the branch and its tree.
func (x *importing) tip() (object.ID, object.ID) {
	x.Helper()
	id, c, err := x.Repo.ReadCommit(x.Context(), "imported")
	x.Check(err)
	return id, c.Tree
}

func isEmpty(t *testing.T, dir string) bool {
	t.Helper()
	list, err := os.ReadDir(dir)
	kisttest.Check(t, err)
	return len(list) == 0
}

func TestDeleteSource(t *testing.T) {
	for _, o := range []kist.InitOptions{{}, {Full: true}} {
		x := newImporting(t, o)
		above := t.TempDir()
		s := x.source(makeFolder(t, above))
		x.Check(x.run(convert.ImportOptions{DeleteSource: true, DryRun: true}, s))
		if isEmpty(t, above) {
			t.Fatal("a dry run deletes the folder")
		}
		err := x.run(convert.ImportOptions{DeleteSource: true}, s)
		var kept *convert.NotDeletedError
		if errors.As(err, &kept) {
			t.Errorf("%+v: kept because of %q", o, kept.Files)
		}
		x.Check(err)
		if !isEmpty(t, above) || !x.results[0].Deleted {
			t.Errorf("the folder is not deleted: %+v", x.results[0])
		}
	}
}

// A folder that differs from the commit stays, under its name.
func TestDeleteSourceKeeps(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"content":    func(dir string) error { return os.WriteFile(filepath.Join(dir, "d/b"), []byte("xx"), 0o644) },
		"more":       func(dir string) error { return os.WriteFile(filepath.Join(dir, "d/new"), nil, 0o644) },
		"less":       func(dir string) error { return os.Remove(filepath.Join(dir, "d/b")) },
		"mode":       func(dir string) error { return os.Chmod(filepath.Join(dir, "a"), 0o755) },
		"FIFO":       func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644) },
		"repository": func(dir string) error { return os.MkdirAll(filepath.Join(dir, ".kist"), 0o755) },
	} {
		x := newImporting(t, kist.InitOptions{})
		above := t.TempDir()
		dir := makeFolder(t, above)
		x.Check(x.run(convert.ImportOptions{}, x.source(dir)))
		x.Check(change(dir))
		err := x.run(convert.ImportOptions{DeleteSource: true}, x.source(dir))
		var kept *convert.NotDeletedError
		if !errors.As(err, &kept) || kept.Path != dir || len(kept.Files) == 0 || errors.Is(err, convert.ErrHalfDeleted) {
			t.Errorf("%s: error %v, want a NotDeletedError", name, err)
		}
		if list, _ := os.ReadDir(above); len(list) != 1 || list[0].Name() != filepath.Base(dir) {
			t.Errorf("%s: the parent folder has %v", name, list)
		}
		if len(x.results) != 1 || x.results[0].Deleted {
			t.Errorf("%s: results %+v", name, x.results)
		}
	}

	x := newImporting(t, kist.InitOptions{})
	dir := makeFolder(t, t.TempDir())
	link := filepath.Join(t.TempDir(), "link-2024-01-31")
	x.Check(os.Symlink(dir, link))
	var kept *convert.NotDeletedError
	if err := x.run(convert.ImportOptions{DeleteSource: true}, x.source(link)); !errors.As(err, &kept) || isEmpty(t, dir) {
		t.Errorf("through a symlink: error %v, want a NotDeletedError", err)
	}
}

// A folder stays if the content of its commit is damaged.
func TestDeleteSourceReadsTheCommit(t *testing.T) {
	x := newImporting(t, kist.InitOptions{})
	dir := makeFolder(t, t.TempDir())
	x.Check(x.run(convert.ImportOptions{}, x.source(dir)))
	volumes, err := filepath.Glob(filepath.Join(x.Dir, ".kist/volumes/*/*.vlog"))
	x.Check(err)
	for _, file := range volumes {
		data, err := os.ReadFile(file)
		x.Check(err)
		damaged := slices.Clone(data)
		for i := len(data) / 3; i < len(data)/2; i++ {
			damaged[i] ^= 1
		}
		x.Check(os.Chmod(file, 0o644))
		x.Check(os.WriteFile(file, damaged, 0o644))
		defer func() { x.Check(os.WriteFile(file, data, 0o644)) }()
	}
	if err := x.run(convert.ImportOptions{DeleteSource: true}, x.source(dir)); !errors.Is(err, object.ErrCorrupt) && !errors.Is(err, object.ErrNotFound) {
		t.Errorf("error %v, want ErrCorrupt or ErrNotFound", err)
	}
	if isEmpty(t, dir) {
		t.Error("the folder is deleted, but the commit is damaged")
	}
}

// A half-deleted folder is never imported. A later import completes the deletion.
func TestHalfDeleted(t *testing.T) {
	x := newImporting(t, kist.InitOptions{})
	above := t.TempDir()
	dir := makeFolder(t, above)
	x.Check(x.run(convert.ImportOptions{}, x.source(dir)))
	id, _ := x.tip()
	x.Check(os.WriteFile(filepath.Join(dir, ".kist-half-deleted-"+id.String()), nil, 0o644))
	x.Check(os.Remove(filepath.Join(dir, "d/b")))
	x.Check(os.WriteFile(filepath.Join(dir, "a"), []byte("b"), 0o644))

	for name, o := range map[string]convert.ImportOptions{
		"import": {}, "dry run": {DryRun: true}, "another branch": {Branch: "other", DeleteSource: true},
	} {
		for _, path := range []string{dir, above} {
			if path == above && o.DeleteSource {
				continue
			}
			if err := x.run(o, x.source(path)); !errors.Is(err, convert.ErrHalfDeleted) {
				t.Errorf("%s of %s: error %v, want ErrHalfDeleted", name, path, err)
			}
		}
	}
	x.Check(os.Rename(dir, dir+"x")) // the mark counts, not the name
	var kept *convert.NotDeletedError
	err := x.run(convert.ImportOptions{DeleteSource: true}, x.source(dir+"x"))
	if !errors.As(err, &kept) || !errors.Is(err, convert.ErrHalfDeleted) || !slices.Equal(kept.Files, []string{"a", "f/a"}) {
		t.Errorf("changed meanwhile: error %v, kept %+v", err, kept)
	}
	x.Check(os.WriteFile(filepath.Join(dir+"x", "a"), []byte("a"), 0o644))
	x.Check(x.run(convert.ImportOptions{DeleteSource: true}, x.source(dir+"x")))
	if after, _ := x.tip(); !isEmpty(t, above) || after != id {
		t.Errorf("not deleted, or the branch moved to %s", after)
	}
}

// stopping is a context that is cancelled after left calls of Err.
type stopping struct {
	context.Context
	left atomic.Int64
}

func (c *stopping) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// Wherever an import stops, a second import completes it. There is one commit, with all files.
func TestDeleteSourceInterrupted(t *testing.T) {
	var want object.ID
	for n := int64(0); ; n += 1 + n/8 {
		x := newImporting(t, kist.InitOptions{})
		above := t.TempDir()
		dir := makeFolder(t, above)
		ctx := &stopping{Context: t.Context()}
		ctx.left.Store(n)
		err := convert.Import(ctx, x.Repo, []convert.Source{x.source(dir)}, convert.ImportOptions{Branch: "imported", DeleteSource: true}, func(*convert.Imported) error { return nil })

		var sources []convert.Source
		if s, err := convert.Folder(dir, time.UTC); err == nil {
			sources = append(sources, s)
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		x.Check(x.run(convert.ImportOptions{DeleteSource: true}, sources...))
		if !isEmpty(t, above) {
			t.Fatalf("stopped after %d steps: the second import left files", n)
		}
		id, root := x.tip()
		c, cerr := object.ReadCommit(t.Context(), x.Repo.Objects(), id)
		x.Check(cerr)
		files := 0
		x.Check(tree.Walk(t.Context(), x.Repo.Contents(), root, func(string, object.Entry) error { files++; return nil }))
		if want.IsZero() {
			want = root
		}
		if len(c.Parents) != 0 || files != 10 {
			t.Fatalf("stopped after %d steps: %d parents, %d paths; want 0 and 10", n, len(c.Parents), files)
		}
		if err == nil {
			return
		}
	}
}

// Another user exchanges the folder above by a symlink, at each moment of an import. It never
// deletes a file of the other folder, which has the same files.
func TestDeleteSourceStaysInTheFolder(t *testing.T) {
	for _, moment := range []string{"before", "while it stores", "before it deletes"} {
		x := newImporting(t, kist.InitOptions{})
		dir := t.TempDir()
		for _, name := range []string{"above", "victim"} {
			x.Check(os.Mkdir(filepath.Join(dir, name), 0o755))
			makeFolder(t, filepath.Join(dir, name))
		}
		s := x.source(filepath.Join(dir, "above", "copy-2024-01-31"))
		exchange := sync.OnceFunc(func() {
			x.Check(os.Rename(filepath.Join(dir, "above"), filepath.Join(dir, "moved")))
			x.Check(os.Symlink("victim", filepath.Join(dir, "above")))
		})

		o := convert.ImportOptions{DeleteSource: true}
		switch moment {
		case "before":
			exchange()
		case "while it stores":
			o.Progress = func(kist.Amount, kist.Amount) { exchange() }
		case "before it deletes":
			o.Unrecorded = func(string, *worktree.Unrecorded) { exchange() }
		}
		err := x.run(o, s)
		if isGone := isEmpty(t, filepath.Join(dir, "moved")); isGone != (err == nil) {
			t.Errorf("%s: deleted %v, error %v", moment, isGone, err)
		}

		files := 0
		x.Check(filepath.WalkDir(filepath.Join(dir, "victim"), func(string, fs.DirEntry, error) error { files++; return nil }))
		if files != 12 {
			t.Errorf("%s: the other folder has %d paths, want 12; error %v", moment, files, err)
		}
	}
}
