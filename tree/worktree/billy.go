package worktree

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/go-git/go-billy/v5"

	"github.com/kist-vcs/kist/object"
)

// pathFS opens folders of any billy file system by joined paths. It checks
// every component before it uses it, but another process can replace one in
// between: use [Open] for real folders.
type pathFS struct{ fs billy.Filesystem }

func (p *pathFS) openFolder(at string) (folder, error) {
	dir := ""
	for rest := at; rest != ""; {
		var name string
		name, rest = cutPath(rest)
		dir = path.Join(dir, name)
		if err := p.checkDir(dir); err != nil {
			return nil, err
		}
	}
	return &pathFolder{p, at}, nil
}

// checkDir returns an error unless a path is a directory.
func (p *pathFS) checkDir(at string) error {
	st, err := p.lstat(at)
	if err == nil && !st.isDir() {
		err = &fs.PathError{Op: "open", Path: at, Err: syscall.ENOTDIR}
	}
	return err
}

func (p *pathFS) lstat(at string) (fileStat, error) {
	if at == "" {
		if info, err := p.fs.Stat("."); err == nil {
			return statOf(info), nil
		}
		return fileStat{mode: modeDir | 0o755}, nil
	}
	info, err := p.fs.Lstat(at)
	if err != nil {
		return fileStat{}, err
	}
	return statOf(info), nil
}

// statOf returns the stat data of a file on a file system without stat(2).
func statOf(info os.FileInfo) fileStat {
	mtime := object.TimeOf(info.ModTime())
	return fileStat{size: info.Size(), mode: modeBits(info.Mode()), mtime: mtime, ctime: nanoseconds(mtime)}
}

// pathFolder is a folder named by its path.
type pathFolder struct {
	*pathFS
	dir string
}

// pathOf returns the path of a name.
func (d *pathFolder) pathOf(name string) string { return path.Join(d.dir, name) }

func (d *pathFolder) Close() error { return nil }

func (d *pathFolder) readNames(l *listing) error {
	l.reset()
	infos, err := d.fs.ReadDir(d.dir)
	for _, info := range infos {
		l.addName(info.Name(), modeBits(info.Mode())&modeType)
	}
	return err
}

func (d *pathFolder) lstat(name string) (fileStat, error) {
	return d.pathFS.lstat(d.pathOf(name))
}

func (d *pathFolder) lstatListed(l *listing, i int) (fileStat, error) { return d.lstat(l.nameAt(i)) }

// A billy file system has no owners, extended attributes, links and special files.

func (d *pathFolder) xattrs(string, wantXattr) (map[string][]byte, error) { return nil, nil }
func (f *pathFile) xattrs(wantXattr) (map[string][]byte, error)           { return nil, nil }
func (f *pathFile) chown(_, _ uint32) error                               { return syscall.ENOTSUP }
func (f *pathFile) setXattr(string, []byte) error                         { return syscall.ENOTSUP }
func (f *pathFile) removeXattr(string) error                              { return syscall.ENOTSUP }
func (d *pathFolder) mknod(string, uint32, uint64) error                  { return ErrSpecial }
func (d *pathFolder) link(string, folder, string) error                   { return syscall.ENOTSUP }

func (d *pathFolder) pin(name string) (openPath, error) {
	return &pathFile{pathFS: d.pathFS, at: d.pathOf(name), File: noFile{}}, nil
}

// noFile is the file of a path that was not opened.
type noFile struct{ billy.File }

func (noFile) Close() error { return nil }

func (d *pathFolder) open(name string) (file, error) {
	at := d.pathOf(name)
	st, err := d.pathFS.lstat(at)
	if err != nil {
		return nil, err
	}
	if !st.isRegular() {
		return nil, &fs.PathError{Op: "open", Path: at, Err: errNotRegular}
	}

	f, err := d.fs.Open(at)
	if err != nil {
		return nil, err
	}

	return &pathFile{d.pathFS, f, at}, nil
}

func (d *pathFolder) readlink(name string) (string, error) {
	return d.fs.Readlink(d.pathOf(name))
}

func (d *pathFolder) openSub(name string) (folder, error) {
	at := d.pathOf(name)
	if err := d.checkDir(at); err != nil {
		return nil, err
	}
	return &pathFolder{d.pathFS, at}, nil
}

func (d *pathFolder) create(name string, perm uint32) (file, error) {
	at := d.pathOf(name)
	f, err := d.fs.OpenFile(at, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode(perm))
	if err != nil {
		return nil, err
	}
	return &pathFile{d.pathFS, f, at}, nil
}

func (d *pathFolder) rename(name string, to folder, newName string) error {
	at := d.pathOf(name)
	target := path.Join(to.(*pathFolder).dir, newName)
	if st, err := d.pathFS.lstat(target); err == nil && st.isDir() {
		return &fs.PathError{Op: "rename", Path: target, Err: syscall.EISDIR}
	}
	return d.fs.Rename(at, target)
}

func (d *pathFolder) renameNew(name string, to folder, newName string) error {
	target := path.Join(to.(*pathFolder).dir, newName)
	if _, err := d.pathFS.lstat(target); err == nil {
		return &fs.PathError{Op: "rename", Path: target, Err: syscall.EEXIST}
	}
	return d.rename(name, to, newName)
}

func (d *pathFolder) mkdir(name string, perm uint32) error {
	at := d.pathOf(name)
	if _, err := d.pathFS.lstat(at); err == nil {
		return &fs.PathError{Op: "mkdir", Path: at, Err: syscall.EEXIST}
	}
	return d.fs.MkdirAll(at, fileMode(perm))
}

func (d *pathFolder) symlink(target, name string) error {
	return d.fs.Symlink(target, d.pathOf(name))
}

func (d *pathFolder) unlink(name string) error {
	at := d.pathOf(name)
	st, err := d.pathFS.lstat(at)
	if err == nil && st.isDir() {
		err = &fs.PathError{Op: "remove", Path: at, Err: syscall.EISDIR}
	}
	if err == nil {
		err = d.fs.Remove(at)
	}
	return err
}

func (d *pathFolder) rmdir(name string) error {
	at := d.pathOf(name)
	if err := d.checkDir(at); err != nil {
		return err
	}
	if infos, err := d.fs.ReadDir(at); err == nil && len(infos) > 0 {
		return &fs.PathError{Op: "remove", Path: at, Err: syscall.ENOTEMPTY}
	}
	return d.fs.Remove(at)
}

func (d *pathFolder) chmodSelf(perm uint32) error {
	return d.chmod(d.dir, fs.ModeDir|fileMode(perm))
}

func (d *pathFolder) chtimes(name string, mtime time.Time) error {
	return d.pathFS.chtimes(d.pathOf(name), mtime)
}

func (p *pathFS) chmod(at string, mode fs.FileMode) error {
	if c, ok := p.fs.(billy.Chmod); ok {
		return c.Chmod(at, mode)
	}
	return nil // a file system without modes
}

func (p *pathFS) chtimes(at string, mtime time.Time) error {
	if c, ok := p.fs.(billy.Change); ok {
		return c.Chtimes(at, mtime, mtime)
	}
	return nil // a file system without settable times
}

// pathFile is a file of a pathFS.
type pathFile struct {
	*pathFS
	billy.File
	at string
}

func (f *pathFile) rewind() error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

func (f *pathFile) stat() (fileStat, error) {
	st, err := f.pathFS.lstat(f.at)
	if errors.Is(err, fs.ErrNotExist) {
		st, err = fileStat{}, nil // it was renamed or removed since
	}
	return st, err
}

func (f *pathFile) truncate(size int64) error { return f.Truncate(size) }

// WriteAt seeks and writes, because billy files have no such call. Concurrent
// calls must not overlap.
func (f *pathFile) WriteAt(p []byte, off int64) (int, error) {
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *pathFile) chmod(perm uint32) error {
	return f.pathFS.chmod(f.at, fileMode(perm))
}

func (f *pathFile) chtimes(mtime time.Time) error {
	return f.pathFS.chtimes(f.at, mtime)
}

// otherWriters returns writersUnknown, because the file system may be anything.
func (f *pathFile) otherWriters() writers { return writersUnknown }

func (f *pathFile) cleanPages() bool { return false }

func (f *pathFile) contentReader() io.Reader { return f }

func (f *pathFile) isOpenOnce() bool { return false }
