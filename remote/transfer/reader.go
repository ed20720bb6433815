package transfer

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
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

	mu    sync.RWMutex // read-held while where is used: a new head closes its files
	where *Locator

	nodes *pack.Values // reads blocks of packs with nodes
	files packFiles
	ahead batchAhead
}

// ErrorAge is the age of a head from which on a failed read is tried again at the present head.
const ErrorAge = time.Second

// NewReader reads the head of s. The remote belongs to the Reader, whose Close closes it. After an error,
// the caller closes it. For a repository, the error matches [ErrRepository].
func NewReader(ctx context.Context, s Source) (*Reader, error) {
	store, err := storeOf(s)
	if err != nil {
		return nil, err
	}
	r := &Reader{remote: store, nodes: pack.NewValues(store.ReadPack, nodeBlock)}
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
	if r.where != nil && now.Sub(r.at) < age {
		return nil
	}
	r.at = now
	head, err := r.remote.Head(ctx)
	if err != nil || r.where != nil && head.Seq == r.where.State.Seq {
		return err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	where, err := r.remote.LocatorAt(ctx, head)
	if err == nil {
		r.where = where
	}
	return err
}

// State returns the state of the remote at the last known head.
func (r *Reader) State() *rootlog.State {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.where.State
}

// Get implements [object.Reader]. After an error it tries once more at the present head: a gc of
// the remote may have moved the object.
func (r *Reader) Get(ctx context.Context, key object.Key) ([]byte, error) {
	get := func() ([]byte, error) {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return r.getOne(ctx, key)
	}
	data, err := get()
	if err != nil && ctx.Err() == nil && r.Refresh(ctx, ErrorAge) == nil {
		data, err = get()
	}
	return data, err
}

// nodeBlock is the number of bytes that are read at once near a node: its neighbours in a pack are
// mostly those in a folder or a file, and soon wanted.
const nodeBlock = MaxGap

// getOne reads an object at the known head. The caller holds r.mu for reading.
func (r *Reader) getOne(ctx context.Context, key object.Key) ([]byte, error) {
	e, err := r.where.locateOne(ctx, key)
	if err != nil {
		return nil, err
	}
	if key.Kind.IsNode() {
		value, err := r.nodes.ReadStored(ctx, e)
		if err == nil {
			value, err = r.nodes.Decode(ctx, e, value, pack.Part{})
		}
		if err == nil || !IsBadCopy(err) {
			return bytes.Clone(value), err
		}
		r.nodes.DropPack(e.Pack.Name)
	}
	data, err := r.where.ReadObject(ctx, e)
	if err != nil && IsBadCopy(err) {
		if other, oerr := r.where.readAny(ctx, key); oerr == nil {
			return other, nil
		}
	}
	return data, err
}

// GetAll implements [object.BatchReader]. It reads neighbours in a pack together: see
// [MaxRead] and [MaxGap]. It tries other packs, and the present head, if a copy is damaged or gone.
func (r *Reader) GetAll(ctx context.Context, keys []object.Key, take func(key object.Key, data []byte) error) error {
	left, err := r.readBatch(ctx, keys, take)
	if err != nil || len(left) == 0 || r.Refresh(ctx, ErrorAge) != nil {
		return cmp.Or(err, ctx.Err())
	}
	_, err = r.readBatch(ctx, left, take)
	return err
}

// readBatch is GetAll at the known head. It returns the objects that it could not read.
func (r *Reader) readBatch(ctx context.Context, keys []object.Key, take func(key object.Key, data []byte) error) (left []object.Key, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	found, err := r.where.locateAny(ctx, keys)
	if err != nil {
		return nil, err
	}
	var entries []pack.Entry
	for _, key := range keys {
		if e, ok := found[key]; ok {
			entries = append(entries, e)
		} else {
			left = append(left, key)
		}
	}

	var mu sync.Mutex // guards left
	use := func(ctx context.Context, v readValue) error {
		data, err := v.value, v.err
		if err == nil {
			data, err = r.remote.values.Decode(ctx, v.Entry, v.value, v.held)
		}
		if err != nil && IsBadCopy(err) {
			data, err = r.where.readAny(ctx, v.Key)
		}
		if err != nil && IsBadCopy(err) {
			mu.Lock()
			defer mu.Unlock()
			left = append(left, v.Key)
			return nil
		}
		if err != nil {
			return err
		}
		return take(v.Key, data)
	}
	err = r.ahead.readEntries(ctx, r.remote.o.Jobs, entries, r.remote.ReadPack, use)
	return left, err
}

// readAny returns an object from the first pack that has it intact. If none has, the error matches
// IsBadCopy.
func (l *Locator) readAny(ctx context.Context, key object.Key) (data []byte, err error) {
	entries, err := l.EntriesOf(ctx, key)
	if err != nil {
		return nil, err
	}
	err = &object.CorruptError{Key: key}
	for _, e := range entries {
		if data, err = l.ReadObject(ctx, e); err == nil || !IsBadCopy(err) {
			break
		}
	}
	return data, err
}

// Missing implements [object.Reader]. It believes the indexes. See [Reader.FindUnkept].
func (r *Reader) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.where.Missing(ctx, keys)
}

// FindUnkept returns the objects that the remote does not have, for callers that rely on it as
// their only place: no live pack has them, or the files of these packs are missing or have
// another size. It does not read packs.
func (r *Reader) FindUnkept(ctx context.Context, keys []object.Key) (unkept []object.Key, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	found, err := r.where.locateAny(ctx, keys)
	if err != nil {
		return nil, err
	}
	var packs []pack.Info
	for _, e := range found {
		packs = append(packs, e.Pack)
	}
	if err := r.files.lookFor(ctx, &r.where.atRoot, packs); err != nil {
		return nil, err
	}

	for _, key := range keys {
		e, ok := found[key]
		if ok && r.files.has(e.Pack.Name) {
			continue
		}
		if ok {
			ok, err = r.isKeptElsewhere(ctx, e)
		}
		if err != nil {
			return nil, err
		}
		if !ok {
			unkept = append(unkept, key)
		}
	}
	return unkept, ctx.Err()
}

// FindUnreadable returns the objects that the remote does not have, or only in a pack that has to be thawed. Why is the error of a read
// from such a pack, or nil.
func (r *Reader) FindUnreadable(ctx context.Context, keys []object.Key) (unread []object.Key, why, err error) {
	found, err := r.FindPacks(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	packs := map[pack.Name]pack.Info{}
	for _, info := range found {
		packs[info.Name] = info
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if err := r.files.lookFor(ctx, &r.where.atRoot, slices.Collect(maps.Values(packs))); err != nil {
		return nil, nil, err
	}
	archived := map[pack.Name]bool{}
	for name := range packs {
		if !r.files.isArchived(name) {
			continue
		}
		info, err := r.remote.b.Stat(ctx, name.Path()) // it may be thawed
		if err != nil {
			return nil, nil, err
		}
		if archived[name] = info.Archived; info.Archived {
			why = explainArchived(r.remote, name, &remote.Error{Op: "get", Name: name.Path(), Err: remote.ErrArchived})
		}
	}
	for _, key := range keys {
		if info, ok := found[key]; !ok || archived[info.Name] {
			unread = append(unread, key)
		}
	}
	return unread, why, nil
}

// isKeptElsewhere reports whether another pack than that of e has its object and is there. The
// caller holds r.mu for reading.
func (r *Reader) isKeptElsewhere(ctx context.Context, e pack.Entry) (bool, error) {
	others, err := r.where.EntriesOf(ctx, e.Key)
	if err != nil {
		return false, err
	}
	for _, other := range others {
		if err := r.files.lookFor(ctx, &r.where.atRoot, []pack.Info{other.Pack}); err != nil {
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
	mu       sync.Mutex // guards the following
	there    map[pack.Name]bool
	archived map[pack.Name]bool // the packs that may have to be thawed
	listed   bool
	since    time.Time // of the oldest answer
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

// isArchived reports whether a pack that lookFor found may have to be thawed.
func (f *packFiles) isArchived(name pack.Name) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.archived[name]
}

// lookFor finds out which packs are there with their size. It asks for few packs one by one. For
// more, it lists all packs once: a list of thousands costs a request for each thousand. A list
// may miss a new pack, so lookFor asks for each that the list does not have.
func (f *packFiles) lookFor(ctx context.Context, at *atRoot, packs []pack.Info) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := at.r.o.Now()
	if f.there == nil || now.Sub(f.since) > packFilesAge {
		f.there, f.archived, f.listed, f.since = map[pack.Name]bool{}, map[pack.Name]bool{}, false, now
	}

	unknown := map[pack.Name]pack.Info{}
	for _, p := range packs {
		if _, known := f.there[p.Name]; !known {
			unknown[p.Name] = p
		}
	}
	if !f.listed && len(unknown) > 0 && len(f.there)+len(unknown) > askedSingly {
		if err := f.list(ctx, at); err != nil {
			return err
		}
	}
	for name, p := range unknown {
		if f.there[name] {
			continue
		}
		info, err := at.r.b.Stat(ctx, name.Path())
		if err != nil && !IsBadCopy(err) {
			return fmt.Errorf("look for pack %s: %w", name, err)
		}
		f.there[name], f.archived[name] = err == nil && at.r.HasSize(info, int64(p.Size)), info.Archived
	}
	return nil
}

// list notes the live packs that a list has. The caller holds f.mu.
func (f *packFiles) list(ctx context.Context, at *atRoot) error {
	live := at.LivePacks()
	wanted := make(map[string]pack.Info, len(live))
	for _, p := range live {
		wanted[p.Name.Path()] = p
	}
	for info, err := range at.r.b.List(ctx, packsFolder) {
		if err != nil {
			return fmt.Errorf("list packs: %w", err)
		}
		if p, ok := wanted[info.Name]; ok && at.r.HasSize(info, int64(p.Size)) {
			f.there[p.Name], f.archived[p.Name] = true, info.Archived
		}
	}
	f.listed = true
	return nil
}

var _ object.BatchReader = (*Reader)(nil)
