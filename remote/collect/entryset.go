package collect

import (
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/transfer"
)

// entrySet is a set of entries, with one bit for each entry of an index file.
type entrySet struct {
	files  map[pack.Name]keys.Set // by name of the index file
	inline map[object.Key]bool    // entries that lie in a root
}

func newEntrySet() *entrySet {
	return &entrySet{files: map[pack.Name]keys.Set{}, inline: map[object.Key]bool{}}
}

// addFiles makes room for the entries of a snapshot.
func (s *entrySet) addFiles(snap *transfer.Snapshot) {
	for i, f := range snap.State.Indexes {
		if s.files[f.Name] == nil {
			s.files[f.Name] = keys.NewSet(snap.Indexes[i].Len())
		}
	}
}

func (s *entrySet) has(p transfer.Place) bool {
	if p.IndexFile.IsZero() {
		return s.inline[p.Key]
	}
	return s.files[p.IndexFile].Has(p.Number)
}

// add adds an entry, and reports whether it is new.
func (s *entrySet) add(p transfer.Place) (first bool) {
	first = !s.has(p)
	if p.IndexFile.IsZero() {
		s.inline[p.Key] = true
	} else {
		s.files[p.IndexFile].Add(p.Number)
	}
	return first
}
