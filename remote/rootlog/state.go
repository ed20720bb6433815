package rootlog

import (
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/pack"
)

// MaxInline is the largest [InlineSize] of a root. With more, a writer puts the entries
// of the root, and its own, into an index file.
const MaxInline = 16 << 10

// State is the content of a root with its tables resolved: the state of the remote. It
// never changes, and callers must not change anything that its fields refer to.
type State struct {
	Seq  uint64 // number of the root; 0 for an empty log
	Hash Hash   // of its stored bytes; for Seq 0, that of kist.json
	Time time.Time
	Who  string
	Host string

	// Floor is the number of a root. A writer that began its packs before that root
	// must not name them in a later one.
	Floor uint64

	Head      string                // full name of the default branch, or ""
	Refs      map[string]object.Key // by full name; check the names before use
	Indexes   []File                // the live index files, sorted by name
	Packs     []Inline              // packs whose entries lie in the root, sorted by name
	Condemned map[string]uint64     // full name of a pack, index or state file → root that condemned it
	Records   *record.Set           // of commits and contents

	// Implausible are records without effect: see [record.Record.Plausible]. Merging a
	// record of the same name replaces them.
	Implausible []record.Record

	// Lost are objects that the remote may lack, though refs reach them: their loss
	// was accepted by whoever the value names, who pushed what needs them. An object
	// that is in a live pack counts as any other.
	Lost map[object.Key]string

	Read, Write, GC []string // features, see [Act]

	// SingleWriter is true if the store cannot distinguish two writers: a writer must
	// know that it is the only one. It is never switched off.
	SingleWriter bool

	refs, indexes, condemned, records, lost table
	extra                                   extra
	stored                                  []byte // the bytes of the root, or nil
}

// File names an index file or a state file.
type File struct {
	Name pack.Name
	Size int64    // bytes
	Sum  [32]byte // SHA-256
}

// Inline is a pack whose entries lie in a root.
type Inline struct {
	pack.Info
	Entries []pack.Entry // sorted by key
}

// InlineSize returns the number of bytes that packs take in a root.
func InlineSize(packs []Inline) int {
	size := 0
	for _, p := range packs {
		size += len(pack.AppendEntries(nil, p.Entries)) + inlineOverhead
	}
	return size
}

// tables returns the tables in the order of tableKinds.
func (s *State) tables() [5]*table {
	return [5]*table{&s.refs, &s.indexes, &s.condemned, &s.records, &s.lost}
}

// Position returns the position of the state's root.
func (s *State) Position() Position { return Position{s.Seq, s.Hash} }

// Live returns the live packs: the packs that live index files or inline entries name,
// except the condemned ones. Indexed has the packs of each index file in s.Indexes.
func (s *State) Live(indexed ...[]pack.Info) map[pack.Name]struct{} {
	live := make(map[pack.Name]struct{})
	add := func(name pack.Name) {
		if _, condemned := s.Condemned[name.Path()]; !condemned {
			live[name] = struct{}{}
		}
	}
	for _, packs := range indexed {
		for _, p := range packs {
			add(p.Name)
		}
	}
	for _, p := range s.Packs {
		add(p.Name)
	}
	return live
}

// StateFiles returns the full names of the state files that the root names.
func (s *State) StateFiles() (names []string) {
	for _, t := range s.tables() {
		if t.base != nil {
			names = append(names, StateName(t.base.file.Name))
		}
	}
	return names
}

// RefChange moves, creates or deletes a ref. A zero key stands for a ref that does not
// exist.
type RefChange struct {
	Name     string // full
	Old, New object.Key
}

// Change is the difference between a root and the one before it.
type Change struct {
	Refs []RefChange // each ref at most once; Old must be as in the state
	Head string      // full name of the new default branch; "" keeps it

	Records []record.Record // a record of the state in a later generation stays

	Lost, Found []object.Key // objects that State.Lost gets, and that leave it

	AddPacks   []Inline    // new packs
	AddIndexes []File      // new index files, already on the remote
	Merged     []pack.Name // packs of the state's Packs whose entries are now in AddIndexes

	// Condemn has the full names of packs, index and state files that are no longer
	// live. Delist has the names of condemned files that were deleted; it raises the
	// floor. The collector ensures that the rules for both hold.
	Condemn []string
	Delist  []string

	// SingleWriter confirms that the writer is the only one. All later states keep it.
	SingleWriter bool

	Who, Host string // lines of at most 1024 bytes
	Time      time.Time
}
