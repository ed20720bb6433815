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

// Set has records, one of each name. A nil Set is empty, and can be read. A Set
// is not safe for concurrent use while it is changed.
type Set struct {
	byName map[string]Record
}

// Len returns how many records there are, those that are switched off
// included.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.byName)
}

// Get returns the record of a kind and an object, and whether there is one. It
// may be switched off.
func (s *Set) Get(kind Kind, key object.Key) (Record, bool) {
	if s == nil {
		return Record{}, false
	}
	r, ok := s.byName[(&Record{Kind: kind, Key: key}).Name()]
	return r, ok
}

// All yields the records in the order of their names.
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

// Equal reports whether two sets say the same.
func (s *Set) Equal(other *Set) bool {
	return s.Len() == other.Len() && len(s.Newer(other)) == 0 && len(other.Newer(s)) == 0
}

// Clone returns a copy, which can be changed.
func (s *Set) Clone() *Set {
	c := &Set{byName: map[string]Record{}}
	if s != nil {
		maps.Copy(c.byName, s.byName)
	}
	return c
}

// Merge adds a record that came from elsewhere, and reports whether that
// changed anything: one of the same name that was changed more often stays. A
// record that is not [Record.Plausible] is refused.
func (s *Set) Merge(r Record) bool {
	name := r.Name()
	if !r.Plausible() {
		return false
	}
	if old, ok := s.byName[name]; ok && r.later(&old) <= 0 {
		return false
	}
	if s.byName == nil {
		s.byName = map[string]Record{}
	}
	s.byName[name] = r
	return true
}

// ErrFinal says that a record has the highest generation, and that by which less
// is kept cannot replace it.
var ErrFinal = errors.New("the record was changed too often to be changed again")

// Switch changes a record or makes it: what r says counts from now on. Its
// generation is set. At the highest generation a change counts only if more is
// kept by it, so nobody can use generations up to remove something for good. Any
// other change is ErrFinal then.
func (s *Set) Switch(r Record) error {
	old, _ := s.Get(r.Kind, r.Key)
	r.Generation = min(old.Generation+1, MaxPlausible)
	if !s.Merge(r) && r.On != old.On {
		return fmt.Errorf("%s: %w", r.Name(), ErrFinal)
	}
	return nil
}

// EndHolds switches off the holds that are over, and says that who, on host,
// did so now. Their other fields stay. From then on everybody who comes to know
// of it agrees that they have ended, whatever clocks say.
func (s *Set) EndHolds(now time.Time, who, host string) {
	for r := range s.All() {
		if r.Over(now) {
			r.On, r.Time, r.Who, r.Host = false, now.UTC(), who, host
			_ = s.Switch(r) // what is final holds on
		}
	}
}

// Forget removes a record that is as r, as if nobody had ever told. It is for
// what is said of an object that is not there, and of which others who have it
// say something else.
func (s *Set) Forget(r Record) {
	if name := r.Name(); s.byName[name] == r {
		delete(s.byName, name)
	}
}

// Newer returns the records that other lacks, or that count instead of its
// own, in the order of their names.
func (s *Set) Newer(other *Set) []Record {
	var list []Record
	for r := range s.All() {
		if old, ok := other.Get(r.Kind, r.Key); !ok || r.later(&old) > 0 {
			list = append(list, r)
		}
	}
	return list
}
