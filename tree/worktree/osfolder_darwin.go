package worktree

import (
	"cmp"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object"
)

// openFolderBelow opens a directory by its path below dir, following no
// symlink in any component.
func openFolderBelow(dir int, path string) (*osFolder, error) {
	return openSteps(dir, cmp.Or(path, "."), cutPath, openFolderAt)
}

// openToRead opens a name for reading.
func openToRead(dir int, name string, flags int) (fd int, err error) {
	return openat(dir, name, unix.O_RDONLY|flags, 0)
}

// openFolderAt opens a directory by its name.
func openFolderAt(dir int, name string) (*osFolder, error) {
	fd, err := openToRead(dir, name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return &osFolder{fd: fd}, nil
}

func chmodPathFD(fd int, perm uint32) error { return unix.Fchmod(fd, perm) }

func (d *osFolder) readNames(l *listing) error {
	l.reset()
	fd, err := openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()

	names, err := f.Readdirnames(-1)
	for _, name := range names {
		l.addName(name, 0)
	}

	return err
}

func (f osFile) chtimes(mtime time.Time) error {
	tv := unix.Timeval{Sec: mtime.Unix(), Usec: int32(mtime.Nanosecond() / 1000)}
	return unix.Futimes(int(f), []unix.Timeval{tv, tv})
}

// otherWriters returns writersUnknown, because there are no leases.
func (f osFile) otherWriters() writers { return writersUnknown }

func (f osFile) cleanPages() bool { return false }

func (f osFile) contentReader() io.Reader { return f }

func (f osFile) isOpenOnce() bool { return false }

func statFrom(st *unix.Stat_t) fileStat {
	return fileStat{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mode: uint32(st.Mode),
		mtime: object.Time{Sec: int64(st.Mtim.Sec), Nsec: uint32(st.Mtim.Nsec)}, ctime: st.Ctim.Nano(),
		nlink: uint64(st.Nlink), uid: st.Uid, gid: st.Gid, rdev: uint64(st.Rdev)}
}

func renameNoReplace(from int, name string, to int, newName string) error {
	return unix.RenameatxNp(from, name, to, newName, unix.RENAME_EXCL)
}

// setsGroup says that a new folder inherits the set-group-ID bit.
const setsGroup = false

// passesGroup reports whether a folder with a mode gives its group to new names.
func passesGroup(uint32) bool { return true }
