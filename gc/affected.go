package gc

import (
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
)

// maxAffected is the most commits, and the most paths, that a [Problem] names.
const maxAffected = 100

// Affected adds to each problem the commits and paths that it affects. It looks
// at all commits reachable from tips, and reads objects from r. It skips all
// objects below a damaged or missing one.
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

// affected finds the commits and paths that refer to damaged or missing
// objects.
type affected struct {
	objects object.Reader
	records *record.View
	bad     map[object.Key]*Problem
	needs   map[object.Key]bool // results of need, by node
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
		return nil // report only the paths found so far
	}
	return err
}

// content adds the file at path to the problems that affect its content.
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

// need reports whether an object is bad or refers to a bad one. The recursion
// is bounded: directories are at most [object.MaxDepth] deep and lists
// [object.MaxLevel], and anything deeper is itself bad.
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
