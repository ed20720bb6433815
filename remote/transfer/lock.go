package transfer

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// LockResult counts the locks of the files that refs and holds need.
type LockResult struct {
	Files   int       // that are locked
	Renewed int       // of these, by this call
	Until   time.Time // when the first lock ends
}

// lockNote records when locks end, in seconds since 1970, as of the last lookup. It relies only on
// this repository's own observations: an attacker with stolen credentials can write to the remote.
type lockNote struct {
	Files map[string]int64 `json:"files"` // by name
	Roots int64            `json:"roots"` // the earliest end for the roots 1 to Root
	Root  uint64           `json:"root"`
}

// LockAt returns how files are locked after a root.
func (o *Options) LockAt(head *rootlog.State) remote.Lock {
	if o.Lock.Age == 0 {
		return head.Lock
	}
	return remote.Lock{Age: max(o.Lock.Age, 0), Governance: o.Lock.Governance}
}

// lockFiles makes the store lock new files as the options or a root require. If only
// the root requires locks, and the store has none, it is a copy of the remote.
func (r *Remote) lockFiles(head *rootlog.State) error {
	lock := r.o.LockAt(head)
	store, ok := remote.As[remote.Locker](r.b)
	switch {
	case ok:
		store.SetLock(lock)
	case r.o.Lock.Age > 0:
		return &remote.Error{Op: "lock", Kind: remote.ErrUnsupported, Err: errors.New("only a bucket of S3 can lock files")}
	case lock.Age > 0:
		r.o.Warn("the remote requires locks, which this store does not have: its files can be deleted")
	}
	return nil
}

// renewLocks extends the locks of all files that the refs and holds of a head need, if less than
// half of the age is left. It asks the store only for locks that it has not noted. If some
// locks cannot be extended, it extends the others before it returns the error.
func (r *Remote) renewLocks(ctx context.Context, head *rootlog.State) (LockResult, error) {
	store, ok := remote.As[remote.Locker](r.b)
	if r.o.LockAt(head).Age <= 0 || !ok || head.Seq == 0 {
		return LockResult{}, nil
	}

	snap, err := r.SnapshotAt(ctx, head)
	if err != nil {
		return LockResult{}, err
	}

	note, err := r.cache.lockNote()
	if err != nil {
		return LockResult{}, err
	}

	w := &renewal{Remote: r, store: store, lock: r.o.LockAt(head), until: map[string]int64{}}
	w.now = r.o.Now()
	enough := w.now.Add(w.lock.Age / 2).Unix()
	var due []string
	for _, name := range snap.lockedNames() {
		if note.Files[name] >= enough {
			w.until[name] = note.Files[name]
		} else {
			due = append(due, name)
		}
	}

	first := note.Root + 1
	if note.Roots < enough || note.Root > head.Seq {
		first, note.Roots = 1, 0
	}

	for seq := first; seq <= head.Seq; seq++ {
		due = append(due, rootlog.RootName(seq))
	}

	err = Parallel(ctx, r.o.Jobs, len(due), func(ctx context.Context, i int) error { return w.renewLock(ctx, due[i]) })
	err = errors.Join(err, w.err)
	result := w.recordEnds(note, head.Seq, err == nil)
	if len(due) == 0 {
		return result, nil
	}

	saveErr := r.cache.withLock(ctx, func() error { return r.cache.writeNote(locksFile, note) })
	return result, cmp.Or(err, saveErr)
}

// identityFile is the file with the identity of a remote.
const identityFile = "kist.json"

// lockedNames returns the files that the refs and holds of the root may need, except roots.
func (s *Snapshot) lockedNames() []string {
	names := append(s.State.NamedFiles(), identityFile)
	for _, f := range s.State.Indexes {
		names = append(names, f.Name.IndexPath())
	}
	for name := range s.Live {
		names = append(names, name.Path())
	}
	slices.Sort(names)
	return names
}

// renewal is a call of renewLocks.
type renewal struct {
	*Remote
	store remote.Locker
	lock  remote.Lock
	now   time.Time

	mu      sync.Mutex
	until   map[string]int64
	renewed int
	err     error // the first failure
	failed  int
}

// renewLock looks up the lock of a file, and extends it if less than half of it is left.
// Only the end of ctx is returned as an error.
func (w *renewal) renewLock(ctx context.Context, name string) error {
	extended := false
	var have remote.Retention
	err := retry.Do(ctx, w.o.Retry, "lock", func(ctx context.Context) (err error) {
		if have, err = w.store.Retention(ctx, name); err != nil || !have.Until.Before(w.now.Add(w.lock.Age/2)) {
			return err
		}
		// A strict lock cannot become one with governance.
		strict := have.Until.After(w.now) && !have.Governance
		have = remote.Retention{Until: w.now.Add(w.lock.Age), Governance: w.lock.Governance && !strict}
		extended = true
		return w.store.Retain(ctx, name, have)
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		if w.failed++; w.err == nil {
			w.err = err
		}
		return ctx.Err()
	}

	w.until[name] = have.Until.Unix()
	if extended {
		w.renewed++
	}
	return nil
}

// recordEnds records in note when each lock ends, and returns the totals. If not all succeeded,
// the note forgets the roots.
func (w *renewal) recordEnds(note *lockNote, head uint64, all bool) LockResult {
	result := LockResult{Renewed: w.renewed, Files: len(w.until)}
	roots, least := note.Roots, note.Roots
	for name, until := range w.until {
		if least == 0 || until < least {
			least = until
		}
		if remote.IsRecord(name) && name != identityFile {
			delete(w.until, name)
			result.Files--
			if roots == 0 || until < roots {
				roots = until
			}
		}
	}
	note.Files, note.Roots, note.Root = w.until, roots, head
	if !all {
		note.Roots, note.Root = 0, 0
	}
	result.Files += int(head)
	result.Until = time.Unix(least, 0)
	return result
}

// lockNote reads the note about locks. It is empty if there is none, or a damaged one.
func (c *cache) lockNote() (*lockNote, error) {
	note, err := readNote[lockNote](c, locksFile)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrState):
		return &lockNote{}, nil
	case err != nil:
		return nil, err
	}
	return &note, nil
}
