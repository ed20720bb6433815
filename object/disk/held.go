package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// AwayError is the error for a directory that went away while it was in use: its path
// leads to another directory now, or to none. This happens when a disk is unmounted.
type AwayError struct{ Dir string }

func (e *AwayError) Error() string {
	return fmt.Sprintf("%q is no longer the folder that was opened: its disk was unmounted, or the folder was moved", e.Dir)
}

// Held is an open directory. While it is open, no other one gets its device and inode
// numbers. It is safe for concurrent use.
type Held struct {
	path string
	dir  *os.File
	st   unix.Stat_t
}

// Hold opens the directory at a path.
func Hold(path string) (*Held, error) {
	d, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	h := &Held{path: path, dir: d}
	if err := unix.Fstat(int(d.Fd()), &h.st); err != nil {
		d.Close()
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return h, nil
}

// Open opens the directory by its path. The error is an [*AwayError] if the path does not
// lead there.
func (h *Held) Open() (*os.File, error) {
	d, err := os.OpenFile(h.path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, h.awayError(err)
	}
	if err := h.checkSame(int(d.Fd())); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Close ends the use of h.
func (h *Held) Close() error {
	for old := held.Load(); old != nil && slices.Contains(*old, h); old = held.Load() {
		list := slices.DeleteFunc(slices.Clone(*old), func(other *Held) bool { return other == h })
		if held.CompareAndSwap(old, &list) {
			break
		}
	}
	return h.dir.Close()
}

// checkSame returns an error if an open directory is not h.
func (h *Held) checkSame(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: h.path, Err: err}
	}
	if st.Dev != h.st.Dev || st.Ino != h.st.Ino {
		return &AwayError{h.path}
	}
	return nil
}

// awayError returns an [*AwayError] if err means that nothing is at the path of h.
func (h *Held) awayError(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return &AwayError{h.path}
	}
	return err
}

// held lists the directories of open repositories, see [HoldRepository].
var held atomic.Pointer[[]*Held]

// HoldRepository opens the directory of a repository, given its absolute path. Until
// [Held.Close], the functions of this package return an [*AwayError] for paths in it when
// it went away. If a directory is held twice, the later one counts.
func HoldRepository(path string) (*Held, error) {
	h, err := Hold(path)
	if err != nil {
		return nil, err
	}
	for {
		old := held.Load()
		list := []*Held{h}
		if old != nil {
			list = append(list, *old...)
		}
		if held.CompareAndSwap(old, &list) {
			return h, nil
		}
	}
}

// Explain returns the [*AwayError] of the held repository that has a path, if that went
// away, and otherwise err. Call it with the error of a function of another package.
func Explain(path string, err error) error {
	_, statErr := Lstat(path)
	if away := (*AwayError)(nil); err != nil && errors.As(statErr, &away) {
		return away
	}
	return err
}

// heldAt returns the held repository at a path, or nil.
func heldAt(path string) *Held {
	list := held.Load()
	if list == nil {
		return nil
	}
	for _, h := range *list {
		if h.path == path {
			return h
		}
	}
	return nil
}
