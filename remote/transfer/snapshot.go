package transfer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// Snapshot is the content of a remote at one root. It is safe for concurrent use until its
// Remote makes another snapshot, which closes index files.
type Snapshot struct {
	atRoot
	Indexes []*IndexFile    // in the order of state.Indexes; nil: the file is in parts
	Records *record.Effects // which objects the remote need not have

	parts []*indexParts // likewise; nil: the file is in Indexes
}

// Snapshot returns the content of the remote at its head.
func (r *Remote) Snapshot(ctx context.Context) (*Snapshot, error) {
	head, err := r.Head(ctx)
	if err != nil {
		return nil, err
	}
	return r.SnapshotAt(ctx, head)
}

// LookUpInParts makes the following snapshots of r open large index files in parts, as a [Locator] does. It is for a push of few
// objects, which looks up few. Such a snapshot cannot list entries, and Find may read from the remote.
func LookUpInParts(r *Remote) { r.inParts = true }

// SnapshotAt returns the content of the remote at head, or at a later head if an index
// file is missing. An index file that the present head names, and that is missing or
// damaged twice, is damage.
func (r *Remote) SnapshotAt(ctx context.Context, head *rootlog.State) (snap *Snapshot, err error) {
	err = r.RetryAtHead(ctx, head, func(head *rootlog.State) error {
		limit := int64(math.MaxInt64)
		if r.inParts {
			limit = r.o.CopiedIndexes
		}
		indexes, parts, err := r.indexes.openSome(ctx, head.Indexes, limit)
		if err == nil {
			snap = newSnapshot(r, head, indexes, parts)
		}
		return err
	})
	return snap, asDamage(err)
}

// RetryAtHead calls try with head. If a file is missing, the head may be outdated: then
// following calls try with the present head, or once more if the head has not changed.
func (r *Remote) RetryAtHead(ctx context.Context, head *rootlog.State, try func(*rootlog.State) error) error {
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

// NewChange returns a change that does nothing yet.
func (r *Remote) NewChange() *rootlog.Change {
	policy := rootlog.Policy{SingleWriter: r.o.SingleWriter, Signed: r.o.Sign.Verifier != nil, Lock: r.o.Lock}
	return &rootlog.Change{Policy: policy, Who: r.o.Who, Host: r.o.Host, Time: r.o.Now()}
}

// AppendRoot appends the root that follows at. If another writer was first, next is nil,
// and later is the snapshot of the head.
func (r *Remote) AppendRoot(ctx context.Context, at *Snapshot, change *rootlog.Change) (next *rootlog.State, later *Snapshot, err error) {
	next, err = r.log.Append(ctx, at.State, *change)
	lost, ok := errors.AsType[*rootlog.LostError](err)
	if !ok {
		return next, nil, err
	}
	if err := r.RememberHead(ctx, lost.Head); err != nil {
		return nil, nil, err
	}
	later, err = r.SnapshotAt(ctx, lost.Head)
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

func newSnapshot(r *Remote, head *rootlog.State, indexes []*IndexFile, parts []*indexParts) *Snapshot {
	named := make([][]pack.Info, len(indexes))
	for i, x := range indexes {
		if x != nil {
			named[i] = x.PackInfos
		} else {
			named[i] = parts[i].Packs()
		}
	}
	s := &Snapshot{atRoot: newAtRoot(r, head, named), Indexes: indexes, parts: parts}
	s.Records = s.ViewOf(head.Records)
	return s
}

// ViewOf returns which objects the remote need not have, by records and the list of lost
// objects.
func (s *Snapshot) ViewOf(records *record.Set) *record.Effects {
	return records.View().WithLost(s.IsLost)
}

// IsLost reports whether an object is listed as lost, and is in no live pack. During a
// repair, it also reports the objects that the repair found lost, and adds them to its list.
func (s *Snapshot) IsLost(key object.Key) bool {
	_, listed := s.State.Lost[key]
	if !listed && !s.r.damage.hidesObject(key) {
		return false
	}
	_, there, err := s.Find(key)
	if err != nil || there {
		return false
	}
	if !listed {
		s.r.damage.listLost(key)
	}
	return true
}

// Place is the place of an object, and of its entry.
type Place struct {
	pack.Entry
	IndexFile pack.Name // of the index file; zero: the root itself
	Number    int       // number of the entry in the index file
}

// Find returns the place of an object, and whether it is in a live pack.
func (s *Snapshot) Find(key object.Key) (Place, bool, error) {
	return s.findWith(context.Background(), key)
}

// findWith is Find, which ends with ctx. Without index files in parts it reads nothing from the remote. The number of an entry in such a
// file is unknown.
func (s *Snapshot) findWith(ctx context.Context, key object.Key) (Place, bool, error) {
	if e, ok := s.inline[key]; ok && s.hasEntry(e) {
		return Place{Entry: e}, true, nil
	}
	for i, x := range s.Indexes {
		if x == nil {
			found, err := s.parts[i].find(ctx, []object.Key{key})
			if err != nil {
				return Place{}, false, err
			}
			if !found[0].Key.IsZero() && s.hasEntry(found[0]) {
				return Place{found[0], s.State.Indexes[i].Name, -1}, true, nil
			}
			continue
		}
		e, at, err := x.Search(key)
		if err != nil {
			return Place{}, false, s.IndexDamage(i, err)
		}
		if at >= 0 && s.hasEntry(e) {
			return Place{e, s.State.Indexes[i].Name, at}, true, nil
		}
	}
	return Place{}, false, nil
}

// Locate returns the place of an object. The error for an object that is in no live pack
// is an [*object.AbsentError].
func (s *Snapshot) Locate(key object.Key) (Place, error) {
	return s.locateWith(context.Background(), key)
}

func (s *Snapshot) locateWith(ctx context.Context, key object.Key) (Place, error) {
	p, ok, err := s.findWith(ctx, key)
	if err == nil && !ok {
		err = &object.AbsentError{Key: key}
	}
	return p, err
}

// IndexDamage removes the damaged copy of an index file and returns the error for it.
func (s *Snapshot) IndexDamage(i int, err error) error {
	return s.r.indexes.damagedCopy(s.State.Indexes[i], s.Indexes[i], err)
}

// Get implements [object.Reader].
func (s *Snapshot) Get(ctx context.Context, key object.Key) ([]byte, error) {
	p, err := s.locateWith(ctx, key)
	if err != nil {
		return nil, err
	}
	return s.ReadObject(ctx, p.Entry)
}

// Missing implements [object.Reader].
func (s *Snapshot) Missing(ctx context.Context, keys []object.Key) (missing []object.Key, err error) {
	for _, key := range keys {
		_, ok, err := s.findWith(ctx, key)
		if err != nil {
			return nil, err
		}
		if !ok {
			missing = append(missing, key)
		}
	}
	return missing, ctx.Err()
}

// ReadNode returns a checked node, from nodes, which has its pack. If that copy is damaged,
// node reads the pack once more.
func (s *Snapshot) ReadNode(ctx context.Context, nodes *NodePacks, e pack.Entry) ([]byte, error) {
	value, err := nodes.StoredValue(e)
	if err == nil {
		var data []byte
		if data, err = nodes.Values.Decode(ctx, e, value, pack.Part{}); err == nil {
			return data, object.Check(e.Key.Kind, data)
		}
	}
	if !IsBadCopy(err) {
		return nil, err
	}
	return s.ReadChecked(ctx, e)
}

// ReadChecked is read that also checks the format of the object.
func (s *Snapshot) ReadChecked(ctx context.Context, e pack.Entry) ([]byte, error) {
	data, err := s.ReadObject(ctx, e)
	if err == nil {
		err = object.Check(e.Key.Kind, data)
	}
	return data, err
}

// errInParts is the error of a snapshot that cannot list entries. See [LookUpInParts].
var errInParts = errors.New("an index file was opened in parts")

// Entries yields the entries of live packs with their places. It ends at the first error.
func (s *Snapshot) Entries() iter.Seq2[Place, error] {
	return s.EntriesIn(func(int) bool { return true })
}

// EntriesIn is entries without the index files for whose number use returns false.
func (s *Snapshot) EntriesIn(use func(file int) bool) iter.Seq2[Place, error] {
	return func(yield func(Place, error) bool) {
		for _, e := range s.inline {
			if s.hasEntry(e) && !yield(Place{Entry: e}, nil) {
				return
			}
		}
		for i, x := range s.Indexes {
			if !use(i) {
				continue
			}
			if x == nil {
				yield(Place{}, errInParts)
				return
			}
			at := 0
			for e, err := range x.All() {
				if err != nil {
					yield(Place{}, s.IndexDamage(i, err))
					return
				}
				if s.hasEntry(e) && !yield(Place{e, s.State.Indexes[i].Name, at}, nil) {
					return
				}
				at++
			}
		}
	}
}
