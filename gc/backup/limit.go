package backup

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// ErrLimit is the error for a local limit without a remote.
var ErrLimit = errors.New("a local limit needs a remote")

// limitSession makes the session of the backup give content away whenever it has stored a
// quarter of the local limit. It gives content away first if the store is too large already. It renews the keep ref, so that the
// session relies on content that is away.
func (b *run) limitSession(ctx context.Context) error {
	if len(registry.All(b.repo)) == 0 {
		if b.LocalLimit > 0 {
			return ErrLimit
		}
		return nil
	}
	_, name, err := b.findTarget(ctx)
	if err == nil {
		err = exchange.RenewKeep(ctx, b.repo, name, nil)
	}
	if cerr := ctx.Err(); cerr != nil {
		return cerr
	}
	if err != nil { // the bytes are at hand
		b.repo.Options().Warn(fmt.Sprintf("content that was given away is stored again if it is met: %v", err))
	}
	if b.LocalLimit == 0 {
		return nil
	}
	b.session.UnloadBytes = b.LocalLimit / 4
	b.session.Unload = b.unloadVolumes
	_, b.EvictErr = b.evictChunks(ctx) // a small backup is possible without the remote
	b.Evicted, b.Postponed = 0, false  // these are about the step evict
	return ctx.Err()
}

// unloadVolumes gives away the chunks of volumes. The keep ref keeps them until a commit needs them.
func (b *run) unloadVolumes(ctx context.Context, volumes []string) error {
	_, name, err := b.findTarget(ctx)
	if err != nil {
		return err
	}
	b.unloaded = append(b.unloaded, volumes...)
	if b.firstUnloaded == "" {
		b.firstUnloaded = volumes[0]
	}
	result, err := exchange.Evict(ctx, b.repo, exchange.EvictOptions{
		Remote: name, Copies: b.Copies, Volumes: b.unloaded, MergeAfter: b.firstUnloaded, Ahead: b.ahead, Jobs: b.Jobs,
	})
	if result != nil {
		b.Sent += result.Sent
	}
	if errors.Is(err, disk.ErrBusy) {
		return nil // the next call gives these volumes away, too
	}
	b.unloaded = nil
	return err
}

// incompleteSuffix ends the name of the branch on the remote that kept the chunks of a
// backup with a local limit in earlier versions. Keep refs have replaced it.
const incompleteSuffix = ".incomplete"

// endIncomplete adds the deletion of the branch of an earlier version to list, if the
// remote has such a branch.
func (b *run) endIncomplete(ctx context.Context, list []registry.PushRef, name string) ([]registry.PushRef, error) {
	if b.LocalLimit == 0 {
		return list, nil
	}
	opened, err := registry.OpenNamed(ctx, b.repo, name)
	if errors.Is(err, rootlog.ErrEmpty) {
		return list, nil
	}
	if err != nil {
		return list, err
	}
	defer opened.Close()
	head, err := opened.Head(ctx)
	if errors.Is(err, rootlog.ErrNoRoots) { // the first push was interrupted
		return list, nil
	}
	if err != nil {
		return list, err
	}
	old := list[0].Name + incompleteSuffix
	if _, ok := head.Refs[old]; ok {
		list = append(list, registry.PushRef{Name: old})
	}
	return list, nil
}

// evictChunks gives away all chunks that remotes keep, if the store has reached the local limit. It
// puts that off while another process maintains the repository.
func (b *run) evictChunks(ctx context.Context) (did bool, err error) {
	_, name, err := b.findTarget(ctx)
	if err != nil {
		return false, err
	}
	size, err := b.repo.Objects().Size(ctx)
	if err != nil || size <= b.LocalLimit {
		return false, err
	}
	result, err := exchange.Evict(ctx, b.repo, exchange.EvictOptions{Remote: name, Copies: b.Copies, Limit: b.LocalLimit, Small: true, Jobs: b.Jobs})
	switch {
	case errors.Is(err, disk.ErrBusy):
		b.Postponed = true
		return true, nil
	case errors.Is(err, rootlog.ErrEmpty), errors.Is(err, remote.ErrNotFound):
		return false, nil // nothing was pushed yet
	case err != nil:
		return false, err
	}
	b.Left, b.Evicted = result.Left, result.Freed
	return true, nil
}
