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

// Set has records, one for each name. A nil Set is empty and can be read. A
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

// Merge adds a record from elsewhere and reports whether the set changed. A
// record of the same name with a later generation stays. Merge refuses a
// record that is not [Record.Plausible].
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

// ErrFinal means that a record has the highest generation, so that only a
// change that keeps more can replace it.
var ErrFinal = errors.New("the record was changed too often to be changed again")

// Switch makes r the present record of its name and sets its generation. At
// the highest generation, only a change that keeps more counts, so that nobody
// can use up the generations to remove something for good. Any other change
// returns ErrFinal.
func (s *Set) Switch(r Record) error {
	old, _ := s.Get(r.Kind, r.Key)
	r.Generation = min(old.Generation+1, MaxPlausible)
	if !s.Merge(r) && r.On != old.On {
		return fmt.Errorf("%s: %w", r.Name(), ErrFinal)
	}
	return nil
}

// EndHolds switches off the holds that are over and records who, on host, did
// so now. Their other fields stay. From then on, everybody who receives these
// records agrees that the holds have ended, whatever their clocks show.
func (s *Set) EndHolds(now time.Time, who, host string) {
	for r := range s.All() {
		if r.Over(now) {
			r.On, r.Time, r.Who, r.Host = false, now.UTC(), who, host
			_ = s.Switch(r) // a final record stays on
		}
	}
}

// Forget deletes r if it is stored unchanged, leaving no trace. It is for a
// record about an object that is missing here, if others who have the object
// disagree with the record.
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
		if old, ok := other.Get(r.Kind, r.Key); !ok || r.later(&old) > 0 {
			list = append(list, r)
		}
	}
	return list
}
