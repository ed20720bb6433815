package exchange

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/transfer"
)

// bringBatch is the number of objects that are fetched together.
const bringBatch = 20_000

// BringResult is what a fetch of content brought.
type BringResult struct{ Objects, Bytes int64 }

// bringer fetches content that is away.
type bringer struct {
	r       *kist.Repository
	records *record.Effects
	seen    map[object.Key]bool // nodes
	chunks  []object.Key        // to fetch

	take func(ctx context.Context, chunks []object.Key) error // what to do with chunks; nil: fetch them

	objects, bytes atomic.Int64
}

// BringContent fetches everything below some objects of r that is away: nodes level by level, and chunks in batches.
func BringContent(ctx context.Context, r *kist.Repository, top []object.Key) (BringResult, error) {
	records, err := r.RecordView()
	if err != nil {
		return BringResult{}, err
	}
	b := &bringer{r: r, records: records, seen: map[object.Key]bool{}}
	err = b.bring(ctx, object.Key{}, top)
	return BringResult{b.objects.Load(), b.bytes.Load()}, err
}

// bring fetches objects to which from links, and everything below them.
func (b *bringer) bring(ctx context.Context, from object.Key, top []object.Key) error {
	level, err := b.add(ctx, nil, from, top)
	for len(level) > 0 && err == nil {
		var next []object.Key
		for batch := range slices.Chunk(level, bringBatch) {
			if err := b.fetch(ctx, batch); err != nil {
				return err
			}
			for _, key := range batch {
				links, err := graph.Links(ctx, b.r.Objects(), key)
				if err == nil {
					next, err = b.add(ctx, next, key, links)
				}
				if err != nil {
					return fmt.Errorf("read %s: %w", key, err)
				}
			}
		}
		level = next
	}
	if err != nil {
		return err
	}
	return b.flush(ctx)
}

// add appends the nodes among links to next, and remembers the chunks.
func (b *bringer) add(ctx context.Context, next []object.Key, from object.Key, links []object.Key) ([]object.Key, error) {
	for _, key := range links {
		if b.records.Skips(from, key) || object.IsLost(b.r.Objects(), key) {
			continue
		}
		if !key.Kind.IsNode() {
			if b.chunks = append(b.chunks, key); len(b.chunks) >= bringBatch {
				if err := b.flush(ctx); err != nil {
					return nil, err
				}
			}
		} else if !b.seen[key] {
			b.seen[key] = true
			next = append(next, key)
		}
	}
	return next, nil
}

func (b *bringer) flush(ctx context.Context) error {
	chunks := b.chunks
	b.chunks = nil
	if b.take != nil {
		return b.take(ctx, chunks)
	}
	return b.fetch(ctx, chunks)
}

func (b *bringer) fetch(ctx context.Context, keys []object.Key) error {
	return volume.Bring(ctx, b.r.Objects(), keys, func(n int) {
		b.objects.Add(1)
		b.bytes.Add(int64(n))
	})
}

// errLazyMore means that another process ended that content may be away.
var errLazyMore = errors.New("the repository is lazy no more")

// BringAll fetches everything that names here need and that is away. Then the repository is lazy no more, and the remotes need not keep
// anything for it.
func BringAll(ctx context.Context, r *kist.Repository) (total BringResult, err error) {
	for last := false; ; last = true {
		var lock *disk.FileLock
		if last { // meanwhile, no fetch brings commits only
			if lock, err = lockLazy(ctx, r, disk.Exclusive); err != nil {
				return total, err
			}
		}
		got, err := bringNeeded(ctx, r)
		total.Objects, total.Bytes = total.Objects+got.Objects, total.Bytes+got.Bytes
		if err == nil && last && r.Config().IsLazy() {
			err = r.EditConfig(ctx, (*kist.Config).EndLazy)
		}
		if lock != nil {
			lock.Unlock()
		}
		if err != nil {
			return total, err
		}
		if last {
			break
		}
	}
	for _, m := range registry.All(r) {
		if err := transfer.RemovePromise(ctx, registry.Dir(r, m.Name)); err != nil {
			return total, err
		}
		if err := RenewKeep(ctx, r, m.Name, nil); err != nil && !errors.Is(err, transfer.ErrRepository) {
			r.Options().Warn(fmt.Sprintf("the keep ref on %q stays for now: %v", m.Name, err))
		}
	}
	return total, nil
}

// lockLazy takes the lock under which content may become away (shared), or is here for good.
func lockLazy(ctx context.Context, r *kist.Repository, mode disk.Mode) (*disk.FileLock, error) {
	return disk.Lock(ctx, filepath.Join(r.Dir(), "lazy.lock"), mode, disk.DefaultWait)
}

// bringNeeded fetches everything that names need.
func bringNeeded(ctx context.Context, r *kist.Repository) (BringResult, error) {
	records, err := r.RecordView()
	if err != nil {
		return BringResult{}, err
	}
	top, err := neededObjects(ctx, r, records)
	if err != nil {
		return BringResult{}, err
	}
	b := &bringer{r: r, records: records, seen: map[object.Key]bool{}}
	err = b.bring(ctx, object.Key{}, top)
	return BringResult{b.objects.Load(), b.bytes.Load()}, err
}

// neededObjects returns the objects at which names start.
func neededObjects(ctx context.Context, r *kist.Repository, records *record.Effects) (top []object.Key, err error) {
	needed, err := gc.FindNeeds(ctx, r, records, nil)
	if err != nil {
		return nil, err
	}
	for _, root := range needed.Roots {
		if !root.Hint {
			top = append(top, root.Key)
		}
	}
	return top, nil
}
