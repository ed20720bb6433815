package collect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// knownFiles are the files of the remote that a collection knows.
type knownFiles struct {
	listed    map[string]remote.Info // in the store
	rootTimes map[uint64]time.Time   // of roots that condemned something, by number
	ownSizes  map[string]int64       // sizes in the store of the files that this collection sent
	abandoned []string               // files that this collection sent and no root will name
	condemned map[string]bool        // by this collection
	deleted   map[string]bool
	oldEpoch  map[string]bool // whether another key than the newest encrypts a pack, index or state file; nil without Options.Rekey
}

// orphanLister is a store that keeps parts of failed or running uploads, which no list
// has.
type orphanLister interface {
	InterruptedUploads(ctx context.Context) iter.Seq2[remote.Info, error]
}

// tempRemover is a store in which a killed process leaves files without a name. They are
// useless.
type tempRemover interface {
	RemoveTemps(ctx context.Context, before time.Time) (removed int, err error)
}

// listFiles lists the files of the store, and returns their size. It may miss some files, and
// list deleted ones.
func (f *knownFiles) listFiles(ctx context.Context, r *transfer.Remote) (bytes int64, err error) {
	listed := map[string]remote.Info{}
	folders := []string{"packs/", "index/", "state/"}
	if r.Identity().IsEncrypted() {
		folders = append(folders, "keys/")
	}
	for _, folder := range folders {
		for info, err := range r.Backend().List(ctx, folder) {
			if err != nil {
				return 0, err
			}
			if rootlog.CheckFileName(info.Name) == nil {
				listed[info.Name] = info
				bytes += info.Size
			}
		}
	}

	f.listed = listed
	store, ok := remote.As[orphanLister](r.Backend())
	if !ok {
		return bytes, nil
	}
	return bytes, retry.Do(ctx, r.Options().Retry, "list", func(ctx context.Context) error {
		for info, err := range store.InterruptedUploads(ctx) {
			if err != nil {
				return err
			}
			if _, ok := f.listed[info.Name]; !ok && rootlog.CheckFileName(info.Name) == nil {
				f.listed[info.Name] = info
			}
		}
		return nil
	})
}

// noteSent notes a file that this collection sent, which has size bytes before the store encrypts it.
func noteSent(c *Collection, name string, size int64) {
	c.ownSizes[name] = remote.StoredSize(c.r.Backend(), name, size)
	c.stats.After += c.ownSizes[name]
}

// sizeOf returns the size of a file in the store, or 0 if it is not known.
func (f *knownFiles) sizeOf(name string) int64 {
	if size, ok := f.ownSizes[name]; ok {
		return size
	}
	return f.listed[name].Size
}

// checkPacksExist makes sure that the packs with reachable objects exist. A pack that the list
// does not have may exist nevertheless.
func (c *Collection) checkPacksExist(ctx context.Context) error {
	return transfer.Parallel(ctx, c.options.Jobs, len(c.livePacks), func(ctx context.Context, i int) error {
		p := c.livePacks[i]
		name := p.Name.Path()
		if info, ok := c.listed[name]; p.reachedCount == 0 || ok && c.r.HasSize(info, int64(p.Size)) || c.repair.damage().HasPack(p.Name) {
			return nil
		}
		err := c.r.CheckSize(ctx, name, int64(p.Size))
		if transfer.IsBadCopy(err) {
			err = &NeededError{Err: err}
		}
		return err
	})
}

// orphanFiles returns the old files that no root has named, sorted. The next root
// condemns them like any other file. Their sender learns of it before a root names them, or by
// the floor (CONDEMN_ORPHANS, IDX_CONDEMN_ORPHANS).
//
// A remote without a root has none: it has lost its roots, or its first push is under way.
// In both cases the files may be the rest of a history.
func (c *Collection) orphanFiles() (names []string) {
	if c.snap.State.Seq == 0 {
		return nil
	}

	known := filesOf(c.snap.State, c.snap.Indexes)
	now := c.r.Options().Now()
	for name, info := range c.listed {
		if _, ours := c.ownSizes[name]; ours || known[name] {
			continue
		}
		if c.options.PruneAge <= 0 || now.Sub(info.Modified) >= c.options.PruneAge {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// filesOf returns the files that the root names, condemned ones included.
func filesOf(state *rootlog.State, indexes []*transfer.IndexFile) map[string]bool {
	known := map[string]bool{}
	for name := range state.Condemned {
		known[name] = true
	}
	for _, name := range state.NamedFiles() {
		known[name] = true
	}
	for _, f := range state.Indexes {
		known[f.Name.IndexPath()] = true
	}
	for _, x := range indexes {
		for _, p := range x.PackInfos {
			known[p.Name.Path()] = true
		}
	}
	for _, p := range state.Packs {
		known[p.Name.Path()] = true
	}
	return known
}

// condemnedBefore returns the files that were condemned at least age ago, sorted, and when the next
// one was condemned. That is zero if there is none.
func (c *Collection) condemnedBefore(ctx context.Context, age time.Duration) (names []string, next time.Time, err error) {
	now := c.r.Options().Now()
	for name, seq := range c.snap.State.Condemned {
		if age <= 0 {
			names = append(names, name)
			continue
		}
		when, err := c.timeOfRoot(ctx, c.r, c.snap.State, seq)
		if err != nil {
			return nil, time.Time{}, err
		}
		switch {
		case when.IsZero():
		case now.Sub(when) >= age:
			names = append(names, name)
		case next.IsZero() || when.Before(next):
			next = when
		}
	}
	slices.Sort(names)
	return names, next, nil
}

// timeOfRoot returns the time of a root, as the root has it. For an unreadable root it returns
// zero.
func (f *knownFiles) timeOfRoot(ctx context.Context, r *transfer.Remote, head *rootlog.State, seq uint64) (time.Time, error) {
	if when, ok := f.rootTimes[seq]; ok {
		return when, nil
	}
	if seq == head.Seq {
		return head.Time, nil
	}
	var when time.Time
	root, err := r.Log().At(ctx, seq)
	switch {
	case err == nil:
		when = root.Time
	case errors.Is(err, remote.ErrDamaged), errors.Is(err, remote.ErrNotFound), errors.Is(err, rootlog.ErrFormat):
		r.Options().Warn(fmt.Sprintf("files that root %d marked for deletion stay, because its date is unknown: %v", seq, err))
	default:
		return when, err
	}
	f.rootTimes[seq] = when
	return when, nil
}

// mayExist reports whether a condemned file may still exist.
func (f *knownFiles) mayExist(name string) bool {
	_, listed := f.listed[name]
	return !f.deleted[name] && (listed || f.condemned[name])
}

// deleteDue deletes the files that were condemned before the grace. Only deletions that the store has acknowledged
// count.
func (c *Collection) deleteDue(ctx context.Context) error {
	names, _, err := c.condemnedBefore(ctx, c.options.Grace)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !c.mayExist(name) })
	if names, err = withoutLocked(ctx, c, names); err != nil {
		return err
	}
	var mu sync.Mutex
	return transfer.Parallel(ctx, c.options.Jobs, len(names), func(ctx context.Context, i int) error {
		if err := c.r.Backend().Delete(ctx, names[i]); err != nil {
			return fmt.Errorf("delete a marked file: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		c.deleted[names[i]] = true
		c.stats.Deleted++
		c.stats.After -= c.sizeOf(names[i])
		return nil
	})
}

// removeTemps removes the nameless files of killed writers.
func removeTemps(ctx context.Context, r *transfer.Remote, age time.Duration) error {
	store, ok := remote.As[tempRemover](r.Backend())
	if !ok {
		return nil
	}
	_, err := store.RemoveTemps(ctx, r.Options().Now().Add(-max(age, 0)))
	return err
}

// sizesOf returns the sizes of the files that exist among names.
func sizesOf(ctx context.Context, r *transfer.Remote, names []string) (map[string]int64, error) {
	var mu sync.Mutex
	found := map[string]int64{}
	return found, transfer.Parallel(ctx, r.Options().Jobs, len(names), func(ctx context.Context, i int) error {
		info, err := r.Backend().Stat(ctx, names[i])
		switch {
		case errors.Is(err, remote.ErrNotFound):
			return nil
		case err != nil:
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		found[names[i]] = info.Size
		return nil
	})
}
