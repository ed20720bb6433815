package worktree

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// Limits of an Ahead.
const (
	maxAheadChunks = 1 << 19 // planned chunks, 56 bytes each
	maxAheadOpen   = 64      // files open at once
)

// Ahead writes files before [Worktree.Apply] needs them, from chunks that
// arrive for another reason, so that Apply need not read these chunks again.
// The files have temporary names until Apply takes them. Close removes the
// remaining files.
type Ahead struct {
	w     *Worktree
	temp  *tempFolder
	spots []spot // by chunk

	mu    sync.Mutex // guards the following
	files map[string]*aheadFile
	open  int
}

// spot is a place in a file where a chunk belongs.
type spot struct {
	id   object.ID
	size uint32
	done bool // guarded by the mutex of the Ahead
	file *aheadFile
	off  uint64
}

// aheadFile is a file that is written ahead. The mutex of the Ahead guards f,
// left and skip.
type aheadFile struct {
	staged
	content object.Key
	size    uint64
	f       file // nil: not open
	left    int  // chunks yet to be written
	skip    bool // left to Apply: too many files were open, or a write failed
}

// WriteAhead prepares the files of more than one chunk that a coming Apply
// will make for ops. It reads their manifests from r. Only one Ahead can exist
// at a time. Close it after that Apply.
func (w *Worktree) WriteAhead(ctx context.Context, r object.Reader, ops []Op) (*Ahead, error) {
	temp, err := w.newTemp()
	if err != nil {
		return nil, err
	}

	a := &Ahead{w: w, temp: temp, files: map[string]*aheadFile{}}
	for i := range ops {
		op := &ops[i]
		if !op.makes(object.TypeFile) || op.New.Content.Kind != object.KindManifest || a.files[op.Path] != nil {
			continue
		}
		if err := a.plan(ctx, r, op); err != nil {
			temp.close()
			return nil, err
		}
		if len(a.spots) >= maxAheadChunks {
			break
		}
	}

	slices.SortFunc(a.spots, func(x, y spot) int { return x.id.Compare(y.id) })
	w.ahead.Store(a)
	return a, nil
}

// plan adds the chunks of a file to the spots.
func (a *Ahead) plan(ctx context.Context, r object.Reader, op *Op) error {
	f := &aheadFile{content: op.New.Content, size: op.New.Size}
	for c, err := range object.Chunks(ctx, r, f.content, f.size, 0) {
		if err != nil {
			return err
		}
		if len(a.spots) == maxAheadChunks { // some of its chunks have no spot
			f.skip = true
			break
		}
		a.spots = append(a.spots, spot{id: c.ID, size: c.Size, file: f, off: c.Offset})
		f.left++
	}

	a.files[op.Path] = f
	return nil
}

// Chunk writes a chunk to every file that it belongs to. The caller has
// verified data, and may reuse it afterwards. If a write fails, Apply will
// write that file. It is safe for concurrent use.
func (a *Ahead) Chunk(id object.ID, data []byte) {
	i := sort.Search(len(a.spots), func(i int) bool { return a.spots[i].id.Compare(id) >= 0 })
	for ; i < len(a.spots) && a.spots[i].id == id; i++ {
		s := &a.spots[i]
		f := a.begin(s)
		if f == nil {
			continue
		}
		err := writeSparse(f, data, int64(s.off))
		if len(data) != int(s.size) {
			err = fmt.Errorf("%d bytes, where the manifest says %d", len(data), s.size)
		}
		a.wrote(s.file, err)
	}
}

// begin returns the open file to write a chunk to, or nil if the chunk need
// not be written.
func (a *Ahead) begin(s *spot) file {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := s.file
	if s.done || f.skip {
		return nil
	}

	s.done = true
	if f.f == nil {
		f.skip = a.open == maxAheadOpen || a.create(f) != nil
	}
	if f.skip {
		return nil
	}

	return f.f
}

// create makes a file. The caller holds a.mu.
func (a *Ahead) create(f *aheadFile) error {
	at := a.temp.stage(nil)
	made, err := at.dir.create(at.name, 0o600)
	if err != nil {
		return err
	}
	f.staged, f.f = at, made
	a.open++
	return made.truncate(int64(f.size))
}

// wrote counts a chunk as written. If err is not nil, the file is left to
// Apply.
func (a *Ahead) wrote(f *aheadFile, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f.skip = f.skip || err != nil
	if f.left--; f.left == 0 {
		a.close(f)
	}
}

// close closes a file. The caller holds a.mu.
func (a *Ahead) close(f *aheadFile) {
	if f.f != nil {
		f.skip = f.f.Close() != nil || f.skip
		f.f = nil
		a.open--
	}
}

// take returns the complete file for a path and its temporary place. The file
// is nil if none is complete. The caller owns both.
func (a *Ahead) take(path string, e *object.Entry) (staged, file) {
	if a == nil {
		return staged{}, nil
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.files[path]
	if f == nil || f.skip || f.left > 0 || f.content != e.Content || f.size != e.Size {
		return staged{}, nil
	}

	opened, err := f.dir.open(f.name)
	if err != nil {
		return staged{}, nil
	}

	delete(a.files, path)
	return f.staged, opened
}

// Close removes the files that Apply did not take.
func (a *Ahead) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.w.ahead.CompareAndSwap(a, nil)
	for _, f := range a.files {
		a.close(f)
		if f.dir != nil {
			f.drop()
		}
	}
	a.files = nil
	a.temp.close()
}
