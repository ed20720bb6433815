package view_test

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/treetest"
	"github.com/kist-vcs/kist/tree/view"
)

// treeOf commits entries, whose names are paths, and returns the commit.
func treeOf(t *testing.T, r *kist.Repository, entries []object.Entry) object.ID {
	t.Helper()
	session := r.Objects().Begin(volume.SessionOptions{})
	defer session.Close()
	e := tree.NewEditor(session, tree.Info{})
	slices.SortFunc(entries, func(a, b object.Entry) int { return tree.ComparePaths(a.Name, b.Name) })
	for _, entry := range entries {
		path := entry.Name
		_, entry.Name = tree.Split(path)
		if entry.Type == object.TypeDir {
			treetest.Check(t, e.SetDir(t.Context(), path, entry))
		} else {
			treetest.Check(t, e.Set(t.Context(), path, entry))
		}
	}
	info, err := e.Finish(t.Context())
	treetest.Check(t, err)
	data, err := (&object.Commit{Tree: info.ID, Files: info.Files, Bytes: info.Bytes}).Encode()
	treetest.Check(t, err)
	id, err := session.Put(t.Context(), object.KindCommit, data)
	treetest.Check(t, err)
	treetest.Check(t, session.Close())
	return id
}

func fileOf(path, content string, mode uint16) object.Entry {
	return object.Entry{
		Name: path, Type: object.TypeFile, Mode: mode, Size: uint64(len(content)), Inline: []byte(content),
		MTime: object.Time{Sec: 1769860800},
	}
}

// TestFS leaves out symlinks, which fstest wants to open.
func TestFS(t *testing.T) {
	r, err := kist.Init(t.Context(), t.TempDir(), kist.Options{}, kist.InitOptions{})
	treetest.Check(t, err)
	defer r.Close()
	id := treeOf(t, r, []object.Entry{
		fileOf("a", "one", 0o644),
		fileOf("d/b", "two", 0o4755),
		fileOf("d/e/c", "", 0o600),
		fileOf("d/e/name with spaces\n", "x", 0o444),
		{Name: "empty", Type: object.TypeDir, Mode: 0o700},
	})
	fsys, err := view.FS(t.Context(), r, id)
	treetest.Check(t, err)
	if err := fstest.TestFS(fsys, "a", "d/b", "d/e/c", "empty"); err != nil {
		t.Fatal(err)
	}

	data, err := fs.ReadFile(fsys, "d/b")
	if string(data) != "two" || err != nil {
		t.Errorf("d/b: %q, %v", data, err)
	}
	info, err := fs.Stat(fsys, "d/b")
	treetest.Check(t, err)
	if want := fs.ModeSetuid | 0o755; info.Mode() != want || info.Size() != 3 || info.ModTime().Unix() != 1769860800 {
		t.Errorf("d/b: %v, %d bytes, %v", info.Mode(), info.Size(), info.ModTime())
	}
	var names []string
	treetest.Check(t, fs.WalkDir(fsys, ".", func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	}))
	if want := []string{".", "a", "d", "d/b", "d/e", "d/e/c", "d/e/name with spaces\n", "empty"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

func TestFSErrors(t *testing.T) {
	r, err := kist.Init(t.Context(), t.TempDir(), kist.Options{}, kist.InitOptions{})
	treetest.Check(t, err)
	defer r.Close()
	id := treeOf(t, r, []object.Entry{
		fileOf("d/b", "two", 0o644),
		{Name: "link", Type: object.TypeSymlink, Mode: 0o777, Target: "d/b"},
	})
	fsys, err := view.FS(t.Context(), r, id)
	treetest.Check(t, err)
	for name, want := range map[string]error{"no": fs.ErrNotExist, "d/b/c": tree.ErrNotDir, "../d": fs.ErrInvalid, "/d": fs.ErrInvalid} {
		var path *fs.PathError
		if _, err := fsys.Open(name); !errors.Is(err, want) || !errors.As(err, &path) || path.Path != name {
			t.Errorf("open %q: %v, want %v", name, err, want)
		}
	}
	if _, err := fsys.Open("link"); err == nil || !strings.Contains(err.Error(), "not a file or directory") {
		t.Errorf("open a symlink: %v", err)
	}
	info, err := fs.Lstat(fsys, "link")
	treetest.Check(t, err)
	if info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("link: %v", info.Mode())
	}
	if target, err := fs.ReadLink(fsys, "link"); target != "d/b" || err != nil {
		t.Errorf("link: %q, %v", target, err)
	}
	dir, err := fsys.Open("d")
	treetest.Check(t, err)
	if _, err := dir.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read a directory: %v", err)
	}
	if _, err := view.FS(t.Context(), r, object.ID{1}); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("no such commit: %v", err)
	}
}
