package transfer

import (
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
)

// ownIndex finds the own pack of an object. The entries of the latest packs are in memory. Those of the others lie in sorted
// runs: temporary index files among the copies. So it takes about 2 bytes of memory for an object.
// Entries of packs that were dropped do not count.
type ownIndex struct {
	files  *IndexFiles
	limit  int // see latestEntries
	latest map[object.Key]*sentPack
	runs   []ownRun // the largest first
}

// ownRun is an index file of own packs.
type ownRun struct {
	*BuiltIndex
	index *pack.Index
	tier  int // a run of tier n+1 was made of runTier runs of tier n
}

const (
	latestEntries = 64_000 // from so many on, those in memory become a run
	runTier       = 8      // runs of one tier that are merged into one
)

// find returns the pack that has an object, or nil.
func (x *ownIndex) find(packs map[pack.Name]*sentPack, key object.Key) (*sentPack, error) {
	if s := x.latest[key]; s != nil {
		return s, nil
	}
	for _, r := range x.runs {
		e, ok, err := r.index.Find(key)
		if err != nil {
			return nil, fmt.Errorf("look for a sent object: %w", err)
		}
		if s := packs[e.Pack.Name]; ok && s != nil {
			return s, nil
		}
	}
	return nil, nil
}

// add adds the entries of a pack. It makes a run of them and of others if there are enough.
func (x *ownIndex) add(packs map[pack.Name]*sentPack, s *sentPack) error {
	if x.latest == nil {
		x.latest = map[object.Key]*sentPack{}
	}
	for _, e := range s.entries {
		x.latest[e.Key] = s
	}
	if len(x.latest) < x.limit {
		return nil
	}

	if err := x.addRun(packs, 0, []iter.Seq2[pack.Entry, error]{x.latestEntries()}); err != nil {
		return err
	}
	for _, s := range x.latest {
		s.entries = nil
	}
	x.latest = nil
	for first := len(x.runs) - runTier; first >= 0 && x.runs[first].tier == x.runs[len(x.runs)-1].tier; first = len(x.runs) - runTier {
		merged := slices.Clone(x.runs[first:])
		if err := x.addRun(packs, merged[0].tier+1, entriesOfRuns(merged)); err != nil {
			return err
		}
		x.runs = slices.Delete(x.runs, first, first+runTier)
		closeRuns(merged)
	}
	return nil
}

// addRun adds a run of the entries of packs in sources.
func (x *ownIndex) addRun(packs map[pack.Name]*sentPack, tier int, sources []iter.Seq2[pack.Entry, error]) error {
	infos := make([]pack.Info, 0, len(packs))
	for _, s := range packs {
		infos = append(infos, s.info)
	}
	built, err := x.files.Build(func(w io.Writer) error { return pack.MergeIndex(w, infos, sources...) })
	if err != nil {
		return err
	}
	index, err := pack.OpenIndex(built.file, built.Size)
	if err != nil {
		built.Close()
		return err
	}
	x.runs = append(x.runs, ownRun{built, index, tier})
	return nil
}

// latestEntries yields the entries in memory, by key.
func (x *ownIndex) latestEntries() iter.Seq2[pack.Entry, error] {
	seen := map[*sentPack]bool{}
	var all []pack.Entry
	for _, s := range x.latest {
		if !seen[s] {
			seen[s] = true
			all = append(all, s.entries...)
		}
	}
	slices.SortFunc(all, func(a, b pack.Entry) int { return a.Key.Compare(b.Key) })
	return noErrors(all)
}

// noErrors yields sorted entries as a source of [pack.MergeIndex].
func noErrors(sorted []pack.Entry) iter.Seq2[pack.Entry, error] {
	return func(yield func(pack.Entry, error) bool) {
		for _, e := range sorted {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func entriesOfRuns(runs []ownRun) (sources []iter.Seq2[pack.Entry, error]) {
	for _, r := range runs {
		sources = append(sources, r.index.All())
	}
	return sources
}

// sources returns the entries of all packs, by key, in several sequences.
func (x *ownIndex) sources() []iter.Seq2[pack.Entry, error] {
	return append(entriesOfRuns(x.runs), x.latestEntries())
}

// forgetDropped forgets the entries of packs that are not in packs.
func (x *ownIndex) forgetDropped(packs map[pack.Name]*sentPack) {
	for key, s := range x.latest {
		if packs[s.info.Name] == nil {
			delete(x.latest, key)
		}
	}
	if len(packs) == 0 {
		x.close()
	}
}

// close removes the runs.
func (x *ownIndex) close() {
	closeRuns(x.runs)
	x.runs = nil
}

func closeRuns(runs []ownRun) {
	for _, r := range runs {
		r.Close()
	}
}
