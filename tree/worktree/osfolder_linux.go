package worktree

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object"
)

// maxStep is the length of the longest path that is opened at once. The kernel
// takes at most 4,095 bytes. Longer paths are opened in steps.
const maxStep = 4000

// noOpenat2 is set once openat2(2) turned out to be missing or forbidden.
var noOpenat2 atomic.Bool

// openFolderBelow opens a directory by its path below dir, following no
// symlink in any component.
func openFolderBelow(dir int, path string) (*osFolder, error) {
	return openSteps(dir, path, cutStep, openStep)
}

// cutStep returns the first step of a path, and the rest.
func cutStep(path string) (step, rest string) {
	cut := strings.LastIndexByte(path[:min(len(path), maxStep)], '/')
	if len(path) <= maxStep || cut < 0 { // the kernel refuses a name of that length
		return path, ""
	}
	return path[:cut], path[cut+1:]
}

// openStep opens a path of at most maxStep bytes.
func openStep(dir int, path string) (*osFolder, error) {
	if path == "" {
		path = "."
	}
	if !strings.Contains(path, "/") {
		return openFolderAt(dir, path)
	}
	if !noOpenat2.Load() {
		d, err := openat2(dir, path)
		if err != unix.ENOSYS && err != unix.EPERM {
			return d, err
		}
		noOpenat2.Store(true)
	}

	return openSteps(dir, path, cutPath, openFolderAt)
}

// openat2 lets the kernel refuse every symlink on the way.
func openat2(dir int, path string) (*osFolder, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOATIME,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}

	for {
		fd, err := unix.Openat2(dir, path, &how)
		switch {
		case err == nil:
			return &osFolder{fd: fd, path: how.Flags&unix.O_PATH != 0}, nil
		case err == unix.EACCES && how.Flags&unix.O_PATH == 0:
			// Without the right to list the folder, we may still pass through it.
			how.Flags = how.Flags&^unix.O_NOATIME | unix.O_PATH
		case err == unix.EPERM && how.Flags&unix.O_NOATIME != 0:
			how.Flags &^= unix.O_NOATIME // as openToRead
		case err != unix.EINTR && err != unix.EAGAIN:
			return nil, err
		}
	}
}

// openToRead opens a name for reading, without a change of its access time if the system allows
// that. It does so to the owner of a file and to root.
func openToRead(dir int, name string, flags int) (fd int, err error) {
	fd, err = openat(dir, name, unix.O_RDONLY|unix.O_NOATIME|flags, 0)
	if err == unix.EPERM {
		fd, err = openat(dir, name, unix.O_RDONLY|flags, 0)
	}
	return fd, err
}

// openFolderAt opens a directory by its name.
func openFolderAt(dir int, name string) (*osFolder, error) {
	fd, err := openToRead(dir, name, unix.O_DIRECTORY)
	if err == unix.EACCES {
		if fd, err := openat(dir, name, unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
			return &osFolder{fd: fd, path: true}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return &osFolder{fd: fd}, nil
}

// chmodPathFD changes the mode of a directory opened with O_PATH.
func chmodPathFD(fd int, perm uint32) error {
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), perm)
}

func renameNoReplace(from int, name string, to int, newName string) error {
	return unix.Renameat2(from, name, to, newName, unix.RENAME_NOREPLACE)
}

// setsGroup says that a new folder inherits the set-group-ID bit.
const setsGroup = true

// passesGroup reports whether a folder with a mode gives its group to new names.
func passesGroup(mode uint32) bool { return mode&setGroup != 0 }

func statFrom(st *unix.Stat_t) fileStat {
	return fileStat{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mode: st.Mode,
		mtime: object.Time{Sec: int64(st.Mtim.Sec), Nsec: uint32(st.Mtim.Nsec)}, ctime: st.Ctim.Nano(),
		nlink: uint64(st.Nlink), uid: st.Uid, gid: st.Gid, rdev: uint64(st.Rdev)}
}

// readNames reads the directory with getdents64(2): a record is inode (8 bytes),
// offset (8), its own length (2), type (1) and the name up to a zero byte.
func (d *osFolder) readNames(l *listing) error {
	l.reset()
	if d.path {
		return unix.EACCES
	}
	if _, err := unix.Seek(d.fd, 0, 0); err != nil {
		return err
	}
	if l.scratch == nil {
		l.scratch = make([]byte, 64<<10)
	}

	for {
		n, err := unix.Getdents(d.fd, l.scratch)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		for buf := l.scratch[:n]; len(buf) > 0; {
			size := binary.NativeEndian.Uint16(buf[16:])
			kind := uint32(buf[18]) << 12 // DT_REG and so on are the type bits of a mode
			name := buf[19:size]
			name = name[:bytes.IndexByte(name, 0)]
			if string(name) != "." && string(name) != ".." {
				addListed(l, name, kind)
			}
			buf = buf[size:]
		}
	}
}

func (f osFile) chtimes(mtime time.Time) error {
	ts, err := timespecs(mtime)
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(f), 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// reliable lists the magic numbers of some local file systems. There, a read lease proves that no
// process has a file mapped or open for writing, and a hole has only zeros. On others, a
// change may come from another machine, or by another way to the same file.
var reliable = map[int64]bool{
	unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true,
}

// otherWriters takes a read lease and returns it at once. The kernel grants a lease
// only if no process has the file open for writing. A program that opens the file
// for writing at this moment waits for some microseconds.
func (f osFile) otherWriters() writers {
	if !reliable[f.fileSystem()] {
		return writersUnknown
	}

	_, err := unix.FcntlInt(uintptr(f), unix.F_SETLEASE, unix.F_RDLCK)
	switch err {
	case nil:
		// The error does not matter: closing the file also returns the lease.
		unix.FcntlInt(uintptr(f), unix.F_SETLEASE, unix.F_UNLCK)
		return writersNone
	case unix.EAGAIN:
		return writersSome
	}

	return writersUnknown // the file belongs to another user, or there are no leases
}

// isOpenOnce takes a write lease and returns it at once. The kernel grants it only if no other
// descriptor of the file is open.
func (f osFile) isOpenOnce() bool {
	if !reliable[f.fileSystem()] {
		return false
	}
	if _, err := unix.FcntlInt(uintptr(f), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false
	}
	unix.FcntlInt(uintptr(f), unix.F_SETLEASE, unix.F_UNLCK)
	return true
}

func (f osFile) cleanPages() bool {
	const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	return f.fileSystem() != unix.TMPFS_MAGIC && // which has no disk
		retry(func() error { return unix.SyncFileRange(int(f), 0, 0, all) }) == nil
}

// fileSystem returns the magic number of the file system, 0 if it is unknown.
func (f osFile) fileSystem() int64 {
	var st unix.Statfs_t
	if retry(func() error { return unix.Fstatfs(int(f), &st) }) != nil {
		return 0
	}
	return int64(st.Type)
}
