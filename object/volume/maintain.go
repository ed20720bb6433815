package volume

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/keys"
)

const (
	smallVolume = 64 << 20 // a small volume has fewer bytes
	manySmall   = 32       // more small volumes than this are merged
	fanIn       = 8        // number of volumes that are merged into one
	manyTrash   = 64       // number of removed volumes whose files stay for trashAge
	trashAge    = time.Hour
)

// MaintainOptions configure [Store.Maintain].
type MaintainOptions struct {
	// SingleHost confirms that no other machine uses the repository. Without it, Maintain
	// refuses a network file system, where locks may not reach other machines.
	SingleHost bool
}

// MaintainStats are the totals of [Store.Maintain].
type MaintainStats struct {
	Salvaged int   // interrupted writes that were salvaged
	Merged   int   // volumes merged into others, and removed
	Written  int   // volumes they were merged into
	Deleted  int   // removed volumes whose files were deleted
	Freed    int64 // bytes of those files
}

// Maintain merges small volumes if there are many, and salvages the volumes of dead
// writers. It deletes the files of volumes that were removed more than an hour ago,
// or earlier if there are many. Readers and writers go on meanwhile. It returns
// [disk.ErrBusy] if another process sweeps, repairs or maintains the store.
func (s *Store) Maintain(ctx context.Context, o MaintainOptions) (MaintainStats, error) {
	var st MaintainStats
	lock, err := s.lockMaintenance(ctx, o)
	if err != nil {
		return st, err
	}
	defer lock.Unlock()

	st.Salvaged = deadWriters{s}.salvageAll(ctx)
	st.Deleted, st.Freed, err = trashBin{s}.deleteOlder(ctx, manyTrash, trashAge)
	for err == nil {
		var group []*sealedVolume
		if group, err = nextGroup(s); err != nil || len(group) < 2 {
			break
		}
		var merged int
		if merged, err = s.mergeVolumes(ctx, group); merged == 0 {
			break
		}
		st.Merged += merged
		st.Written++
	}

	if err != nil {
		return st, fmt.Errorf("maintain object store: %w", err)
	}
	return st, nil
}

// NeedsMaintenance reports whether Maintain would merge volumes or delete old files. It is cheap.
func (s *Store) NeedsMaintenance() bool {
	l, err := s.listVolumes()
	if err != nil {
		return false
	}
	return len(l.volumes) > manySmall && len(l.smallVolumes(func(error) {})) > manySmall || trashBin{s}.mayHaveOld()
}

// smallVolumes returns the small volumes that can be merged: it skips volumes of sessions that are
// not closed. It calls skipped for a volume that it cannot describe.
func (l *listing) smallVolumes(skipped func(error)) (small []*sealedVolume) {
	for _, v := range l.volumes {
		info, err := v.describe()
		if err != nil {
			skipped(err)
			continue
		}
		if info.Bytes < smallVolume && !info.Evicted && !v.noMerge.Load() && !disk.IsLocked(v.store.lockPath(info.Session)) {
			small = append(small, v)
		}
	}
	return small
}

// nextGroup returns the next volumes to merge: the smallest ones, if there are too many
// small ones.
func nextGroup(s *Store) ([]*sealedVolume, error) {
	l, err := s.listVolumes()
	if err != nil {
		return nil, err
	}
	small := l.smallVolumes(func(err error) { s.warn("not merged: %v", err) })
	if len(small) <= manySmall {
		return nil, nil
	}
	slices.SortStableFunc(small, func(a, b *sealedVolume) int {
		return int(a.info.Load().Bytes - b.info.Load().Bytes)
	})
	objects := 0
	for i, v := range small[:fanIn] {
		if objects += v.info.Load().Objects; objects > s.o.MaxObjects && i >= 2 {
			return small[:i], nil
		}
	}
	return small[:fanIn], nil
}

// mergeVolumes copies all objects of volumes into a new one, reads that back, and removes the
// volumes. It keeps a volume with an object that has no readable copy, and returns the
// number of removed volumes. The caller holds the maintenance lock.
func (s *Store) mergeVolumes(ctx context.Context, volumes []*sealedVolume) (int, error) {
	c := &copier{store: s, allRepacked: true, single: true}
	defer c.abandon()
	for _, v := range volumes {
		info, err := v.describe()
		if err != nil {
			return 0, err
		}
		c.addSource(info)
	}

	var copied []*sealedVolume
	for _, v := range volumes {
		err := c.copyVolume(ctx, v)
		if _, ok := err.(*copyError); ok {
			s.warn("not merged: %v", err)
			v.noMerge.Store(true)
			continue
		}
		if err != nil {
			return 0, err
		}
		copied = append(copied, v)
	}
	if len(copied) < 2 {
		return 0, nil
	}

	if err := c.sealAndReadBack(ctx); err != nil {
		return 0, err
	}
	for _, v := range copied {
		if err := v.checkCopied(func(rec keys.Record) (bool, error) { return c.hasCopied(rec.Key) }); err != nil {
			return 0, fmt.Errorf("read back the merged volume: %w", err)
		}
	}
	return len(copied), trashBin{s}.removeVolumes(ctx, copied)
}

// copyError is an error of the copied volume, not of the new one.
type copyError struct{ err error }

func (e *copyError) Error() string { return e.err.Error() }

// copyVolume copies all objects of v. It returns a [*copyError] if one cannot be read.
func (c *copier) copyVolume(ctx context.Context, v *sealedVolume) error {
	o, err := v.ensureOpen()
	if err != nil {
		return &copyError{err}
	}
	k := &volumeCopier{
		copier: c, from: v,
		wants: func(rec keys.Record) (bool, error) { return !v.isDropped(rec.Key), nil },
		lost:  func(_ keys.Record, err error) error { return &copyError{err} },
	}
	for rec, err := range o.index.All() {
		if err != nil {
			return &copyError{v.indexError(err)}
		}
		if err := k.copyObject(ctx, rec, 0); err != nil {
			return err
		}
	}
	return nil
}
