package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/pathspec"
)

// comparison shows how two versions of all files differ.
type comparison struct {
	compare.Comparison
	env   *Env
	form  *changeForm
	note  string           // a remark, if the old version is not the parent
	lines []log.LineChange // with -L
}

// newComparison returns a comparison without its two sides.
func newComparison(env *Env, r *kist.Repository, form *changeForm) *comparison {
	o := compare.Comparison{Repo: r, Renames: form.renames, Text: form.text(), Losses: env.repo.lost.beginFolders}
	return &comparison{Comparison: o, env: env, form: form}
}

// filtered returns the changes that --diff-filter, -S and -G select among those of [selected].
func (c *comparison) filtered(ctx context.Context, list pathspec.List) ([]compare.Change, error) {
	changes, err := c.Selected(ctx, list)
	if err != nil {
		return nil, err
	}
	return c.sift(ctx, changes)
}

// show prints changes in the forms of the options.
func (c *comparison) show(ctx context.Context, changes []compare.Change) error {
	if c.env.global.json {
		return c.showJSON(ctx, changes)
	}
	f := c.form
	all := changes
	changes, err := c.Differing(ctx, all)
	if err != nil {
		return err
	}
	if f.nameOnly || f.nameStatus {
		for _, change := range all {
			c.showName(change)
		}
	}
	if f.stat || f.shortStat || f.numStat {
		if err := c.showStat(ctx, changes); err != nil {
			return err
		}
		if f.patch && len(all) > 0 {
			c.env.printf("%s", f.end())
		}
	}
	if !f.patch {
		return nil
	}

	for _, change := range changes {
		if err := c.showPatch(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

// showName prints a line of --name-only or --name-status.
func (c *comparison) showName(change compare.Change) {
	fields := []string{c.quoted(shownPath(change))}
	if c.form.nameStatus {
		letter := change.Status()
		if change.From != "" {
			letter += fmt.Sprintf("%03d", change.Similarity)
			fields = append([]string{c.quoted(change.From)}, fields...)
		}
		fields = append([]string{letter}, fields...)
	}
	if c.form.nul {
		c.env.printf("%s\x00", strings.Join(fields, "\x00"))
	} else {
		c.env.printf("%s\n", strings.Join(fields, "\t"))
	}
}

// quoted returns a path in quotes if it needs them, and unchanged with -z.
func (c *comparison) quoted(path string) string {
	if c.form.nul {
		return path
	}
	return quotePath(path)
}

// shownPath returns the path of a change. A folder's path ends with a slash.
func shownPath(c compare.Change) string { return folded(c.Path, c.IsFolder()) }
