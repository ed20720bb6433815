package transfer

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// notePurged notes which packs still have purged objects that nothing else needs. They are
// rewritten, however small these are.
func (m *marker) notePurged(ctx context.Context, packs []*usage) error {
	left, err := m.purgedLeft(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	byName := make(map[pack.Name]*usage, len(packs))
	for _, u := range packs {
		byName[u.Name] = u
	}
	for p, err := range m.snap.entries() {
		if err != nil {
			return err
		}
		if u := byName[p.Pack.Name]; u != nil && left[p.Key] {
			u.purged = true
		}
	}
	return nil
}

// purgedLeft returns the purged objects that still exist and that nothing else needs.
func (m *marker) purgedLeft(ctx context.Context) (map[object.Key]bool, error) {
	left := map[object.Key]bool{}
	for keys := m.snap.records.AllPurged(); len(keys) > 0; {
		from := max(0, len(keys)-batchSize)
		var lists []pack.Entry
		for _, key := range keys[from:] {
			p, there, err := m.snap.search(key)
			if err != nil {
				return nil, err
			}
			if !there || left[key] || m.get(p).reached {
				continue
			}
			left[key] = true
			if key.Kind.IsNode() {
				lists = append(lists, p.Entry)
			}
		}
		keys = keys[:from]
		links, err := m.purgedLinks(ctx, lists)
		if err != nil {
			return nil, err
		}
		for _, list := range links {
			keys = append(keys, list...)
		}
	}
	return left, nil
}

// purgedLinks returns the links of lists of chunks. An unreadable list has none: nobody
// can find its chunks.
func (m *marker) purgedLinks(ctx context.Context, lists []pack.Entry) ([][]object.Key, error) {
	return m.links(ctx, lists, func(err error) error {
		if !errors.Is(err, remote.ErrNotFound) && (isBad(err) || errors.Is(err, object.ErrCorrupt)) {
			return nil
		}
		return err // if a pack is gone, the head may be outdated
	})
}
