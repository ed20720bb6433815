package worktree

import (
	"errors"
	"io"
	"sync"

	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// RangeReader reads ranges of files whose stat data is known. It keeps the last file open, because the next range mostly lies
// in the same one. It is safe for concurrent use.
type RangeReader struct {
	w *Worktree

	mu   sync.RWMutex // guards the following; read-held during a read
	path string       // of f
	f    file         // nil: none is open
}

// ErrChanged is the error for a file with other stat data than the wanted one.
var ErrChanged = errors.New("the file has changed")

// NewRangeReader returns a RangeReader of files in w. The caller calls Close after the last read.
func NewRangeReader(w *Worktree) *RangeReader { return &RangeReader{w: w} }

// ReadRange fills p with the bytes at off of the file at path. No component of the path may be a symlink, and only a regular
// file is opened. The error is [ErrChanged] unless the file has the size, the times and the inode of want. The bytes may be others
// all the same, if a program writes the file: the caller checks them.
func (r *RangeReader) ReadRange(path string, want index.Stat, off int64, p []byte) error {
	r.mu.RLock()
	if r.f != nil && r.path == path {
		defer r.mu.RUnlock()
		return readRange(r.f, path, want, off, p)
	}
	r.mu.RUnlock()

	f, err := r.openFile(path)
	if err != nil {
		return pathError("open", path, err)
	}
	err = readRange(f, path, want, off, p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.close()
	r.path, r.f = path, f
	return err
}

func readRange(f file, path string, want index.Stat, off int64, p []byte) error {
	st, err := f.stat()
	if err == nil && !st.isLike(want) {
		err = ErrChanged
	}
	if err != nil {
		return pathError("read", path, err)
	}
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return pathError("read", path, err)
}

// isLike reports whether a file has the size, the times and the inode of want. A file system without inodes has no times
// that could be relied on.
func (st *fileStat) isLike(want index.Stat) bool {
	return st.ino != 0 && st.isRegular() && st.ino == want.Inode && st.size == want.Size && nanoseconds(st.mtime) == want.MTime && st.ctime == want.CTime
}

// openFile opens a file.
func (r *RangeReader) openFile(path string) (file, error) {
	clean, err := cleanPath(path)
	if err != nil {
		return nil, err
	}
	dir, name := tree.Split(clean)
	d, err := r.w.openFolder(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return openRegular(d, name)
}

// Close closes the open file. The next read opens one.
func (r *RangeReader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.close()
}

func (r *RangeReader) close() {
	if r.f != nil {
		r.f.Close()
		r.f = nil
	}
}
