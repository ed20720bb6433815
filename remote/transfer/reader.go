package transfer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// Reader is an [object.Reader] of the objects that a remote has at its last known head, which
// [Reader.Refresh] reads again. It is safe for concurrent use. Nothing else may use the remote
// meanwhile.
type Reader struct {
	remote *Remote

	asking sync.Mutex // held while the remote is asked for its head; guards at
	at     time.Time  // when it was asked

	mu   sync.RWMutex // read-held while snap is used: a new head closes its files
	snap *Snapshot

	files packFiles
}

// errorAge is the age of a head from which on a failed read is tried again at the present head.
const errorAge = time.Second

// NewReader reads the head of s. The remote belongs to the Reader, whose Close closes it. After an error,
// the caller closes it. For a repository, the error matches [ErrRepository].
func NewReader(ctx context.Context, s Source) (*Reader, error) {
	remote, err := storeOf(s)
	if err != nil {
		return nil, err
	}
	r := &Reader{remote: remote}
	if err := r.Refresh(ctx, 0); err != nil {
		return nil, err
	}
	return r, nil
}

// Close closes the remote.
func (r *Reader) Close() error { return r.remote.Close() }

// Refresh reads the head of the remote, unless the known one is younger than age.
func (r *Reader) Refresh(ctx context.Context, age time.Duration) error {
	r.asking.Lock()
	defer r.asking.Unlock()
	now := r.remote.o.Now()
	if r.snap != nil && now.Sub(r.at) < age {
		return nil
	}
	r.at = now
	head, err := r.remote.Head(ctx)
	if err != nil || r.snap != nil && head.Seq == r.snap.State.Seq {
		return err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	snap, err := r.remote.SnapshotAt(ctx, head)
	if err == nil {
		r.snap = snap
	}
	return err
}

// State returns the state of the remote at the last known head.
func (r *Reader) State() *rootlog.State {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.snap.State
}

// Get implements [object.Reader]. After an error it tries once more at the present head: a gc of
// the remote may have moved the object.
func (r *Reader) Get(ctx context.Context, key object.Key) ([]byte, error) {
	get := func() ([]byte, error) {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return r.snap.Get(ctx, key)
	}
	data, err := get()
	if err != nil && ctx.Err() == nil && r.Refresh(ctx, errorAge) == nil {
		data, err = get()
	}
	return data, err
}

// Missing implements [object.Reader]. It believes the indexes. See [Reader.FindUnkept].
func (r *Reader) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.snap.Missing(ctx, keys)
}

// FindUnkept returns the objects that the remote does not have, for callers that rely on it as
// their only place: no live pack has them, or the files of these packs are missing or have
// another size. It does not read packs.
func (r *Reader) FindUnkept(ctx context.Context, keys []object.Key) (unkept []object.Key, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var entries []pack.Entry
	var packs []pack.Info
	for _, key := range keys {
		p, ok, err := r.snap.Find(key)
		if err != nil {
			return nil, err
		}
		if !ok {
			unkept = append(unkept, key)
			continue
		}
		entries = append(entries, p.Entry)
		packs = append(packs, p.Pack)
	}
	if err := r.files.lookFor(ctx, r.snap, packs); err != nil {
		return nil, err
	}

	for _, e := range entries {
		if r.files.has(e.Pack.Name) {
			continue
		}
		ok, err := r.isKeptElsewhere(ctx, e)
		if err != nil {
			return nil, err
		}
		if !ok {
			unkept = append(unkept, e.Key)
		}
	}
	return unkept, ctx.Err()
}

// isKeptElsewhere reports whether another pack than that of e has its object and is there. The
// caller holds r.mu for reading.
func (r *Reader) isKeptElsewhere(ctx context.Context, e pack.Entry) (bool, error) {
	others, err := r.snap.EntriesOf(e.Key)
	if err != nil {
		return false, err
	}
	for _, other := range others {
		if err := r.files.lookFor(ctx, r.snap, []pack.Info{other.Pack}); err != nil {
			return false, err
		}
		if r.files.has(other.Pack.Name) {
			return true, nil
		}
	}
	return false, nil
}

// packFiles remembers for some minutes which packs a remote has as files. It is safe for concurrent use.
type packFiles struct {
	mu     sync.Mutex // guards the following
	there  map[pack.Name]bool
	listed bool
	since  time.Time // of the oldest answer
}

const (
	packFilesAge = 10 * time.Minute
	askedSingly  = 8 // packs; for more, all are listed
	packsFolder  = "packs/"
)

// has reports whether lookFor found a pack.
func (f *packFiles) has(name pack.Name) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.there[name]
}

// lookFor finds out which packs are there with their size. It asks for few packs one by one. For
// more, it lists all packs once: a list of thousands costs a request for each thousand. A list
// may miss a new pack, so lookFor asks for each that the list does not have.
func (f *packFiles) lookFor(ctx context.Context, snap *Snapshot, packs []pack.Info) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := snap.r.o.Now()
	if f.there == nil || now.Sub(f.since) > packFilesAge {
		f.there, f.listed, f.since = map[pack.Name]bool{}, false, now
	}

	unknown := map[pack.Name]pack.Info{}
	for _, p := range packs {
		if _, known := f.there[p.Name]; !known {
			unknown[p.Name] = p
		}
	}
	if !f.listed && len(unknown) > 0 && len(f.there)+len(unknown) > askedSingly {
		if err := f.list(ctx, snap); err != nil {
			return err
		}
	}
	for name, p := range unknown {
		if f.there[name] {
			continue
		}
		err := snap.r.CheckSize(ctx, name.Path(), int64(p.Size))
		if err != nil && !IsBadCopy(err) {
			return fmt.Errorf("look for pack %s: %w", name, err)
		}
		f.there[name] = err == nil
	}
	return nil
}

// list notes the live packs that a list has. The caller holds f.mu.
func (f *packFiles) list(ctx context.Context, snap *Snapshot) error {
	live := snap.LivePacks()
	wanted := make(map[string]pack.Info, len(live))
	for _, p := range live {
		wanted[p.Name.Path()] = p
	}
	for info, err := range snap.r.b.List(ctx, packsFolder) {
		if err != nil {
			return fmt.Errorf("list packs: %w", err)
		}
		if p, ok := wanted[info.Name]; ok && snap.r.HasSize(info, int64(p.Size)) {
			f.there[p.Name] = true
		}
	}
	f.listed = true
	return nil
}

var _ object.Reader = (*Reader)(nil)
