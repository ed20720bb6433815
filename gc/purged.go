package gc

import (
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
)

// leftover lists the volumes that still have purged objects that nothing else
// needs. gc removes these objects however small they are.
type leftover struct {
	volumes map[int]bool
	lists   map[int]bool // volumes with purged nodes, which lead to the other purged objects
	held    bool         // a volume with purged objects stays for now, so lists must stay too
}

// leftover finds the remaining purged objects.
func (m *marker) leftover(ctx context.Context) (*leftover, error) {
	l := &leftover{volumes: map[int]bool{}, lists: map[int]bool{}}
	err := graph.Walk(ctx, map[object.Key]bool{}, m.records.AllPurged(), func(key object.Key) ([]object.Key, error) {
		places, err := m.view.Find(key, nil)
		if damaged := (*object.CorruptError)(nil); errors.As(err, &damaged) {
			return nil, nil // no part of it can be read
		}
		if err != nil {
			return nil, err
		}
		places = slices.DeleteFunc(places, func(p volume.Place) bool { return p.Gone })
		// A marked object is live for another reason, with all objects below it.
		if len(places) == 0 || slices.ContainsFunc(places, func(p volume.Place) bool { return m.use[p.Volume].has(p.Index) }) {
			return nil, nil
		}
		for _, p := range places {
			l.volumes[p.Volume] = true
			l.held = l.held || m.use[p.Volume].stays
			if key.Kind.IsNode() {
				l.lists[p.Volume] = true
			}
		}
		links, err := graph.Links(ctx, m.objects, key)
		if err != nil && !aborts(ctx, err) && !errors.Is(err, object.ErrNewerFormat) {
			err = nil // the links of a damaged node cannot be found
		}
		return links, err
	})
	return l, err
}
