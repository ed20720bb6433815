package view

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/tree"
)

// FS returns the files of a commit for reading. Symlinks are not followed:
// opening one is an error. [fs.FileInfo.Mode] marks it, and [fs.ReadLink]
// returns its target. The error is an [*ExpiredError] if the content of the
// commit has expired.
func FS(ctx context.Context, r *kist.Repository, commit object.ID) (fs.FS, error) {
	c, err := object.ReadCommit(ctx, r.Objects(), commit)
	if err == nil {
		err = intact.Usable(ctx, r, commit)
	}
	if err != nil {
		return nil, err
	}
	return &treeFS{ctx: ctx, objects: r.Contents(), root: c.Tree, time: c.Committer.Time.Time()}, nil
}

// treeFS implements [fs.FS], [fs.ReadDirFS], [fs.StatFS] and [fs.ReadLinkFS]
// over a tree.
type treeFS struct {
	ctx     context.Context
	objects object.Reader
	root    object.ID
	time    time.Time // of directories, which have none of their own
}

func (t *treeFS) find(op, name string) (*fileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		root := object.Entry{Name: ".", Type: object.TypeDir, Mode: 0o755, Content: object.Key{Kind: object.KindTree, ID: t.root}}
		return &fileInfo{root, t.time}, nil
	}
	e, err := tree.Find(t.ctx, t.objects, t.root, name)
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return &fileInfo{e, t.time}, nil
}

func (t *treeFS) Stat(name string) (fs.FileInfo, error) {
	info, err := t.find("stat", name)
	if err != nil {
		return nil, err
	}
	return info, nil
}

// Lstat is Stat, which does not follow symlinks either.
func (t *treeFS) Lstat(name string) (fs.FileInfo, error) { return t.Stat(name) }

func (t *treeFS) ReadLink(name string) (string, error) {
	info, err := t.find("readlink", name)
	if err != nil {
		return "", err
	}
	if info.entry.Type != object.TypeSymlink {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: errors.New("not a symlink")}
	}
	return info.entry.Target, nil
}

func (t *treeFS) ReadDir(name string) ([]fs.DirEntry, error) {
	info, err := t.find("readdir", name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a directory")}
	}
	var entries []fs.DirEntry
	for e, err := range object.Entries(t.ctx, t.objects, info.entry.Content.ID) {
		if err != nil {
			return entries, &fs.PathError{Op: "readdir", Path: name, Err: err}
		}
		entries = append(entries, fs.FileInfoToDirEntry(&fileInfo{e, t.time}))
	}
	return entries, nil
}

func (t *treeFS) Open(name string) (fs.File, error) {
	info, err := t.find("open", name)
	if err != nil {
		return nil, err
	}
	switch info.entry.Type {
	case object.TypeDir:
		return &openDir{fs: t, name: name, info: info}, nil
	case object.TypeFile:
		return &openFile{object.NewContentReader(t.ctx, t.objects, info.entry), info}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a file or directory")}
}

// openFile is an open file of a treeFS.
type openFile struct {
	*object.ContentReader
	info *fileInfo
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }

func (f *openFile) Close() error { return nil }

// openDir is an open directory of a treeFS.
type openDir struct {
	fs      *treeFS
	name    string
	info    *fileInfo
	read    bool
	entries []fs.DirEntry
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }

func (d *openDir) Close() error { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: errors.New("is a directory")}
}

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if !d.read {
		entries, err := d.fs.ReadDir(d.name)
		if err != nil {
			return nil, err
		}
		d.entries, d.read = entries, true
	}
	if n <= 0 {
		n = len(d.entries)
	} else if len(d.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.entries))
	list := d.entries[:n:n]
	d.entries = d.entries[n:]
	return list, nil
}

// fileInfo implements [fs.FileInfo] for an entry.
type fileInfo struct {
	entry object.Entry
	time  time.Time
}

func (i *fileInfo) Name() string { return i.entry.Name }

func (i *fileInfo) Size() int64 { return int64(i.entry.Size) }

func (i *fileInfo) IsDir() bool { return i.entry.Type == object.TypeDir }

// Sys returns the [object.Entry].
func (i *fileInfo) Sys() any { return i.entry }

func (i *fileInfo) ModTime() time.Time {
	if i.entry.MTime.IsZero() {
		return i.time
	}
	return i.entry.MTime.Time()
}

func (i *fileInfo) Mode() fs.FileMode {
	mode := fs.FileMode(i.entry.Mode & 0o777)
	for bit, flag := range map[uint16]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if i.entry.Mode&bit != 0 {
			mode |= flag
		}
	}
	switch i.entry.Type {
	case object.TypeDir:
		mode |= fs.ModeDir
	case object.TypeSymlink:
		mode |= fs.ModeSymlink
	case object.TypeFIFO:
		mode |= fs.ModeNamedPipe
	case object.TypeCharDevice:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case object.TypeBlockDevice:
		mode |= fs.ModeDevice
	case object.TypeSocket:
		mode |= fs.ModeSocket
	}
	return mode
}
