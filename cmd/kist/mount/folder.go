package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Folder is a folder to mount on. It stays open. So another user, who exchanges it or a
// folder above by a symlink, cannot lead root's mount elsewhere.
type Folder struct {
	path  string // as the caller wrote it, absolute
	above *os.File
	name  string // in above
	dir   *os.File
}

// OpenFolder opens the folder at a path. Symlinks may only lead to the folders above. The caller
// calls Close when nothing is mounted there.
func OpenFolder(path string) (*Folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f := &Folder{path: path, name: filepath.Base(path)}
	if f.above, err = openAt(unix.AT_FDCWD, filepath.Dir(path), passThrough); err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}

	f.dir, err = openAt(int(f.above.Fd()), f.name, unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOTCONN):
		err = fmt.Errorf("%q %w", path, ErrDead)
	case errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP):
		err = fmt.Errorf("%q %w", path, ErrNotFolder)
	case err != nil:
		err = &os.PathError{Op: "open", Path: path, Err: err}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close forgets the folder.
func (f *Folder) Close() {
	f.above.Close()
	if f.dir != nil {
		f.dir.Close()
	}
}

// openAt opens a folder below another one.
func openAt(dir int, name string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat(dir, name, unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if err != unix.EINTR {
			return nil, err
		}
	}
}

// numbered returns a path of Linux to an open folder.
func numbered(dir *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) }
