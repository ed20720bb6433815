package versions

import (
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/tree"
)

// Use is a path that has, or had, a content.
type Use struct {
	Path    string
	Now     []string    // the tips that have it there
	Commits []object.ID // the commits that have it there, newest first
	Since   []Version   // the changes that brought it there, oldest first
}

// Uses yields the paths that have a content with one of the given IDs, in some commit that a
// tip reaches. They come in path order, each when it is asked for: the lists of
// commits may be long.
func (x *Index) Uses(ids map[object.ID]bool) iter.Seq[Use] {
	since := map[int32][]int32{} // by path: the changes
	for i := range x.changes.len() {
		if c := x.changes.at(i); c.same == 0 && !c.isRemoval() && ids[c.id] && x.reached[c.commit] {
			since[c.path] = append(since[c.path], i)
		}
	}

	paths := slices.SortedFunc(maps.Keys(since), func(a, b int32) int { return tree.ComparePaths(x.paths.path(a), x.paths.path(b)) })
	return func(yield func(Use) bool) {
		has := make([]bool, len(x.commits))
		for _, path := range paths {
			x.hasAt(has, path, ids)
			if !yield(x.useOf(path, since[path], has)) {
				return
			}
		}
	}
}

// useOf returns the use of a path that some changes brought, and that the commits in has have.
func (x *Index) useOf(path int32, since []int32, has []bool) Use {
	use := Use{Path: x.paths.path(path)}
	for i := range slices.Backward(has) {
		if has[i] && x.reached[i] {
			use.Commits = append(use.Commits, x.commits[i].id)
		}
	}
	for _, tip := range x.tips {
		if i, ok := x.commitNumbers[tip.Commit]; ok && has[i] {
			use.Now = append(use.Now, tip.Name)
		}
	}
	for _, i := range since {
		use.Since = append(use.Since, x.versionOf(x.changes.at(i)))
	}
	return use
}

// hasAt sets has, by commit, to whether a path has a content with one of the given IDs.
func (x *Index) hasAt(has []bool, path int32, ids map[object.ID]bool) {
	touched := make(map[int32]*change, len(x.changesAt(path)))
	for _, i := range x.changesAt(path) {
		touched[x.changes.at(i).commit] = x.changes.at(i)
	}
	for i := range x.commits {
		c := touched[int32(i)]
		parents := x.commits[i].parents
		switch {
		case c != nil && c.same > 0:
			has[i] = has[parents[c.same]]
		case c != nil:
			has[i] = !c.isRemoval() && ids[c.id]
		default:
			has[i] = len(parents) > 0 && has[parents[0]]
		}
	}
}

// Containing returns the given IDs and those of the files that contain one of them as a
// chunk, or as a part of their list of chunks. It reads the lists of all files that a
// tip reaches. It warns if one is damaged or missing, and goes on.
func (x *Index) Containing(ctx context.Context, r *kist.Repository, ids map[object.ID]bool) (map[object.ID]bool, error) {
	all := map[object.ID]bool{}
	for id := range ids {
		all[id] = true
	}
	objects := &tolerantReader{Reader: r.Objects()}
	known := map[object.Key]bool{} // by node: it contains one
	for i := range x.changes.len() {
		c := x.changes.at(i)
		if c.same > 0 || !c.manifest || !x.reached[c.commit] {
			continue
		}
		key := object.Key{Kind: object.KindManifest, ID: c.id}
		has, err := graph.Fold(ctx, known, key, func(key object.Key) (links, nodes []object.Key, err error) {
			links, err = graph.Links(ctx, objects, key)
			if objects.PassOver("", key, err) {
				return nil, nil, nil
			}
			for _, link := range links {
				if link.Kind.IsNode() {
					nodes = append(nodes, link)
				}
			}
			return links, nodes, err
		}, func(key object.Key, links []object.Key) (bool, error) {
			return ids[key.ID] || slices.ContainsFunc(links, func(l object.Key) bool { return ids[l.ID] || known[l] }), nil
		})
		if err != nil {
			return nil, err
		}
		if has {
			all[c.id] = true
		}
	}
	objects.warnDamaged(r, x)
	return all, nil
}

// ContentsOf returns the ID of the content whose ID begins with digits, a content of the history
// or an object, with the IDs of the files that contain it. It returns none if digits are not
// those of an ID, and [ErrAmbiguous] if several IDs begin so.
func (x *Index) ContentsOf(ctx context.Context, r *kist.Repository, digits string) (map[object.ID]bool, error) {
	digits = strings.ToLower(digits)
	if !object.IsHex(digits) || len(digits) < MinDigits || len(digits) > 64 {
		return nil, nil
	}
	ids := map[object.ID]bool{}
	for v := range x.All() {
		if strings.HasPrefix(v.ID.String(), digits) {
			ids[v.ID] = true
		}
	}
	for _, kind := range []object.Kind{object.KindChunk, object.KindManifest} {
		list, err := r.Objects().Prefix(ctx, kind, digits, math.MaxInt)
		if err != nil {
			return nil, err
		}
		for _, id := range list {
			ids[id] = true
		}
	}
	if id, err := object.ParseID(digits); err == nil {
		ids[id] = true // of a chunk that is lost
	}
	if len(ids) > 1 {
		return nil, ErrAmbiguous
	}
	return x.Containing(ctx, r, ids)
}
