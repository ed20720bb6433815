package cli

import (
	"context"
	"slices"

	"github.com/kist-vcs/kist/refs/log"
	"github.com/kist-vcs/kist/tree/view"
)

// printChanges prints what a commit changed below what describes it.
func (p *commitPrinter) printChanges(ctx context.Context, cmp *comparison, changes []fileChange) error {
	if len(changes) == 0 {
		return nil
	}
	f := p.form
	switch {
	case p.oneline:
	case f.patch && (f.stat || f.shortStat || f.numStat):
		p.env.printf("---\n")
	default:
		p.env.printf("\n")
	}
	return cmp.show(ctx, changes)
}

// changes returns what a commit changed, if that is to be shown. As in git, a
// merge is passed over, but with firstParent and for show. A commit whose content
// has expired has none; where that of a parent has, see [log.Before].
func (p *commitPrinter) changes(ctx context.Context, c log.Logged) (*comparison, []fileChange, error) {
	merge := len(c.Parents) > 1
	cmp := &comparison{env: p.env, repo: p.repo, form: p.form}
	if !p.form.wanted() || merge && !p.firstParent && !p.show || c.Expired != nil {
		return cmp, nil, nil
	}
	views := make([]view.View, max(len(c.Parents), 1))
	views[0] = view.View{Objects: p.repo.Contents()}
	for i, parent := range c.Parents {
		var err error
		if views[i], err = log.Before(ctx, p.repo, p.records, parent); err != nil {
			return cmp, nil, err
		}
	}
	switch before := views[0].Commit; {
	case len(c.Parents) == 0 || before == c.Parents[0]:
	case before.IsZero():
		cmp.note = "not known; what was before has expired"
		return cmp, nil, nil
	default:
		cmp.note = "since " + before.Short() + "; what lies between has expired"
	}
	cmp.old, cmp.new = views[0], view.View{Tree: c.Tree, Objects: p.repo.Contents()}
	var changes []fileChange
	var err error
	if c.Path != "" {
		changes, err = cmp.followed(ctx, c.Path)
	} else {
		changes, err = cmp.selected(ctx, p.paths)
	}
	if err != nil || !merge || p.firstParent || !p.form.patch {
		return cmp, changes, err
	}
	// The changes of the merge itself: files that differ from all its parents.
	for _, view := range views[1:] {
		others := *cmp
		others.old = view
		differ, err := others.selected(ctx, p.paths)
		if err != nil {
			return cmp, nil, err
		}
		changes = slices.DeleteFunc(changes, func(c fileChange) bool {
			return !slices.ContainsFunc(differ, func(d fileChange) bool { return d.Path == c.Path })
		})
	}
	return cmp, changes, nil
}

// followed returns the change of one path, and where it was before. All other
// files are looked at only if it was not there.
func (c *comparison) followed(ctx context.Context, path string) ([]fileChange, error) {
	changes, err := c.changes(ctx, []string{path})
	if err != nil || len(changes) != 1 || changes[0].Old != nil || !c.form.renames {
		return changes, err
	}
	all, err := c.changes(ctx, nil)
	for _, change := range all {
		if change.Path == path {
			return []fileChange{change}, err
		}
	}
	return changes, err
}
