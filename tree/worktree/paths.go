package worktree

import (
	"io"
	"io/fs"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// Info describes a path of the worktree.
type Info struct {
	Type object.EntryType
	Mode uint16     // permission bits
	Stat index.Stat // ReadAt is zero
}

// Lstat describes a path and does not follow symlinks. The error is
// [fs.ErrNotExist] if the path is absent or a component above it is no folder.
func (w *Worktree) Lstat(path string) (Info, error) {
	var info Info
	err := w.at("lstat", path, func(d folder, name string) error {
		st, err := lstatIn(d, name)
		info = Info{Type: st.entryType(), Mode: st.perm(), Stat: st.indexStat(0)}
		return err
	})
	if notFolder(err) {
		err = pathError("lstat", path, fs.ErrNotExist)
	}

	return info, err
}

// Open opens the file at path for reading. The error is [ErrSpecial] if it is
// no regular file.
func (w *Worktree) Open(path string) (io.ReadCloser, error) {
	var f file
	err := w.at("open", path, func(d folder, name string) error {
		st, err := d.lstat(name)
		if err == nil && !st.isRegular() {
			err = ErrSpecial
		}
		if err == nil {
			f, err = d.open(name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}

	return f, nil
}

// MkdirAll makes a folder and its missing parents. An existing folder does not
// change.
func (w *Worktree) MkdirAll(path string) error {
	path, err := cleanPath(path)
	if err != nil {
		return err
	}
	d, err := w.makeFolder(path)
	if err != nil {
		return err
	}
	return d.Close()
}

// Remove removes the file, symlink or empty folder at path.
func (w *Worktree) Remove(path string) error {
	return w.at("remove", path, func(d folder, name string) error {
		st, err := d.lstat(name)
		switch {
		case err != nil:
			return err
		case st.isDir():
			return d.rmdir(name)
		}
		return d.unlink(name)
	})
}

// Rename moves a path and replaces a file or symlink at the new path. The new
// parent folder must exist.
func (w *Worktree) Rename(from, to string) error {
	return w.at("rename", from, func(d folder, name string) error {
		return w.at("rename", to, func(dst folder, newName string) error { return d.rename(name, dst, newName) })
	})
}

// Exists reports whether path exists, even if it is a dangling symlink.
func (w *Worktree) Exists(path string) bool {
	_, err := w.Lstat(path)
	return err == nil
}

// IsDir reports whether path is a folder.
func (w *Worktree) IsDir(path string) bool {
	info, err := w.Lstat(path)
	return err == nil && info.Type == object.TypeDir
}

// at calls do with the parent folder of a path and its last name, which is ""
// for the root.
func (w *Worktree) at(op, path string, do func(d folder, name string) error) error {
	clean, err := cleanPath(path)
	if err != nil {
		return err
	}

	dir, name := tree.Split(clean)
	d, err := w.openFolder(dir)
	if err != nil {
		return pathError(op, path, err)
	}
	defer d.Close()
	if err := do(d, name); err != nil {
		return pathError(op, path, err)
	}

	return nil
}
