// Package show prints commits, differences and problems, for people and as JSON.
package show

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/log"
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

	for change, err := range c.Near(ctx, changes) {
		if err != nil {
			return err
		}
		if err := c.showPatch(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

// readsContent reports whether Show reads the content of files.
func (f *ChangeForm) readsContent(json bool) bool {
	counts := f.Stat || f.shortStat || f.numStat
	return f.Patch || counts || json && !f.nameOnly && !f.nameStatus || f.Filter.axe != nil || f.textOptions().Space != tree.ExactSpace || f.textOptions().Blank
}

// nearForJSON is [compare.Comparison.Near] for JSON, which needs no content for some options.
func (c *Comparison) nearForJSON(ctx context.Context, changes []compare.Change) iter.Seq2[compare.Change, error] {
	if c.Form.readsContent(true) {
		return c.Near(ctx, changes)
	}
	return compare.Each(changes)
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
