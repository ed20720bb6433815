package rootlog

import (
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/pack"
)

// MaxInline is the number of bytes of inline entries above which a writer puts
// those of a root, and its own, into an index file: see [InlineSize].
const MaxInline = 16 << 10

// State is what a root says, with its tables resolved: what the remote holds.
// A State is never changed; callers must not change what its fields refer to.
type State struct {
	Seq  uint64 // number of the root; 0: there is none yet
	Hash Hash   // of its stored bytes; that of kist.json for Seq 0
	Time time.Time
	Who  string
	Host string

	// Floor is the number of a root: whoever began to upload packs before it
	// must not name them in a root any more.
	Floor uint64

	Head      string                // full name of the default branch; empty: none was set
	Refs      map[string]object.Key // by full name; as written: check names before use
	Indexes   []File                // the live index files, sorted by name
	Packs     []Inline              // packs whose entries lie in the root, sorted by name
	Condemned map[string]uint64     // full name of a pack, index or state file → root that condemned it
	Records   *record.Set           // of commits and contents

	// Implausible are records that have no effect, see [record.Record.Plausible].
	// A record of the same name that is merged replaces one.
	Implausible []record.Record

	Read, Write, GC []string // features, see [Act]

	// SingleWriter says that the store cannot tell two writers apart: whoever
	// appends a root must know that nobody else does. It is never switched off.
	SingleWriter bool

	refs, indexes, condemned, records table
	extra                             extra
	stored                            []byte // the root; nil: there is none
}

// File names an index file or a state file.
type File struct {
	Name pack.Name
	Size int64    // bytes
	Sum  [32]byte // SHA-256 of all of them
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

// tables returns the tables, in the order of [Root.tables].
func (s *State) tables() []table { return []table{s.refs, s.indexes, s.condemned, s.records} }

// Position returns the root that the state is of.
func (s *State) Position() Position { return Position{s.Seq, s.Hash} }

// Live returns the packs that are live: those that the live index files and
// inline entries name, but for the condemned. indexed is what each of the
// index files in s.Indexes names.
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

// RefChange moves, makes or deletes a ref. A zero key stands for a ref that
// does not exist.
type RefChange struct {
	Name     string // full
	Old, New object.Key
}

// Change is what a root does to the state before it.
type Change struct {
	Refs []RefChange // each ref at most once; Old is compared with the state
	Head string      // full name of the new default branch; empty: as it was

	Records []record.Record // one that the state has in a later generation is passed over

	AddPacks   []Inline    // new packs
	AddIndexes []File      // new index files, already on the remote
	Merged     []pack.Name // packs of the state's Packs that AddIndexes name instead; those that are not there are passed over

	// Condemn names packs, index and state files, by their full names, that
	// are live no more; Delist those that are condemned and were deleted, which
	// raises the floor. The rules for both are the collector's to keep.
	Condemn []string
	Delist  []string

	// SingleWriter says that the writer knows that it is the only one. The state
	// notes it for all who come later.
	SingleWriter bool

	Who, Host string // lines of at most MaxText bytes
	Time      time.Time
}
