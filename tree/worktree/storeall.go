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

// StoreAll stores the files and symlinks that a scan found, several at once,
// and large files in several parts at once. It calls each with the place in
// found of every path that is done, in no order, with what Store would have
// returned; and progress, unless that is nil, with the files and bytes done so
// far. These calls are made one at a time, and an error of each ends StoreAll,
// as one of dst does.
//
// What is not a file or symlink now, such as what is deleted, is not to be in
// found.
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

// storeQueue hands out files in batches from the same folder.
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

// maxBatchSize is how many bytes a worker takes at once, if it is more than
// one file.
const maxBatchSize = 1 << 20

// dirLen returns the length of the folder's part of a path.
func dirLen(path string) int { return strings.LastIndexByte(path, '/') + 1 }

// Refreshed is a file that proved to be unchanged, and its stat data now.
type Refreshed struct {
	Path string
	Stat index.Stat
	Old  *index.Entry // what the index has, and the content still is
}

// confirmAtOnce is how many of the files that it is given Confirm has read at once:
// a great many may have been written just now.
const confirmAtOnce = 1 << 14

// Confirm reads the files and symlinks that a scan found to be Modified, to see
// which really are. It returns found without those that are not, in the same
// order and the same storage, and these apart, with stat data that makes the next
// scan faster. Of a file of which only the permission bits differ the state becomes
// ModeChanged; one that cannot be read becomes Unreadable, and one that is gone
// Deleted. The error is about the whole. Found is not to be used after.
func (w *Worktree) Confirm(ctx context.Context, found []Found) ([]Found, []Refreshed, error) {
	var refreshed []Refreshed
	var ask []Found
	var places []int // in found, of those in ask
	n := 0           // of found, those that are returned
	for from := 0; from < len(found); {
		ask, places = ask[:0], places[:0]
		to := min(from+confirmAtOnce, len(found))
		for i := from; i < to; i++ {
			if f := &found[i]; f.State == Modified && f.Old != nil && !differs(f) {
				ask, places = append(ask, *f), append(places, i)
			}
		}
		same, err := w.confirm(ctx, ask, func(i int) *Found { return &found[places[i]] })
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

// unchanged is the state, within Confirm, of what it does not return.
const unchanged State = 0

// confirm reads what is in ask, and notes at its place what has become of it. It
// returns what has not changed.
func (w *Worktree) confirm(ctx context.Context, ask []Found, place func(i int) *Found) (same []Refreshed, err error) {
	err = w.StoreAll(ctx, object.Discard, ask, func(i int, s Stored, err error) error {
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

// differs reports whether a file cannot be what the index has, by its size.
func differs(f *Found) bool {
	return f.Type == object.TypeFile && uint64(f.Stat.Size) != f.Old.Size
}
