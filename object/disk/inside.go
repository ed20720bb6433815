package disk

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// RepositoryDir is the name of a repository's directory in the root of the worktree.
const RepositoryDir = ".kist"

// ErrSymlink is the error for a symlink in a repository. Kist makes none there, and
// follows none.
var ErrSymlink = errors.New("is a symlink; kist follows none in a repository")

// bare lists the directories of bare repositories, see [AddRepository].
var bare atomic.Pointer[[]string]

// AddRepository makes the functions below treat dir, an absolute path without symlinks,
// like a directory named [RepositoryDir], until the process ends.
func AddRepository(dir string) {
	for {
		old := bare.Load()
		list := []string{dir}
		if old != nil {
			if slices.Contains(*old, dir) {
				return
			}
			list = append(list, *old...)
		}
		if bare.CompareAndSwap(old, &list) {
			return
		}
	}
}

// The functions below work like those of package os with the same names. For a path
// in a directory named [RepositoryDir], they follow no symlink: neither that
// directory, nor one below it, nor the file may be one. The error then matches
// [ErrSymlink]. All code that opens, makes or removes files of a repository uses
// these functions.

// OpenFile is [os.OpenFile]. In a folder shared with a group, it makes files that
// the group can write.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	var file *os.File
	err := inFolder("open", path, func(dir int, name string) error {
		if dir == unix.AT_FDCWD && !isInside(name) {
			var err error
			file, err = os.OpenFile(path, flag, perm)
			return err
		}
		fd, err := openFile(dir, name, flag, uint32(perm.Perm()))
		if err != nil {
			return err
		}
		if flag&os.O_CREATE != 0 && isShared(dir) {
			_ = unix.Fchmod(fd, uint32(perm.Perm())&0o700|0o060) // fails for another user's file
		}
		file = os.NewFile(uintptr(fd), path)
		return nil
	})
	return file, err
}

var errIrregular = errors.New("is neither a file nor a folder")

// openFile opens a file or folder. For anything else it returns an error: a FIFO could block
// for ever.
func openFile(dir int, name string, flag int, perm uint32) (int, error) {
	fd, err := openat(dir, name, flag|unix.O_NONBLOCK, perm)
	if err != nil {
		return fd, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
			err = errIrregular
		}
	}
	if err == nil {
		err = unix.SetNonblock(fd, false) // so that package os does not poll it
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Open is [os.Open].
func Open(path string) (*os.File, error) { return OpenFile(path, os.O_RDONLY, 0) }

// OpenRoot is [os.OpenRoot].
func OpenRoot(path string) (*os.Root, error) {
	d, err := OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	// The folder may have been replaced by a symlink between both calls.
	want, err := d.Stat()
	if err == nil {
		var have fs.FileInfo
		if have, err = root.Stat("."); err == nil && !os.SameFile(have, want) {
			err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// ReadFile is [os.ReadFile].
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// ReadDir is [os.ReadDir].
func ReadDir(path string) ([]fs.DirEntry, error) {
	d, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// Lstat is [os.Lstat].
func Lstat(path string) (fs.FileInfo, error) {
	var info fs.FileInfo
	err := inFolder("lstat", path, func(int, string) error {
		var err error
		info, err = os.Lstat(path)
		return err
	})
	return info, err
}

// Stat is [os.Stat]. In a repository, a symlink is an error.
func Stat(path string) (fs.FileInfo, error) {
	if !isInside(path) {
		return os.Stat(path)
	}
	info, err := Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: ErrSymlink}
	}
	return info, err
}

// CreateTemp makes a new file in dir, whose name is pattern with digits in
// place of its star.
func CreateTemp(dir, pattern string) (*os.File, error) {
	before, after, _ := strings.Cut(pattern, "*")
	for try := 0; ; try++ {
		name := before + strconv.FormatUint(rand.Uint64(), 10) + after
		f, err := OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) || try == 100 {
			return f, err
		}
	}
}

// Create makes a new file with data, without a sync.
func Create(path string, data []byte) error {
	f, err := OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// CreateSynced makes a new file, calls write for its content, and syncs it. It does not sync the
// directory. After an error, the file may exist.
func CreateSynced(path string, perm fs.FileMode, write func(io.Writer) error) error {
	f, err := OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Mkdir is [os.Mkdir]. In a folder shared with a group, the new folder is also shared.
func Mkdir(path string, perm fs.FileMode) error {
	return inFolder("mkdir", path, func(dir int, name string) error {
		err := retry(func() error { return unix.Mkdirat(dir, name, uint32(perm.Perm())) })
		if err != nil || dir == unix.AT_FDCWD || !isShared(dir) {
			return err
		}
		fd, err := openat(dir, name, os.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Fchmod(fd, SharedMode)
	})
}

// SharedMode is the mode of a directory that is shared with a group. New files in it
// belong to the same group.
const SharedMode = 0o2770

// isShared reports whether a folder is shared with its group.
func isShared(dir int) bool {
	var st unix.Stat_t
	return unix.Fstat(dir, &st) == nil && st.Mode&0o2070 == 0o2070
}

// MkdirAll is [os.MkdirAll].
func MkdirAll(path string, perm fs.FileMode) error {
	if !isInside(path) {
		return os.MkdirAll(path, perm)
	}
	info, err := Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: path, Err: unix.ENOTDIR}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := MkdirAll(filepath.Dir(path), perm); err != nil {
		return err
	}
	if err := Mkdir(path, perm); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Remove is [os.Remove].
func Remove(path string) error {
	return inFolder("remove", path, func(dir int, name string) error {
		err := retry(func() error { return unix.Unlinkat(dir, name, 0) })
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		derr := retry(func() error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
		if derr == nil || derr != unix.ENOTDIR {
			return derr
		}
		return err
	})
}

// RemoveAll is [os.RemoveAll].
func RemoveAll(path string) error {
	if !isInside(path) {
		return os.RemoveAll(path)
	}
	root, err := OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	err = root.RemoveAll(filepath.Base(path))
	var failed *fs.PathError
	if errors.As(err, &failed) {
		failed.Path = filepath.Join(filepath.Dir(path), failed.Path)
	}
	return err
}

// Rename is [os.Rename].
func Rename(from, to string) error {
	err := inFolder("rename", from, func(fromDir int, fromName string) error {
		return inFolder("rename", to, func(toDir int, toName string) error {
			return retry(func() error { return unix.Renameat(fromDir, fromName, toDir, toName) })
		})
	})
	if cause := (*fs.PathError)(nil); errors.As(err, &cause) && !errors.Is(err, ErrSymlink) {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: cause.Err}
	}
	return err
}

// Chmod changes the permission bits of a file.
func Chmod(path string, perm fs.FileMode) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(perm), f.Close())
}

// Truncate is [os.Truncate].
func Truncate(path string, size int64) error {
	f, err := OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// inFolder opens the directory of path and calls do with it and the last name of
// path. Outside of a repository, it passes the current directory and all of path. An
// error of the system becomes a [*fs.PathError].
func inFolder(op, path string, do func(dir int, name string) error) error {
	above, below, inside := split(path)
	if !inside {
		return pathError(op, path, do(unix.AT_FDCWD, path))
	}

	at, name := above, below
	dir := unix.AT_FDCWD
	defer func() {
		if dir != unix.AT_FDCWD {
			unix.Close(dir)
		}
	}()
	for step := above; ; {
		fd, err := openat(dir, step, os.O_RDONLY|unix.O_DIRECTORY, 0)
		if dir == unix.AT_FDCWD {
			fd, err = checkHeld(above, fd, err)
		}
		if err != nil {
			return pathError(op, at, err)
		}
		if dir != unix.AT_FDCWD {
			unix.Close(dir)
		}
		dir = fd
		next, rest, more := strings.Cut(name, "/")
		if !more {
			return pathError(op, path, do(dir, name))
		}
		step, name = next, rest
		at += "/" + step
	}
}

// checkHeld returns the result of opening the directory of a repository. If that is held,
// and went away, it returns an [*AwayError] instead.
func checkHeld(path string, fd int, err error) (int, error) {
	h := heldAt(path)
	switch {
	case h == nil:
		return fd, err
	case err != nil:
		return fd, h.awayError(err)
	}
	if err := h.checkSame(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// split cuts a path into the path of the repository's directory and the path below
// that. Inside is false if the path is in no repository.
func split(path string) (above, below string, inside bool) {
	path = filepath.Clean(path)
	if list := bare.Load(); list != nil {
		for _, dir := range *list {
			if below, ok := strings.CutPrefix(path, dir+"/"); ok {
				return dir, below, true
			}
		}
	}
	if below, ok := strings.CutPrefix(path, RepositoryDir+"/"); ok {
		return RepositoryDir, below, true
	}
	if i := strings.Index(path, "/"+RepositoryDir+"/"); i >= 0 {
		end := i + len("/"+RepositoryDir)
		return path[:end], path[end+1:], true
	}
	return "", "", false
}

// isInside reports whether path is a repository's directory, or below one.
func isInside(path string) bool {
	_, _, inside := split(path)
	list := bare.Load()
	return inside || filepath.Base(path) == RepositoryDir || list != nil && slices.Contains(*list, filepath.Clean(path))
}

// openat opens a file by its name in a directory. It follows no symlink.
func openat(dir int, name string, flag int, perm uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, name, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
		return err
	})
	if err == unix.ELOOP || err == unix.ENOTDIR {
		var st unix.Stat_t
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = ErrSymlink
		}
	}
	return fd, err
}

// retry repeats do while a signal interrupts it.
func retry(do func() error) error {
	for {
		if err := do(); err != unix.EINTR {
			return err
		}
	}
}

// pathError adds the operation and the path to err, unless err has them.
func pathError(op, path string, err error) error {
	if cause := (*fs.PathError)(nil); err == nil || errors.As(err, &cause) || errors.As(err, new(*AwayError)) {
		return err
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}
