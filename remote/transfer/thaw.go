package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
)

// ThawDays is how long the copy of a thawed pack can be read: long enough to fetch terabytes by a slow line.
const ThawDays = 14

// thawNote records which packs of a remote this repository has had thawed, so that an error can say when they can be read.
type thawNote struct {
	Packs map[string]int64 `json:"packs"` // by name: when the copy is usually there, in seconds since 1970
}

// readThaws returns the note. A missing or damaged one is empty.
func (c *cache) readThaws() thawNote {
	if c.dir == "" {
		return thawNote{}
	}
	note, err := readNote[thawNote](c, thawFile)
	if err != nil {
		return thawNote{}
	}
	return note
}

// noteThaws adds packs to the note. It drops those whose copies have ended by now.
func (c *cache) noteThaws(ctx context.Context, ready map[pack.Name]time.Time, now time.Time) error {
	if c.dir == "" || len(ready) == 0 {
		return nil
	}
	return c.withLock(ctx, func() error {
		note := c.readThaws()
		maps.DeleteFunc(note.Packs, func(_ string, at int64) bool { return hasEnded(time.Unix(at, 0), now) })
		if note.Packs == nil {
			note.Packs = map[string]int64{}
		}
		for name, at := range ready {
			note.Packs[name.String()] = at.Unix()
		}
		return c.writeNote(thawFile, note)
	})
}

// hasEnded reports whether the copy of a pack that was ready at a time can be read no more.
func hasEnded(ready, now time.Time) bool { return now.Sub(ready) > ThawDays*24*time.Hour }

// ThawingError is the error for an archived pack that this repository has asked for, and that cannot be read yet.
type ThawingError struct {
	Ready time.Time // when it can usually be read
	Err   error     // of the store
}

func (e *ThawingError) Error() string {
	return fmt.Sprintf("thawing until about %s: %v", e.Ready.UTC().Format(time.DateTime), e.Err)
}

// Unwrap returns the error of the store.
func (e *ThawingError) Unwrap() error { return e.Err }

// refusedAge is how long a pack that lies in an archive is not read again. A thaw takes hours, and stores charge for each request. A
// folder of many files would cause several for each.
const refusedAge = time.Minute

// refusedPacks remembers the packs that the store could not read, with the errors. It is safe for concurrent use.
type refusedPacks struct {
	mu    sync.Mutex
	packs map[pack.Name]refusal
}

type refusal struct {
	err error
	at  time.Time
}

// find returns the error of the last read of a pack, if that was refused less than refusedAge ago.
func (p *refusedPacks) find(name pack.Name, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.packs[name]; ok && now.Sub(last.at) < refusedAge {
		return last.err
	}
	return nil
}

// add notes that a read was refused.
func (p *refusedPacks) add(name pack.Name, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.packs[name] = refusal{err, now}
}

// explainArchived returns the error of a read from a pack. It is a [*ThawingError] if the pack was asked for.
func explainArchived(r *Remote, name pack.Name, err error) error {
	if !errors.Is(err, remote.ErrArchived) {
		return err
	}
	at, asked := r.cache.readThaws().Packs[name.String()]
	if ready := time.Unix(at, 0); asked && !hasEnded(ready, r.o.Now()) {
		return &ThawingError{ready, err}
	}
	return err
}

// HasArchive reports whether packs of a remote may lie in an archive.
func HasArchive(r *Reader) bool {
	_, ok := remote.As[remote.Archiver](r.remote.b)
	return ok
}

// FindPacks returns the pack of each of keys that the remote has at the known head.
func (r *Reader) FindPacks(ctx context.Context, keys []object.Key) (map[object.Key]pack.Info, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	entries, err := r.where.locateAny(ctx, keys)
	found := make(map[object.Key]pack.Info, len(entries))
	for key, e := range entries {
		found[key] = e.Pack
	}
	return found, err
}

// ArchiveStates asks the store whether packs can be read, and returns the states in their order. All states are zero if the store
// has no archive.
func (r *Reader) ArchiveStates(ctx context.Context, packs []pack.Info) ([]remote.ArchiveState, error) {
	states := make([]remote.ArchiveState, len(packs))
	store, ok := remote.As[remote.Archiver](r.remote.b)
	if !ok {
		return states, nil
	}
	return states, Parallel(ctx, r.remote.o.Jobs, len(packs), func(ctx context.Context, i int) error {
		return retry.Do(ctx, r.remote.o.Retry, "stat", func(ctx context.Context) (err error) {
			states[i], err = store.ArchiveState(ctx, packs[i].Name.Path())
			return err
		})
	})
}

// Thaw asks the store for copies of archived packs that can be read for [ThawDays] days, and notes the packs that it asked for. Takes
// returns how long the thaw of a pack takes.
func (r *Reader) Thaw(ctx context.Context, packs []pack.Info, takes func(pack.Name) time.Duration) error {
	store, ok := remote.As[remote.Archiver](r.remote.b)
	if !ok {
		return nil
	}
	var mu sync.Mutex // guards ready
	ready := map[pack.Name]time.Time{}
	now := r.remote.o.Now()
	err := Parallel(ctx, r.remote.o.Jobs, len(packs), func(ctx context.Context, i int) error {
		name := packs[i].Name
		err := retry.Do(ctx, r.remote.o.Retry, "thaw", func(ctx context.Context) error { return store.Thaw(ctx, name.Path(), ThawDays) })
		if err == nil {
			mu.Lock()
			ready[name] = now.Add(takes(name))
			mu.Unlock()
		}
		return err
	})
	return errors.Join(err, r.remote.cache.noteThaws(context.WithoutCancel(ctx), ready, now))
}

// ThawReady returns when a pack that this repository has asked for can usually be read, or the zero time.
func (r *Reader) ThawReady(name pack.Name) time.Time {
	if at, asked := r.remote.cache.readThaws().Packs[name.String()]; asked {
		return time.Unix(at, 0)
	}
	return time.Time{}
}
