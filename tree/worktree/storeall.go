package worktree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// maxBatch is how many files of a folder a worker takes at once.
const maxBatch = 32

// StoreAll stores the files and symlinks of a scan's result, several at once,
// and large files in several parts at once. For every path it calls each with
// its place in found and the result that Store would return, in no order. It
// calls progress, unless that is nil, with the files and bytes done so far.
// All these calls are made one at a time. StoreAll ends at an error of each or
// of dst.
//
// found must contain only present files and symlinks.
func (w *Worktree) StoreAll(ctx context.Context, dst object.Writer, found []*Found, each func(i int, s Stored, err error) error, progress func(files, bytes int64)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	q := &storeQueue{found: found}
	var total meter
	var bytes func(n int64)
	if progress != nil {
		bytes = func(n int64) { total.addProgress(progress, 0, n) }
	}

	tokens := make(chan struct{}, w.opt.Jobs)
	var serial sync.Mutex
	var workers sync.WaitGroup
	for range min(w.opt.Jobs, len(found)) {
		workers.Go(func() {
			s := w.newStorer(dst, bytes)
			s.tokens = tokens
			defer s.close()
			for from, to := q.nextBatch(); from < to; from, to = q.nextBatch() {
				for i := from; i < to; i++ {
					stored, err := s.storeItem(ctx, found[i].Path, found[i], found[i].Old)
					if isStoreError(err) {
						cancel(errors.Unwrap(err))
						return
					}
					serial.Lock()
					if ctx.Err() == nil {
						if err := each(i, stored, err); err != nil {
							cancel(err)
						}
					}
					serial.Unlock()
					total.addProgress(progress, 1, 0)
				}
			}
		})
	}

	workers.Wait()
	return context.Cause(ctx)
}

// storeQueue hands out batches of files in the same folder.
type storeQueue struct {
	mu    sync.Mutex
	found []*Found
	at    int
}

// nextBatch returns the bounds of the next batch, which is empty at the end.
func (q *storeQueue) nextBatch() (from, to int) {
	q.mu.Lock()
	defer q.mu.Unlock()

	from = q.at
	if from == len(q.found) {
		return from, from
	}

	dir := dirLen(q.found[from].Path)
	size := int64(0)
	for to = from; to < len(q.found) && to-from < maxBatch && size < maxBatchSize; to++ {
		f := q.found[to]
		if dirLen(f.Path) != dir || f.Path[:dir] != q.found[from].Path[:dir] {
			break
		}
		size += f.Stat.Size
	}

	q.at = to
	return from, to
}

// maxBatchSize ends a batch, in bytes. A single file may be larger.
const maxBatchSize = 1 << 20

// dirLen returns the length of the folder's part of a path.
func dirLen(path string) int { return strings.LastIndexByte(path, '/') + 1 }

// Refreshed is a file that proved to be unchanged, with its present stat data.
type Refreshed struct {
	Path string
	Stat index.Stat
	Old  *index.Entry // the entry in the index, whose content is still right
}

// confirmAtOnce is how many files Confirm reads before it frees their results.
// A scan may find millions of them.
const confirmAtOnce = 1 << 14

// Confirm reads the files and symlinks that a scan reported as Modified and
// finds the real changes. It returns found without the unchanged paths, in the
// same order and memory. It returns the unchanged paths apart, with stat data
// that makes the next scan faster. A file that differs only in permission bits
// becomes ModeChanged, an unreadable one Unreadable, a missing one Deleted. An
// error means that Confirm itself failed. The caller must not use found
// afterwards.
func (w *Worktree) Confirm(ctx context.Context, found []*Found) ([]*Found, []Refreshed, error) {
	var refreshed []Refreshed
	var candidates []*Found
	n := 0 // found[:n] is the result so far
	for from := 0; from < len(found); {
		candidates = candidates[:0]
		to := min(from+confirmAtOnce, len(found))
		for _, f := range found[from:to] {
			if f.State == Modified && f.Old != nil && !sizeDiffers(f) {
				candidates = append(candidates, f)
			}
		}
		same, err := w.rereadCandidates(ctx, candidates)
		if err != nil {
			return nil, nil, err
		}
		refreshed = append(refreshed, same...)
		for ; from < to; from++ {
			if found[from].State != unchanged {
				found[n] = found[from]
				n++
			}
		}
	}

	clear(found[n:])
	return found[:n], refreshed, nil
}

// unchanged is the state, within Confirm, of a path that Confirm leaves out.
const unchanged PathState = 0

// rereadCandidates reads the candidates and sets their new states. It returns the unchanged
// ones.
func (w *Worktree) rereadCandidates(ctx context.Context, candidates []*Found) (same []Refreshed, err error) {
	err = w.StoreAll(ctx, object.Discard, candidates, func(i int, s Stored, err error) error {
		f := candidates[i]
		now := index.NewEntry(s.Entry, s.Stat)
		switch {
		case errors.Is(err, ErrGone):
			*f = Found{Path: f.Path, State: Deleted, Old: f.Old}
		case err != nil:
			f.State, f.Err = Unreadable, err
		case f.Old.SameContent(&now) && !s.Unstable:
			f.State = unchanged
			same = append(same, Refreshed{f.Path, s.Stat, f.Old})
		default:
			f.Stat, f.Mode = s.Stat, s.Entry.Mode
			now.Mode = f.Old.Mode
			if f.Old.SameContent(&now) && !s.Unstable {
				f.State = ModeChanged
			}
		}
		return nil
	}, nil)
	return same, err
}

// sizeDiffers reports whether the size alone shows that a file differs from the
// index.
func sizeDiffers(f *Found) bool {
	return f.Type == object.TypeFile && uint64(f.Stat.Size) != f.Old.Size
}

// Limits of an EarlyWriter.
const (
	maxEarlyChunks = 1 << 19 // planned chunks, 56 bytes each
	maxEarlyOpen   = 64      // files open at once
)

// EarlyWriter writes files before [Worktree.Apply] needs them, from chunks that
// arrive for another reason, so that Apply need not read these chunks again.
// The files have temporary names until Apply takes them. Close removes the
// remaining files.
type EarlyWriter struct {
	w     *Worktree
	temp  *tempFolder
	spots []chunkSpot // by chunk

	mu    sync.Mutex // guards the following
	files map[string]*earlyFile
	open  int
}

// chunkSpot is a place in a file where a chunk belongs.
type chunkSpot struct {
	id   object.ID
	size uint32
	done bool // guarded by the mutex of the EarlyWriter
	file *earlyFile
	off  uint64
}

// earlyFile is a file that is written early. The mutex of the EarlyWriter guards f,
// left and skip.
type earlyFile struct {
	tempFile
	content object.Key
	size    uint64
	f       file // nil: not open
	left    int  // chunks yet to be written
	skip    bool // left to Apply: too many files were open, or a write failed
}

// WriteEarly prepares the files of more than one chunk that a coming Apply
// will make for ops. It reads their manifests from r. Only one EarlyWriter can exist
// at a time. Close it after that Apply.
func (w *Worktree) WriteEarly(ctx context.Context, r object.Reader, ops []Op) (*EarlyWriter, error) {
	temp, err := w.newTemp()
	if err != nil {
		return nil, err
	}

	if !w.opt.Git {
		ops, _ = splitGit(ops)
	}
	a := &EarlyWriter{w: w, temp: temp, files: map[string]*earlyFile{}}
	for i := range ops {
		op := &ops[i]
		if !op.makesType(object.TypeFile) || op.New.Content.Kind != object.KindManifest || a.files[op.Path] != nil {
			continue
		}
		if err := a.planFile(ctx, r, op); err != nil {
			temp.close()
			return nil, err
		}
		if len(a.spots) >= maxEarlyChunks {
			break
		}
	}

	slices.SortFunc(a.spots, func(x, y chunkSpot) int { return x.id.Compare(y.id) })
	w.early.Store(a)
	return a, nil
}

// planFile adds the chunks of a file to the spots.
func (a *EarlyWriter) planFile(ctx context.Context, r object.Reader, op *Op) error {
	f := &earlyFile{content: op.New.Content, size: op.New.Size}
	for c, err := range object.Chunks(ctx, r, f.content, f.size, 0) {
		if err != nil {
			return err
		}
		if len(a.spots) == maxEarlyChunks { // some of its chunks have no spot
			f.skip = true
			break
		}
		a.spots = append(a.spots, chunkSpot{id: c.ID, size: c.Size, file: f, off: c.Offset})
		f.left++
	}

	a.files[op.Path] = f
	return nil
}

// Chunk writes a chunk to every file that it belongs to. The caller has
// verified data, and may reuse it afterwards. If a write fails, Apply will
// write that file. It is safe for concurrent use.
func (a *EarlyWriter) Chunk(id object.ID, data []byte) {
	i := sort.Search(len(a.spots), func(i int) bool { return a.spots[i].id.Compare(id) >= 0 })
	for ; i < len(a.spots) && a.spots[i].id == id; i++ {
		s := &a.spots[i]
		f := a.beginChunk(s)
		if f == nil {
			continue
		}
		err := writeSparse(f, data, int64(s.off))
		if len(data) != int(s.size) {
			err = fmt.Errorf("%d bytes, want %d as in the manifest", len(data), s.size)
		}
		a.countWritten(s.file, err)
	}
}

// beginChunk returns the open file to write a chunk to, or nil if the chunk need
// not be written.
func (a *EarlyWriter) beginChunk(s *chunkSpot) file {
	a.mu.Lock()
	defer a.mu.Unlock()

	f := s.file
	if s.done || f.skip {
		return nil
	}

	s.done = true
	if f.f == nil {
		f.skip = a.open == maxEarlyOpen || a.createFile(f) != nil
	}
	if f.skip {
		return nil
	}

	return f.f
}

// createFile makes a file. The caller holds a.mu.
func (a *EarlyWriter) createFile(f *earlyFile) error {
	at := a.temp.newPlace(nil)
	made, err := at.dir.create(at.name, 0o600)
	if err != nil {
		return err
	}
	f.tempFile, f.f = at, made
	a.open++
	return made.truncate(int64(f.size))
}

// countWritten counts a chunk as written. If err is not nil, the file is left to
// Apply.
func (a *EarlyWriter) countWritten(f *earlyFile, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f.skip = f.skip || err != nil
	if f.left--; f.left == 0 {
		a.closeFile(f)
	}
}

// closeFile closes a file. The caller holds a.mu.
func (a *EarlyWriter) closeFile(f *earlyFile) {
	if f.f != nil {
		f.skip = f.f.Close() != nil || f.skip
		f.f = nil
		a.open--
	}
}

// takeFile returns the complete file for a path and its temporary place. The file
// is nil if none is complete. The caller owns both.
func (a *EarlyWriter) takeFile(path string, e *object.Entry) (tempFile, file) {
	if a == nil {
		return tempFile{}, nil
	}

	a.mu.Lock()
	defer a.mu.Unlock()

	f := a.files[path]
	if f == nil || f.skip || f.left > 0 || f.content != e.Content || f.size != e.Size {
		return tempFile{}, nil
	}

	opened, err := f.dir.open(f.name)
	if err != nil {
		return tempFile{}, nil
	}

	delete(a.files, path)
	return f.tempFile, opened
}

// Close removes the files that Apply did not take.
func (a *EarlyWriter) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.w.early.CompareAndSwap(a, nil)
	for _, f := range a.files {
		a.closeFile(f)
		if f.dir != nil {
			f.removeTemp()
		}
	}

	a.files = nil
	a.temp.close()
}
