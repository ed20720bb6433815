package dir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/remote"
)

// A move gives the file a name in another folder, if the name is free.
type move func(from *os.File, name string, to *os.File, newName string) error

func linkat(from *os.File, name string, to *os.File, newName string) error {
	return call("link", to, newName, func(fd int) error { return unix.Linkat(int(from.Fd()), name, fd, newName, 0) })
}

// place gives a written file its final name if that is free: by a link or,
// without support for links, by renaming. It does not trust the answer. A
// network file system may repeat a request and then report that the name is
// taken, by the file itself. Old clients report success although another file
// has the name.
func (b *Backend) place(t *temp, d *os.File, name string) error {
	err := b.link(t.folder, t.name, d, name)
	if !isUnsupported(err) {
		return b.settle(t, d, name, err, func(st *unix.Stat_t) (bool, error) {
			if st.Dev == t.st.Dev && st.Ino == t.st.Ino {
				return true, nil
			}
			if err != nil || st.Size != t.st.Size {
				return false, nil
			}
			return sameContent(t, d, name) // this file system gives every link its own inode number
		})
	}

	linkErr := err
	if err = b.rename(t.folder, t.name, d, name); isUnsupported(err) && !errors.Is(err, unix.EPERM) {
		return &kindError{remote.ErrUnsupported, fmt.Errorf("the file system has neither hard links (%w) nor a rename that replaces nothing (%w)", linkErr, err)}
	}

	return b.settle(t, d, name, err, func(st *unix.Stat_t) (bool, error) {
		_, statErr := lstat(t.folder, t.name)
		if errors.Is(statErr, fs.ErrNotExist) {
			return st.Size == t.st.Size, nil
		}
		return false, statErr
	})
}

// settle finds out whether a move took place. Err is the error of the move.
// isOurs reports whether the file that has the name now is ours.
func (b *Backend) settle(t *temp, d *os.File, name string, err error, isOurs func(*unix.Stat_t) (bool, error)) error {
	st, statErr := lstat(d, name)
	if statErr != nil {
		if err == nil || errors.Is(err, fs.ErrExist) {
			err = statErr
		}
		return err
	}

	ours, lookErr := isOurs(st)
	switch {
	case ours:
		return nil
	case lookErr != nil:
		return &kindError{remote.ErrTemporary, lookErr} // unknown whose file it is
	case err == nil || errors.Is(err, fs.ErrExist):
		return taken(d, name, st)
	}

	return err
}

// isUnsupported reports whether a move failed because the file system does not
// support it. Many return EPERM then.
func isUnsupported(err error) bool {
	for _, errno := range []error{unix.EPERM, unix.ENOTSUP, unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL, unix.EMLINK} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// sameContent reports whether the file with a name has the written bytes.
func sameContent(t *temp, d *os.File, name string) (bool, error) {
	one, err := openAt(t.folder, t.name, unix.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer one.Close()
	two, err := openAt(d, name, unix.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer two.Close()
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	for off := int64(0); ; off += int64(len(a)) {
		n, errA := one.ReadAt(a, off)
		m, errB := two.ReadAt(b, off)
		for _, err := range []error{errA, errB} {
			if err != nil && err != io.EOF {
				return false, err
			}
		}
		if !bytes.Equal(a[:n], b[:m]) {
			return false, nil
		}
		if errA == io.EOF || errB == io.EOF {
			return errA == errB, nil
		}
	}
}
