package dir

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote"
)

// openRoot opens the folder that is the remote.
func (b *Backend) openRoot() (*os.File, error) {
	d, err := os.OpenFile(b.root, os.O_RDONLY|unix.O_DIRECTORY, 0)
	return d, noStore(err)
}

// open opens the folder at a path below the root, "" for the root. The error
// is ErrNotFound if it does not exist or is no folder.
func (b *Backend) open(dir string) (*os.File, error) {
	return b.descend(dir, func(d *os.File, _, name string) (*os.File, error) { return child(d, name) })
}

// make is open, but makes missing folders. When it returns, every folder that
// is new, or new to this process, is on disk.
func (b *Backend) make(dir string) (*os.File, error) {
	if err := b.makeRoot(); err != nil {
		return nil, err
	}

	return b.descend(dir, func(d *os.File, path, name string) (*os.File, error) {
		next, err := child(d, name)
		_, durable := b.durable.Load(path)
		if errors.Is(err, fs.ErrNotExist) {
			durable = false
			err = call("mkdir", d, name, func(fd int) error { return unix.Mkdirat(fd, name, 0o777) })
			if err == nil || errors.Is(err, fs.ErrExist) {
				next, err = child(d, name)
			}
		}
		if err == nil && !durable { // another process may have made it just now
			if err = syncFolder(d); err != nil {
				next.Close()
				return nil, err
			}
			b.durable.Store(path, true)
		}
		var known *kindError
		if errors.As(err, &known) && known.kind == remote.ErrNotFound {
			return nil, known.err // a file in its way
		}
		return next, err
	})
}

func (b *Backend) makeRoot() error {
	_, err := os.Stat(b.root)
	if err == nil {
		return b.checkForeign()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Mkdir(b.root, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return noStore(err)
	}
	return disk.SyncDir(filepath.Dir(b.root))
}

// descend opens folder after folder, from the root to dir.
func (b *Backend) descend(dir string, next func(d *os.File, path, name string) (*os.File, error)) (*os.File, error) {
	d, err := b.openRoot()
	if err != nil || dir == "" {
		return d, err
	}

	at := ""
	for name := range strings.SplitSeq(dir, "/") {
		at = path.Join(at, name)
		below, err := next(d, at, name)
		d.Close()
		if err != nil {
			return nil, err
		}
		d = below
	}

	return d, nil
}

// child opens a folder in the folder d. If the name is something else, the
// error describes it. Its kind is ErrDamaged for a symbolic link, and
// ErrNotFound otherwise.
func child(d *os.File, name string) (*os.File, error) {
	f, err := openAt(d, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if st, statErr := lstat(d, name); statErr == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if err := checkRegular(d, name, st); err != nil {
			return nil, err
		}
		return nil, &kindError{remote.ErrNotFound, &fs.PathError{Op: "open", Path: filepath.Join(d.Name(), name), Err: errNotFolder}}
	}
	return nil, err
}

// openAt opens a file or folder in the folder d. It follows no symbolic link.
func openAt(d *os.File, name string, flags int, mode uint32) (*os.File, error) {
	var file int
	err := call("open", d, name, func(fd int) (err error) {
		file, err = unix.Openat(fd, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, mode)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(file), filepath.Join(d.Name(), name)), nil
}

// lstat describes a name in the folder d.
func lstat(d *os.File, name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := call("lstat", d, name, func(fd int) error { return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return &st, err
}

// checkRegular returns an error for anything but a file: ErrNotFound for a
// folder, which is no blob, and ErrDamaged otherwise.
func checkRegular(d *os.File, name string, st *unix.Stat_t) error {
	e := &fs.PathError{Op: "open", Path: filepath.Join(d.Name(), name)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		e.Err = errors.New("is a folder")
		return &kindError{remote.ErrNotFound, e}
	case unix.S_IFLNK:
		e.Err = errors.New("is a symbolic link, which is not followed")
	default:
		e.Err = errors.New("is not a regular file")
	}

	return &kindError{remote.ErrDamaged, e}
}

// call makes a system call for a name in the folder d. It repeats the call
// while signals interrupt it.
func call(op string, d *os.File, name string, do func(fd int) error) error {
	for {
		err := do(int(d.Fd()))
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return &fs.PathError{Op: op, Path: filepath.Join(d.Name(), name), Err: err}
		}
	}
}

// syncFolder syncs the names in the folder d, if the file system supports
// that.
func syncFolder(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}
