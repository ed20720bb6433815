package record

import (
	"maps"
	"slices"
	"time"

	"github.com/kist-vcs/kist/object"
)

// View has the consequences of records. A nil View is that of no records. It
// is safe for concurrent use.
type View struct {
	held, expired, purged map[object.Key]Record

	lost func(object.Key) bool // nil: no object
}

// WithLost returns the view for a repository with accepted losses. An object
// may be missing if lost returns true for it.
func (v *View) WithLost(lost func(object.Key) bool) *View {
	with := View{lost: lost}
	if v != nil {
		with.held, with.expired, with.purged = v.held, v.expired, v.purged
	}
	return &with
}

// Lost reports whether the loss of an object was accepted, see [View.WithLost].
func (v *View) Lost(key object.Key) bool { return v != nil && v.lost != nil && v.lost(key) }

// View returns the consequences of the records, independent of any clock: a
// hold with an end counts until it is switched off, see [Set.EndHolds]. It
// decides which objects must be present.
func (s *Set) View() *View {
	return s.view(func(*Record) bool { return true })
}

// At returns the consequences of the records at a time: holds that are over do
// not count. It is for showing, and for deciding which content may expire.
// Only [Set.View] decides which objects must be present.
func (s *Set) At(now time.Time) *View {
	return s.view(func(r *Record) bool { return !r.Over(now) })
}

func (s *Set) view(counts func(*Record) bool) *View {
	v := &View{held: map[object.Key]Record{}, expired: map[object.Key]Record{}, purged: map[object.Key]Record{}}
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

// Held returns the record that holds a commit, if it is held.
func (v *View) Held(commit object.ID) (Record, bool) {
	if v == nil {
		return Record{}, false
	}
	r, ok := v.held[object.Key{Kind: object.KindCommit, ID: commit}]
	return r, ok
}

// Holds returns the held commits, in no order.
func (v *View) Holds() []object.ID {
	if v == nil {
		return nil
	}
	var list []object.ID
	for key := range v.held {
		list = append(list, key.ID)
	}
	return list
}

// Expired returns the record that allows a commit's content to be missing. It
// exists if the content has expired and the commit is not held.
func (v *View) Expired(commit object.ID) (Record, bool) {
	if v == nil {
		return Record{}, false
	}
	r, ok := v.expired[object.Key{Kind: object.KindCommit, ID: commit}]
	return r, ok
}

// AnyExpired reports whether the content of any commit has expired.
func (v *View) AnyExpired() bool { return v != nil && len(v.expired) > 0 }

// Purged returns the record that allows a content to be missing, if it was
// purged.
func (v *View) Purged(content object.Key) (Record, bool) {
	if v == nil {
		return Record{}, false
	}
	r, ok := v.purged[content]
	return r, ok
}

// AllPurged returns the purged contents, in no order.
func (v *View) AllPurged() []object.Key {
	if v == nil {
		return nil
	}
	return slices.Collect(maps.Keys(v.purged))
}

// AnyPurged reports whether there are purged contents.
func (v *View) AnyPurged() bool { return v != nil && len(v.purged) > 0 }

// Skips reports whether a link does not count, so that its object may be
// missing. From is the zero key for a root. Of an expired commit, only the
// links to its parents count.
func (v *View) Skips(from, link object.Key) bool {
	if v == nil {
		return false
	}
	if from.Kind == object.KindCommit && link.Kind != object.KindCommit {
		if _, expired := v.expired[from]; expired {
			return true
		}
	}
	if v.Lost(link) {
		return true
	}
	if len(v.purged) == 0 {
		return false
	}

	_, purged := v.purged[link]
	return purged
}
