package dir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/remote"
)

func TestParse(t *testing.T) {
	tests := []struct{ url, path, reason string }{
		{"/data/kist", "/data/kist", ""},
		{"/data//kist/../kist/", "/data/kist", ""},
		{"kist", "/base/kist", ""},
		{"../kist", "/kist", ""},
		{".", "/base", ""},
		{"a:b?c#d%20", "/base/a:b?c#d%20", ""},
		{"~/kist", "/base/~/kist", ""},
		{"file:///data/kist", "/data/kist", ""},
		{"FILE:///data/a%20b%3Fc", "/data/a b?c", ""},
		{"file://host/data", "", "three slashes"},
		{"file://data", "", "three slashes"},
		{"file://", "", "no path"},
		{"file:///data?x", "", "%3F"},
		{"file:///data?", "", "%3F"},
		{"file:///data#x", "", "%23"},
		{"file:///%zz", "", "parsed"},
		{"file:///a%00b", "", "NUL"},
		{"a\x00b", "", "NUL"},
		{"", "", "no path"},
	}

	for _, test := range tests {
		path, err := parsePath(test.url, "/base")
		if path != test.path || (err == nil) != (test.reason == "") {
			t.Errorf("%q: %q, %v; want %q", test.url, path, err, test.path)
		}
		if err := wrapError("open", "", err); err != nil && (!errors.Is(err, remote.ErrURL) || !strings.Contains(err.Error(), test.reason)) {
			t.Errorf("%q: error %v, want ErrURL with %q", test.url, err, test.reason)
		}
	}

	if _, err := parsePath("kist", ""); err == nil {
		t.Error("a relative path without a base: no error")
	}
}

func wantKind(t *testing.T, what string, err, kind error, words ...string) {
	t.Helper()
	var re *remote.Error
	if !errors.As(err, &re) || re.Kind != kind {
		t.Errorf("%s: error %v, want kind %v", what, err, kind)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: error %v, want %q in it", what, err, word)
		}
	}
}

func put(b *Backend, name, data string) error {
	if remote.IsRecord(name) {
		return b.Create(bg, name, []byte(data))
	}
	return b.Put(bg, name, strings.NewReader(data), int64(len(data)))
}

// names returns the names that List yields.
func names(b *Backend, prefix string) (names []string, err error) {
	for info, err := range b.List(bg, prefix) {
		if err != nil {
			return names, err
		}
		names = append(names, info.Name)
	}
	return names, nil
}

func TestOpenMissing(t *testing.T) {
	base := t.TempDir()
	os.WriteFile(filepath.Join(base, "file"), nil, 0o644)
	for _, path := range []string{"no/kist", "file", "file/kist"} {
		path = filepath.Join(base, path)
		_, err := Open(bg, path, remote.Env{})
		wantKind(t, path, err, remote.ErrNoStore, base)
	}

	env := remote.Env{Dir: base}
	r, err := Open(bg, "kist", env)
	if err != nil {
		t.Fatal(err)
	}
	b, root := r.(*Backend), filepath.Join(base, "kist")
	for range 2 {
		_, err = b.Get(bg, "packs/a", nil, 0)
		wantKind(t, "get", err, remote.ErrNoStore, root)
		_, err = b.Stat(bg, "packs/a")
		wantKind(t, "stat", err, remote.ErrNoStore, root)
		_, err = names(b, "packs/")
		wantKind(t, "list", err, remote.ErrNoStore, root)
		wantKind(t, "delete", b.Delete(bg, "packs/a"), remote.ErrNoStore, root)
		_, err = b.RemoveTemps(bg, time.Now())
		wantKind(t, "remove temps", err, remote.ErrNoStore, root)
	}
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Errorf("reads created the folder: %v", err)
	}
	if err := put(b, "kist.json", "{}"); err != nil {
		t.Fatal(err)
	}
	if got, err := names(b, ""); err != nil || !slices.Equal(got, []string{"kist.json"}) {
		t.Errorf("after the first write: %q, %v", got, err)
	}

	os.RemoveAll(base) // like an unmounted disk
	_, err = b.Get(bg, "kist.json", nil, 0)
	wantKind(t, "get after removal", err, remote.ErrNoStore, root)
	wantKind(t, "put after removal", put(b, "packs/a", ""), remote.ErrNoStore, root)
}

func TestModes(t *testing.T) {
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	root := filepath.Join(t.TempDir(), "kist")
	b := openDir(t, root)
	if err := errors.Join(put(b, "root/1", "x"), put(b, "packs/ab/c", "x")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{"": 0o750, "root": 0o750, "packs/ab": 0o750, "tmp": 0o750, "root/1": 0o440, "packs/ab/c": 0o440} {
		if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v; want %v", path, info, err, want)
		}
	}
}

// Two backends of one folder see each other's blobs at once.
func TestTwo(t *testing.T) {
	root := filepath.Join(t.TempDir(), "kist")
	a, b := openDir(t, root), openDir(t, root)
	for i, name := range []string{"kist.json", "root/1", "packs/ab/c", "packs/ab/d"} {
		if err := put(a, name, name); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 100)
		if n, err := b.Get(bg, name, p, 0); err != nil || string(p[:n]) != name {
			t.Errorf("%s: %q, %v", name, p[:n], err)
		}
		wantKind(t, "put again", put(b, name, "other"), remote.ErrExists)
		if got, err := names(b, ""); err != nil || len(got) != i+1 {
			t.Errorf("list: %q, %v", got, err)
		}
		a, b = b, a
	}
}

// TestStrangeFiles checks that no operation lists, follows or replaces symbolic links,
// folders and special files that kist did not create.
func TestStrangeFiles(t *testing.T) {
	base := t.TempDir()
	outside := filepath.Join(base, "outside")
	root := filepath.Join(base, "kist")
	b := openDir(t, root)
	for _, name := range []string{"packs/ab/good", "root/1"} {
		if err := put(b, name, "good"); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(root, name) }
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(os.MkdirAll(filepath.Join(outside, "sub"), 0o777))
	do(os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o666))
	do(os.Symlink(outside, in("out")))
	do(os.Symlink(in("packs"), in("inside")))
	do(os.Symlink(filepath.Join(outside, "secret"), in("packs/link")))
	do(os.Symlink("nowhere", in("packs/dangling")))
	do(unix.Mkfifo(in("packs/fifo"), 0o666))
	do(os.Mkdir(in("packs/folder"), 0o777))
	do(os.WriteFile(in("file"), nil, 0o666))
	for _, name := range []string{".DS_Store", "packs/.nfs0001", "Thumbs.db", "packs/a b", "packs/" + strings.Repeat("n", 220), "tmp/0123"} {
		do(os.WriteFile(in(name), nil, 0o666))
	}
	do(os.Mkdir(in("lost+found"), 0o000))

	for prefix, want := range map[string][]string{
		"": {"file", "packs/ab/good", "root/1"}, "packs/": {"packs/ab/good"}, "file/": nil, "packs/folder/": nil, "tmp/": nil, "packs/ab/good/": nil,
	} {
		if got, err := names(b, prefix); err != nil || !slices.Equal(got, want) {
			t.Errorf("list %q: %q, %v; want %q", prefix, got, err, want)
		}
	}
	for _, test := range []struct {
		name  string
		read  error // kind of the error of Get and Stat
		write error // of Put
		words string
	}{
		{"packs/link", remote.ErrDamaged, remote.ErrUnsupported, "symbolic link"},
		{"packs/dangling", remote.ErrDamaged, remote.ErrUnsupported, "symbolic link"},
		{"out/secret", remote.ErrDamaged, remote.ErrDamaged, "symbolic link"},
		{"out/sub/x", remote.ErrDamaged, remote.ErrDamaged, "symbolic link"},
		{"inside/ab/good", remote.ErrDamaged, remote.ErrDamaged, "symbolic link"},
		{"packs/fifo", remote.ErrDamaged, remote.ErrUnsupported, "not a regular file"},
		{"packs/fifo/x", remote.ErrDamaged, remote.ErrDamaged, "not a regular file"},
		{"packs/folder", remote.ErrNotFound, remote.ErrUnsupported, "is a folder"},
		{"file/x", remote.ErrNotFound, nil, "not a folder"},
		{"tmp/0123", remote.ErrName, remote.ErrName, "being written"},
		{"tmp", remote.ErrName, remote.ErrName, "being written"},
	} {
		_, err := b.Get(bg, test.name, make([]byte, 10), 0)
		wantKind(t, "get "+test.name, err, test.read, test.words)
		_, err = b.Stat(bg, test.name)
		wantKind(t, "stat "+test.name, err, test.read, test.words)
		wantKind(t, "put "+test.name, put(b, test.name, "x"), test.write, test.words)
	}
	_, err := names(b, "out/")
	wantKind(t, "list out/", err, remote.ErrDamaged, "symbolic link")

	for _, name := range []string{"packs/link", "packs/folder", "file/x", "packs"} {
		if err := b.Delete(bg, name); err != nil {
			t.Errorf("delete %s: %v", name, err)
		}
	}
	wantKind(t, "delete out/secret", b.Delete(bg, "out/secret"), remote.ErrDamaged)
	if data, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(data) != "secret" {
		t.Errorf("the file behind a symbolic link changed: %q, %v", data, err)
	}
	if left, _ := os.ReadDir(filepath.Join(outside, "sub")); len(left) > 0 {
		t.Errorf("written behind a symbolic link: %v", left)
	}
	if info, err := os.Stat(in("packs/folder")); err != nil || !info.IsDir() {
		t.Errorf("delete removed a folder: %v", err)
	}
}

func TestRemoveTemps(t *testing.T) {
	root := t.TempDir()
	b := openDir(t, root)
	now := time.Now()
	if n, err := b.RemoveTemps(bg, now); n != 0 || err != nil {
		t.Errorf("without a folder tmp: removed %d, %v", n, err)
	}
	if err := put(b, "packs/a", "x"); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"old": 25 * time.Hour, "older": 100 * time.Hour, "new": time.Hour} {
		path := filepath.Join(root, temps, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o444), os.Chtimes(path, now, now.Add(-age))); err != nil {
			t.Fatal(err)
		}
	}
	os.Mkdir(filepath.Join(root, temps, "folder"), 0o777)
	os.Chtimes(filepath.Join(root, temps, "folder"), now, now.Add(-100*time.Hour))
	if n, err := b.RemoveTemps(bg, now.Add(-24*time.Hour)); n != 2 || err != nil {
		t.Errorf("removed %d, %v; want 2", n, err)
	}
	left, _ := filepath.Glob(filepath.Join(root, temps, "*"))
	if len(left) != 2 || filepath.Base(left[0]) != "folder" || filepath.Base(left[1]) != "new" {
		t.Errorf("left %q, want folder and new", left)
	}
	if _, err := b.Stat(bg, "packs/a"); err != nil {
		t.Error(err)
	}
}

// If a temporary file is removed before it is moved into place, the write fails with
// ErrTemporary and stores nothing.
func TestTempGone(t *testing.T) {
	b := openDir(t, t.TempDir())
	for _, rename := range []bool{false, true} {
		removing := func(next move) move {
			return func(from *os.File, name string, to *os.File, newName string) error {
				if _, err := b.RemoveTemps(bg, time.Now().Add(time.Hour)); err != nil {
					t.Error(err)
				}
				return next(from, name, to, newName)
			}
		}
		b.link, b.rename = removing(linkat), renameNew
		if rename {
			b.link, b.rename = failing(unix.EPERM), removing(renameNew)
		}
		wantKind(t, "put", put(b, "packs/a", "x"), remote.ErrTemporary)
		wantKind(t, "create", put(b, "root/1", "x"), remote.ErrTemporary)
		if got, err := names(b, ""); err != nil || got != nil {
			t.Errorf("list: %q, %v", got, err)
		}
	}
}

// An input/output error of the disk is damage of the blob. Get does not report the
// remote as unreachable.
func TestReadFails(t *testing.T) {
	b := openDir(t, t.TempDir())
	if err := put(b, "packs/a", "text"); err != nil {
		t.Fatal(err)
	}
	for errno, kind := range map[unix.Errno]error{unix.EIO: remote.ErrDamaged, unix.ESTALE: remote.ErrTemporary} {
		b.readAt = func(*os.File, []byte, int64) (int, error) { return 2, errno }
		_, err := b.Get(bg, "packs/a", make([]byte, 4), 0)
		wantKind(t, errno.Error(), err, kind, errno.Error())
	}
}

// TestMoveFails checks the kind of error for each way in which a move fails. Nothing is
// stored, and no temporary file is left.
func TestMoveFails(t *testing.T) {
	root := t.TempDir()
	tests := []struct {
		link, rename unix.Errno
		kind         error
	}{
		{unix.ENOSPC, 0, remote.ErrFull},
		{unix.EDQUOT, 0, remote.ErrFull},
		{unix.EACCES, 0, remote.ErrPermission},
		{unix.EROFS, 0, remote.ErrPermission},
		{unix.EPERM, unix.EPERM, remote.ErrPermission},
		{unix.ESTALE, 0, remote.ErrTemporary},
		{unix.ETIMEDOUT, 0, remote.ErrTemporary},
		{unix.EIO, 0, nil},
		{unix.EXDEV, 0, nil},
		{unix.EPERM, unix.EINVAL, remote.ErrUnsupported},
		{unix.ENOTSUP, unix.ENOSYS, remote.ErrUnsupported},
	}
	for _, test := range tests {
		b := openDir(t, root)
		b.link, b.rename = failing(test.link), failing(test.rename)
		for _, name := range []string{"packs/a", "root/1"} {
			wantKind(t, name+" "+test.link.Error(), put(b, name, "x"), test.kind, test.link.Error())
			if _, err := b.Stat(bg, name); !errors.Is(err, remote.ErrNotFound) {
				t.Errorf("%v: stat: error %v, want ErrNotFound", test.link, err)
			}
		}
		noTemps(t, root)
	}

	// The move reports an error, but took place.
	b := openDir(t, root)
	b.link = func(from *os.File, name string, to *os.File, newName string) error {
		linkat(from, name, to, newName)
		return unix.EIO
	}
	if err := put(b, "root/1", "x"); err != nil {
		t.Errorf("create: %v", err)
	}
	if err := put(b, "root/1", "x"); !errors.Is(err, remote.ErrExists) {
		t.Errorf("second create: error %v, want ErrExists", err)
	}
}

// A write returns ErrExists if another process takes the name first, even if the link
// reports success.
func TestLinkLies(t *testing.T) {
	for _, theirs := range []string{"other", "a longer one", ""} {
		root := t.TempDir()
		b := openDir(t, root)
		for _, name := range []string{"packs/a", "root/1"} {
			b.link = func(_ *os.File, _ string, to *os.File, newName string) error {
				return os.WriteFile(filepath.Join(to.Name(), newName), []byte(theirs), 0o444)
			}
			wantKind(t, "write over "+theirs, put(b, name, "bytes"), remote.ErrExists)
			if data, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(data) != theirs {
				t.Errorf("%s: %q, %v; want %q", name, data, err, theirs)
			}
		}
		noTemps(t, root)
	}
}

// An error of the body is not reported as an error of the store.
func TestBodyFails(t *testing.T) {
	root := t.TempDir()
	b := openDir(t, root)
	for _, cause := range []error{syscall.ENOSPC, syscall.EACCES, syscall.ENOENT} {
		err := b.Put(bg, "packs/a", failingBody{cause}, 10)
		wantKind(t, "put", err, nil, "read the bytes to store")
		if !errors.Is(err, cause) {
			t.Errorf("put: error %v, want %v", err, cause)
		}
	}
	noTemps(t, root)
}

type failingBody struct{ err error }

func (f failingBody) ReadAt([]byte, int64) (int, error) { return 0, f.err }

// Put recreates removed folders.
func TestFolderGone(t *testing.T) {
	root := t.TempDir()
	b := openDir(t, root)
	for range 3 {
		if err := put(b, "packs/ab/c", "x"); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.RemoveAll(filepath.Join(root, "packs")), os.RemoveAll(filepath.Join(root, temps))); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Put(bg, "packs/ab/c", bytes.NewReader([]byte("x")), 1); err != nil {
		t.Error(err)
	}
}
