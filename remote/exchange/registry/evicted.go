package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/lent"
)

// evictedReader reads evicted objects from the remotes of a repository. It is safe for
// concurrent use.
type evictedReader struct {
	repo   *kist.Repository
	lent   *lent.Reader
	except string // the name of a remote that is not asked
	budget *budget

	refuses bool // it fetches nothing

	mu     sync.Mutex // guards the following
	opened map[string]*transfer.Reader
	heads  []knownHead // of the remotes that answered last
	failed error       // of a remote that did not
	asked  bool
	at     time.Time // when they were asked
	second bool      // FindUnkept has asked them once more
}

// knownHead is the head of a remote, and the note of its keep ref from before it was read.
type knownHead struct {
	*transfer.Reader
	name string
	note transfer.KeepNote
}

// headAge is the age at which a head counts no longer as present.
const headAge = 10 * time.Second

// ReadEvicted makes the store of r read evicted objects from the files of the worktree that have them, or else from the remotes,
// until ctx or the repository ends. It opens a remote when it needs it. The caller calls it before the first
// use of the store.
func ReadEvicted(ctx context.Context, r *kist.Repository) {
	e := &evictedReader{repo: r, lent: lent.NewReader(r.Dir(), r.Worktree())}
	r.Objects().Elsewhere = untilEnd{e, func(key object.Key) ([]byte, error) { return e.Get(ctx, key) }}
}

// keptUnlimited is the number of bytes of fetched objects that a process stores here if the
// configuration has no local limit. A restore must not fill the disk that it needs for files.
const keptUnlimited = 1 << 30

// Room returns the number of bytes of fetched objects that may be stored here: up to the smaller of the
// local limits of the configuration.
func (e *evictedReader) Room() int64 {
	limit := int64(-1)
	for _, setting := range []string{kist.KeyLocalLimit, kist.KeyBackupLocalLimit} {
		text, ok := e.repo.Config().Get(setting)
		if !ok {
			continue
		}
		size, err := kist.ParseSize(text)
		if err != nil {
			return 0
		}
		if limit < 0 || int64(size) < limit {
			limit = int64(size)
		}
	}
	if limit < 0 {
		return keptUnlimited
	}
	size, err := e.repo.Objects().Size(context.Background())
	if err != nil {
		return 0
	}
	return max(0, limit-size)
}

// untilEnd is an evictedReader that reads until a context ends, whatever context the store
// passes: it has none for the bases of patches.
type untilEnd struct {
	*evictedReader
	get func(key object.Key) ([]byte, error)
}

// Get implements [object.Reader].
func (u untilEnd) Get(_ context.Context, key object.Key) ([]byte, error) { return u.get(key) }

// GetLent implements [volume.LentReader].
func (e *evictedReader) GetLent(key object.Key) []byte { return e.lent.Get(key) }

// HasLent implements [volume.LentReader].
func (e *evictedReader) HasLent(key object.Key) bool { return e.lent.Has(key) }

// IsRecorded implements [volume.LentReader].
func (e *evictedReader) IsRecorded(key object.Key) bool { return e.lent.IsRecorded(key) }

// Get returns an object from the first remote that has it.
func (e *evictedReader) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if err := e.checkFetch(); err != nil {
		return nil, err
	}
	heads, failed := e.askedHeads(ctx)
	for again := false; ; again = true {
		err := failed
		for _, head := range heads {
			data, herr := head.Get(ctx, key)
			if herr == nil {
				e.budget.spend(key, data)
				return data, nil
			}
			if !errors.Is(herr, object.ErrNotFound) {
				err = herr
			}
		}
		if again || ctx.Err() != nil {
			if err == nil {
				err = &object.AbsentError{Key: key}
			}
			return nil, fmt.Errorf("fetch from a remote: %w", err)
		}
		heads, failed = e.headsWithin(ctx, transfer.ErrorAge) // another process may have moved the object
	}
}

// checkFetch returns an error if no object may be fetched now.
func (e *evictedReader) checkFetch() error {
	if e.refuses {
		return &object.AwayError{Err: object.ErrNoFetch}
	}
	return e.budget.checkSpent()
}

// GetAll implements [object.BatchReader].
func (e *evictedReader) GetAll(ctx context.Context, keys []object.Key, take func(key object.Key, data []byte) error) error {
	if e.refuses {
		return e.checkFetch()
	}
	heads, failed := e.askedHeads(ctx)
	var mu sync.Mutex // guards got
	got := map[object.Key]bool{}
	for _, head := range heads {
		err := head.GetAll(ctx, keys, func(key object.Key, data []byte) error {
			if err := e.budget.checkSpent(); err != nil {
				return err
			}
			e.budget.spend(key, data)
			mu.Lock()
			got[key] = true
			mu.Unlock()
			return take(key, data)
		})
		if errors.As(err, new(*object.BudgetError)) {
			return err
		}
		if err != nil {
			failed = err
		}
		if keys = slices.DeleteFunc(slices.Clone(keys), func(key object.Key) bool { return got[key] }); len(keys) == 0 {
			return nil
		}
	}
	return failed
}

// Missing returns the objects that no remote has now: no live pack of its present head, or no
// file of such a pack. An error means that a remote could not be asked that may have them.
func (e *evictedReader) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	gone, _, err := e.FindUnkept(ctx, keys)
	if len(gone) == 0 {
		return nil, nil
	}
	return gone, err
}

// FindUnkept returns the objects that no remote has, and the ones that one has and none keeps. A remote keeps an object if it
// has it, and if its present head has the keep ref that reaches everything that is away (RELY_ON_KEPT).
func (e *evictedReader) FindUnkept(ctx context.Context, keys []object.Key) (gone, unkept []object.Key, err error) {
	gone, unkept, err = e.unkeptWithin(ctx, keys, headAge)
	if len(gone)+len(unkept) == 0 || err != nil {
		return gone, unkept, err
	}

	// Another process may have pushed objects or a keep ref.
	age := transfer.ErrorAge
	e.mu.Lock()
	if !e.second {
		e.second, age = true, 0
	}
	e.mu.Unlock()
	return e.unkeptWithin(ctx, slices.Concat(gone, unkept), age)
}

// CheckReadable returns an error if one of keys lies in an archive on all remotes that have it. It matches [remote.ErrArchived].
func (e *evictedReader) CheckReadable(ctx context.Context, keys []object.Key) error {
	heads, _ := e.askedHeads(ctx)
	if !slices.ContainsFunc(heads, func(h knownHead) bool { return transfer.HasArchive(h.Reader) }) {
		return nil
	}
	var archived error
	for _, head := range heads {
		left, why, err := head.FindUnreadable(ctx, keys)
		if err != nil {
			return err
		}
		if why != nil {
			archived = why
		}
		if keys = left; len(keys) == 0 {
			return nil
		}
	}
	return archived
}

// unkeptWithin is FindUnkept by heads that are younger than age.
func (e *evictedReader) unkeptWithin(ctx context.Context, keys []object.Key, age time.Duration) (gone, unkept []object.Key, err error) {
	heads, failed := e.headsWithin(ctx, age)
	gone, unkept = keys, keys
	for _, head := range heads {
		promises := head.note.KeepsAll(head.State())
		wanted := gone
		if promises {
			wanted = unkept
		}
		if len(wanted) == 0 {
			continue
		}
		lacking, err := head.FindUnkept(ctx, wanted)
		if err != nil {
			failed = err
			continue
		}
		gone = intersect(gone, lacking)
		if promises {
			unkept = lacking
		}
	}
	isGone := make(map[object.Key]bool, len(gone))
	for _, key := range gone {
		isGone[key] = true
	}
	unkept = slices.DeleteFunc(slices.Clone(unkept), func(key object.Key) bool { return isGone[key] })
	if len(gone)+len(unkept) == 0 {
		failed = nil
	}
	return gone, unkept, failed
}

// intersect returns the keys that are in both lists, in the order of a.
func intersect(a, b []object.Key) []object.Key {
	in := make(map[object.Key]bool, len(b))
	for _, key := range b {
		in[key] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(key object.Key) bool { return !in[key] })
}

// askedHeads returns a reader for each remote, at a head of any age.
func (e *evictedReader) askedHeads(ctx context.Context) ([]knownHead, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.asked {
		e.ask(ctx)
	}
	return e.heads, e.failed
}

// headsWithin returns a reader for each remote. It reads the heads of all, unless they are
// younger than age, and no keep ref of this repository has moved since.
func (e *evictedReader) headsWithin(ctx context.Context, age time.Duration) ([]knownHead, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.repo.Options().Now(); !e.asked || now.Sub(e.at) >= age || slices.ContainsFunc(e.heads, func(h knownHead) bool {
		return !slices.Equal(h.note.Commits, transfer.ReadKeep(Dir(e.repo, h.name)).Commits)
	}) {
		e.ask(ctx)
	}
	return e.heads, e.failed
}

// ask reads the heads of all remotes. It opens a remote that is not open. The caller holds e.mu.
func (e *evictedReader) ask(ctx context.Context) {
	e.heads, e.failed, e.asked, e.at = nil, nil, true, e.repo.Options().Now()
	for _, m := range All(e.repo) {
		if m.Name == e.except {
			continue
		}
		note := transfer.ReadKeep(Dir(e.repo, m.Name))
		head, err := e.opened[m.Name], error(nil)
		if head != nil {
			err = head.Refresh(ctx, 0)
		} else if head, err = openReader(ctx, e.repo, m); err == nil {
			if e.opened == nil {
				e.opened = map[string]*transfer.Reader{}
			}
			e.opened[m.Name] = head
		}
		switch {
		case err == nil:
			e.heads = append(e.heads, knownHead{head, m.Name, note})
		case !errors.Is(err, rootlog.ErrEmpty):
			e.failed = &object.AwayError{Remote: m.Name, Err: err}
		}
	}
}

// openReader opens a remote and reads its head.
func openReader(ctx context.Context, r *kist.Repository, m Remote) (*transfer.Reader, error) {
	opened, err := Open(ctx, r, m, false)
	if err != nil {
		return nil, err
	}
	reader, err := transfer.NewReader(ctx, opened)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return reader, nil
}

// Close closes the remotes.
func (e *evictedReader) Close() error {
	if e.lent != nil {
		e.lent.Close()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, opened := range e.opened {
		opened.Close()
	}
	e.opened, e.heads, e.asked = nil, nil, false
	return nil
}

// OnlyOn returns the number of objects that are away, and that no remote but the named one is known to
// have.
func OnlyOn(ctx context.Context, r *kist.Repository, name string) (int, error) {
	keys, err := volume.EvictedKeys(ctx, r.Objects())
	if err != nil {
		return 0, err
	}
	promised, err := kist.NewPromised(r)
	if err != nil {
		return 0, err
	}
	away, err := promised.All(ctx)
	if keys = append(keys, away...); err != nil || len(keys) == 0 {
		return 0, err
	}
	others := &evictedReader{repo: r, except: name}
	defer others.Close()
	missing, err := others.Missing(ctx, keys)
	if err != nil {
		return len(keys), ctx.Err()
	}
	return len(missing), nil
}
