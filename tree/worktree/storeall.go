package worktree

import (
	"context"
	"errors"
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
func (w *Worktree) StoreAll(ctx context.Context, dst object.Writer, found []Found, each func(i int, s Stored, err error) error, progress func(files, bytes int64)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	q := &storeQueue{found: found}
	var total meter
	var bytes func(n int64)
	if progress != nil {
		bytes = func(n int64) { total.add(progress, 0, n) }
	}

	tokens := make(chan struct{}, w.opt.Jobs)
	var serial sync.Mutex
	var workers sync.WaitGroup
	for range min(w.opt.Jobs, len(found)) {
		workers.Go(func() {
			s := w.newStorer(dst, bytes)
			s.tokens = tokens
			defer s.close()
			for from, to := q.next(); from < to; from, to = q.next() {
				for i := from; i < to; i++ {
					stored, err := s.store(ctx, found[i].Path, &found[i], found[i].Old)
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
					total.add(progress, 1, 0)
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
	found []Found
	at    int
}

// next returns the bounds of the next batch, which is empty at the end.
func (q *storeQueue) next() (from, to int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from = q.at
	if from == len(q.found) {
		return from, from
	}

	dir := dirLen(q.found[from].Path)
	size := int64(0)
	for to = from; to < len(q.found) && to-from < maxBatch && size < maxBatchSize; to++ {
		f := &q.found[to]
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
func (w *Worktree) Confirm(ctx context.Context, found []Found) ([]Found, []Refreshed, error) {
	var refreshed []Refreshed
	var candidates []Found
	var places []int // the place in found of each item of candidates
	n := 0           // found[:n] is the result so far
	for from := 0; from < len(found); {
		candidates, places = candidates[:0], places[:0]
		to := min(from+confirmAtOnce, len(found))
		for i := from; i < to; i++ {
			if f := &found[i]; f.State == Modified && f.Old != nil && !differs(f) {
				candidates, places = append(candidates, *f), append(places, i)
			}
		}
		same, err := w.confirm(ctx, candidates, func(i int) *Found { return &found[places[i]] })
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
const unchanged State = 0

// confirm reads the candidates and sets the new state at place(i). It returns
// the unchanged ones.
func (w *Worktree) confirm(ctx context.Context, candidates []Found, place func(i int) *Found) (same []Refreshed, err error) {
	err = w.StoreAll(ctx, object.Discard, candidates, func(i int, s Stored, err error) error {
		f := place(i)
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

// differs reports whether the size alone shows that a file differs from the
// index.
func differs(f *Found) bool {
	return f.Type == object.TypeFile && uint64(f.Stat.Size) != f.Old.Size
}
