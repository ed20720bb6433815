// Package show prints commits, differences and problems, for people and as JSON.
package show

import (
	"context"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/pathspec"
)

// Comparison shows how two versions of all files differ.
type Comparison struct {
	compare.Comparison
	Env   *cli.Env
	Form  *ChangeForm
	note  string           // a remark, if the old version is not the parent
	lines []log.LineChange // with -L
}

// NewComparison returns a comparison without its two sides.
func NewComparison(env *cli.Env, r *kist.Repository, form *ChangeForm) *Comparison {
	o := compare.Comparison{Repo: r, Renames: form.renames, Text: form.textOptions(), Losses: env.Repo.Lost.BeginFolders}
	return &Comparison{Comparison: o, Env: env, Form: form}
}

// filterChanges returns the changes that --diff-filter, -S and -G select among those of Selected.
func (c *Comparison) filterChanges(ctx context.Context, list pathspec.List) ([]compare.Change, error) {
	changes, err := c.Selected(ctx, list)
	if err != nil {
		return nil, err
	}
	return c.Sift(ctx, changes)
}

// Show prints changes in the forms of the options.
func (c *Comparison) Show(ctx context.Context, changes []compare.Change) error {
	if c.Env.Global.JSON {
		return c.showJSON(ctx, changes)
	}
	f := c.Form
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
	if f.Stat || f.shortStat || f.numStat {
		if err := c.showStat(ctx, changes); err != nil {
			return err
		}
		if f.Patch && len(all) > 0 {
			c.Env.Printf("%s", f.lineEnd())
		}
	}
	if !f.Patch {
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
func (c *Comparison) showName(change compare.Change) {
	fields := []string{c.quotePath(shownPath(change))}
	if c.Form.nameStatus {
		letter := change.Status()
		if change.From != "" {
			letter += fmt.Sprintf("%03d", change.Similarity)
			fields = append([]string{c.quotePath(change.From)}, fields...)
		}
		fields = append([]string{letter}, fields...)
	}
	if c.Form.nul {
		c.Env.Printf("%s\x00", strings.Join(fields, "\x00"))
	} else {
		c.Env.Printf("%s\n", strings.Join(fields, "\t"))
	}
}

// quotePath returns a path in quotes if it needs them, and unchanged with -z.
func (c *Comparison) quotePath(path string) string {
	if c.Form.nul {
		return path
	}
	return cli.QuotePath(path)
}

// shownPath returns the path of a change. A folder's path ends with a slash.
func shownPath(c compare.Change) string { return cli.Folded(c.Path, c.IsFolder()) }
