package log

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/view"
)

// parents returns the function that selects the parents at which the log
// continues, or nil for all parents. As in git, a commit equal to a parent is
// skipped in favour of that parent. An exception is a parent that the log
// excludes but the user did not name: then the sides of a merge may have more
// to show.
func (l *logger) parents(ctx context.Context, exclude []object.ID) func(history.Commit, func(object.ID) bool) ([]object.ID, error) {
	if l.o.Select == nil && (len(l.o.Paths) == 0 || slices.Contains(l.o.Paths, "")) {
		return nil
	}
	l.same, l.next = map[object.ID]bool{}, map[object.ID]object.ID{}
	return func(c history.Commit, excluded func(object.ID) bool) ([]object.ID, error) {
		paths := l.o.Paths
		if l.o.Follow {
			if _, ok := l.paths[c.ID]; !ok {
				l.paths[c.ID] = l.o.Paths[0]
			}
			paths = []string{l.paths[c.ID]}
		}
		if _, expired := l.records.Expired(c.ID); expired {
			l.past[c.ID] = true
			for _, parent := range c.Parents {
				l.pass(parent, paths[0])
			}
			return c.Parents, nil
		}
		if len(c.Parents) == 0 {
			changed, err := l.differ(ctx, object.ID{}, c.Tree, paths)
			l.same[c.ID] = !changed
			return nil, err
		}
		anyChanged := false
		for _, parent := range c.Parents {
			before, err := Before(ctx, l.r, l.records, parent)
			if err != nil {
				return nil, err
			}
			changed, err := l.differ(ctx, before.Tree, c.Tree, paths)
			if err != nil {
				return nil, err
			}
			anyChanged = anyChanged || changed
			if !changed && (!excluded(parent) || slices.Contains(exclude, parent)) {
				l.same[c.ID], l.next[c.ID] = true, parent
				l.pass(parent, paths[0])
				return []object.ID{parent}, nil
			}
			if l.o.Follow {
				if err := l.follow(ctx, before, c.Tree, paths[0]); err != nil {
					return nil, err
				}
				l.pass(parent, paths[0]) // whose content may have expired
			}
		}
		l.same[c.ID] = !anyChanged
		return c.Parents, nil
	}
}

// Before returns the view that a log compares a commit with. It is the
// commit's parent or, if its content has expired by records, the first commit
// before it along first parents with content. If there is none, the view is
// empty.
func Before(ctx context.Context, r *kist.Repository, records *record.View, parent object.ID) (view.View, error) {
	v := view.View{Objects: r.Contents()}
	for id := parent; !id.IsZero(); {
		c, err := object.ReadCommit(ctx, r.Objects(), id)
		if err != nil {
			return v, err
		}
		if _, expired := records.Expired(id); !expired {
			v.Commit, v.Tree = id, c.Tree
			break
		}
		id = commits.FirstParent(c)
	}
	return v, nil
}

func (l *logger) pass(parent object.ID, path string) {
	if _, ok := l.paths[parent]; !ok && l.o.Follow {
		l.paths[parent] = path
	}
}

// differ reports whether any of paths differs between two trees, or may differ in a
// folder that is passed over.
func (l *logger) differ(ctx context.Context, a, b object.ID, paths []string) (bool, error) {
	selects := l.o.Select
	for c, err := range tree.Diff(ctx, l.r.Contents(), a, b, tree.DiffOptions{Paths: paths, Recursive: selects != nil}) {
		if err != nil || selects == nil || selects(c.Path) {
			return err == nil, err
		}
	}
	return false, nil
}

// follow finds where the path was in a parent: where it is, or where it was
// moved from.
func (l *logger) follow(ctx context.Context, before view.View, after object.ID, path string) error {
	if before.Tree.IsZero() {
		return nil
	}
	_, err := before.Find(ctx, path)
	if object.PassOver(before.Objects, path, object.Key{}, err) {
		err = nil
	}
	if !errors.Is(err, tree.ErrNotExist) {
		l.pass(before.Commit, path)
		return err
	}
	changes, err := view.Diff(ctx, before, view.View{Tree: after, Objects: l.r.Contents()}, nil, true)
	if err != nil {
		return fmt.Errorf("follow %q: %w", path, err)
	}
	for _, c := range changes {
		if c.From != "" && c.Path == path {
			path = c.From
			break
		}
	}
	l.pass(before.Commit, path)
	return nil
}
