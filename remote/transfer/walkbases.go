package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// baseLinks are the links of bases at one level. The zero pointer has none.
type baseLinks struct {
	order []object.Key
	taken map[object.Key]bool // whether what is wanted links there too
}

// known returns the links of bases, all of which are then covered.
func (w *walker) known(ctx context.Context, bases []object.Key) (*baseLinks, error) {
	known := &baseLinks{taken: map[object.Key]bool{}}
	for _, key := range bases {
		data, err := w.ends.certain(ctx, key)
		if errors.Is(err, object.ErrNotFound) || errors.Is(err, object.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, err
		}
		links, err := object.Links(key.Kind, data)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", key, err)
		}
		for _, link := range links {
			if w.views.before.Skips(key, link) {
				continue
			}
			if _, ok := known.taken[link]; ok {
				continue
			}
			known.taken[link] = false
			if link.Kind.IsNode() {
				known.order = append(known.order, link)
				w.covered[link] = struct{}{}
			}
		}
	}
	return known, nil
}

// take reports whether bases link to key, and notes that what is wanted does.
func (k *baseLinks) take(key object.Key) bool {
	if k == nil {
		return false
	}
	_, ok := k.taken[key]
	if ok {
		k.taken[key] = true
	}
	return ok
}

// left returns nodes to which only bases link, at most max of them: so the
// walk of bases never costs more than in proportion to the other.
func (k *baseLinks) left(max int) []object.Key {
	left := slices.DeleteFunc(k.order, func(key object.Key) bool { return k.taken[key] })
	return left[:min(max, len(left))]
}
