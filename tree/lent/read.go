package lent

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Reader reads lent chunks from the files of a worktree. It is safe for concurrent use.
type Reader struct {
	dir   string // .kist
	files *worktree.RangeReader

	mu    sync.RWMutex // guards the following
	x     *Index       // nil: nothing is lent
	info  fs.FileInfo  // of the file that x reads, or that is unusable; nil: there was none
	tried map[File]bool
}

// NewReader returns a Reader of the files of w, by the file in kistDir. It opens nothing yet.
func NewReader(kistDir string, w *worktree.Worktree) *Reader {
	return &Reader{dir: kistDir, files: worktree.NewRangeReader(w), tried: map[File]bool{}}
}

// Get returns the bytes of a lent object, verified by their hash. It returns nil if no file has them now. It does not try a
// file again that had other bytes or other stat data.
func (r *Reader) Get(key object.Key) []byte {
	p, f, ok := r.find(key)
	if !ok {
		return nil
	}
	data := make([]byte, p.size)
	if err := r.files.ReadRange(f.Path, f.Stat, int64(p.offset), data); err != nil || object.Sum(data) != key.ID {
		r.giveUp(f)
		return nil
	}
	return data
}

// Has reports whether a file has a lent object, by the stat data of the file.
func (r *Reader) Has(key object.Key) bool {
	_, f, ok := r.find(key)
	if !ok {
		return false
	}
	if err := r.files.ReadRange(f.Path, f.Stat, 0, nil); err != nil {
		r.giveUp(f)
		return false
	}
	return true
}

// IsRecorded reports whether a file had an object when it was recorded.
func (r *Reader) IsRecorded(key object.Key) bool {
	_, f, _ := r.find(key)
	return f.Path != ""
}

// giveUp notes that a file is not to be tried again.
func (r *Reader) giveUp(f File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried[f] = true
	r.files.Close()
}

// find returns the recorded place of an object, unless its file was tried in vain.
func (r *Reader) find(key object.Key) (place, File, bool) {
	if key.Kind != object.KindChunk || !r.refresh() {
		return place{}, File{}, false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.x == nil {
		return place{}, File{}, false
	}
	p, f, ok, err := r.x.find(key.ID)
	return p, f, ok && err == nil && !r.tried[f]
}

// refresh opens the file if it has changed. It reports whether there is a usable one.
func (r *Reader) refresh() bool {
	info, err := disk.Lstat(filepath.Join(r.dir, FileName))
	if err != nil {
		info = nil
	}
	r.mu.RLock()
	same, usable := sameFile(r.info, info), r.x != nil
	r.mu.RUnlock()
	if same {
		return usable
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if !sameFile(r.info, info) {
		r.closeIndex()
		r.x, _ = Open(r.dir) // an unusable file lends nothing
		r.info = info
	}
	return r.x != nil
}

func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func (r *Reader) closeIndex() {
	if r.x != nil {
		r.x.Close()
		r.x = nil
	}
}

// Close closes the files.
func (r *Reader) Close() {
	r.files.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeIndex()
	r.info = nil
}
