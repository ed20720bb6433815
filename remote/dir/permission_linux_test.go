package dir

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/remote"
)

// A user without permissions gets ErrPermission from every operation.
func TestPermission(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "kist")
	b := openDir(t, root)
	for _, name := range []string{"packs/a", "state/a", "root/1"} {
		if err := put(b, name, "x"); err != nil {
			t.Fatal(err)
		}
	}
	above := filepath.Dir(base)
	for path, mode := range map[string]os.FileMode{above: 0o755, base: 0o755, root: 0o755, root + "/packs/a": 0, root + "/state": 0} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // so the folder can be removed
		os.Chmod(root, 0o755)
		os.Chmod(root+"/state", 0o755)
	})
	if os.Getuid() == 0 { // this thread accesses files as another user
		runtime.LockOSThread()
		if err := unix.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() {
			unix.Setfsuid(0)
			runtime.UnlockOSThread()
		}()
	} else if err := os.Chmod(root, 0o555); err != nil {
		t.Fatal(err)
	}

	_, err := b.Get(bg, "packs/a", make([]byte, 1), 0)
	wantKind(t, "get", err, remote.ErrPermission, root)
	_, err = b.Stat(bg, "state/a")
	wantKind(t, "stat", err, remote.ErrPermission, root)
	_, err = names(b, "")
	wantKind(t, "list", err, remote.ErrPermission, root)
	wantKind(t, "delete", b.Delete(bg, "state/a"), remote.ErrPermission, root)
	wantKind(t, "put", put(b, "index/a", "x"), remote.ErrPermission, root)
	wantKind(t, "create", put(b, "kist.json", "x"), remote.ErrPermission, root)
	_, err = Open(bg, root+"/state/kist", remote.Env{})
	wantKind(t, "open", err, remote.ErrPermission, root)
	if os.Getuid() == 0 {
		wantKind(t, "delete", b.Delete(bg, "root/1"), remote.ErrPermission, root)
	}
	if got, err := names(b, "root/"); err != nil || len(got) != 1 {
		t.Errorf("list of a readable folder: %q, %v", got, err)
	}
}
