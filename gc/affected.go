package gc

import (
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
)

// maxAffected is how many commits, and how many paths, a [Problem] names.
const maxAffected = 100

// Affected has problems tell which commits, of those that tips lead to, and which
// of their paths they affect. Objects are read from r; what is below one that
// cannot be read is passed over.
func Affected(ctx context.Context, r object.Reader, records *record.View, tips []object.Key, problems []*Problem) error {
	a := &affected{objects: r, records: records, bad: map[object.Key]*Problem{}, needs: map[object.Key]bool{}}
	for _, p := range problems {
		if !p.Key.IsZero() && a.bad[p.Key] == nil {
			a.bad[p.Key] = p
		}
	}
	seen := map[object.Key]bool{}
	for queue := slices.Clone(tips); len(queue) > 0 && len(a.bad) > 0; {
		key := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if seen[key] {
			continue
		}
		seen[key] = true
		links, err := a.links(ctx, key)
		if aborts(ctx, err) {
			return err
		}
		for _, link := range links {
			if link.Kind == object.KindCommit {
				queue = append(queue, link)
			}
		}
		if key.Kind != object.KindCommit {
			continue
		}
		if err := a.commit(ctx, key.ID); aborts(ctx, err) {
			return err
		}
	}
	return nil
}

// affected finds out which commits and paths need objects that are damaged or
// missing.
type affected struct {
	objects object.Reader
	records *record.View
	bad     map[object.Key]*Problem
	needs   map[object.Key]bool // nodes of which it is known whether they need a bad object
}

// commit adds a commit and its paths to the problems that affect it.
func (a *affected) commit(ctx context.Context, id object.ID) error {
	key := object.Key{Kind: object.KindCommit, ID: id}
	if p := a.bad[key]; p != nil {
		p.affects(id, "")
		return nil
	}
	c, err := object.ReadCommit(ctx, a.objects, id)
	if err != nil {
		return err
	}
	if _, expired := a.records.Expired(id); expired {
		return nil
	}
	if !c.SkippedRest.IsZero() {
		if p := a.bad[object.Key{Kind: object.KindChunk, ID: c.SkippedRest}]; p != nil {
			p.affects(id, "")
		}
	}
	into := func(path string, node object.ID) (bool, error) {
		key := object.Key{Kind: object.KindTree, ID: node}
		if p := a.bad[key]; p != nil {
			p.affects(id, path)
			return false, nil
		}
		return a.need(ctx, key)
	}
	err = tree.WalkInto(ctx, a.objects, c.Tree, into, func(path string, e object.Entry) error {
		if e.Type == object.TypeDir || e.Content.IsZero() {
			return nil
		}
		return a.content(ctx, id, e.Content, path)
	})
	if errors.Is(err, tree.ErrTooMany) || errors.Is(err, tree.ErrTooDeep) {
		return nil // the paths so far have to do
	}
	return err
}

// content goes through the content of the file at path.
func (a *affected) content(ctx context.Context, commit object.ID, content object.Key, path string) error {
	seen := map[object.Key]bool{}
	for todo := []object.Key{content}; len(todo) > 0; {
		key := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if need, err := a.need(ctx, key); err != nil {
			return err
		} else if !need || seen[key] {
			continue
		}
		seen[key] = true
		if p := a.bad[key]; p != nil {
			p.affects(commit, path)
			continue
		}
		links, err := a.links(ctx, key)
		if err != nil {
			return err
		}
		todo = append(todo, links...)
	}
	return nil
}

// need reports whether an object is bad, or needs one that is. Directories are
// at most [object.MaxDepth] deep, and lists [object.MaxLevel]: what is deeper
// is bad itself.
func (a *affected) need(ctx context.Context, key object.Key) (bool, error) {
	if a.bad[key] != nil {
		return true, nil
	}
	if !key.Kind.IsNode() {
		return false, nil
	}
	if need, known := a.needs[key]; known {
		return need, nil
	}
	links, err := a.links(ctx, key)
	if err != nil {
		return false, err
	}
	need := false
	for _, link := range links {
		if a.records.Skips(key, link) {
			continue
		}
		below, err := a.need(ctx, link)
		if err != nil {
			return false, err
		}
		need = need || below
	}
	a.needs[key] = need
	return need, nil
}

func (a *affected) links(ctx context.Context, key object.Key) ([]object.Key, error) {
	data, err := a.objects.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return object.Links(key.Kind, data)
}
