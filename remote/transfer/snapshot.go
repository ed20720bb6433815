package transfer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// snapshot is the content of a remote at one root. It is safe for concurrent use until its
// Remote makes another snapshot, which closes index files.
type snapshot struct {
	r       *Remote
	state   *rootlog.State
	indexes []*indexFile // in the order of state.Indexes
	inline  map[object.Key]pack.Entry
	packs   map[pack.Name]struct{} // live
	records *record.View           // which objects the remote need not have
}

// snapshot returns the content of the remote at its head.
func (r *Remote) snapshot(ctx context.Context) (*snapshot, error) {
	head, err := r.Head(ctx)
	if err != nil {
		return nil, err
	}
	return r.snapshotAt(ctx, head)
}

// snapshotAt returns the content of the remote at head, or at a later head if an index
// file is missing. An index file that the present head names, and that is missing or
// damaged twice, is damage.
func (r *Remote) snapshotAt(ctx context.Context, head *rootlog.State) (snap *snapshot, err error) {
	err = r.following(ctx, head, func(head *rootlog.State) error {
		indexes, err := r.indexes.open(ctx, head.Indexes)
		if err == nil {
			snap = newSnapshot(r, head, indexes)
		}
		return err
	})
	return snap, asDamage(err)
}

// following calls try with head. If a file is missing, the head may be outdated: then
// following calls try with the present head, or once more if the head has not changed.
func (r *Remote) following(ctx context.Context, head *rootlog.State, try func(*rootlog.State) error) error {
	for again := false; ; {
		err := try(head)
		if !errors.Is(err, remote.ErrNotFound) || errors.Is(err, remote.ErrDamaged) {
			return err
		}
		next, herr := r.Head(ctx)
		switch {
		case herr != nil:
			return herr
		case next.Seq == head.Seq && again:
			return fmt.Errorf("root %d needs a missing file: %w", head.Seq, err)
		}
		again = next.Seq == head.Seq
		head = next
	}
}

// newChange returns a change that does nothing yet.
func (r *Remote) newChange() *rootlog.Change {
	policy := rootlog.Policy{SingleWriter: r.o.SingleWriter, Lock: r.o.Lock}
	return &rootlog.Change{Policy: policy, Who: r.o.Who, Host: r.o.Host, Time: r.o.Now()}
}

// append appends the root that follows at. If another writer was first, next is nil,
// and later is the snapshot of the head.
func (r *Remote) append(ctx context.Context, at *snapshot, change *rootlog.Change) (next *rootlog.State, later *snapshot, err error) {
	next, err = r.log.Append(ctx, at.state, *change)
	lost, ok := errors.AsType[*rootlog.LostError](err)
	if !ok {
		return next, nil, err
	}
	if err := r.remember(ctx, lost.Head); err != nil {
		return nil, nil, err
	}
	later, err = r.snapshotAt(ctx, lost.Head)
	return nil, later, err
}

// asDamage makes the error for a missing file one that matches [remote.ErrDamaged]: the
// head names the file. It returns other errors unchanged.
func asDamage(err error) error {
	if e, ok := errors.AsType[*remote.Error](err); ok && e.Kind == remote.ErrNotFound {
		return &remote.Error{Op: e.Op, Name: e.Name, Kind: remote.ErrDamaged, Err: err}
	}
	return err
}

func newSnapshot(r *Remote, head *rootlog.State, indexes []*indexFile) *snapshot {
	s := &snapshot{r: r, state: head, indexes: indexes, inline: map[object.Key]pack.Entry{}}
	s.records = s.view(head.Records)
	named := make([][]pack.Info, len(indexes))
	for i, x := range indexes {
		named[i] = x.packs
	}
	s.packs = head.Live(named...)

	for _, p := range s.inlinePacks() {
		for _, e := range p.Entries {
			s.inline[e.Key] = e
		}
	}
	return s
}

// view returns which objects the remote need not have, by records and the list of lost
// objects.
func (s *snapshot) view(records *record.Set) *record.View { return records.View().WithLost(s.isLost) }

// inlinePacks returns the live packs whose entries lie in the root.
func (s *snapshot) inlinePacks() []rootlog.Inline {
	return slices.DeleteFunc(slices.Clone(s.state.Packs), func(p rootlog.Inline) bool { return !s.isLive(p.Name) })
}

// isLost reports whether an object is listed as lost, and is in no live pack. During a
// repair, it also reports the objects that the repair found lost, and adds them to its list.
func (s *snapshot) isLost(key object.Key) bool {
	_, listed := s.state.Lost[key]
	if !listed && !s.r.mending.isLost(key) {
		return false
	}
	_, there, err := s.find(key)
	if err != nil || there {
		return false
	}
	if !listed {
		s.r.mending.list(key)
	}
	return true
}

// isLive reports whether a pack is live.
func (s *snapshot) isLive(name pack.Name) bool {
	_, live := s.packs[name]
	return live
}

// has reports whether e is in a live pack. A repair hides the lost objects of damaged
// packs.
func (s *snapshot) has(e pack.Entry) bool {
	return s.isLive(e.Pack.Name) && !(s.r.mending.has(e.Pack.Name) && s.r.mending.isLost(e.Key))
}

// place is the place of an object, and of its entry.
type place struct {
	pack.Entry
	file pack.Name // of the index file; zero: the root itself
	at   int       // number of the entry in the index file
}

// entrySet is a set of entries, with one bit for each entry of an index file.
type entrySet struct {
	files  map[pack.Name]keys.Set // by name of the index file
	inline map[object.Key]bool    // entries that lie in a root
}

func newEntrySet() *entrySet {
	return &entrySet{files: map[pack.Name]keys.Set{}, inline: map[object.Key]bool{}}
}

// open makes room for the entries of a snapshot.
func (s *entrySet) open(snap *snapshot) {
	for i, f := range snap.state.Indexes {
		if s.files[f.Name] == nil {
			s.files[f.Name] = keys.NewSet(snap.indexes[i].Len())
		}
	}
}

func (s *entrySet) has(p place) bool {
	if p.file.IsZero() {
		return s.inline[p.Key]
	}
	return s.files[p.file].Has(p.at)
}

// add adds an entry, and reports whether it is new.
func (s *entrySet) add(p place) (first bool) {
	first = !s.has(p)
	if p.file.IsZero() {
		s.inline[p.Key] = true
	} else {
		s.files[p.file].Add(p.at)
	}
	return first
}

// find returns the place of an object, and whether it is in a live pack.
func (s *snapshot) find(key object.Key) (place, bool, error) {
	if e, ok := s.inline[key]; ok && s.has(e) {
		return place{Entry: e}, true, nil
	}
	for i, x := range s.indexes {
		e, at, err := x.Search(key)
		if err != nil {
			return place{}, false, s.badIndex(i, err)
		}
		if at >= 0 && s.has(e) {
			return place{e, s.state.Indexes[i].Name, at}, true, nil
		}
	}
	return place{}, false, nil
}

// place returns the place of an object. The error for an object that is in no live pack
// is an [*object.NotFoundError].
func (s *snapshot) place(key object.Key) (place, error) {
	p, ok, err := s.find(key)
	if err == nil && !ok {
		err = &object.NotFoundError{Key: key}
	}
	return p, err
}

// badIndex removes the damaged copy of an index file and returns the error for it.
func (s *snapshot) badIndex(i int, err error) error {
	f := s.state.Indexes[i]
	if s.indexes[i].file == nil {
		return fmt.Errorf("%s: %w", f.Name.IndexPath(), err)
	}
	s.r.indexes.forget(f)
	return &object.DamageError{Name: s.r.indexes.copyOf(f.Name), Err: err, Kind: ErrCopyRemoved}
}

// Get implements [object.Reader].
func (s *snapshot) Get(ctx context.Context, key object.Key) ([]byte, error) {
	p, err := s.place(key)
	if err != nil {
		return nil, err
	}
	return s.read(ctx, p.Entry)
}

// Missing implements [object.Reader].
func (s *snapshot) Missing(ctx context.Context, keys []object.Key) (missing []object.Key, err error) {
	for _, key := range keys {
		_, ok, err := s.find(key)
		if err != nil {
			return nil, err
		}
		if !ok {
			missing = append(missing, key)
		}
	}
	return missing, ctx.Err()
}

// read returns the verified object of e. The error for a damaged one is an
// [*object.CorruptError] that names the pack.
func (s *snapshot) read(ctx context.Context, e pack.Entry) ([]byte, error) {
	_, data, err := s.readValue(ctx, e)
	return data, err
}

// readValue is read that also returns the stored value.
func (s *snapshot) readValue(ctx context.Context, e pack.Entry) (value, data []byte, err error) {
	err = retry.Verified(func() error {
		value = make([]byte, e.Stored)
		n, err := s.r.read(ctx, e.Pack, value, int64(e.Offset))
		if err != nil {
			return fmt.Errorf("read %s: %w", e.Key, err)
		}
		data, err = s.r.values.Decode(ctx, e, value[:n], pack.Part{})
		return err
	})
	return value, data, err
}

// node returns a checked node, from nodes, which has its pack. If that copy is damaged,
// node reads the pack once more.
func (s *snapshot) node(ctx context.Context, nodes *nodePacks, e pack.Entry) ([]byte, error) {
	value, err := nodes.value(e)
	if err == nil {
		var data []byte
		if data, err = nodes.values.Decode(ctx, e, value, pack.Part{}); err == nil {
			return data, object.Check(e.Key.Kind, data)
		}
	}
	if !isBad(err) {
		return nil, err
	}
	return s.readChecked(ctx, e)
}

// readChecked is read that also checks the format of the object.
func (s *snapshot) readChecked(ctx context.Context, e pack.Entry) ([]byte, error) {
	data, err := s.read(ctx, e)
	if err == nil {
		err = object.Check(e.Key.Kind, data)
	}
	return data, err
}

// entries yields the entries of live packs with their places. It ends at the first error.
func (s *snapshot) entries() iter.Seq2[place, error] {
	return s.entriesIn(func(int) bool { return true })
}

// entriesIn is entries without the index files for whose number use returns false.
func (s *snapshot) entriesIn(use func(file int) bool) iter.Seq2[place, error] {
	return func(yield func(place, error) bool) {
		for _, e := range s.inline {
			if s.has(e) && !yield(place{Entry: e}, nil) {
				return
			}
		}
		for i, x := range s.indexes {
			if !use(i) {
				continue
			}
			at := 0
			for e, err := range x.All() {
				if err != nil {
					yield(place{}, s.badIndex(i, err))
					return
				}
				if s.has(e) && !yield(place{e, s.state.Indexes[i].Name, at}, nil) {
					return
				}
				at++
			}
		}
	}
}

// infos returns the live packs, sorted by name.
func (s *snapshot) infos() []pack.Info {
	var all []pack.Info
	for _, x := range s.indexes {
		all = append(all, x.packs...)
	}
	for _, p := range s.state.Packs {
		all = append(all, p.Info)
	}
	all = slices.DeleteFunc(all, func(p pack.Info) bool { return !s.isLive(p.Name) })
	slices.SortFunc(all, func(a, b pack.Info) int { return a.Name.Compare(b.Name) })
	return slices.CompactFunc(all, func(a, b pack.Info) bool { return a.Name == b.Name })
}
