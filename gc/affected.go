package gc

import (
	"context"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
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
	return a.node(ctx, id, object.Key{Kind: object.KindTree, ID: c.Tree}, "")
}

// node goes through a node of a directory at path.
func (a *affected) node(ctx context.Context, commit object.ID, key object.Key, path string) error {
	if need, err := a.need(ctx, key); err != nil || !need {
		return err
	}
	if p := a.bad[key]; p != nil {
		p.affects(commit, path)
		return nil
	}
	t, err := object.ReadTree(ctx, a.objects, key.ID)
	if err != nil {
		return err
	}
	for _, child := range t.Children {
		if err := a.node(ctx, commit, object.Key{Kind: object.KindTree, ID: child.ID}, path); err != nil {
			return err
		}
	}
	for _, e := range t.Entries {
		below := e.Name
		if path != "" {
			below = path + "/" + e.Name
		}
		switch e.Content.Kind {
		case object.KindTree:
			err = a.node(ctx, commit, e.Content, below)
		case 0:
		default:
			err = a.content(ctx, commit, e.Content, below)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// content goes through the content of the file at path.
func (a *affected) content(ctx context.Context, commit object.ID, key object.Key, path string) error {
	if need, err := a.need(ctx, key); err != nil || !need {
		return err
	}
	if p := a.bad[key]; p != nil {
		p.affects(commit, path)
		return nil
	}
	links, err := a.links(ctx, key)
	if err != nil {
		return err
	}
	for _, link := range links {
		if err := a.content(ctx, commit, link, path); err != nil {
			return err
		}
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
