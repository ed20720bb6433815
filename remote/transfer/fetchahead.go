package transfer

import (
	"context"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
)

// A history is walked from commit to commit, each of which may be in a pack of
// its own that a small push has made, at the other end of a slow line. So the
// more packs the walk had to wait for, the more are taken ahead.
const (
	aheadPack    = 1 << 20 // bytes of the largest pack that is taken ahead
	aheadEntries = 50_000  // of the largest index file that is looked through for some
	aheadMost    = 64      // packs at once
)

// ahead knows packs that hold commits which are not here.
type ahead struct {
	waited int          // packs that were not taken when they were needed
	packs  []pack.Entry // a commit of each; not known until the second was waited for
}

// aheadOf returns entries whose packs are to be taken together with that of a
// commit: its own, and about as many as were waited for so far.
func (f *fetch) aheadOf(ctx context.Context, e pack.Entry) ([]pack.Entry, error) {
	entries := []pack.Entry{e}
	if f.nodes.asked(e) {
		return entries, nil
	}
	f.ahead.waited++
	switch f.ahead.waited {
	case 1:
		return entries, nil
	case 2:
		if err := f.lookAhead(ctx); err != nil {
			return nil, err
		}
	}
	for len(f.ahead.packs) > 0 && len(entries) < min(1<<min(f.ahead.waited, 10), aheadMost) {
		next := f.ahead.packs[0]
		f.ahead.packs = f.ahead.packs[1:]
		if !f.nodes.asked(next) {
			entries = append(entries, next)
		}
	}
	return entries, nil
}

// lookAhead finds small packs with commits that are not here.
func (f *fetch) lookAhead(ctx context.Context) error {
	found := map[object.Key]pack.Entry{}
	add := func(e pack.Entry) {
		if _, live := f.snap.packs[e.Pack.Name]; live && e.Key.Kind == object.KindCommit && e.Pack.Size <= aheadPack {
			found[e.Key] = e
		}
	}
	for _, e := range f.snap.inline {
		add(e)
	}
	for _, x := range f.snap.indexes {
		if x.Len() > aheadEntries {
			continue
		}
		for e, err := range x.All() {
			if err != nil {
				return err
			}
			add(e)
		}
	}
	keys := make([]object.Key, 0, len(found))
	for key := range found {
		keys = append(keys, key)
	}
	absent, err := f.absent(ctx, keys)
	if err != nil {
		return err
	}
	seen := map[pack.Name]bool{}
	for _, key := range absent {
		if e := found[key]; !seen[e.Pack.Name] {
			seen[e.Pack.Name] = true
			f.ahead.packs = append(f.ahead.packs, e)
		}
	}
	return nil
}
