package work

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/pathspec"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// patchFlag adds the option --patch to a command.
func patchFlag(cmd *cobra.Command, patch *bool, usage string) {
	cmd.Flags().BoolVarP(patch, "patch", "p", false, usage)
}

// hunkMode is the effect of the chosen hunks, in git's words.
type hunkMode struct {
	verb, where     string // "Discard", " from worktree"
	index, worktree bool   // what changes
	stash           bool   // the hunks leave the worktree
	back            bool   // the hunks are taken back from the newer side
	rev             string // the revision to compare with, if one was given
}

// patchViews returns the two sides that are compared, and what the hunks do. Without a
// revision, the worktree is compared with the index, and the index with HEAD.
func patchViews(ctx context.Context, r *kist.Repository, m hunkMode, paths []string) (old, new compare.Side, _ hunkMode, err error) {
	var base, now compare.Side
	rev := m.rev
	switch {
	case rev == "" && m.worktree && !m.index || m.verb != "":
		base, err = compare.OfIndex(ctx, r)
	case rev == "" || input.IsUnborn(r, rev):
		rev = "HEAD"
		base, err = compare.OfHead(ctx, r)
	default:
		base, err = compare.OfCommit(ctx, r, rev)
	}
	if err != nil {
		return old, new, m, err
	}
	if m.worktree || m.verb != "" {
		now, err = stage.WorktreeView(ctx, r, paths)
	} else {
		now, err = compare.OfIndex(ctx, r)
	}
	if err != nil || m.verb != "" {
		return base, now, m, err
	}

	places := "index"
	switch {
	case m.index && m.worktree:
		places = "index and worktree"
	case m.worktree:
		places = "worktree"
	}
	if rev != "" && rev != "HEAD" {
		m.verb, m.where = "Apply", " to "+places
		return now, base, m, nil
	}
	m.back = true
	if m.verb, m.where = "Discard", " from "+places; !m.worktree {
		m.verb, m.where = "Unstage", ""
	}
	return base, now, m, nil
}

// stageHunks asks which changes of the worktree to stage.
func stageHunks(ctx context.Context, env *cli.Env, r *kist.Repository, specs pathspec.List) error {
	return chooseHunks(ctx, env, r, hunkMode{verb: "Stage", index: true}, specs)
}

func errPatchJSON() error {
	return cli.Usagef("--patch asks questions, and does not go together with --json")
}

// chooseHunks asks for each changed part of text files what to do with it, and does it.
func chooseHunks(ctx context.Context, env *cli.Env, r *kist.Repository, m hunkMode, specs pathspec.List) error {
	switch {
	case r.IsBare():
		return kist.ErrBare
	case env.Global.JSON:
		return errPatchJSON()
	}
	c := show.NewComparison(env, r, &show.ChangeForm{})
	var err error
	if c.Old, c.New, m, err = patchViews(ctx, r, m, specs.Paths()); err != nil {
		return err
	}
	if err := pathspec.CheckMatches(ctx, r, specs, pathspec.Places{Views: []compare.Side{c.Old, c.New}, Index: true, Worktree: true}); err != nil {
		return err
	}
	c.Form.Reverse = m.verb == "Apply" // for the names in headers
	changes, err := c.Selected(ctx, specs)
	if err != nil {
		return err
	}

	d := &hunkDialogue{Comparison: c, mode: m, in: bufio.NewReader(env.Stdin)}
	worktree, index, err := d.askAll(ctx, changes)
	if err != nil {
		return err
	}
	if len(worktree)+len(index) > 0 {
		err = env.Unwritten(r, stage.Patch(ctx, r, worktree, index))
	}
	if errors.Is(err, stage.ErrLocalChanges) {
		return cli.Hintf(err, "a file changed after its hunks were shown, so nothing was done; run the command again")
	}
	if err == nil {
		err = cli.PartialError(env, r, slices.Concat(c.Old.Skipped, c.New.Skipped))
	}
	return err
}

// stashHunks returns the function that asks which changes to stash. Asked again about the same
// trees, it repeats its answer.
func stashHunks(env *cli.Env, r *kist.Repository, specs pathspec.List) func(ctx context.Context, head, worktree compare.Side) (stashed, undone []stage.Chosen, err error) {
	var asked [2]object.ID
	var stashed, undone []stage.Chosen
	return func(ctx context.Context, head, worktree compare.Side) ([]stage.Chosen, []stage.Chosen, error) {
		trees := [2]object.ID{head.Tree, worktree.Tree}
		if asked == trees {
			return stashed, undone, nil
		}
		c := show.NewComparison(env, r, &show.ChangeForm{})
		c.Old, c.New = head, worktree
		changes, err := c.Selected(ctx, specs)
		if err != nil {
			return nil, nil, err
		}
		changes = slices.DeleteFunc(changes, func(f compare.Change) bool { return f.Old == nil }) // new files stay, as in git
		d := &hunkDialogue{Comparison: c, mode: hunkMode{verb: "Stash", index: true, stash: true}, in: bufio.NewReader(env.Stdin)}
		if undone, stashed, err = d.askAll(ctx, changes); err == nil { // the choices for the index are stashed
			asked = trees
		}
		return stashed, undone, err
	}
}

// hunkGuide stands below a hunk in the editor. %s is the verb.
const hunkGuide = `# ---
# To remove '%c' lines, make them ' ' lines (context).
# To remove '%c' lines, delete them.
# Lines starting with # will be removed.
# A hunk that fits the file will be used at once (%s). Otherwise you can edit
# it again. Without any line, the hunk stays as it was.
`

// editHunk lets the user edit a hunk. It reports whether the result is to be used.
func (d *hunkDialogue) editHunk(ctx context.Context, f *hunkFile, at int) (bool, error) {
	i, _ := f.hunkAt(at)
	if editor(d.Env) == "" {
		d.complain("Sorry, no editor: KIST_EDITOR names one")
		return false, nil
	}
	keep, drop := '-', '+'
	if d.mode.back {
		keep, drop = drop, keep
	}
	file := filepath.Join(d.Repo.Dir(), "EDIT_HUNK.patch")
	defer disk.Remove(file)
	text := slices.Concat([]byte("# Edit the hunk; a guide is below it.\n"), f.patch.Hunk(i),
		fmt.Appendf(nil, hunkGuide, keep, drop, strings.ToLower(d.mode.verb)))
	for {
		if err := disk.WriteFile(file, text); err != nil {
			return false, err
		}
		if err := runEditor(ctx, d.Env, file); err != nil {
			return false, err
		}
		var err error
		if text, err = disk.ReadFile(file); err != nil {
			return false, err
		}
		err = f.patch.Edit(i, text)
		if err == nil || errors.Is(err, tree.ErrNoHunk) {
			return err == nil, nil
		}
		d.complain("%v", err)
		again, err := d.askYesNo(ctx, `Your edited hunk does not apply. Edit again (saying "no" discards!) [y/n]? `)
		if err != nil || !again {
			return false, err
		}
	}
}

// addChoice adds the choice about a file to the choices for the worktree and for the index.
func (d *hunkDialogue) addChoice(ctx context.Context, f *hunkFile, worktree, index []stage.Chosen) (_, _ []stage.Chosen, err error) {
	if !slices.Contains(f.use, useHunk) {
		return worktree, index, nil
	}
	c := stage.Chosen{Path: f.Path, From: f.Old, To: f.New, All: d.New, Before: f.texts.Old, Properties: f.firstHunk() > 0 && f.use[0] == useHunk}
	after := f.texts.New
	if d.mode.back {
		c.From, c.To, c.All, c.Before, after = f.New, f.Old, d.Old, f.texts.New, f.texts.Old
	}
	c.Text, err = f.patch.Apply(func(i int) bool { return f.use[i+f.firstHunk()] == useHunk })
	switch whole := c.From == nil || c.To == nil; {
	case err != nil:
		return nil, nil, err
	case whole && !f.edited, bytes.Equal(c.Text, after) && (whole || !bytes.Equal(c.Text, c.Before)):
		c.Content = stage.PartAll
	case !bytes.Equal(c.Text, c.Before):
		c.Content = stage.PartSome
	}

	if d.mode.stash {
		left, err := d.restOfStashed(f, c)
		return append(worktree, left), append(index, c), err
	}
	if d.mode.index {
		staged := c
		if d.mode.worktree {
			staged, err = c.InIndex(ctx, d.Repo)
		}
		if errors.Is(err, tree.ErrHunkMismatch) {
			d.complain("The selected hunks do not apply to the index!")
			anyway, err := d.askYesNo(ctx, "Apply them to the worktree anyway? ")
			if err != nil || !anyway {
				d.complain("Nothing was applied.")
				return worktree, index, err
			}
		} else if err != nil {
			return nil, nil, err
		} else {
			index = append(index, staged)
		}
	}
	if d.mode.worktree {
		worktree = append(worktree, c)
	}
	return worktree, index, nil
}

// restOfStashed returns what stays of a file after the choice c was stashed. If that is not clear
// after an edit, all changes stay.
func (d *hunkDialogue) restOfStashed(f *hunkFile, c stage.Chosen) (stage.Chosen, error) {
	left := stage.Chosen{Path: c.Path, From: f.New, To: f.Old, All: d.Old, Before: f.texts.New, Properties: c.Properties, Content: c.Content}
	if c.Content != stage.PartSome {
		return left, nil
	}
	var err error
	if !f.edited {
		left.Text, err = f.patch.Apply(func(i int) bool { return f.use[i+f.firstHunk()] != useHunk })
		return left, err
	}
	var conflicts bool
	if left.Text, conflicts = tree.MergeText(c.Text, f.texts.New, f.texts.Old, tree.Labels{}); conflicts {
		d.complain("%s: the edited hunks are stashed, and the file stays as it is", c.Path)
		left.Content, left.Properties = stage.PartNone, false
	}
	return left, nil
}
