package volume

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// fetched has the evicted objects that were fetched: the last ones in memory, and as many as there is
// room for in a volume. So the same read costs nothing the second time. It is safe for concurrent
// use.
type fetched struct {
	lazy  bool // of the store
	store *Store

	mu      sync.Mutex // guards the following
	recent  map[object.Key][]byte
	order   []object.Key // of recent, the oldest first
	size    int          // bytes of recent
	session *Session     // nil: nothing was kept yet
	room    int64        // bytes that may still be kept
	ended   bool         // nothing more is kept

	measured bool // room was read
}

// maxRecent is the number of bytes of fetched objects that stay in memory.
const maxRecent = 4 * object.MaxPrefetch

// HasFarNodes reports whether trees and manifests may be away, see [object.HasFarNodes].
func (f *fetched) HasFarNodes() bool { return f.lazy }

// find returns an object that was fetched.
func (f *fetched) find(key object.Key) []byte {
	f.mu.Lock()
	data, ss := f.recent[key], f.session
	f.mu.Unlock()
	if data != nil || ss == nil {
		return data
	}
	ss.mu.Lock()
	w := ss.cur
	ss.mu.Unlock()
	if w == nil {
		return nil
	}
	if data, ok, err := w.getUnsealed(key); ok && err == nil {
		return data
	}
	return nil
}

// add adds a verified object, and takes ownership of data. It stores nothing if ctx comes from [object.Passing].
func (f *fetched) add(ctx context.Context, s *Store, key object.Key, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.recent[key] != nil {
		return
	}
	if f.recent == nil {
		f.recent = map[object.Key][]byte{}
	}
	f.recent[key] = data
	f.order = append(f.order, key)
	for f.size += len(data); f.size > maxRecent && len(f.order) > 1; f.order = f.order[1:] {
		f.size -= len(f.recent[f.order[0]])
		delete(f.recent, f.order[0])
	}
	if !object.IsPassing(ctx) {
		f.keep(ctx, s, key, data)
	}
}

// keep stores a node, or a chunk if there is room. An error ends that, and costs nothing else: the disk may be
// full or read-only. The caller holds f.mu.
func (f *fetched) keep(ctx context.Context, s *Store, key object.Key, data []byte) {
	if f.ended || s.o.ReadOnly {
		return
	}
	if f.session == nil {
		if !f.measured {
			f.room, f.measured = s.Elsewhere.Room(), true
		}
		f.session = s.Begin(SessionOptions{fetched: true})
	}
	if !key.Kind.IsNode() { // nodes are always kept: they show which objects are away
		if int64(len(data)) > f.room {
			f.room = 0
			return
		}
		f.room -= int64(len(data))
	}
	if _, err := f.session.Put(ctx, key.Kind, data); err != nil && ctx.Err() == nil {
		f.ended = true
	}
}

// seal ends the volume of the objects that were fetched so far, before a name leads to objects over them: other processes tell by them which
// objects are away. An error costs only another fetch.
func (f *fetched) seal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lazy && f.session != nil {
		_ = f.session.Close()
		f.session = nil
	}
}

// close ends the volume of the kept objects.
func (f *fetched) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	if f.session != nil {
		_ = f.session.Close() // the objects are on a remote
		f.session = nil
	}
}

// Prefetch implements [object.Prefetcher]: it fetches objects that are evicted, or may be away.
func (s *Store) Prefetch(ctx context.Context, keys []object.Key) {
	if !s.HasFar() {
		return
	}
	var away []object.Key
	seen := map[object.Key]bool{}
	for _, key := range keys {
		if !seen[key] && isFar(s, key) {
			away = append(away, key)
		}
		seen[key] = true
	}
	if len(away) == 0 {
		return
	}
	_ = s.Elsewhere.GetAll(ctx, away, func(key object.Key, data []byte) error { // a Get finds the error
		if checkFetched(key, data) == nil {
			s.fetched.add(ctx, s, key, slices.Clone(data))
		}
		return nil
	})
}

// HasFar implements [object.Prefetcher].
func (s *Store) HasFar() bool {
	if s.Elsewhere == nil || s.o.Lazy {
		return s.Elsewhere != nil
	}
	l, err := s.lastListing()
	return err == nil && slices.ContainsFunc(l.volumes, (*sealedVolume).isEvicted)
}

// Budgeter bounds the content that is fetched.
type Budgeter interface {
	// HasBudget reports whether somebody has to agree before much is fetched.
	HasBudget() bool

	// Agree returns a [*object.BudgetError] if nobody agrees to a fetch of so many bytes of chunks.
	Agree(bytes int64) error
}

// Agree implements [object.Payer]: Elsewhere decides, if it is a [Budgeter].
func (f *fetched) Agree(ctx context.Context, chunks iter.Seq2[object.ChunkRef, error]) error {
	b, ok := f.store.Elsewhere.(Budgeter)
	if !ok || !b.HasBudget() {
		return nil
	}
	far, total := map[object.ID]bool{}, int64(0)
	for c, err := range chunks {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if _, seen := far[c.ID]; !seen && isFar(f.store, object.Key{Kind: object.KindChunk, ID: c.ID}) {
			far[c.ID] = true
			total += int64(c.Size)
		}
	}
	return b.Agree(total)
}

// Prefetch implements [object.Prefetcher], as the store does.
func (s *Session) Prefetch(ctx context.Context, keys []object.Key) { s.store.Prefetch(ctx, keys) }

// HasFar implements [object.Prefetcher], as the store does.
func (s *Session) HasFar() bool { return s.store.HasFar() }

// HasFarNodes is that of the store.
func (s *Session) HasFarNodes() bool { return s.store.HasFarNodes() }

// isEvicted reports whether v is an evicted volume.
func (v *sealedVolume) isEvicted() bool {
	info, err := v.describe()
	return err == nil && info.Evicted
}

var (
	_ object.Payer      = (*Store)(nil)
	_ object.Prefetcher = (*Session)(nil)
)

// FetchAway brings objects here that have only evicted copies, whatever room there is. It returns the ones that no
// remote has intact.
func FetchAway(ctx context.Context, s *Store, keys []object.Key) (left []object.Key, err error) {
	if len(keys) == 0 || s.Elsewhere == nil {
		return keys, nil
	}
	ss := s.Begin(SessionOptions{fetched: true})
	var mu sync.Mutex // guards here
	here := make(map[object.Key]bool, len(keys))
	err = s.Elsewhere.GetAll(ctx, keys, func(key object.Key, data []byte) error {
		if object.Sum(data) != key.ID {
			return nil
		}
		if _, err := ss.Put(ctx, key.Kind, data); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		here[key] = true
		return nil
	})
	err = errors.Join(err, ss.Close())
	return slices.DeleteFunc(slices.Clone(keys), func(key object.Key) bool { return here[key] }), err
}
