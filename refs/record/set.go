package record

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/kist-vcs/kist/object"
)

// Set is a set of records, one for each name. A nil Set is empty and can be read. A
// Set is not safe for concurrent use while it changes.
type Set struct {
	byName map[string]Record
}

// Len returns the number of records, including those switched off.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.byName)
}

// Get returns the record of a kind and an object, and whether it exists. It
// may be switched off.
func (s *Set) Get(kind Kind, key object.Key) (Record, bool) {
	if s == nil {
		return Record{}, false
	}
	r, ok := s.byName[(&Record{Kind: kind, Key: key}).Name()]
	return r, ok
}

// All yields the records sorted by name.
func (s *Set) All() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		if s == nil {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(s.byName)) {
			if !yield(s.byName[name]) {
				return
			}
		}
	}
}

// Equal reports whether two sets have the same records.
func (s *Set) Equal(other *Set) bool {
	return s.Len() == other.Len() && len(s.Newer(other)) == 0 && len(other.Newer(s)) == 0
}

// Clone returns a copy that can be changed.
func (s *Set) Clone() *Set {
	c := &Set{byName: map[string]Record{}}
	if s != nil {
		maps.Copy(c.byName, s.byName)
	}
	return c
}

// Merge adds a record from elsewhere and reports whether the set changed. It
// keeps a later record of the same name, and refuses a record that is not
// [Record.Plausible].
func (s *Set) Merge(r Record) bool {
	name := r.Name()
	if !r.Plausible() {
		return false
	}
	if old, ok := s.byName[name]; ok && r.compareRank(&old) <= 0 {
		return false
	}
	if s.byName == nil {
		s.byName = map[string]Record{}
	}
	s.byName[name] = r
	return true
}

// ErrFinal means that a record has the highest generation, so that only a
// change that keeps more can replace it.
var ErrFinal = errors.New("the record was changed too often to be changed again")

// Switch makes r the present record of its name and sets its generation. At
// the highest generation, only a change that keeps more counts. So an attacker
// cannot use up the generations to remove content for good. ErrFinal means
// that another change of On was refused. Another change of the other fields alone is
// dropped without an error.
func (s *Set) Switch(r Record) error {
	old, _ := s.Get(r.Kind, r.Key)
	r.Generation = min(old.Generation+1, MaxPlausible)
	if !s.Merge(r) && r.On != old.On {
		return fmt.Errorf("%s: %w", r.Name(), ErrFinal)
	}
	return nil
}

// EndHolds switches off the holds that are over. It records now, who and host as
// their last change. Their other fields stay. From then on, the holds have ended
// for all repositories that receive these records, whatever their clocks show.
func (s *Set) EndHolds(now time.Time, who, host string) {
	for r := range s.All() {
		if r.Over(now) {
			r.On, r.Time, r.Who, r.Host = false, now.UTC(), who, host
			_ = s.Switch(r) // a final record stays on
		}
	}
}

// Forget deletes r if it is stored unchanged, leaving no trace. It is for a
// record about an object that is missing here, if a repository that has the
// object disagrees with the record.
func (s *Set) Forget(r Record) {
	if name := r.Name(); s.byName[name] == r {
		delete(s.byName, name)
	}
}

// Newer returns the records that are missing in other or later than those of
// other, sorted by name.
func (s *Set) Newer(other *Set) []Record {
	var list []Record
	for r := range s.All() {
		if old, ok := other.Get(r.Kind, r.Key); !ok || r.compareRank(&old) > 0 {
			list = append(list, r)
		}
	}
	return list
}

// Effects is the consequences of records. A nil View is that of no records. It
// is safe for concurrent use.
type Effects struct {
	held, expired, purged map[object.Key]Record

	lost func(object.Key) bool // nil: no object
}

// WithLost returns the view for a repository with accepted losses. An object
// may be missing if lost returns true for it.
func (v *Effects) WithLost(lost func(object.Key) bool) *Effects {
	with := *v.orNone()
	with.lost = lost
	return &with
}

// Lost reports whether the loss of an object was accepted, see [View.WithLost].
func (v *Effects) Lost(key object.Key) bool { return v != nil && v.lost != nil && v.lost(key) }

// View returns the consequences of the records, independent of any clock: a
// hold with an end counts until it is switched off, see [Set.EndHolds]. It
// decides which objects must be present.
func (s *Set) View() *Effects {
	return s.viewOf(func(*Record) bool { return true })
}

// At returns the consequences of the records at a time: holds that are over do
// not count. It is for showing, and for deciding which content may expire.
// Only [Set.View] decides which objects must be present.
func (s *Set) At(now time.Time) *Effects {
	return s.viewOf(func(r *Record) bool { return !r.Over(now) })
}

func (s *Set) viewOf(counts func(*Record) bool) *Effects {
	v := &Effects{held: map[object.Key]Record{}, expired: map[object.Key]Record{}, purged: map[object.Key]Record{}}
	for r := range s.All() {
		switch {
		case !r.On:
		case r.Kind == Expire:
			v.expired[r.Key] = r
		case r.Kind == Purge:
			v.purged[r.Key] = r
		case counts(&r):
			v.held[r.Key] = r
		}
	}

	for key := range v.held {
		delete(v.expired, key)
	}

	return v
}

// orNone returns v, or for nil the view of no records.
func (v *Effects) orNone() *Effects {
	if v == nil {
		return &Effects{}
	}
	return v
}

// Held returns the record that holds a commit, if it is held.
func (v *Effects) Held(commit object.ID) (Record, bool) {
	r, ok := v.orNone().held[object.Key{Kind: object.KindCommit, ID: commit}]
	return r, ok
}

// Holds returns the held commits, in no order.
func (v *Effects) Holds() (list []object.ID) {
	for key := range v.orNone().held {
		list = append(list, key.ID)
	}
	return list
}

// Expired returns the record that allows a commit's content to be missing. It
// exists if the content has expired and the commit is not held.
func (v *Effects) Expired(commit object.ID) (Record, bool) {
	r, ok := v.orNone().expired[object.Key{Kind: object.KindCommit, ID: commit}]
	return r, ok
}

// AnyExpired reports whether the content of any commit has expired.
func (v *Effects) AnyExpired() bool { return v != nil && len(v.expired) > 0 }

// Purged returns the record that allows a content to be missing, if it was
// purged.
func (v *Effects) Purged(content object.Key) (Record, bool) {
	r, ok := v.orNone().purged[content]
	return r, ok
}

// AllPurged returns the purged contents, in no order.
func (v *Effects) AllPurged() []object.Key { return slices.Collect(maps.Keys(v.orNone().purged)) }

// AnyPurged reports whether there are purged contents.
func (v *Effects) AnyPurged() bool { return v != nil && len(v.purged) > 0 }

// Skips reports whether a link does not count, so that its object may be
// missing. From is the zero key for a root. Of an expired commit, only the
// links to its parents count.
func (v *Effects) Skips(from, link object.Key) bool {
	if v == nil {
		return false
	}
	if from.Kind == object.KindCommit && link.Kind != object.KindCommit {
		if _, expired := v.expired[from]; expired {
			return true
		}
	}
	_, purged := v.purged[link]
	return purged || v.Lost(link)
}
