package stage

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// EditAttrs changes the attributes of tracked paths in the index, of all or of none, and
// returns the paths whose attributes changed. Edit gets a copy of the attributes of each path
// and changes it. The error matches [kist.ErrNoMatch] if a path is not tracked, and
// [tree.ErrAttrs] if the attributes of a path would be too many or too large.
func EditAttrs(ctx context.Context, r *kist.Repository, paths []string, edit func(path string, attrs map[string]string) error) ([]string, error) {
	var changed []string
	setAttrs := func(idx *index.Index) error {
		changed = nil
		for _, path := range paths {
			e := Indexed(idx, path)
			if e == nil || path == "" {
				return fmt.Errorf("path %q: %w", path, kist.ErrNoMatch)
			}
			attrs := map[string]string{}
			maps.Copy(attrs, e.Attrs)
			err := edit(path, attrs)
			if err == nil && len(attrs) >= len(e.Attrs) { // removing some is always possible
				err = tree.CheckAttrs(attrs)
			}
			if err != nil {
				return fmt.Errorf("path %q: %w", path, err)
			}
			if maps.Equal(attrs, e.Attrs) {
				continue
			}
			if err := idx.SetAttrs(path, attrs); err != nil {
				return err
			}
			changed = append(changed, path)
		}
		return nil
	}
	err := r.Publish(ctx, func(tx *kist.Tx) { tx.EditIndex(nil, setAttrs) })
	return changed, err
}

// carryAttrs gives a new file the attributes of a removed one: it was moved. This needs equal
// content that is not empty, and only one removed and one new file with it.
func (l *edits) carryAttrs() {
	type content struct {
		object.Key
		data string
		kind object.EntryType
	}
	of := func(e *index.Entry) content { return content{e.Content, e.Data, e.Type} }

	removed := map[content][]*index.Entry{}
	found := false
	for i := range l.list {
		if e := &l.list[i]; e.kind == editRemove && e.old != nil && e.old.Size > 0 {
			removed[of(e.old)] = append(removed[of(e.old)], e.old)
			found = found || e.old.Meta != "" && len(e.old.Attrs()) > 0
		}
	}
	if !found {
		return
	}

	for e := range unpackFiles(l.newFiles.Drain()) {
		entry := *e.entry
		e.entry = &entry
		l.list = append(l.list, *e)
	}
	added := map[content][]*index.Entry{}
	for i := range l.list {
		if e := &l.list[i]; e.kind == editSet && e.old == nil && e.state == worktree.Untracked {
			added[of(e.entry)] = append(added[of(e.entry)], e.entry)
		}
	}
	for key, from := range removed {
		if to := added[key]; len(from) == 1 && len(to) == 1 {
			to[0].SetAttrs(from[0].Attrs()) // without them, if they do not fit
		}
	}
}

// withoutWrites splits operations. Applied has those on unchanged files that change only
// attributes. They write nothing, because the worktree has no attributes. Todo has all others.
func withoutWrites(w *worktree.Worktree, ops []worktree.Op) (todo []worktree.Op, applied []worktree.Applied) {
	stays := func(op worktree.Op) bool {
		if !onlyAttrs(&op) {
			return false
		}
		info, err := w.Lstat(op.Path)
		return err == nil && op.Old.Stat.Same(info.Stat) && !op.Old.Stat.Racy()
	}
	if !slices.ContainsFunc(ops, stays) {
		return ops, nil
	}
	for _, op := range ops {
		if stays(op) {
			applied = append(applied, worktree.Applied{Path: op.Path, New: op.New, Stat: op.Old.Stat})
		} else {
			todo = append(todo, op)
		}
	}
	return todo, applied
}

// onlyAttrs reports whether an operation leaves a file as it is, except for attributes.
func onlyAttrs(op *worktree.Op) bool {
	if op.Old == nil || op.New == nil || op.Old.Content != op.New.Content || op.Old.Size != op.New.Size {
		return false
	}
	was := op.Old.Attrs()
	if len(was)+len(op.New.Attrs) == 0 || maps.Equal(was, op.New.Attrs) {
		return false
	}
	e := op.Old.Object()
	e.SetAttrs(op.New.Attrs)
	old, new := index.NewEntry(e, op.Old.Stat), index.NewEntry(*op.New, op.Old.Stat)
	return old.SameContent(&new)
}
