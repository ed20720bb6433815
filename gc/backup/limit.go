package backup

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/work/commits"
)

// ErrLimit is the error for a local limit without a remote.
var ErrLimit = errors.New("a local limit needs a remote")

// incompleteSuffix ends the name of the branch on the remote that keeps the chunks of a
// backup with a local limit until the backup is complete.
const incompleteSuffix = ".incomplete"

// incompleteRef returns the ref to push so that the remote keeps the chunks: it has a name,
// and no commit yet. Parent is the commit that the remote has there, or zero. If that is
// a commit of this host that is not here any more, the push replaces it.
func (b *run) incompleteRef(ctx context.Context, to registry.PushRef, name string) (ref registry.PushRef, parent object.ID, err error) {
	ref = registry.PushRef{Kind: object.KindCommit, Name: to.Name + incompleteSuffix}
	opened, err := registry.OpenNamed(ctx, b.repo, name)
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
func (b *run) limitSession(ctx context.Context) error {
	if b.LocalLimit == 0 {
		return nil
	}
	if len(registry.All(b.repo)) == 0 {
		return ErrLimit
	}
	b.session.UnloadBytes = b.LocalLimit / 4
	b.session.Unload = b.unloadVolumes
	_, b.EvictErr = b.evictChunks(ctx) // a small backup is possible without the remote
	b.Evicted, b.Postponed = 0, false  // these are about the step evict
	return ctx.Err()
}

// unloadVolumes pushes the chunks of volumes, and evicts them.
func (b *run) unloadVolumes(ctx context.Context, volumes []string) error {
	to, name, err := b.findTarget(ctx)
	if err != nil {
		return err
	}
	b.unloaded = append(b.unloaded, volumes...)
	if b.firstUnloaded == "" {
		b.firstUnloaded = volumes[0]
	}
	ref, parent, err := b.incompleteRef(ctx, to, name)
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
	push := exchange.PushOptions{Remote: name, Refs: []registry.PushRef{ref}, Ahead: b.ahead, Jobs: b.Jobs}
	result, err := exchange.Push(ctx, b.repo, push)
	if err != nil {
		return &PushError{Push: push, Result: result, Err: err}
	}
	b.Sent += result.Bytes
	err = b.evictFrom(ctx, name, b.unloaded, func(*rootlog.State) []object.Key { return []object.Key{root} })
	if errors.Is(err, disk.ErrBusy) {
		return nil // the next call evicts these volumes too
	}
	b.unloaded = nil
	return err
}

// endIncomplete adds the deletion of the branch that kept the chunks to list, if the
// remote has such a branch.
func (b *run) endIncomplete(ctx context.Context, list []registry.PushRef, name string) ([]registry.PushRef, error) {
	if b.LocalLimit == 0 {
		return list, nil
	}
	ref, at, err := b.incompleteRef(ctx, list[0], name)
	if err == nil && !at.IsZero() {
		list = append(list, registry.PushRef{Name: ref.Name})
	}
	return list, err
}

// evictChunks evicts all chunks that the remote keeps, if the store has reached the local limit. It
// puts that off while another process maintains the repository.
func (b *run) evictChunks(ctx context.Context) (did bool, err error) {
	before, err := b.repo.Objects().Size(ctx)
	if err != nil || before <= b.LocalLimit {
		return false, err
	}
	_, name, err := b.findTarget(ctx)
	if err != nil {
		return false, err
	}
	err = b.evictFrom(ctx, name, nil, func(head *rootlog.State) (kept []object.Key) {
		for _, key := range head.Refs {
			kept = append(kept, key)
		}
		return kept
	})
	switch {
	case errors.Is(err, disk.ErrBusy):
		b.Postponed = true
		return true, nil
	case errors.Is(err, rootlog.ErrEmpty), errors.Is(err, remote.ErrNotFound):
		return false, nil // nothing was pushed yet
	case err != nil:
		return false, err
	}
	b.Left, err = b.repo.Objects().Size(ctx)
	b.Evicted = max(0, before-b.Left)
	return true, err
}

// evictFrom evicts chunks from volumes, or from all if volumes is nil. It reads the head
// of the remote first. Kept returns objects that refs of that head reach.
func (b *run) evictFrom(ctx context.Context, name string, volumes []string, kept func(*rootlog.State) []object.Key) error {
	opened, err := registry.OpenNamed(ctx, b.repo, name)
	if err != nil {
		return err
	}
	defer opened.Close()
	reader, err := transfer.NewReader(ctx, opened)
	if err != nil {
		return err
	}
	return gc.Evict(ctx, b.repo.Objects(), gc.EvictOptions{Remote: reader, Kept: kept(reader.State()), Volumes: volumes, MergeAfter: b.firstUnloaded})
}
