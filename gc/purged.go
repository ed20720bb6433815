package gc

import (
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
)

// leftover says which volumes still have something of what was purged, and is
// needed by nothing else. It goes however little it is.
type leftover struct {
	volumes map[int]bool
	lists   map[int]bool // those of them with nodes, by which the rest is found
	held    bool         // some of it is in a volume that stays for now: then so do lists
}

// leftover finds out what is left of what was purged.
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
			continue // there is nothing that could be read of it
		}
		if err != nil {
			return nil, err
		}
		places = slices.DeleteFunc(places, func(p volume.Place) bool { return p.Gone })
		// An object that is marked is needed on another account, with all below it.
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
		queue = append(queue, links...) // of a damaged node none: nobody can find what it had
	}
	return l, nil
}
