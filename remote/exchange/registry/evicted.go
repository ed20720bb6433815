package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// evictedReader reads evicted objects from the remotes of a repository. It is safe for
// concurrent use.
type evictedReader struct {
	repo   *kist.Repository
	except string // the name of a remote that is not asked

	mu     sync.Mutex // guards the following
	opened []*transfer.Remote
	heads  []object.Reader // of the opened remotes
	failed error           // of remotes that could not be opened
	reread bool            // Missing has read the heads once more
}

// ReadEvicted makes the store of r read evicted objects from the remotes, until ctx or the
// repository ends. It opens a remote when it needs it. The caller calls it before the first
// use of the store.
func ReadEvicted(ctx context.Context, r *kist.Repository) {
	e := &evictedReader{repo: r}
	r.Objects().Elsewhere = untilEnd{e, func(key object.Key) ([]byte, error) { return e.Get(ctx, key) }}
}

// untilEnd is an evictedReader that reads until a context ends, whatever context the store
// passes: it has none for the bases of patches.
type untilEnd struct {
	*evictedReader
	get func(key object.Key) ([]byte, error)
}

// Get implements [object.Reader].
func (u untilEnd) Get(_ context.Context, key object.Key) ([]byte, error) { return u.get(key) }

// Get returns an object from the first remote that has it.
func (e *evictedReader) Get(ctx context.Context, key object.Key) ([]byte, error) {
	heads, failed := e.current(ctx, false)
	for again := false; ; again = true {
		err := failed
		for _, head := range heads {
			data, herr := head.Get(ctx, key)
			if herr == nil {
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
		heads, failed = e.current(ctx, true) // another process may have moved the object
	}
}

// Missing returns the objects that no remote has. An error means that a remote could not
// be asked that may have them.
func (e *evictedReader) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	missing, err := e.missingNow(ctx, keys, false)
	if len(missing) == 0 || err != nil || e.reread {
		return missing, err
	}
	e.reread = true // another process may have pushed objects
	return e.missingNow(ctx, missing, true)
}

// missingNow is Missing by the heads that current returns.
func (e *evictedReader) missingNow(ctx context.Context, keys []object.Key, fresh bool) ([]object.Key, error) {
	heads, failed := e.current(ctx, fresh)
	for _, head := range heads {
		var err error
		if keys, err = head.Missing(ctx, keys); err != nil {
			return nil, err
		}
		if len(keys) == 0 {
			return nil, nil
		}
	}
	return keys, failed
}

// current returns a reader for each remote. With fresh, it reads their heads once more.
func (e *evictedReader) current(ctx context.Context, fresh bool) ([]object.Reader, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.heads != nil && !fresh {
		return e.heads, e.failed
	}
	e.closeAll()
	e.heads, e.failed = []object.Reader{}, nil
	for _, m := range All(e.repo) {
		if m.Name == e.except {
			continue
		}
		opened, err := Open(ctx, e.repo, m, false)
		if err == nil {
			var head object.Reader
			if head, _, err = transfer.Objects(ctx, opened); err == nil {
				e.heads = append(e.heads, head)
			}
			e.opened = append(e.opened, opened)
		}
		if err != nil && !errors.Is(err, rootlog.ErrEmpty) {
			e.failed = err
		}
	}
	return e.heads, e.failed
}

func (e *evictedReader) closeAll() {
	for _, opened := range e.opened {
		opened.Close()
	}
	e.opened = nil
}

// Close closes the remotes.
func (e *evictedReader) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closeAll()
	return nil
}

// OnlyOn returns the number of evicted objects that no remote but the named one is known to
// have.
func OnlyOn(ctx context.Context, r *kist.Repository, name string) (int, error) {
	keys, err := volume.EvictedKeys(ctx, r.Objects())
	if err != nil || len(keys) == 0 {
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
