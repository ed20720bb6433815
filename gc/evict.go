package gc

import (
	"context"
	"slices"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/volume"
)

// Evict merges volumes with fewer bytes than smallEvicted if there are manyEvicted.
const (
	smallEvicted = 4 << 20
	manyEvicted  = 16
)

// evictBatch is the number of chunks for which [Evict] asks at once.
const evictBatch = 1 << 16

// EvictOptions configure [Evict].
type EvictOptions struct {
	// FindKept returns those of the chunks, in their order, that remotes keep, so that the store need
	// not. It gets at most evictBatch.
	FindKept func(ctx context.Context, chunks []object.Key) ([]object.Key, error)

	// Volumes are the names of the volumes to look at; nil: all.
	Volumes []string

	// MergeAfter, if not "", is the name of a volume. Small volumes with later names are
	// merged if there are many, so that a long backup does not leave thousands.
	MergeAfter string

	Before time.Time // only volumes that were sealed before; zero: all
	Excess int64     // the bytes to free, from the oldest volumes first; 0: as many as possible
	DryRun bool      // only count

	Progress   func(bytes int64) // receives the bytes found so far; may be nil
	SingleHost bool              // see [volume.MaintainOptions]
}

// EvictStats count the chunks that [Evict] removed, or would remove.
type EvictStats struct {
	Chunks int64 `json:"chunks" doc:"the number of chunks that were given away"`
	Bytes  int64 `json:"bytes" doc:"the bytes that they took here"`
}

// Evict removes chunks from the local store that remotes keep. The store fetches them
// from there when they are read. Nodes stay, so that history can be read without the
// remote. Evict skips volumes of running sessions, and damaged ones. The error is [disk.ErrBusy] if another
// process maintains the store.
func Evict(ctx context.Context, store *volume.Store, o EvictOptions) (EvictStats, error) {
	sweep, err := store.Sweep(ctx, volume.SweepOptions{MaintainOptions: volume.MaintainOptions{SingleHost: o.SingleHost}, DryRun: o.DryRun})
	if err != nil {
		return EvictStats{}, err
	}
	defer sweep.Close()

	e := &evictor{EvictOptions: o, sweep: sweep, taken: map[int]keys.Set{}}
	volumes, merge := e.chooseVolumes()
	for _, i := range volumes {
		if err := e.addFrom(ctx, i); err != nil {
			return EvictStats{}, err
		}
	}
	if err := e.takeBatch(ctx); err != nil {
		return EvictStats{}, err
	}
	if o.DryRun {
		return e.stats, nil
	}
	volumes = slices.DeleteFunc(volumes, func(i int) bool { return e.taken[i] == nil && !merge[i] })
	err = sweep.Evict(ctx, volumes, merge, func(i int, rec keys.Record) bool {
		return sweep.Volume(i).Evicted || e.taken[i].Has(rec.Index)
	})
	if err != nil {
		return EvictStats{}, err
	}
	_, err = sweep.EmptyTrash(ctx)
	return e.stats, err
}

// evictor chooses the chunks of one call of Evict.
type evictor struct {
	EvictOptions
	sweep *volume.Sweep
	taken map[int]keys.Set // the chunks to evict, by the number of their volume
	stats EvictStats

	batch      []candidate // chunks that remotes may keep
	batchBytes int64
}

// candidate is a chunk in a volume.
type candidate struct {
	volume, index int
	key           object.Key
	stored        uint32
}

// chooseVolumes returns the volumes to look at, the oldest first, and those to merge.
func (e *evictor) chooseVolumes() (volumes []int, merge map[int]bool) {
	small := map[bool][]int{} // by whether they are evicted
	for i := range e.sweep.Len() {
		v := e.sweep.Volume(i)
		switch {
		case v.InUse || v.Gone:
		case !v.Evicted && e.Volumes == nil && (e.Before.IsZero() || v.Created.Before(e.Before)), slices.Contains(e.Volumes, v.Name):
			if len(e.sweep.Damaged(i)) == 0 {
				volumes = append(volumes, i)
			}
		case v.Bytes < smallEvicted && (e.MergeAfter != "" && v.Name > e.MergeAfter || v.Evicted && e.Volumes == nil):
			small[v.Evicted] = append(small[v.Evicted], i)
		}
	}
	slices.SortStableFunc(volumes, func(a, b int) int { return e.sweep.Volume(a).Created.Compare(e.sweep.Volume(b).Created) })

	merge = map[int]bool{}
	for _, list := range small {
		if len(list) < manyEvicted {
			continue
		}
		for _, i := range list {
			volumes = append(volumes, i)
			merge[i] = true
		}
	}
	return volumes, merge
}

// isEnough reports whether the chosen chunks, and so many more bytes, are as many as wanted.
func (e *evictor) isEnough(more int64) bool { return e.Excess > 0 && e.stats.Bytes+more >= e.Excess }

// addFrom adds the chunks of a volume to the batch, unless enough are chosen.
func (e *evictor) addFrom(ctx context.Context, i int) error {
	if e.isEnough(e.batchBytes) {
		if err := e.takeBatch(ctx); err != nil {
			return err
		}
	}
	if e.sweep.Volume(i).Evicted || e.isEnough(0) {
		return nil
	}
	for rec, err := range e.sweep.Keys(i, object.KindChunk) {
		if err == nil && len(e.batch) == evictBatch {
			err = e.takeBatch(ctx)
		}
		if err != nil {
			return err
		}
		e.batch = append(e.batch, candidate{i, rec.Index, rec.Key, rec.Stored})
		e.batchBytes += int64(rec.Stored)
	}
	return nil
}

// takeBatch chooses the chunks of the batch that remotes keep.
func (e *evictor) takeBatch(ctx context.Context) error {
	if err := ctx.Err(); err != nil || len(e.batch) == 0 {
		return err
	}
	chunks := make([]object.Key, len(e.batch))
	for i, c := range e.batch {
		chunks[i] = c.key
	}
	kept, err := e.FindKept(ctx, chunks)
	if err != nil {
		return err
	}
	for _, c := range e.batch {
		if len(kept) == 0 || kept[0] != c.key {
			continue
		}
		kept = kept[1:]
		if e.taken[c.volume] == nil {
			e.taken[c.volume] = keys.NewSet(e.sweep.Volume(c.volume).Objects)
		}
		e.taken[c.volume].Add(c.index)
		e.stats.Chunks++
		e.stats.Bytes += int64(c.stored)
	}
	e.batch, e.batchBytes = e.batch[:0], 0
	if e.Progress != nil {
		e.Progress(e.stats.Bytes)
	}
	return nil
}
