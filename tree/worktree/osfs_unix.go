//go:build linux || darwin

package worktree

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-billy/v5"
	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/tree"
)

// OSFS is a billy file system on a real folder. Paths are slash-separated and
// relative to the folder; a leading slash means the folder itself. No
// component of a path may be a symlink, not even the last one, except in
// methods about symlinks. So nothing outside the folder can be reached,
// whatever other processes do meanwhile. It is safe for concurrent use.
type OSFS struct {
	root string
	dir  *osFolder
}

var (
	_ billy.Filesystem = (*OSFS)(nil)
	_ billy.Change     = (*OSFS)(nil)
	_ billy.Capable    = (*OSFS)(nil)
	_ opener           = (*OSFS)(nil)
)

// OS returns the file system of an existing folder. The path to the folder
// itself may contain symlinks. The folder stays open until the OSFS is
// garbage.
func OS(root string) (*OSFS, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	return newOSFS(root, &osFolder{fd: fd}), nil
}

func newOSFS(root string, dir *osFolder) *OSFS {
	f := &OSFS{root: root, dir: dir}
	runtime.AddCleanup(f, func(fd int) { unix.Close(fd) }, dir.fd)
	return f
}

func (f *OSFS) openFolder(at string) (folder, error) {
	defer runtime.KeepAlive(f)
	d, err := openFolderBelow(f.dir.fd, at)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// clean returns a path in the form that openFolder accepts.
func (f *OSFS) clean(op, name string) (string, error) {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	switch {
	case clean == ".":
		return "", nil
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "", &fs.PathError{Op: op, Path: name, Err: billy.ErrCrossedBoundary}
	case strings.IndexByte(clean, 0) >= 0:
		return "", &fs.PathError{Op: op, Path: name, Err: unix.EINVAL}
	}
	return clean, nil
}

// at calls do with the parent folder of a path and its last name. For the
// root, these are the root and ".".
func (f *OSFS) at(op, name string, do func(d *osFolder, base string) error) error {
	clean, err := f.clean(op, name)
	if err != nil {
		return err
	}

	dir, base := tree.Split(clean)
	if base == "" {
		base = "."
	}
	defer runtime.KeepAlive(f)
	d, err := openFolderBelow(f.dir.fd, dir)
	if err == nil {
		defer d.Close()
		err = do(d, base)
	}
	if err != nil && !errors.As(err, new(*fs.PathError)) {
		err = &fs.PathError{Op: op, Path: name, Err: err}
	}

	return err
}

// Create implements [billy.Basic].
func (f *OSFS) Create(name string) (billy.File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// Open implements [billy.Basic].
func (f *OSFS) Open(name string) (billy.File, error) { return f.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile implements [billy.Basic]. Folders above a file to be made must exist.
func (f *OSFS) OpenFile(name string, flag int, perm os.FileMode) (billy.File, error) {
	var file *osBillyFile
	err := f.at("open", name, func(d *osFolder, base string) error {
		fd, err := openat(d.fd, base, flag|unix.O_NONBLOCK, modeBits(perm)&0o7777)
		if err == nil {
			file = &osBillyFile{os.NewFile(uintptr(fd), name)}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Stat implements [billy.Basic]. It is Lstat: symlinks are not followed.
func (f *OSFS) Stat(name string) (os.FileInfo, error) { return f.Lstat(name) }

// Lstat implements [billy.Symlink].
func (f *OSFS) Lstat(name string) (info os.FileInfo, err error) {
	err = f.at("lstat", name, func(d *osFolder, base string) error {
		st, err := d.lstat(base)
		info = osInfo{path.Base("/" + name), st}
		return err
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

// Rename implements [billy.Basic].
func (f *OSFS) Rename(from, to string) error {
	return f.at("rename", from, func(d *osFolder, base string) error {
		return f.at("rename", to, func(dst *osFolder, newBase string) error { return d.rename(base, dst, newBase) })
	})
}

// Remove implements [billy.Basic].
func (f *OSFS) Remove(name string) error {
	return f.at("remove", name, func(d *osFolder, base string) error {
		st, err := d.lstat(base)
		if err == nil && st.isDir() {
			return d.rmdir(base)
		}
		return d.unlink(base)
	})
}

// Join implements [billy.Basic].
func (f *OSFS) Join(elem ...string) string { return path.Join(elem...) }

// TempFile implements [billy.TempFile].
func (f *OSFS) TempFile(dir, prefix string) (billy.File, error) {
	return f.OpenFile(path.Join(dir, prefix+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// ReadDir implements [billy.Dir].
func (f *OSFS) ReadDir(name string) ([]os.FileInfo, error) {
	clean, err := f.clean("readdir", name)
	if err != nil {
		return nil, err
	}

	var infos []os.FileInfo
	d, err := f.openFolder(clean)
	if err == nil {
		defer d.Close()
		var l listing
		err = d.list(&l)
		for i := range l.entries {
			if st, err := d.listed(&l, i); err == nil {
				infos = append(infos, osInfo{strings.Clone(l.name(i)), st})
			}
		}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}

	slices.SortFunc(infos, func(a, b os.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
	return infos, nil
}

// MkdirAll implements [billy.Dir].
func (f *OSFS) MkdirAll(name string, perm os.FileMode) error {
	clean, err := f.clean("mkdir", name)
	if err != nil {
		return err
	}

	at, err := f.openFolder("")
	if err == nil {
		at, err = makeBelow(at, clean, modeBits(perm)&0o7777, nil)
	}
	if err != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}

	return at.Close()
}

// Symlink implements [billy.Symlink]. It makes missing folders above the link.
func (f *OSFS) Symlink(target, link string) error {
	if err := f.MkdirAll(path.Dir(path.Clean("/"+link)), 0o777); err != nil {
		return err
	}
	return f.at("symlink", link, func(d *osFolder, base string) error { return d.symlink(target, base) })
}

// Readlink implements [billy.Symlink].
func (f *OSFS) Readlink(link string) (target string, err error) {
	err = f.at("readlink", link, func(d *osFolder, base string) error {
		target, err = d.readlink(base)
		return err
	})
	return target, err
}

// Chroot implements [billy.Chroot].
func (f *OSFS) Chroot(name string) (billy.Filesystem, error) {
	clean, err := f.clean("chroot", name)
	if err != nil {
		return nil, err
	}
	d, err := f.openFolder(clean)
	if err != nil {
		return nil, &fs.PathError{Op: "chroot", Path: name, Err: err}
	}
	return newOSFS(filepath.Join(f.root, filepath.FromSlash(clean)), d.(*osFolder)), nil
}

// Root implements [billy.Chroot]. It is the absolute path given to [OS].
func (f *OSFS) Root() string { return f.root }

// Chmod implements [billy.Chmod], for files and folders.
func (f *OSFS) Chmod(name string, mode os.FileMode) error {
	return f.at("chmod", name, func(d *osFolder, base string) error {
		fd, err := openat(d.fd, base, unix.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return osFile(fd).chmod(modeBits(mode) & 0o7777)
	})
}

// Lchown implements [billy.Change].
func (f *OSFS) Lchown(name string, uid, gid int) error {
	return f.at("lchown", name, func(d *osFolder, base string) error {
		return unix.Fchownat(d.fd, base, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Chown implements [billy.Change]. It is Lchown: symlinks are not followed.
func (f *OSFS) Chown(name string, uid, gid int) error { return f.Lchown(name, uid, gid) }

// Chtimes implements [billy.Change]. Both times become mtime.
func (f *OSFS) Chtimes(name string, _, mtime time.Time) error {
	return f.at("chtimes", name, func(d *osFolder, base string) error { return d.chtimes(base, mtime) })
}

// Capabilities implements [billy.Capable].
func (f *OSFS) Capabilities() billy.Capability { return billy.AllCapabilities }

// osBillyFile adds the locks of billy to an open file.
type osBillyFile struct{ *os.File }

// Lock implements [billy.File].
func (f *osBillyFile) Lock() error {
	return retry(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX) })
}

// Unlock implements [billy.File].
func (f *osBillyFile) Unlock() error {
	return retry(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) })
}

// osInfo makes an [fs.FileInfo] of a fileStat.
type osInfo struct {
	name string
	st   fileStat
}

func (i osInfo) Name() string       { return i.name }
func (i osInfo) Size() int64        { return i.st.size }
func (i osInfo) IsDir() bool        { return i.st.isDir() }
func (i osInfo) ModTime() time.Time { return time.Unix(i.st.mtime.Sec, int64(i.st.mtime.Nsec)) }
func (i osInfo) Sys() any           { return nil }

// Mode implements [fs.FileInfo].
func (i osInfo) Mode() os.FileMode {
	m := fileMode(i.st.mode & 0o7777)
	switch i.st.mode & modeType {
	case modeDir:
		m |= fs.ModeDir
	case modeLink:
		m |= fs.ModeSymlink
	case modeFIFO:
		m |= fs.ModeNamedPipe
	case modeSocket:
		m |= fs.ModeSocket
	case modeChar:
		m |= fs.ModeDevice | fs.ModeCharDevice
	case modeBlock:
		m |= fs.ModeDevice
	}

	return m
}

var _ io.Closer = (*osFolder)(nil)
