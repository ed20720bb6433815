//go:build linux || darwin

package worktree

import (
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Open returns the Worktree of an existing folder. The path to the folder itself
// may contain symlinks. Below it, the Worktree follows no symlink in any
// component of a path. So it reaches nothing outside the folder, whatever other
// processes do meanwhile.
func Open(root string, o Options) (*Worktree, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	return ofDescriptor(fd, o), nil
}

// OpenFile returns the Worktree of an open folder. Nothing that happens to the folder's path
// leads the Worktree elsewhere. The caller may close dir.
func OpenFile(dir *os.File, o Options) (*Worktree, error) {
	defer runtime.KeepAlive(dir)
	fd, err := openat(int(dir.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir.Name(), Err: err}
	}
	return ofDescriptor(fd, o), nil
}

// ofDescriptor returns the Worktree of a folder by its descriptor, which it takes over.
func ofDescriptor(fd int, o Options) *Worktree {
	f := &osFS{fd}
	runtime.AddCleanup(f, func(fd int) { unix.Close(fd) }, fd)
	return newWorktree(f, o)
}

// osFS is a real folder, by its file descriptor. The folder stays open until the
// osFS is garbage.
type osFS struct{ fd int }

func (f *osFS) openFolder(at string) (folder, error) {
	defer runtime.KeepAlive(f)
	d, err := openFolderBelow(f.fd, at)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// osFolder is a folder by its file descriptor. Its errors are bare errno
// values; the caller adds the path.
type osFolder struct {
	fd   int
	path bool // opened without the right to list it (Linux O_PATH)
}

func (d *osFolder) Close() error { return unix.Close(d.fd) }

// retry repeats a call while signals interrupt it.
func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

func openat(dir int, name string, flags int, perm uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NOCTTY, perm)
		return err
	})
	return fd, err
}

// openSteps opens a path below dir, one step after the other.
func openSteps(dir int, path string, cut func(path string) (step, rest string), open func(dir int, step string) (*osFolder, error)) (*osFolder, error) {
	for at := dir; ; {
		step, rest := cut(path)
		d, err := open(at, step)
		if at != dir {
			unix.Close(at)
		}
		if err != nil || rest == "" {
			return d, err
		}
		at, path = d.fd, rest
	}
}

func (d *osFolder) lstat(name string) (fileStat, error) {
	if name == "" {
		return osFile(d.fd).stat()
	}

	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return fileStat{}, err
	}
	return statFrom(&st), nil
}

// open never waits, even if a FIFO took the file's place.
func (d *osFolder) open(name string) (file, error) {
	fd, err := openToRead(d.fd, name, unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return osFile(fd), nil
}

func (d *osFolder) readlink(name string) (string, error) {
	for buf := make([]byte, 256); ; buf = make([]byte, 4*len(buf)) {
		var n int
		err := retry(func() (err error) { n, err = unix.Readlinkat(d.fd, name, buf); return err })
		if err != nil {
			return "", err
		}
		if n < len(buf) {
			return string(buf[:n]), nil
		}
	}
}

func (d *osFolder) openSub(name string) (folder, error) {
	f, err := openFolderAt(d.fd, name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d *osFolder) create(name string, perm uint32) (file, error) {
	fd, err := openat(d.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, perm)
	if err != nil {
		return nil, err
	}
	return osFile(fd), nil
}

func (d *osFolder) rename(name string, to folder, newName string) error {
	return retry(func() error { return unix.Renameat(d.fd, name, to.(*osFolder).fd, newName) })
}

func (d *osFolder) renameNew(name string, to folder, newName string) error {
	target := to.(*osFolder)
	err := retry(func() error { return renameNoReplace(d.fd, name, target.fd, newName) })
	if err != unix.EINVAL && err != unix.ENOSYS && err != unix.ENOTSUP {
		return err
	}

	// The file system cannot do it. Other goroutines of this process wait.
	renaming.Lock()
	defer renaming.Unlock()
	if _, err := target.lstat(newName); err == nil {
		return unix.EEXIST
	} else if err != unix.ENOENT {
		return err
	}
	return d.rename(name, to, newName)
}

var renaming sync.Mutex

func (d *osFolder) mkdir(name string, perm uint32) error {
	return retry(func() error { return unix.Mkdirat(d.fd, name, perm) })
}

func (d *osFolder) symlink(target, name string) error {
	return retry(func() error { return unix.Symlinkat(target, d.fd, name) })
}

func (d *osFolder) link(name string, to folder, newName string) error {
	return retry(func() error { return unix.Linkat(d.fd, name, to.(*osFolder).fd, newName, 0) })
}

func (d *osFolder) unlink(name string) error {
	return retry(func() error { return unix.Unlinkat(d.fd, name, 0) })
}

func (d *osFolder) rmdir(name string) error {
	return retry(func() error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) })
}

func (d *osFolder) chmodSelf(perm uint32) error {
	if !d.path {
		return osFile(d.fd).chmod(perm)
	}
	return chmodPathFD(d.fd, perm)
}

func (d *osFolder) chtimes(name string, mtime time.Time) error {
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		name, flags = ".", 0
	}
	ts, err := timespecs(mtime)
	if err != nil {
		return err
	}
	return retry(func() error { return unix.UtimesNanoAt(d.fd, name, ts[:], flags) })
}

// timespecs returns the argument of utimensat(2) that sets both times to
// mtime.
func timespecs(mtime time.Time) (ts [2]unix.Timespec, err error) {
	ts[0], err = unix.TimeToTimespec(mtime)
	ts[1] = ts[0]
	return ts, err
}

// osFile is an open file by its descriptor.
type osFile int

func (f osFile) Close() error { return unix.Close(int(f)) }

func (f osFile) Read(p []byte) (int, error) {
	n, err := 0, error(nil)
	err = retry(func() error { n, err = unix.Read(int(f), p); return err })
	if err != nil {
		return 0, err
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (f osFile) ReadAt(p []byte, off int64) (done int, err error) {
	for done < len(p) {
		n := 0
		err = retry(func() error { n, err = unix.Pread(int(f), p[done:], off+int64(done)); return err })
		if err != nil {
			return done, err
		}
		if n == 0 {
			return done, io.EOF
		}
		done += n
	}
	return done, nil
}

func (f osFile) WriteAt(p []byte, off int64) (done int, err error) {
	for done < len(p) {
		n := 0
		err = retry(func() error { n, err = unix.Pwrite(int(f), p[done:], off+int64(done)); return err })
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

func (f osFile) stat() (fileStat, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(int(f), &st) }); err != nil {
		return fileStat{}, err
	}
	return statFrom(&st), nil
}

func (f osFile) rewind() error {
	_, err := unix.Seek(int(f), 0, io.SeekStart)
	return err
}

func (f osFile) truncate(size int64) error {
	return retry(func() error { return unix.Ftruncate(int(f), size) })
}

func (f osFile) chmod(perm uint32) error {
	return retry(func() error { return unix.Fchmod(int(f), perm) })
}

// tryLock takes an flock(2), which ends with the process. It reports false if
// the folder was removed meanwhile.
func (d *osFolder) tryLock() bool {
	if d.flock(unix.LOCK_EX) != nil {
		return false
	}
	var st unix.Stat_t
	return unix.Fstat(d.fd, &st) == nil && st.Nlink > 0
}

func (d *osFolder) shareLock() { _ = d.flock(unix.LOCK_SH) }

func (d *osFolder) flock(how int) error {
	return retry(func() error { return unix.Flock(d.fd, how|unix.LOCK_NB) })
}
