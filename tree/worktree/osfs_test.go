package worktree

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-billy/v5"
)

// OSFS does what billy says, but for following symlinks.
func TestOSFS(t *testing.T) {
	f := newReal(t)
	fsys := f.fs.(*OSFS)
	if fsys.Root() != f.root || fsys.Join("a", "../b") != "b" {
		t.Errorf("root %q, joined %q", fsys.Root(), fsys.Join("a", "../b"))
	}
	f.check(fsys.MkdirAll("/a/b", 0o750))
	f.check(fsys.MkdirAll("a/b", 0o700))
	if _, err := fsys.Create("none/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("created below nothing: %v", err)
	}
	file, err := fsys.Create("a/b/x")
	f.check(err)
	_, err = io.WriteString(file, "hello, world")
	f.check(err)
	f.check(file.Truncate(5))
	f.check(file.Lock())
	f.check(file.Unlock())
	f.check(file.Close())
	if file.Name() != "a/b/x" {
		t.Errorf("called %q", file.Name())
	}
	f.check(fsys.Chmod("a/b/x", 0o640|fs.ModeSetuid))
	at := time.Unix(1234567, 89)
	f.check(fsys.Chtimes("a/b/x", at, at))
	info, err := fsys.Stat("a/b/x")
	f.check(err)
	real, err := os.Lstat(filepath.Join(f.root, "a/b/x"))
	f.check(err)
	if info.Name() != "x" || info.Size() != 5 || info.Mode() != real.Mode() || !info.ModTime().Equal(at) || info.IsDir() {
		t.Errorf("stat: %v", fs.FormatFileInfo(info))
	}
	f.check(fsys.Symlink("../target", "links/l"))
	if target, err := fsys.Readlink("links/l"); err != nil || target != "../target" {
		t.Errorf("link to %q, %v", target, err)
	}
	if info, err := fsys.Lstat("links/l"); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("link: %v", err)
	}
	f.check(fsys.Rename("a/b/x", "a/y"))
	temp, err := fsys.TempFile("a", "temp-")
	f.check(err)
	f.check(temp.Close())
	infos, err := fsys.ReadDir("a")
	f.check(err)
	if len(infos) != 3 || infos[0].Name() != "b" || !infos[0].IsDir() || !strings.HasPrefix(infos[1].Name(), "temp-") || infos[2].Name() != "y" {
		t.Errorf("read %v", infos)
	}
	sub, err := fsys.Chroot("a")
	f.check(err)
	if sub.Root() != filepath.Join(f.root, "a") {
		t.Errorf("root %q", sub.Root())
	}
	if _, err := sub.Stat("y"); err != nil {
		t.Error(err)
	}
	if _, err := sub.Stat("../links"); !errors.Is(err, billy.ErrCrossedBoundary) {
		t.Errorf("out of the root: %v", err)
	}
	f.check(fsys.Remove("a/b"))
	f.check(fsys.Remove("links/l"))
	if err := fsys.Remove("a"); !notEmpty(err) {
		t.Errorf("removed what is not empty: %v", err)
	}
	var pathErr *fs.PathError
	if _, err := fsys.Open("a/none"); !errors.As(err, &pathErr) || pathErr.Path != "a/none" {
		t.Errorf("error: %v", err)
	}
}

// There is no file system where there is no folder.
func TestOSErrors(t *testing.T) {
	f := newReal(t)
	f.write("file", "x")
	for _, root := range []string{filepath.Join(f.root, "none"), filepath.Join(f.root, "file")} {
		if _, err := OS(root); err == nil {
			t.Errorf("opened %s", root)
		}
	}
}
