package gc

import (
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist/object"
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
	seen := map[object.Key]bool{}
	queue := m.records.AllPurged()
	for len(queue) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		key := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if seen[key] {
			continue
		}
		seen[key] = true
		places, err := m.view.Find(key, nil)
		if damaged := (*object.CorruptError)(nil); errors.As(err, &damaged) {
			continue // no part of it can be read
		}
		if err != nil {
			return nil, err
		}
		places = slices.DeleteFunc(places, func(p volume.Place) bool { return p.Gone })
		// A marked object is live for another reason, with all objects below it.
		if len(places) == 0 || slices.ContainsFunc(places, func(p volume.Place) bool { return m.use[p.Volume].has(p.Index) }) {
			continue
		}
		for _, p := range places {
			l.volumes[p.Volume] = true
			l.held = l.held || m.use[p.Volume].stays
			if key.Kind.IsNode() {
				l.lists[p.Volume] = true
			}
		}
		if !key.Kind.IsNode() {
			continue
		}
		data, err := m.objects.Get(ctx, key)
		var links []object.Key
		if err == nil {
			links, err = object.Links(key.Kind, data)
		}
		if err != nil && (aborts(ctx, err) || errors.Is(err, object.ErrNewerFormat)) {
			return nil, err
		}
		queue = append(queue, links...) // none for a damaged node: its links cannot be found
	}
	return l, nil
}
