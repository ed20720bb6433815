package transfer

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// commit is a commit that a walk has met.
type commit struct {
	id      object.ID
	links   []object.Key
	date    object.Time
	number  int32 // among those wanted; -1: not wanted so far
	certain bool
	queued  bool
	done    bool // all below it was walked
}

// contentNeeds returns the objects that a commit needs, without its parents.
func (w *walker) contentNeeds(c *commit) []need {
	var needs []need
	self := object.Key{Kind: object.KindCommit, ID: c.id}
	for _, key := range c.contentLinks() {
		if !w.views.after.Skips(self, key) {
			needs = append(needs, need{key, c.number})
		}
	}
	return needs
}

// contentLinks returns the links of a commit, without its parents.
func (c *commit) contentLinks() []object.Key {
	return slices.DeleteFunc(slices.Clone(c.links), func(key object.Key) bool { return key.Kind == object.KindCommit })
}

func (c *commit) parents(yield func(object.ID) bool) {
	for _, key := range c.links {
		if key.Kind == object.KindCommit && !yield(key.ID) {
			return
		}
	}
}

// walkHistory visits commits, the newest first, until all others are certain. Wrong dates
// make it visit more commits, and have no other effect. It returns the wanted objects that
// are neither commits nor tags.
func (w *walker) walkHistory(ctx context.Context, want []object.Key, have []object.ID) (rest []need, err error) {
	for _, id := range have {
		if err := w.putCertain(ctx, id); err != nil {
			return nil, err
		}
	}

	seen := map[object.Key]bool{} // several refs may name one tag
	for _, key := range want {
		if seen[key] {
			continue
		}
		seen[key] = true
		for key.Kind == object.KindTag {
			links, err := w.ends.linksOf(ctx, []object.Key{key})
			if err != nil {
				return nil, w.explainMissing(err, []need{{key, -1}})
			}
			key = links[0][0] // a tag has one link
		}
		if key.Kind != object.KindCommit {
			if !w.views.after.Skips(object.Key{}, key) {
				rest = append(rest, need{key, -1})
			}
		} else if err := w.putWanted(ctx, key.ID, -1); err != nil {
			return nil, err
		}
	}

	for w.open > 0 {
		c := heap.Pop(&w.queue).(*commit)
		c.queued = false
		if !c.certain {
			w.open--
		}
		for id := range c.parents {
			key := object.Key{Kind: object.KindCommit, ID: id}
			switch {
			case c.certain && !w.views.before.Lost(key):
				err = w.putCertain(ctx, id)
			case !c.certain && !w.views.after.Lost(key):
				err = w.putWanted(ctx, id, c.number)
			}
			if err != nil {
				return nil, err
			}
		}
	}

	for _, c := range w.order {
		if !c.certain {
			w.wanted = append(w.wanted, c)
		}
	}

	slices.SortStableFunc(w.wanted, func(a, b *commit) int { return b.date.Compare(a.date) })
	return rest, nil
}

// putWanted adds a wanted commit. By is the commit that links to it, or -1 if the caller of the
// walk wants it.
func (w *walker) putWanted(ctx context.Context, id object.ID, by int32) error {
	c := w.past[id]
	if c != nil {
		w.met = w.met || c.certain
		return nil
	}
	key := object.Key{Kind: object.KindCommit, ID: id}
	data, err := w.ends.wantedNode(ctx, key)
	if err != nil {
		return w.explainMissing(err, []need{{key, by}})
	}
	if c, err = parseCommit(id, data); err != nil {
		return err
	}
	c.number = int32(len(w.order))
	w.order = append(w.order, c)
	w.past[id] = c
	w.enqueueCommit(c)
	return nil
}

// putCertain adds a commit that is certain, if it can be looked at.
func (w *walker) putCertain(ctx context.Context, id object.ID) error {
	c := w.past[id]
	switch {
	case c == nil:
		data, err := w.ends.certainNode(ctx, object.Key{Kind: object.KindCommit, ID: id})
		if object.IsUnreadable(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if c, err = parseCommit(id, data); err != nil {
			return err
		}
		w.past[id] = c
	case c.certain:
		return nil
	default:
		w.met = true
		if c.queued {
			w.open--
		}
	}

	c.certain = true
	w.enqueueCommit(c)
	return nil
}

func (w *walker) enqueueCommit(c *commit) {
	if !c.certain {
		w.open++
	}
	if !c.queued {
		c.queued = true
		heap.Push(&w.queue, c)
	}
}

func parseCommit(id object.ID, data []byte) (*commit, error) {
	key := object.Key{Kind: object.KindCommit, ID: id}
	decoded, err := object.DecodeCommit(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	links, err := object.Links(object.KindCommit, data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return &commit{id: id, links: links, date: decoded.Committer.Time, number: -1}, nil
}

// byDate is a heap of commits, the newest first.
type byDate []*commit

func (q byDate) Len() int { return len(q) }
func (q byDate) Less(i, j int) bool {
	if order := q[i].date.Compare(q[j].date); order != 0 {
		return order > 0
	}
	return cmp.Less(q[i].number, q[j].number)
}
func (q byDate) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *byDate) Push(c any)   { *q = append(*q, c.(*commit)) }
func (q *byDate) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}
