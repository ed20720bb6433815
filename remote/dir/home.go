package dir

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/remote"
)

// home is the folder that a backend found first. It stays open, so that no
// other folder gets its device and inode numbers.
type home struct {
	mu     sync.Mutex
	folder *os.File // nil: not found yet
}

// openRoot opens the folder that is the remote. If the path leads to another
// folder than before, or to none, the error is a [*remote.AwayError]. This
// happens when a disk is unmounted: then the path leads to the mount point.
func (b *Backend) openRoot() (*os.File, error) {
	d, err := os.OpenFile(b.root, os.O_RDONLY|unix.O_DIRECTORY, 0)

	b.home.mu.Lock()
	defer b.home.mu.Unlock()
	switch known := b.home.folder; {
	case known == nil && err == nil:
		b.home.folder, err = duplicate(d)
	case known == nil:
		return nil, noStore(err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, b.away()
	case err == nil:
		err = b.compare(known, d)
	}
	if err != nil {
		d.Close()
		return nil, err
	}

	return d, nil
}

// compare returns an error if d is not the known folder.
func (b *Backend) compare(known, d *os.File) error {
	was, err := known.Stat()
	if err != nil {
		return err
	}
	now, err := d.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(was, now) {
		return b.away()
	}
	return nil
}

func (b *Backend) away() error {
	return &kindError{remote.ErrNoStore, &remote.AwayError{Folder: b.root}}
}

// confirm returns an error if the folder went away while a file was stored. The
// disk may have the file or not.
func (b *Backend) confirm() error {
	d, err := b.openRoot()
	if err != nil {
		return &kindError{remote.ErrTemporary, err}
	}
	return d.Close()
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// Close implements [remote.Backend].
func (b *Backend) Close() error {
	b.home.mu.Lock()
	defer b.home.mu.Unlock()
	if b.home.folder == nil {
		return nil
	}
	err := b.home.folder.Close()
	b.home.folder = nil
	return err
}
