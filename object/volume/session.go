package volume

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/keys"
)

// SessionOptions configure a [Session].
type SessionOptions struct {
	// DryRun makes a session that only counts and stores nothing. Its Get does not find
	// new objects.
	DryRun bool

	// New, if not nil, is called with the stored value of each new object, before the object
	// is in the volume. It must be safe for concurrent use, and must not keep value or use the
	// session. A dry run does not call it.
	New func(key object.Key, value []byte, raw int)

	// Unload, if not nil, is called when a volume of the session has UnloadBytes stored
	// bytes. It gets the names of the volumes that the session has sealed since the last
	// call. They are no longer in use: Unload may evict their chunks (see [Sweep.Evict]).
	// It must not use the session, which stores nothing meanwhile. Its error fails the
	// session.
	Unload      func(ctx context.Context, volumes []string) error
	UnloadBytes int64

	fetched bool // the session only stores objects that were fetched from a remote
}

// Stats are the totals of a session.
type Stats struct {
	Objects     int64 // objects that were put
	Bytes       int64 // bytes of all these objects
	NewObjects  int64 // objects that were put and that the store did not have
	NewBytes    int64 // bytes of the new objects
	StoredBytes int64 // bytes of the stored values of the new objects; 0 in a dry run
}

// Plus returns the totals of two sessions.
func (s Stats) Plus(o Stats) Stats {
	s.Objects += o.Objects
	s.Bytes += o.Bytes
	s.NewObjects += o.NewObjects
	s.NewBytes += o.NewBytes
	s.StoredBytes += o.StoredBytes
	return s
}

// Session writes objects into volumes of its own, and makes them reachable. It is an
// [object.ReadWriter], and safe for concurrent use: each caller of Put hashes and
// compresses its own objects. The session sees a new object immediately. Others see
// it when its volume is sealed, at the latest by Publish or Close.
//
// After the first failed write, a session writes nothing more.
//
// Locks are taken in this order: phase, begin, mu, and then the locks of the writer.
type Session struct {
	store *Store
	o     SessionOptions
	dry   map[object.Key]struct{} // the objects of a dry run; else nil

	salvage sync.Once
	phase   sync.RWMutex // read-held while an object is added to the volume, held while it is sealed
	begin   sync.Mutex   // held while a volume is begun

	mu     sync.Mutex // guards the following
	cur    *writer
	claims map[object.Key]chan struct{} // objects that a Put works on; closed when it is done
	stats  Stats
	err    error
	closed bool
	ownVolumes
	reliance
}

// ownVolumes are the volumes that a session wrote.
type ownVolumes struct {
	id   string         // name of the first one, or ""
	lock *disk.FileLock // lock of the first one, until Close
	own  []string       // names of the sealed ones
}

// reliance lists the objects and volumes that must still be there when a session publishes.
type reliance struct {
	trusted *listing                   // the volumes after Trust; nil without Trust
	hits    map[*sealedVolume]keys.Set // the objects that were found in volumes
	stale   map[object.Key]struct{}    // objects to look up again: their volume is gone
	away    map[object.Key]struct{}    // the objects that were found only as evicted ones
}

var errSessionClosed = errors.New("object session is closed")

// Begin starts a session. The caller closes it.
func (s *Store) Begin(o SessionOptions) *Session {
	ss := &Session{
		store:    s,
		o:        o,
		claims:   map[object.Key]chan struct{}{},
		reliance: reliance{hits: map[*sealedVolume]keys.Set{}, stale: map[object.Key]struct{}{}, away: map[object.Key]struct{}{}},
	}
	if o.DryRun {
		ss.dry = map[object.Key]struct{}{}
	}
	return ss
}

// Trust calls read, which finds objects that are in the store with everything below
// them. No object is removed while read runs. If any volume is removed later, Publish
// returns a [*StaleError]. Trust is called at most once, before all other methods.
func (s *Session) Trust(ctx context.Context, read func() error) error {
	lock, err := s.store.lockPublish(ctx)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := read(); err != nil {
		return err
	}
	s.trusted, err = s.store.listVolumes()
	return err
}

// Stats returns the totals so far.
func (s *Session) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Put implements [object.Writer]. It stores nothing if a volume has the object, unless
// the copy is known to be damaged, or it is evicted and no remote is known to keep it.
func (s *Session) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	if err := ctx.Err(); err != nil {
		return object.ID{}, err
	}
	if err := object.CheckSize(kind, len(data)); err != nil {
		return object.ID{}, err
	}
	id := object.Sum(data)
	err := s.putValue(ctx, object.Key{Kind: kind, ID: id}, len(data), func() (*buffer, error) {
		return s.store.encodeValue(data), nil
	})
	if err != nil {
		return object.ID{}, err
	}
	return id, nil
}

// putValue stores an object of raw bytes, unless the store has it. It calls value for the
// stored value. If value fails, nothing is put, and the session can go on.
func (s *Session) putValue(ctx context.Context, key object.Key, raw int, value func() (*buffer, error)) error {
	if s.dry == nil && !s.o.fetched {
		s.salvage.Do(func() { deadWriters{s.store}.salvageAll(ctx) })
	}

	mine, err := s.claimKey(ctx, key)
	if err != nil {
		return err
	}
	done := Stats{Objects: 1, Bytes: int64(raw)}
	if mine {
		defer s.releaseKey(key)
		unkept, err := s.findUnkept(ctx, []object.Key{key})
		if err != nil {
			return err
		}
		if len(unkept) > 0 {
			done.NewObjects, done.NewBytes = 1, int64(raw)
			if done.StoredBytes, err = s.putNew(ctx, key, raw, value); err != nil {
				return err
			}
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats = s.stats.Plus(done)
	return nil
}

// putNew is putValue for an object that the store does not have. It returns the size of the
// stored value in bytes, or 0 in a dry run.
func (s *Session) putNew(ctx context.Context, key object.Key, raw int, value func() (*buffer, error)) (int64, error) {
	if s.dry != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.dry[key] = struct{}{}
		return 0, nil
	}
	b, err := value()
	if err != nil {
		return 0, err
	}
	stored := int64(len(b.b))
	if s.o.New != nil {
		s.o.New(key, b.b, raw)
	}
	return stored, s.storeValue(ctx, key, b, raw)
}

// claimKey reserves key for the caller, who calls releaseKey afterwards. Mine is false, and there is
// nothing to release, if hasUnsealed reports true.
func (s *Session) claimKey(ctx context.Context, key object.Key) (mine bool, err error) {
	for {
		s.mu.Lock()
		if err := s.checkUsable(); err != nil {
			s.mu.Unlock()
			return false, err
		}
		other := s.claims[key]
		if other == nil {
			mine = !s.hasUnsealed(key)
			if mine {
				s.claims[key] = make(chan struct{})
			}
			s.mu.Unlock()
			return mine, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// releaseKey ends the claim on key.
func (s *Session) releaseKey(key object.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.claims[key])
	delete(s.claims, key)
}

// checkUsable returns an error if the session cannot be used. The caller holds s.mu.
func (s *Session) checkUsable() error {
	if s.closed {
		return errSessionClosed
	}
	return s.err
}

// hasUnsealed reports whether key is in the volume that is being written, or was put in a dry run. The
// caller holds s.mu.
func (s *Session) hasUnsealed(key object.Key) bool {
	if s.dry != nil {
		_, ok := s.dry[key]
		return ok
	}
	return s.cur != nil && s.cur.hasObject(key)
}

// findUnkept returns those of the wanted objects, in their order, for which the session cannot rely on the store. An
// evicted copy counts only if a remote has it now and promises to keep it (RELY_ON_KEPT): findUnkept asks.
func (s *Session) findUnkept(ctx context.Context, wanted []object.Key) (unkept []object.Key, err error) {
	type place struct {
		v     *sealedVolume
		index int
	}
	places := make([]place, len(wanted))
	away := map[object.Key]bool{} // whether a remote keeps it
	var ask []object.Key
	for i, key := range wanted {
		v, index, isAway, err := findCopy(s.store, key)
		if err != nil {
			return nil, err
		}
		places[i] = place{v, index}
		if isAway {
			away[key] = !s.o.fetched
			ask = append(ask, key)
		}
	}
	if len(ask) > 0 && !s.o.fetched {
		report, err := CheckAway(ctx, s.store, ask)
		if err != nil {
			return nil, err
		}
		for _, key := range slices.Concat(report.Gone, report.Unkept, report.Unknown) {
			away[key] = false
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range wanted {
		kept, isAway := away[key]
		if places[i].v == nil || isAway && !kept {
			unkept = append(unkept, key)
			continue
		}
		s.addHit(places[i].v, places[i].index)
		if isAway {
			s.away[key] = struct{}{}
		}
	}
	return unkept, nil
}

// addHit is relyOn for a caller that holds the mu of the session. V is open.
func (r *reliance) addHit(v *sealedVolume, index int) {
	if r.hits[v] == nil {
		r.hits[v] = keys.NewSet(v.open.Load().index.Len())
	}
	r.hits[v].Add(index)
}

// storeValue stores a value in the volume that is being written. It begins a volume if there is
// none, and seals or unloads a full one.
func (s *Session) storeValue(ctx context.Context, key object.Key, value *buffer, raw int) error {
	s.phase.RLock()
	w, err := s.currentWriter()
	if err == nil {
		err = w.addValue(key, value, raw)
	}
	s.phase.RUnlock()
	if err != nil {
		return s.setError(err)
	}
	switch {
	case s.o.Unload != nil && w.storedSize() >= s.o.UnloadBytes:
		return s.sealAndUnload(ctx, w)
	case w.isFull():
		return s.sealWriter(w)
	}
	return nil
}

// sealAndUnload seals w, if that is the volume that is being written, and calls Unload. From then
// on, the session relies on the objects of w as on objects that it found.
func (s *Session) sealAndUnload(ctx context.Context, w *writer) error {
	s.phase.Lock()
	defer s.phase.Unlock()
	if done, err := s.sealCurrent(w); !done || err != nil {
		return err
	}

	l, err := s.store.lastListing()
	if err != nil {
		return s.setError(err)
	}
	s.mu.Lock()
	own, lock := s.own, s.lock
	for _, name := range own {
		if err == nil {
			err = s.disownVolume(l.byName[name], name)
		}
	}
	s.own, s.id, s.lock = nil, "", nil
	s.mu.Unlock()
	lock.Remove()

	if err == nil {
		err = s.o.Unload(ctx, own)
	}
	if err != nil {
		return s.setError(err)
	}
	return nil
}

// disownVolume marks the objects of a volume of the session as stale, so that the next recheck
// looks for them. The caller holds s.mu. V is nil if the volume is gone.
func (r *reliance) disownVolume(v *sealedVolume, name string) error {
	if v == nil {
		return damageError(name, "", errNotListed)
	}
	o, err := v.ensureOpen()
	if err != nil {
		return err
	}
	for rec, err := range o.withoutDropped(o.index.All()) {
		if err != nil {
			return err
		}
		r.stale[rec.Key] = struct{}{}
	}
	return nil
}

// currentWriter returns the volume that is being written. It begins one if there is none.
func (s *Session) currentWriter() (*writer, error) {
	s.begin.Lock()
	defer s.begin.Unlock()
	s.mu.Lock()
	w, id, err := s.cur, s.id, s.checkUsable()
	s.mu.Unlock()
	if w != nil || err != nil {
		return w, err
	}

	w, err = s.store.newWriter(id)
	if err != nil {
		return nil, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == "" {
		// While this lock is held, no process removes volumes of the session.
		s.id, s.lock, w.keep = w.name, w.lock, true
	}
	s.cur = w
	return w, nil
}

// sealWriter seals the volume that is being written, if that is w or w is nil.
func (s *Session) sealWriter(w *writer) error {
	s.phase.Lock()
	defer s.phase.Unlock()
	_, err := s.sealCurrent(w)
	return err
}

// sealCurrent is sealWriter for a caller that holds s.phase. It reports whether it sealed a
// volume.
func (s *Session) sealCurrent(w *writer) (bool, error) {
	s.mu.Lock()
	cur, err := s.cur, s.err
	s.mu.Unlock()
	if err != nil || cur == nil || w != nil && w != cur {
		return false, err
	}
	if err := cur.sealVolume(); err != nil {
		return false, s.setError(err)
	}
	_, err = s.store.listVolumes()
	s.mu.Lock()
	s.own = append(s.own, cur.name)
	s.cur = nil
	s.mu.Unlock()
	if err != nil {
		return false, s.setError(err)
	}
	return true, nil
}

// setError makes err the error of the session, unless it has one. It returns the error of
// the session.
func (s *Session) setError(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	return s.err
}

// Get implements [object.Reader].
func (s *Session) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	w := s.cur
	s.mu.Unlock()
	if w != nil {
		if data, ok, err := w.getUnsealed(key); ok && !isGone(err) {
			return data, err
		}
	}
	return s.store.Get(ctx, key)
}

// Missing implements [object.Reader]. Publish ensures that found objects are
// still there, as it does for objects that were put. An evicted object is missing unless a remote
// keeps it at present.
func (s *Session) Missing(ctx context.Context, wanted []object.Key) ([]object.Key, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	left := slices.DeleteFunc(slices.Clone(wanted), s.hasUnsealed)
	s.mu.Unlock()
	if len(left) == 0 {
		return nil, nil
	}

	missing, err := s.store.Missing(ctx, left)
	if err != nil {
		return nil, err
	}

	gone := missing // in the order of left
	left = slices.DeleteFunc(left, func(key object.Key) bool {
		is := len(gone) > 0 && gone[0] == key
		if is {
			gone = gone[1:]
		}
		return is
	})
	unkept, err := s.findUnkept(ctx, left)
	return append(missing, unkept...), err // removed just now, damaged, or evicted and not kept: the caller has to put them
}

var _ object.ReadWriter = (*Session)(nil)
