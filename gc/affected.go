package gc

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree"
)

// maxAffected is the most commits, and the most paths, that a [Problem] names.
const maxAffected = 100

func (p *Problem) addAffected(commit object.ID, path string) {
	if !commit.IsZero() && len(p.Commits) < maxAffected && !slices.Contains(p.Commits, commit) {
		p.Commits = append(p.Commits, commit)
	}
	if path != "" && len(p.Paths) < maxAffected && !slices.Contains(p.Paths, path) {
		p.Paths = append(p.Paths, path)
	}
}

// Affected adds to each problem the commits and paths that it affects. It looks
// at all commits reachable from tips, and reads objects from r. It skips all
// objects below a damaged or missing one.
func Affected(ctx context.Context, r object.Reader, records *record.Effects, tips []object.Key, problems []*Problem) error {
	a := &affectedFinder{objects: r, records: records, bad: map[object.Key]*Problem{}, needs: map[object.Key]bool{}}
	for _, p := range problems {
		if !p.Key.IsZero() && a.bad[p.Key] == nil {
			a.bad[p.Key] = p
		}
	}

	if len(a.bad) == 0 {
		return nil
	}
	return graph.Walk(ctx, map[object.Key]bool{}, tips, func(key object.Key) ([]object.Key, error) {
		links, err := graph.Links(ctx, r, key)
		if key.Kind == object.KindCommit && !endsWalk(ctx, err) {
			err = a.addCommit(ctx, key.ID)
		}
		if endsWalk(ctx, err) {
			return nil, err
		}
		return slices.DeleteFunc(links, func(link object.Key) bool { return link.Kind != object.KindCommit }), nil
	})
}

// AffectedOn returns the problems found on a remote, with the affected commits
// and paths as far as these can be read here. The order stays the same.
func AffectedOn(ctx context.Context, r *kist.Repository, m *transfer.Remote, found []collect.Problem) ([]*Problem, error) {
	problems := make([]*Problem, len(found))
	for i, p := range found {
		problems[i] = &Problem{Key: p.Key, Where: p.Blob, Err: p.Err}
	}

	if !slices.ContainsFunc(found, func(p collect.Problem) bool { return !p.Key.IsZero() }) {
		return problems, nil
	}
	head, err := m.Head(ctx)
	if err != nil {
		return nil, err
	}
	return problems, Affected(ctx, r.Objects(), head.Records.View(), slices.Collect(maps.Values(head.Refs)), problems)
}

// affectedFinder finds the commits and paths that refer to damaged or missing
// objects.
type affectedFinder struct {
	objects object.Reader
	records *record.Effects
	bad     map[object.Key]*Problem
	needs   map[object.Key]bool // results of leadsToBad, by node
}

// addCommit adds a commit and its paths to the problems that affect it.
func (a *affectedFinder) addCommit(ctx context.Context, id object.ID) error {
	key := object.Key{Kind: object.KindCommit, ID: id}
	if p := a.bad[key]; p != nil {
		p.addAffected(id, "")
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
			p.addAffected(id, "")
		}
	}
	return a.addTree(ctx, id, "", c.Tree)
}

// addTree adds the paths that the tree of dir affects, in a commit, or with a zero ID in the index.
func (a *affectedFinder) addTree(ctx context.Context, commit object.ID, dir string, root object.ID) error {
	into := func(path string, node object.ID) (bool, error) {
		key := object.Key{Kind: object.KindTree, ID: node}
		if p := a.bad[key]; p != nil {
			p.addAffected(commit, tree.Join(dir, path))
			return false, nil
		}
		return a.leadsToBad(ctx, key)
	}

	err := tree.WalkInto(ctx, a.objects, root, into, func(path string, e object.Entry) error {
		if e.Type == object.TypeDir || e.Content.IsZero() {
			return nil
		}
		return a.addContent(ctx, commit, e.Content, tree.Join(dir, path))
	})
	if errors.Is(err, tree.ErrTooMany) || errors.Is(err, tree.ErrTooDeep) {
		return nil // report only the paths found so far
	}
	return err
}

// addContent adds the file at path to the problems that affect its content.
func (a *affectedFinder) addContent(ctx context.Context, commit object.ID, content object.Key, path string) error {
	return graph.Walk(ctx, map[object.Key]bool{}, []object.Key{content}, func(key object.Key) ([]object.Key, error) {
		if p := a.bad[key]; p != nil {
			p.addAffected(commit, path)
			return nil, nil
		}
		if need, err := a.leadsToBad(ctx, key); err != nil || !need {
			return nil, err
		}
		return graph.Links(ctx, a.objects, key)
	})
}

// addStaged adds a path of the index, if its content is bad: a file, or a folder that is left out.
func (a *affectedFinder) addStaged(ctx context.Context, content object.Key, path string) error {
	if content.Kind == object.KindTree {
		return a.addTree(ctx, object.ID{}, path, content.ID)
	}
	return a.addContent(ctx, object.ID{}, content, path)
}

// leadsToBad reports whether an object is bad or refers to a bad one.
func (a *affectedFinder) leadsToBad(ctx context.Context, key object.Key) (bool, error) {
	if !key.Kind.IsNode() {
		return a.bad[key] != nil, nil
	}
	return graph.Fold(ctx, a.needs, key, func(key object.Key) (links, nodes []object.Key, err error) {
		if a.bad[key] == nil {
			links, err = graph.Links(ctx, a.objects, key)
		}
		if object.IsAway(err) { // the remote has everything below
			err = nil
		}
		links = slices.DeleteFunc(links, func(link object.Key) bool { return a.records.Skips(key, link) })
		for _, link := range links {
			if link.Kind.IsNode() {
				nodes = append(nodes, link)
			}
		}
		return links, nodes, err
	}, func(key object.Key, links []object.Key) (bool, error) {
		return a.bad[key] != nil || slices.ContainsFunc(links, func(link object.Key) bool { return a.bad[link] != nil || a.needs[link] }), nil
	})
}
