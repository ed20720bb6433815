package farm

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/tree"
)

// wanted is a set of paths: all paths except some, or some only.
type wanted struct {
	all   bool
	paths map[string]bool // the exceptions if all is set, otherwise the members
}

func (w *wanted) has(path string) bool { return w.paths[path] != w.all }

func (w *wanted) drop(path string) {
	if w.all {
		w.paths[path] = true
	} else {
		delete(w.paths, path)
	}
}

// add adds the members of other, which the caller must not use afterwards.
func (w *wanted) add(other *wanted) {
	switch {
	case w.all && other.all:
		maps.DeleteFunc(w.paths, func(path string, _ bool) bool { return !other.paths[path] })
	case w.all:
		for path := range other.paths {
			delete(w.paths, path)
		}
	case other.all:
		mine := *w
		*w = *other
		w.add(&mine)
	default:
		maps.Copy(w.paths, other.paths)
	}
}

// search finds the commits that changed files last.
type search struct {
	objects object.Reader
	stop    object.ID
	found   map[string]object.ID
	pending map[object.ID]*visit
}

// visit is a commit to look at, with the paths whose content it has.
type visit struct {
	commit *object.Commit
	wanted *wanted
}

// lastChanges returns, for each file of the commit tip, the commit that changed it last: the
// file differs from those of all parents. For a file that the commit stop has unchanged, it
// returns nothing. Stop may be zero.
//
// A parent whose content has expired counts as none.
func lastChanges(ctx context.Context, objects object.Reader, tip, stop object.ID) (map[string]object.ID, error) {
	s := &search{objects, stop, map[string]object.ID{}, map[object.ID]*visit{}}
	if err := s.want(ctx, tip, &wanted{all: true, paths: map[string]bool{}}); err != nil {
		return nil, err
	}
	files := int(s.pending[tip].commit.Files)
	for len(s.pending) > 0 && (files == 0 || len(s.found) < files) {
		id, v := s.newest()
		delete(s.pending, id)
		if id == stop {
			continue
		}
		if err := s.look(ctx, id, v); err != nil {
			return nil, err
		}
	}
	return s.found, ctx.Err()
}

// newest returns the pending commit with the latest date. If dates are wrong, a commit is
// only looked at several times.
func (s *search) newest() (object.ID, *visit) {
	ids := slices.Collect(maps.Keys(s.pending))
	id := slices.MaxFunc(ids, func(a, b object.ID) int {
		return s.pending[a].commit.Committer.Time.Compare(s.pending[b].commit.Committer.Time)
	})
	return id, s.pending[id]
}

// want adds paths to those of a commit.
func (s *search) want(ctx context.Context, id object.ID, w *wanted) error {
	if v := s.pending[id]; v != nil {
		v.wanted.add(w)
		return nil
	}
	c, err := object.ReadCommit(ctx, s.objects, id)
	if err == nil {
		s.pending[id] = &visit{c, w}
	}
	return err
}

// look passes the wanted paths of a commit on to its parents, and notes the others.
func (s *search) look(ctx context.Context, id object.ID, v *visit) error {
	parents, trees, err := s.parents(ctx, v.commit)
	if err != nil {
		return err
	}
	first := object.ID{}
	if len(trees) > 0 {
		first = trees[0]
	}
	o := tree.DiffOptions{Recursive: true}
	if !v.wanted.all {
		if o.Paths = slices.Collect(maps.Keys(v.wanted.paths)); len(o.Paths) == 0 {
			return nil
		}
	}
	for c, err := range tree.Diff(ctx, s.objects, first, v.commit.Tree, o) {
		if err != nil {
			return err
		}
		isFile := c.New != nil && !tree.IsDir(c.New)
		if !isFile && (c.New != nil || tree.IsDir(c.Old)) || !v.wanted.has(c.Path) {
			continue
		}
		if isFile {
			if err := s.place(ctx, id, c, parents, trees); err != nil {
				return err
			}
		}
		v.wanted.drop(c.Path)
	}
	if len(parents) == 0 {
		return nil
	}
	return s.want(ctx, parents[0], v.wanted)
}

// place notes where a file comes from that differs from the one in the first parent.
func (s *search) place(ctx context.Context, id object.ID, c tree.Change, parents, trees []object.ID) error {
	for i := 1; i < len(parents); i++ {
		e, err := tree.Find(ctx, s.objects, trees[i], c.Path)
		if err == nil && tree.ContentEqual(&e, c.New) {
			return s.want(ctx, parents[i], &wanted{paths: map[string]bool{c.Path: true}})
		}
		if err != nil && !errors.Is(err, tree.ErrNotExist) && !errors.Is(err, tree.ErrNotDir) {
			return err
		}
	}
	s.found[c.Path] = id
	return nil
}

// parents returns the parents of a commit whose content is here, and their trees.
func (s *search) parents(ctx context.Context, c *object.Commit) (parents, trees []object.ID, err error) {
	for _, id := range c.Parents {
		parent, err := object.ReadCommit(ctx, s.objects, id)
		if err == nil {
			_, err = object.ReadTree(ctx, s.objects, parent.Tree)
		}
		if intact.IsAbsent(err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		parents, trees = append(parents, id), append(trees, parent.Tree)
	}
	return parents, trees, nil
}
