package gc

import (
	"context"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/optimise"
	"github.com/kist-vcs/kist/object/volume"
)

// order returns the places of the live objects in volumes, in the order in which
// they will be stored.
func (m *marker) order(ctx context.Context, roots []Root, volumes []int) (iter.Seq2[int, int], error) {
	wanted := map[int]bool{}
	for _, i := range volumes {
		wanted[i] = true
	}
	var seen []keys.Set // by number of the volume
	for i := range m.view.Len() {
		seen = append(seen, keys.NewSet(m.view.Volume(i).Objects))
	}
	top := make([]object.Key, len(roots))
	for i, r := range roots {
		top[i] = r.Key
	}
	places, err := optimise.Order(ctx, top, optimise.OrderOptions{
		Nodes: m.objects,
		Skips: m.records.Skips,
		Meet: func(key object.Key) (uint64, bool, bool) {
			places, err := m.view.Find(key, m.places[:0])
			m.places = places
			if err != nil || len(places) == 0 || slices.ContainsFunc(places, func(p volume.Place) bool { return seen[p.Volume].Has(p.Index) }) {
				return 0, false, false
			}
			for _, p := range places {
				seen[p.Volume].Add(p.Index)
			}
			i := slices.IndexFunc(places, func(p volume.Place) bool { return wanted[p.Volume] })
			if i < 0 {
				return 0, false, true
			}
			return uint64(places[i].Volume)<<32 | uint64(places[i].Index), true, true
		},
	})
	if err != nil {
		return nil, err
	}
	return func(yield func(int, int) bool) {
		for at := range places {
			if !yield(int(at>>32), int(uint32(at))) {
				return
			}
		}
	}, nil
}
