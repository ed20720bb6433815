package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/trace"
)

// Publish makes the new objects durable, then calls write, which makes them reachable: it
// renames a ref or the index into place. Every such rename must happen inside Publish.
//
// While write runs, nothing is removed from the store, and it has all objects that this
// session put or found. If some were removed before, Publish returns a [*StaleError] and
// does not call write: also if a remote has lost an evicted object. It may be called any number
// of times.
//
// At the end, without a lock, Publish calls [Store.Published]: also after an error of the check or of
// write.
func (s *Session) Publish(ctx context.Context, write func(context.Context) error) error {
	s.mu.Lock()
	err := s.checkUsable()
	s.mu.Unlock()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}

	if s.dry != nil {
		return errors.New("publish: a dry run stores nothing")
	}

	end := trace.From(ctx).Begin("seal the volume")
	err = s.sealWriter(nil)
	end(err)
	if err != nil {
		return err
	}
	s.store.fetched.seal()
	err = s.recheckAway(ctx)
	if err == nil {
		err = s.writeLocked(ctx, write)
	}
	if s.store.Published != nil {
		s.store.Published(ctx)
	}
	return err
}

// recheckAway asks the remotes once more for the evicted objects on which the session relies. The
// answer for an object that was put may be hours old. If no remote can be asked now, it counts.
func (s *Session) recheckAway(ctx context.Context) error {
	s.mu.Lock()
	away := slices.Collect(maps.Keys(s.away))
	s.mu.Unlock()
	if len(away) == 0 {
		return nil
	}
	report, err := CheckAway(ctx, s.store, away)
	if lacking := slices.Concat(report.Gone, report.Unkept); err == nil && len(lacking) > 0 {
		err = &StaleError{Keys: lacking}
	}
	return err
}

// writeLocked calls write under the gc lock, if the objects of the session are still there.
func (s *Session) writeLocked(ctx context.Context, write func(context.Context) error) error {
	lock, err := s.store.lockPublish(ctx)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	defer lock.Unlock()

	if err := s.recheckObjects(ctx); err != nil {
		return err
	}
	return write(ctx)
}

// lockPublish takes the lock that keeps others from removing volumes.
func (s *Store) lockPublish(ctx context.Context) (*disk.FileLock, error) {
	return disk.Lock(ctx, filepath.Join(s.dir, gcLockFile), disk.Shared, gcLockWait)
}

// Keep prevents the removal of volumes until the returned function is called: other processes
// wait. It makes no lock file, because a store without one never published anything.
func Keep(ctx context.Context, s *Store) (release func(), err error) {
	path := filepath.Join(s.dir, gcLockFile)
	if _, err := disk.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	lock, err := disk.Lock(ctx, path, disk.Shared, disk.DefaultWait)
	if err != nil {
		return nil, err
	}
	return lock.Unlock, nil
}

// recheckObjects checks that the store has all objects that the session put or found. The
// caller holds the gc lock.
func (s *Session) recheckObjects(ctx context.Context) error {
	// Another goroutine may seal a volume that the list does not have.
	s.mu.Lock()
	own := slices.Clone(s.own)
	s.mu.Unlock()

	l, err := s.store.listVolumes()
	if err != nil {
		return fmt.Errorf("publish: list volumes: %w", err)
	}
	if s.trusted != nil && slices.ContainsFunc(s.trusted.volumes, func(v *sealedVolume) bool { return l.byName[v.name] == nil }) {
		return &StaleError{}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range own {
		if l.byName[name] == nil {
			// The session holds the lock of its volumes, so no kist command removed it.
			s.err = damageError(name, "", errors.New("it was removed while its session was open"))
			return s.err
		}
	}

	for v, found := range s.hits {
		// The index of a removed volume is still open, so its keys can be read.
		o, err := v.ensureOpen()
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		if l.byName[v.name] == v {
			if err := s.recheckDropped(v, o, found); err != nil {
				return fmt.Errorf("publish: %w", err)
			}
			continue
		}
		for i := range found.All() {
			rec, err := o.index.At(i)
			if isGone(err) {
				return &StaleError{} // its files were removed, so the keys are unknown
			}
			if err != nil {
				return fmt.Errorf("publish: %w", err)
			}
			s.stale[rec.Key] = struct{}{}
		}
		delete(s.hits, v)
	}

	var gone []object.Key
	for key := range s.stale {
		v, index, err := s.store.findObject(key)
		if err != nil {
			return err
		}
		if v == nil {
			gone = append(gone, key)
			continue
		}
		s.addHit(v, index)
		delete(s.stale, key)
	}

	if len(gone) > 0 {
		return &StaleError{Keys: gone}
	}
	return ctx.Err()
}

// recheckDropped marks the found objects of v that were dropped since as stale. The
// caller holds the mu of the session.
func (r *reliance) recheckDropped(v *sealedVolume, o *openVolume, found keys.Set) error {
	dropped := v.dropped.Load()
	if dropped == nil {
		return nil
	}
	for key := range *dropped {
		rec, ok, err := o.index.Find(key)
		if err != nil {
			return err
		}
		if ok && found.Has(rec.Index) {
			r.stale[key] = struct{}{}
		}
	}
	return nil
}

// Close ends the session. Objects that were not published stay in sealed volumes, so that
// a later Put of them is quick. After a failed write, the volume that was being written
// is removed.
func (s *Session) Close() error {
	err := s.sealWriter(nil)

	s.phase.Lock()
	defer s.phase.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.cur != nil {
		s.cur.abandon()
		s.cur = nil
	}
	if s.lock != nil {
		s.lock.Remove()
		s.lock = nil
	}
	return err
}
