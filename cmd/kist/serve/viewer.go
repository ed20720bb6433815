package serve

import (
	"context"
	"net/http"

	"github.com/kist-vcs/kist/cmd/kist/serve/access"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// Viewer answers what the user of a request may see of many commits. One goroutine at a time
// may use it.
type Viewer struct {
	site    *Site
	user    access.User
	objects object.Reader
	rules   map[object.ID]*access.Rules // by commit
}

// maxViewed is the most commits whose rules a [Viewer] keeps.
const maxViewed = 2000

// Viewer returns the viewer for the user of ctx.
func (s *Site) Viewer(ctx context.Context) *Viewer {
	return &Viewer{s, access.UserOf(ctx), s.Objects(), map[object.ID]*access.Rules{}}
}

// Rules returns the rules of the user for a commit.
func (v *Viewer) Rules(ctx context.Context, commit object.ID) (*access.Rules, error) {
	if rules := v.rules[commit]; rules != nil {
		return rules, nil
	}
	at := compare.Side{Commit: commit, Objects: v.objects}
	if !v.user.Owner {
		c, err := object.ReadCommit(ctx, v.objects, commit)
		if err != nil {
			return nil, err
		}
		at.Tree = c.Tree
	}
	rules, err := v.site.Guard.Rules(ctx, v.user, at)
	if err != nil {
		return nil, err
	}
	if len(v.rules) >= maxViewed {
		clear(v.rules)
	}
	v.rules[commit] = rules
	return rules, nil
}

// Sees reports whether the user may see a path of all of the commits. A commit with unreadable
// rules shows nothing. The error means that ctx has ended.
func (v *Viewer) Sees(ctx context.Context, path string, of ...object.ID) (bool, error) {
	for _, commit := range of {
		rules, err := v.Rules(ctx, commit)
		if err == nil {
			err = rules.MayRead(ctx, path)
		}
		if err != nil {
			return false, ctx.Err()
		}
	}
	return true, nil
}

// Show returns an entry of a commit as the user may see it. If ok is false, the user may not.
// The error means that ctx has ended.
func (v *Viewer) Show(ctx context.Context, commit object.ID, path string, e object.Entry) (shown object.Entry, ok bool, err error) {
	rules, err := v.Rules(ctx, commit)
	if err == nil {
		shown, err = rules.Shown(ctx, path, e)
	}
	if err != nil {
		return object.Entry{}, false, ctx.Err()
	}
	return shown, true, nil
}

// ReadsAll reports whether the user may read everything in a commit. The error means that ctx
// has ended.
func (v *Viewer) ReadsAll(ctx context.Context, commit object.ID) (bool, error) {
	rules, err := v.Rules(ctx, commit)
	all := false
	if err == nil {
		all, err = rules.ReadsAll(ctx, "")
	}
	if err != nil {
		return false, ctx.Err()
	}
	return all, nil
}

// errSizes is the answer to a user who asks for sizes that would reveal those of hidden files.
var errSizes = httpError{http.StatusForbidden, "only users who may read everything see the sizes of the repository"}

// ReadsEverything reports whether the user may read everything in the served branch, in its
// history, and in the commits of all other names.
func (s *Site) ReadsEverything(ctx context.Context) (bool, error) {
	v := s.Viewer(ctx)
	if v.user.Owner {
		return true, nil
	}
	past, err := s.Guard.Rules(ctx, v.user, compare.Side{Objects: v.objects})
	if err != nil {
		return false, err
	}
	if all, err := past.ReadsAll(ctx, ""); !all || err != nil {
		return false, err
	}

	list, err := s.Repo.Refs().List("")
	if err != nil {
		return false, err
	}
	for _, ref := range list {
		commit, err := refs.Peel(ctx, v.objects, ref.ID)
		if err != nil {
			return false, ctx.Err()
		}
		if all, err := v.ReadsAll(ctx, commit); !all || err != nil {
			return false, err
		}
	}
	return true, nil
}

// Touched reports whether the user may see a path of a commit and of its parents, and so that
// the commit changed it.
func (v *Viewer) Touched(ctx context.Context, commit object.ID, parents []object.ID, path string) (bool, error) {
	ok, err := v.Sees(ctx, path, commit)
	if ok {
		ok, err = v.Sees(ctx, path, parents...)
	}
	return ok, err
}

// Version returns a version of a file as the user may see it. If ok is false, the user may not.
func (v *Viewer) Version(ctx context.Context, x *versions.Index, of versions.Version) (shown versions.Version, ok bool, err error) {
	parents := x.Parents(of.Commit)
	if of.Type == 0 { // the path was in the parents
		ok, err = v.Touched(ctx, of.Commit, parents, of.Path)
		return of, ok, err
	}
	e, ok, err := v.Show(ctx, of.Commit, of.Path, of.Entry())
	if !ok || err != nil {
		return of, false, err
	}
	if tree.IsDir(&e) {
		of.ID = e.Content.ID
	}
	if of.From != "" {
		if ok, err := v.Sees(ctx, of.From, parents...); err != nil {
			return of, false, err
		} else if !ok {
			of.From = ""
		}
	}
	return of, true, nil
}

// VisibleChange returns a change between two commits as the user may see it. If ok is false, the
// user may not. A move from or to a hidden path is an addition or a removal.
func VisibleChange(ctx context.Context, from, to *VisibleCommit, c tree.Change) (shown tree.Change, ok bool, err error) {
	old := c.Path
	if c.From != "" {
		old = c.From
	}
	mayOld, err := from.mayReadInBoth(ctx, old, to)
	if err != nil {
		return c, false, err
	}
	mayNew, err := from.mayReadInBoth(ctx, c.Path, to)
	if err != nil {
		return c, false, err
	}
	switch {
	case c.From == "" && !mayNew, !mayOld && !mayNew:
		return c, false, nil
	case !mayOld:
		c = tree.Change{Path: c.Path, New: c.New}
	case !mayNew:
		c = tree.Change{Path: c.From, Old: c.Old}
	}

	if c.Old != nil && tree.IsDir(c.Old) {
		e, err := from.Rules.Shown(ctx, old, *c.Old)
		if err != nil {
			return c, false, err
		}
		c.Old = &e
	}
	if c.New != nil && tree.IsDir(c.New) {
		e, err := to.Rules.Shown(ctx, c.Path, *c.New)
		if err != nil {
			return c, false, err
		}
		c.New = &e
	}
	return c, true, nil
}

// mayReadInBoth reports whether the user may read a path in both commits.
func (c *VisibleCommit) mayReadInBoth(ctx context.Context, path string, other *VisibleCommit) (bool, error) {
	for _, rules := range []*access.Rules{c.Rules, other.Rules} {
		if ok, err := rules.Readable(ctx, path); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}
