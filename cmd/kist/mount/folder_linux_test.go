package mount

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/look/browse"
)

// Another user exchanges a folder above by a symlink: the mount stays in the opened folder, and
// unmounting ends this mount and no other.
func TestMountStaysInTheOpenedFolder(t *testing.T) {
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil || os.Geteuid() != 0 {
		objecttest.Skip(t, "root and FUSE are needed: ", err)
	} else {
		f.Close()
	}
	dir := t.TempDir()
	var errs []error
	for _, name := range []string{"above/at", "victim/at"} {
		errs = append(errs, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	f, err := OpenFolder(filepath.Join(dir, "above/at"))
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	err = errors.Join(os.Rename(filepath.Join(dir, "above"), filepath.Join(dir, "moved")), os.Symlink("victim", filepath.Join(dir, "above")))
	if err != nil {
		t.Fatal(err)
	}
	if real, err := f.Real(); err != nil || real != filepath.Join(dir, "moved/at") {
		t.Errorf("the real path is %q, %v, want moved/at", real, err)
	}
	m, err := Mount(f, entry("", 0), Options{Name: "test", Warn: func(text string) { t.Log(text) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Unmount(filepath.Join(dir, "moved/at"), syscall.MNT_DETACH) }()
	for name, want := range map[string]bool{"moved": true, "victim": false} {
		if mounted := isMounted(t, filepath.Join(dir, name)); mounted != want {
			t.Errorf("%s/at is mounted: %v, want %v", name, mounted, want)
		}
	}

	victim, err := OpenFolder(filepath.Join(dir, "victim/at"))
	if err != nil {
		t.Fatal(err)
	}
	defer victim.Close()
	second, err := Mount(victim, entry("", 0), Options{Name: "test", Warn: func(text string) { t.Log(text) }})
	if err != nil {
		t.Fatal(err)
	}
	if inUse, err := m.Unmount(); inUse || err != nil {
		t.Errorf("Unmount: in use: %v, error %v", inUse, err)
	}
	if isMounted(t, filepath.Join(dir, "moved")) || !isMounted(t, filepath.Join(dir, "victim")) {
		t.Error("another mount was unmounted")
	}
	if inUse, err := second.Unmount(); inUse || err != nil {
		t.Errorf("Unmount: in use: %v, error %v", inUse, err)
	}
}

// isMounted reports whether the system lists a mount on the folder at in dir.
func isMounted(t *testing.T, dir string) bool {
	t.Helper()
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(list, []byte(" "+filepath.Join(dir, "at")+" "))
}

// A folder that cannot be mounted on is an error that names the reason.
func TestOpenFolderRefuses(t *testing.T) {
	dir := t.TempDir()
	err := errors.Join(os.WriteFile(filepath.Join(dir, "file"), nil, 0o644), os.Symlink(".", filepath.Join(dir, "link")))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{"file": ErrNotFolder, "link": ErrNotFolder, "none": fs.ErrNotExist, "none/at": fs.ErrNotExist} {
		if _, err := OpenFolder(filepath.Join(dir, path)); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", path, err, want)
		}
	}

	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Mount(f, new(browse.Node), Options{}); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("error %v, want ErrNotEmpty", err)
	}
}
