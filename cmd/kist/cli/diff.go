package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/work/stage"
)

type diffOptions struct {
	form     changeForm
	staged   bool
	exitCode bool
	tool     toolOptions
}

func newDiff(env *Env) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff [OPTIONS] [REV [REV] | A..B | FILE@N [FILE@N]] [-- PATH...]",
		Short: "show how files differ",
		Long: `Compares the worktree, the index (the staged files), and commits:

  kist diff               the worktree with the index
  kist diff --staged      the index with HEAD, or with REV
  kist diff REV           the worktree with REV
  kist diff A B           commit B with commit A; also written A..B
  kist diff A...B         B with the merge base of A and B
  kist diff FILE@N        a file in the worktree with its version N
  kist diff FILE@N FILE@M two versions, see 'kist help history'

With PATHs, only these files and folders are compared. Untracked files are never
shown.

Text is compared by lines, in the format of git and patch. For other files, and
for text of more than 8 MiB, kist shows the ranges of bytes that differ, rounded
to the chunks of the file: 'bytes 0..0 -> 0..1048576' means that 1 MiB was
inserted at the start. A path with a merge conflict has a line '* Unmerged
path'; in the worktree, its differences from our side follow.

With full metadata, another owner, extended attribute, hard link or time of a
file is a change, too.

Purged content is not shown, only marked. If kist cannot read a file, it reports
the file and treats it as unchanged.

With --quiet nothing is shown, and --exit-code is implied.

With --json, one object for each path: path, status (git's letter),
renamed_from, similarity, old and new {type, mode, size, id, target, attributes,
purged, lost}, and lines_added and lines_deleted, or binary and ranges
{old_offset, old_size, new_offset, new_size}. --name-only and --name-status
leave out lines and ranges, and read no file. With full metadata, old and new
also have mtime, uid, gid, owner, group, xattrs, device and hard_link.`,
		Example: `  kist diff                        what 'kist add' would stage
  kist diff --staged --stat        what 'kist commit' would record, in brief
  kist diff v1 v2 -- src           what changed below src
  kist diff --quiet || echo 'something changed'`,
		ValidArgsFunction: env.completeUntilDash(revisions, trackedPaths),
	}
	env.inRepository(cmd, o.run)
	passesOverLost(cmd, env)
	o.form.register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.staged, "staged", false, "compare the index with REV, by default HEAD")
	flags.BoolVar(&o.staged, "cached", false, "the same as --staged")
	o.tool.register(flags)
	flags.BoolVar(&o.exitCode, "exit-code", false, "exit with 1 if there are differences")
	return cmd
}

func (o *diffOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	if err := o.form.settle(env, func(f *changeForm) { f.patch = true }); err != nil {
		return err
	}
	if o.comparesVersions(ctx, env, r, args) {
		return o.diffVersions(ctx, env, r, args)
	}
	revs, paths, err := revsAndPaths(ctx, env, r, args)
	if err != nil {
		return err
	}

	c := &comparison{env: env, repo: r, form: &o.form}
	var conflicts []index.Conflict
	if c.old, c.new, conflicts, err = diffViews(ctx, r, o.staged, revs, paths.paths()); err != nil {
		return err
	}
	if err := env.known(ctx, r, paths, places{views: []compare.View{c.old, c.new}, index: true, worktree: true}); err != nil {
		return err
	}

	skipped := c.new.Skipped
	if o.form.reverse {
		c.old, c.new = c.new, c.old
	}
	changes, err := c.selected(ctx, paths)
	if err != nil {
		return err
	}
	for _, conflict := range conflicts {
		if !paths.selects(conflict.Path) {
			continue
		}
		if changes, err = c.unmerged(ctx, changes, conflict, len(revs) == 0); err != nil {
			return err
		}
	}
	return o.showChanges(ctx, c, changes, skipped)
}

// showChanges shows the changes that the options select, and returns the result of diff.
func (o *diffOptions) showChanges(ctx context.Context, c *comparison, changes []fileChange, skipped []object.Skipped) error {
	changes, err := c.sift(ctx, changes)
	if err != nil {
		return err
	}
	if !c.env.global.quiet || o.tool.wanted {
		show := c.show
		if o.tool.wanted {
			show = func(ctx context.Context, changes []fileChange) error { return o.tool.showChanges(ctx, c, changes) }
		}
		if err := show(ctx, changes); err != nil {
			return err
		}
	}
	if err := partialError(c.env, c.repo, skipped); err != nil {
		return err
	}
	if changes, err = c.differing(ctx, changes); err != nil {
		return err
	}

	if len(changes) > 0 && (o.exitCode || c.env.global.quiet) {
		return quiet(exitFailed)
	}
	return nil
}

// comparesVersions reports whether the arguments are one or two files in commits, and one of
// them has the form FILE@N.
func (o *diffOptions) comparesVersions(ctx context.Context, env *Env, r *kist.Repository, args []string) bool {
	version := func(arg string) bool { return namesVersion(ctx, env, r, arg) }
	other := func(arg string) bool { return !namesEntry(ctx, env, r, arg) }
	return !o.staged && env.cmd.ArgsLenAtDash() < 0 && len(args) <= 2 &&
		slices.ContainsFunc(args, version) && !slices.ContainsFunc(args, other)
}

// diffVersions compares a version of a file with another one, or with the file in the
// worktree.
func (o *diffOptions) diffVersions(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	old, err := locateFile(ctx, env, r, args[0])
	if err != nil {
		return err
	}
	c := &comparison{env: env, repo: r, form: &o.form, old: old.view()}
	change := tree.Change{Path: old.path, Old: &old.entry}
	if len(args) == 2 {
		with, err := locateFile(ctx, env, r, args[1])
		if err != nil {
			return err
		}
		c.new, change.Path, change.New = with.view(), with.path, &with.entry
	} else if c.new, change.Path, change.New, err = newest(ctx, env, r, args[0]); err != nil {
		return err
	}

	skipped := c.new.Skipped
	if change.New != nil && tree.ContentEqual(change.Old, change.New) {
		return partialError(env, r, skipped)
	}
	if o.form.reverse {
		c.old, c.new = c.new, c.old
		change.Old, change.New = change.New, change.Old
	}
	return o.showChanges(ctx, c, []fileChange{{Change: change}}, skipped)
}

// newest returns the worktree, and in it the newest path of a file that FILE@N names. The
// entry is nil if the worktree lacks it.
func newest(ctx context.Context, env *Env, r *kist.Repository, arg string) (compare.View, string, *object.Entry, error) {
	f, _, _, err := versionOf(ctx, env, r, arg)
	if err != nil {
		return compare.View{}, "", nil, err
	}
	files, err := stage.WorktreeView(ctx, r, []string{f.Path})
	if err != nil {
		return files, f.Path, nil, err
	}
	entry, err := tree.Find(ctx, files.Objects, files.Tree, f.Path)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
		return files, f.Path, nil, nil
	}
	return files, f.Path, &entry, err
}

// unmerged marks the change of a path with a conflict, or adds it. The worktree is
// compared with our side of the conflict instead of the index. The index is not
// compared with anything.
func (c *comparison) unmerged(ctx context.Context, changes []fileChange, conflict index.Conflict, withOurs bool) ([]fileChange, error) {
	at, found := slices.BinarySearchFunc(changes, conflict.Path, func(c fileChange, path string) int {
		return tree.ComparePaths(c.Path, path)
	})
	if !found {
		changes = slices.Insert(changes, at, fileChange{Change: tree.Change{Path: conflict.Path}})
	}

	change := &changes[at]
	change.unmerged = true
	switch {
	case !c.new.Worktree:
		*change = fileChange{Change: tree.Change{Path: conflict.Path}, unmerged: true}
	case withOurs:
		change.Old, change.New = conflict.Ours, nil
		entry, err := tree.Find(ctx, c.new.Objects, c.new.Tree, conflict.Path)
		if err == nil {
			change.New = &entry
		} else if !errors.Is(err, tree.ErrNotExist) && !errors.Is(err, tree.ErrNotDir) {
			return nil, err
		}
	}
	return changes, nil
}

// diffViews returns the two sides to compare. If the index or the worktree is one of them,
// it also returns the conflicts of the index.
func diffViews(ctx context.Context, r *kist.Repository, staged bool, revs, paths []string) (old, new compare.View, conflicts []index.Conflict, err error) {
	if len(revs) == 1 {
		if from, to, symmetric, ok := refs.SplitRange(revs[0]); ok {
			revs = []string{from, to}
			if symmetric {
				if revs[0], err = mergeBase(ctx, r, from, to); err != nil {
					return old, new, nil, err
				}
			}
		} else if rev, suffix, parent := refs.SplitParents(revs[0]); suffix == "^!" || suffix == "^-" {
			revs = []string{fmt.Sprintf("%s^%d", rev, max(parent, 1)), rev}
		}
	}

	switch {
	case len(revs) > 2 || staged && len(revs) == 2:
		return old, new, nil, usagef("too many revisions to compare")
	case len(revs) == 2:
		if old, err = compare.OfCommit(ctx, r, revs[0]); err == nil {
			new, err = compare.OfCommit(ctx, r, revs[1])
		}
		return old, new, nil, err
	case len(revs) == 1:
		old, err = compare.OfCommit(ctx, r, revs[0])
	case staged:
		old, err = compare.OfHead(ctx, r)
	default:
		old, err = compare.OfIndex(ctx, r)
	}
	if err != nil {
		return old, new, nil, err
	}

	if staged {
		new, err = compare.OfIndex(ctx, r)
	} else {
		new, err = stage.WorktreeView(ctx, r, paths)
	}
	if err != nil {
		return old, new, nil, err
	}

	idx, err := r.Index()
	if err != nil {
		return old, new, nil, err
	}
	return old, new, idx.Conflicts(), nil
}

// mergeBase returns the best common ancestor of two commits.
func mergeBase(ctx context.Context, r *kist.Repository, a, b string) (string, error) {
	from, err := r.Resolve(ctx, a)
	if err != nil {
		return "", err
	}
	to, err := r.Resolve(ctx, b)
	if err != nil {
		return "", err
	}
	bases, err := history.MergeBases(ctx, r.Objects(), from, to)
	if err != nil {
		return "", err
	}
	if len(bases) == 0 {
		return "", failf(exitFailed, "unrelated", "%s and %s have no common history", quoteArg(a), quoteArg(b))
	}
	return bases[0].String(), nil
}

// comparison shows how two versions of all files differ.
type comparison struct {
	env      *Env
	repo     *kist.Repository
	old, new compare.View
	form     *changeForm
	note     string                 // a remark, if the old version is not the parent
	lost     map[*object.Entry]bool // entries of lost content
	lines    []log.LineChange       // with -L
}

// fileChange is a change of one path, and whether the path has a conflict.
type fileChange struct {
	tree.Change
	unmerged bool // there is a conflict about the path; Old and New may be nil
}

// changes returns the changes from the old version to the new one.
func (c *comparison) changes(ctx context.Context, paths []string) ([]fileChange, error) {
	list, err := c.diff(ctx, paths, c.form.renames)
	if err != nil {
		return nil, err
	}
	out := make([]fileChange, len(list))
	for i, change := range list {
		out[i].Change = change
	}
	return out, nil
}

// diff is [compare.Diff] without files that only one version has in a folder that is
// lost in the other.
func (c *comparison) diff(ctx context.Context, paths []string, renames bool) ([]tree.Change, error) {
	c.env.repo.lost.begin("")
	list, err := compare.Diff(ctx, c.old, c.new, paths, renames)
	return slices.DeleteFunc(list, func(change tree.Change) bool {
		return (change.Old == nil || change.New == nil) && c.env.repo.lost.has(change.Path)
	}), err
}

// filtered returns the changes that --diff-filter, -S and -G select among those of [selected].
func (c *comparison) filtered(ctx context.Context, list pathspecs) ([]fileChange, error) {
	changes, err := c.selected(ctx, list)
	if err != nil {
		return nil, err
	}
	return c.sift(ctx, changes)
}

// selected returns the changes of the paths that pathspecs select.
func (c *comparison) selected(ctx context.Context, list pathspecs) ([]fileChange, error) {
	if list.plain() {
		return c.changes(ctx, list.paths())
	}
	changes, err := c.diff(ctx, list.paths(), false)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, change := range changes {
		if list.selects(change.Path) {
			paths = append(paths, change.Path)
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	return c.changes(ctx, paths)
}

// show prints changes in the forms of the options.
func (c *comparison) show(ctx context.Context, changes []fileChange) error {
	if c.env.global.json {
		return c.showJSON(ctx, changes)
	}
	f := c.form
	all := changes
	changes, err := c.differing(ctx, all)
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

// differing returns the changes without files that differ only in ignored white space.
func (c *comparison) differing(ctx context.Context, changes []fileChange) ([]fileChange, error) {
	o := c.form.text()
	if o.Space == tree.ExactSpace && !o.Blank {
		return changes, nil
	}
	var list []fileChange
	for _, change := range changes {
		same := !change.unmerged && change.letter() == "M" && change.Old.Mode == change.New.Mode && !sameData(change.Old, change.New)
		if same {
			t, isText, err := c.texts(ctx, change)
			if err != nil {
				return nil, fmt.Errorf("compare %s: %w", quoteArg(change.Path), err)
			}
			added, removed := 0, 0
			if isText {
				added, removed = tree.CountLines(t.old, t.new, o)
			}
			same = isText && added+removed == 0
		}
		if !same {
			list = append(list, change)
		}
	}
	return list, nil
}

// showName prints a line of --name-only or --name-status.
func (c *comparison) showName(change fileChange) {
	fields := []string{c.quoted(change.path())}
	if c.form.nameStatus {
		letter := change.letter()
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

// path returns the path. A folder's path ends with a slash.
func (c *fileChange) path() string { return folded(c.Path, ofFolder(c.Change)) }

// source returns the path in the old version.
func (c *fileChange) source() string { return cmp.Or(c.From, c.Path) }

// letter returns git's letter for the change, U for a conflict.
func (c *fileChange) letter() string {
	if c.unmerged {
		return "U"
	}
	return string(c.Letter())
}

// texts are the contents of both sides of a change, for a comparison by lines.
type texts struct{ old, new []byte }

// texts reads both sides of a change. It reports false if one of them is not
// text, or was purged or lost.
func (c *comparison) texts(ctx context.Context, change fileChange) (t texts, ok bool, err error) {
	if sameData(change.Old, change.New) {
		return t, true, nil
	}
	if t.old, ok, err = c.text(ctx, c.old, change.source(), change.Old); err != nil || !ok {
		return texts{}, false, err
	}
	if t.new, ok, err = c.text(ctx, c.new, change.Path, change.New); err != nil || !ok {
		return texts{}, false, err
	}
	return t, true, nil
}

func (c *comparison) text(ctx context.Context, v compare.View, path string, e *object.Entry) ([]byte, bool, error) {
	switch {
	case e == nil:
		return nil, true, nil
	case e.Type == object.TypeSymlink:
		return []byte(e.Target), true, nil
	case e.Type != object.TypeFile:
		return nil, true, nil
	case e.Size > tree.MaxText:
		return nil, false, nil
	}

	data, err := v.ReadContent(ctx, c.repo, path, *e, tree.MaxText+1)
	if errors.Is(err, object.ErrPurged) {
		return nil, false, nil
	}
	if object.PassOver(v.Objects, path, e.Content, err) {
		if c.lost == nil {
			c.lost = map[*object.Entry]bool{}
		}
		c.lost[e] = true
		return nil, false, nil
	}
	return data, err == nil && tree.IsText(data), err
}

// sameData reports whether two entries have the same content.
func sameData(a, b *object.Entry) bool {
	return a != nil && b != nil && a.Type == b.Type && a.Size == b.Size && a.Content == b.Content &&
		string(a.Inline) == string(b.Inline) && a.Target == b.Target
}
