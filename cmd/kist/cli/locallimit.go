package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/work/commits"
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
	reread bool            // missing has read the heads once more
}

// fetchEvicted makes the store of r ask the remotes about evicted objects, and fetch them. The
// caller calls the returned function in the end.
func fetchEvicted(ctx context.Context, r *kist.Repository) (done func()) {
	e := &evictedReader{repo: r}
	r.Objects().Away = e.missing
	r.Objects().Fetch = func(_ context.Context, key object.Key) ([]byte, error) { return e.get(ctx, key) }
	return e.close
}

// get returns an object from the first remote that has it.
func (e *evictedReader) get(ctx context.Context, key object.Key) ([]byte, error) {
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
				err = &object.NotFoundError{Key: key}
			}
			return nil, fmt.Errorf("fetch from a remote: %w", err)
		}
		heads, failed = e.current(ctx, true) // another process may have moved the object
	}
}

// missing returns the objects that no remote has. An error means that a remote could not
// be asked that may have them.
func (e *evictedReader) missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	missing, err := e.missingNow(ctx, keys, false)
	if len(missing) == 0 || err != nil || e.reread {
		return missing, err
	}
	e.reread = true // another process may have pushed objects
	return e.missingNow(ctx, missing, true)
}

// missingNow is missing by the heads that current returns.
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
	for _, m := range registry.All(e.repo) {
		if m.Name == e.except {
			continue
		}
		opened, err := registry.Open(ctx, e.repo, m, false)
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

func (e *evictedReader) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closeAll()
}

// onlyOn returns the number of objects that are evicted, and that no other remote is known to
// have.
func onlyOn(ctx context.Context, r *kist.Repository, name string) (int, error) {
	keys, err := volume.EvictedKeys(ctx, r.Objects())
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	others := &evictedReader{repo: r, except: name}
	defer others.close()
	missing, err := others.missing(ctx, keys)
	if err != nil {
		return len(keys), ctx.Err()
	}
	return len(missing), nil
}

// incompleteSuffix ends the name of the branch on the remote that keeps the chunks of a
// backup with a local limit until the backup is complete.
const incompleteSuffix = ".incomplete"

// incomplete returns the ref to push so that the remote keeps the chunks: it has a name,
// and no commit yet. Parent is the commit that the remote has there, or zero. If that is
// a commit of this host that is not here any more, the push replaces it.
func (b *backup) incomplete(ctx context.Context, to registry.PushRef, name string) (ref registry.PushRef, parent object.ID, err error) {
	ref = registry.PushRef{Kind: object.KindCommit, Name: to.Name + incompleteSuffix}
	opened, err := openRemote(ctx, b.env, b.repo, name)
	if errors.Is(err, rootlog.ErrEmpty) {
		return ref, parent, nil
	}
	if err != nil {
		return ref, parent, err
	}
	defer opened.Close()
	objects, head, err := transfer.Objects(ctx, opened)
	if errors.Is(err, rootlog.ErrNoRoots) { // the first push was interrupted
		return ref, parent, nil
	}
	if err != nil {
		return ref, parent, err
	}
	key, ok := head.Refs[ref.Name]
	if !ok {
		return ref, parent, nil
	}
	if here, err := b.repo.Objects().Has(ctx, key); here || err != nil {
		return ref, key.ID, err
	}
	c, err := object.ReadCommit(ctx, objects, key.ID)
	ref.Force = err == nil && c.Host == b.repo.Options().Host
	return ref, key.ID, err
}

// limitSession makes the session of the backup push and evict whenever it has stored a
// quarter of the local limit. It evicts first if the store is too large already.
func (b *backup) limitSession(ctx context.Context) error {
	if b.localLimit == 0 {
		return nil
	}
	if len(registry.All(b.repo)) == 0 {
		return hintf(failf(exitFailed, "no-remote", "--local-limit needs a remote"), "'kist remote add origin URL' adds one")
	}
	b.session.UnloadBytes = int64(b.localLimit) / 4
	b.session.Unload = b.unload
	if _, err := b.evict(ctx); err != nil { // a small backup is possible without the remote
		b.env.warn("the local limit is exceeded: %s", b.env.secrets.hide(err.Error()))
	}
	return ctx.Err()
}

// target returns the branch to push to, which need not exist, and its remote.
func (b *backup) target(ctx context.Context) (to registry.PushRef, name string, err error) {
	to, name, err = pushTarget(ctx, b.env, b.repo, b.remote)
	if errors.Is(err, kist.ErrUnborn) {
		name, err = b.env.remoteArg(b.repo, b.remote)
	}
	return to, name, err
}

// unload pushes the chunks of volumes, and evicts them.
func (b *backup) unload(ctx context.Context, volumes []string) error {
	to, name, err := b.target(ctx)
	if err != nil {
		return err
	}
	b.unloaded = append(b.unloaded, volumes...)
	if b.firstUnloaded == "" {
		b.firstUnloaded = volumes[0]
	}
	ref, parent, err := b.incomplete(ctx, to, name)
	if err != nil {
		return err
	}
	if ref.Force {
		parent = object.ID{}
	}
	id, root, err := commits.Checkpoint(ctx, b.repo, parent, b.unloaded)
	if err != nil || id.IsZero() {
		return err
	}
	ref.Source, ref.ID = id.String(), id
	push := exchange.PushOptions{Remote: name, Refs: []registry.PushRef{ref}, Ahead: b.ahead, Jobs: b.env.transfer.jobs}
	result, err := exchange.Push(ctx, b.repo, push)
	if err != nil {
		return pushFailed(b.repo, push, result, err)
	}
	b.summary.Sent += result.Bytes
	err = b.evictFrom(ctx, name, b.unloaded, func(*rootlog.State) []object.Key { return []object.Key{root} })
	if errors.Is(err, disk.ErrBusy) {
		return nil // the next call evicts these volumes too
	}
	b.unloaded = nil
	return err
}

// endIncomplete adds the deletion of the branch that kept the chunks to list, if the
// remote has such a branch.
func (b *backup) endIncomplete(ctx context.Context, list []registry.PushRef, name string) ([]registry.PushRef, error) {
	if b.localLimit == 0 {
		return list, nil
	}
	ref, at, err := b.incomplete(ctx, list[0], name)
	if err == nil && !at.IsZero() {
		list = append(list, registry.PushRef{Name: ref.Name})
	}
	return list, err
}

// evict evicts all chunks that the remote keeps, if the store has reached the local limit.
func (b *backup) evict(ctx context.Context) (string, error) {
	before, err := b.repo.Objects().Size(ctx)
	if err != nil || before <= int64(b.localLimit) {
		return "", err
	}
	_, name, err := b.target(ctx)
	if err != nil {
		return "", err
	}
	err = b.evictFrom(ctx, name, nil, func(head *rootlog.State) (kept []object.Key) {
		for _, key := range head.Refs {
			kept = append(kept, key)
		}
		return kept
	})
	switch {
	case errors.Is(err, disk.ErrBusy):
		return "put off: another process maintains the repository", nil
	case errors.Is(err, rootlog.ErrEmpty), errors.Is(err, remote.ErrNotFound):
		return "", nil // nothing was pushed yet
	case err != nil:
		return "", err
	}
	after, err := b.repo.Objects().Size(ctx)
	return fmt.Sprintf("%s moved to %s, %s left here", formatSize(uint64(max(0, before-after))), printable(name), formatSize(uint64(after))), err
}

// evictFrom evicts chunks from volumes, or from all if volumes is nil. It reads the head
// of the remote first. Kept returns objects that refs of that head reach.
func (b *backup) evictFrom(ctx context.Context, name string, volumes []string, kept func(*rootlog.State) []object.Key) error {
	opened, err := openRemote(ctx, b.env, b.repo, name)
	if err != nil {
		return err
	}
	defer opened.Close()
	objects, head, err := transfer.Objects(ctx, opened)
	if err != nil {
		return err
	}
	return gc.Evict(ctx, b.repo.Objects(), gc.EvictOptions{Remote: objects, Kept: kept(head), Volumes: volumes, MergeAfter: b.firstUnloaded})
}
