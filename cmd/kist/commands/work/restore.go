package work

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/pathspec"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

type restoreOptions struct {
	source                  string
	staged, worktree, force bool
	patch                   bool
	sideOptions
	extractOptions
}

func NewRestore(env *cli.Env) *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{
		Use:   "restore [OPTIONS] PATH|FILE@N|REV:PATH...",
		Short: "restore files",
		Long: `Restores files in the worktree from the index, or with --source from a commit.
Their local changes are lost, and tracked files that the source lacks are
removed. If untracked files are in the way, kist names them and changes nothing,
unless --force is given. FILE@N is version N of a file, by its path or FILEID:
see 'kist help history'. It is restored at the file's newest path.

With --staged, restores the index instead, from HEAD or the source: changes are
unstaged, and the worktree stays. With --staged and --worktree, restores both.

With --patch, kist shows each hunk and asks whether to restore it, see 'kist
help add'. All paths are the default then. If a file changes before the end,
kist names it and changes nothing.

With --to, writes the files below the folder DIR, as they are in HEAD or the
source, with their recorded times. DIR is created if it is absent. Without
PATHs, writes all files. REV:FOLDER, as the only argument, writes the content of
the folder into DIR, and REV:FILE or FILE@N writes the file, without the path
above. Index and worktree stay, and so do the rights of existing folders above
the PATHs.
Files that are the same there stay untouched, so an interrupted restore can be
repeated. If a different file exists, kist names it and changes nothing, unless
--overwrite or --force allows it. --include and --exclude select files with the
patterns of .kistignore; for REV:FOLDER, they count from the folder on.

If kist cannot write a path, it names the path and goes on with the others.`,
		Example: `  kist restore film.mov                        undo what was changed since it was staged
  kist restore --staged .                      unstage what is in the current folder
  kist restore -p notes.txt                    choose the lines to restore
  kist restore notes.txt@-2                    go back to the version before
  kist restore --source HEAD~2 notes           go back two commits with a folder
  kist restore --source v1 --to /tmp/v1        write all of a version elsewhere
  kist restore v1:docs --to /tmp/docs          write the content of a folder
  kist restore --to /srv --overwrite if-changed --delete
                                               make /srv equal to HEAD`,
		ValidArgsFunction: env.Complete(cli.TrackedPaths),
	}
	env.Prints(cmd, "", restoredJSON{})
	env.Prints(cmd, "with --to", ExtractedJSON{})
	env.Prints(cmd, "with --to --dry-run, for each path", pathStatus{})
	env.InRepository(cmd, o.run, cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	flags := cmd.Flags()
	flags.StringVarP(&o.source, "source", "s", "", "take the files from the commit `REV`")
	flags.BoolVarP(&o.staged, "staged", "S", false, "restore the index")
	patchFlag(cmd, &o.patch, "choose which changed lines to restore")
	flags.BoolVarP(&o.worktree, "worktree", "W", false, "restore the worktree (the default without --staged)")
	o.sideOptions.register(cmd)
	flags.BoolVarP(&o.force, "force", "f", false, "overwrite untracked files; with --to, any file")
	o.extractOptions.register(cmd)
	cmd.MarkFlagsMutuallyExclusive("source", "ours", "theirs")
	for _, name := range []string{"ours", "theirs", "force"} {
		cmd.MarkFlagsMutuallyExclusive("patch", name)
	}
	for _, name := range []string{"staged", "worktree", "ours", "theirs", "patch"} {
		cmd.MarkFlagsMutuallyExclusive("to", name)
	}
	cmd.MarkFlagsMutuallyExclusive("staged", "ours")
	cmd.MarkFlagsMutuallyExclusive("staged", "theirs")
	cli.RegisterSetID(env, cmd)
	return cmd
}

// run restores files in the repository, or with --to below another folder.
func (o *restoreOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if o.patch {
		specs, err := input.Pathspecs(env, r, args, false)
		if err != nil {
			return err
		}
		return chooseHunks(ctx, env, r, hunkMode{rev: o.source, index: o.staged, worktree: o.worktree || !o.staged}, specs)
	}
	if len(args) == 0 && o.to == "" {
		return cli.Hintf(cli.Usagef("PATH is missing"), "'kist restore .' is for all of the current folder")
	}
	if o.to == "" && o.source == "" && o.chosenSide() == tree.NoSide {
		rest, err := o.restoreVersions(ctx, env, r, args)
		if err != nil || len(rest) == 0 {
			return err
		}
		args = rest
	}
	if o.to != "" {
		return o.extractPaths(ctx, env, r, args)
	}
	specs, err := input.Pathspecs(env, r, args, false)
	if err != nil {
		return err
	}
	if name := o.extractOptions.usedOption(); name != "" {
		return cli.Usagef("--%s is only for --to", name)
	}
	if r.IsBare() && (o.worktree || !o.staged) {
		return kist.ErrBare
	}
	err = restore(ctx, env, r, checkout.RestoreOptions{
		Source: o.source, Staged: o.staged, Worktree: o.worktree || !o.staged, Force: o.force, Side: o.chosenSide(),
	}, specs)
	return o.hintSource(ctx, r, args, err)
}

// hintSource returns err. If the last path is a revision or REV:PATH, a hint has the option for it.
func (o *restoreOptions) hintSource(ctx context.Context, r *kist.Repository, args []string, err error) error {
	last := args[len(args)-1]
	if rev, path, has := refs.SplitPath(last); has && errors.Is(err, kist.ErrNoMatch) && o.source == "" && input.Resolvable(ctx, r, rev) == nil {
		return cli.Hintf(err, "'kist restore --source %s %s' restores it in its place; REV:PATH is for --to", cli.Printable(rev), cli.Printable(path))
	}
	if errors.Is(err, kist.ErrNoMatch) && o.source == "" && len(args) > 1 && input.Resolvable(ctx, r, last) == nil {
		return cli.Hintf(err, "'kist restore --source %s PATH' takes the files of a commit", cli.Printable(last))
	}
	return err
}

// restoreVersions restores the files that arguments of the form FILE@N name, each at its
// newest path, and returns the other arguments.
func (o *restoreOptions) restoreVersions(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) (rest []string, err error) {
	for _, arg := range args {
		if pathspec.IsPattern(arg) {
			rest = append(rest, arg)
			continue
		}
		f, v, ok, err := input.VersionOf(ctx, env, r, arg)
		if err != nil {
			return nil, err
		}
		if !ok {
			rest = append(rest, arg)
			continue
		}
		if v.Type != object.TypeDir && r.Worktree().IsDir(f.Path) {
			return nil, cli.Hintf(cli.Failf(cli.ExitFailed, "is-directory", "%s was a file, and is a folder now", cli.QuoteArg(f.Path)), "'kist cat %s' prints the file", cli.Printable(arg))
		}
		err = restore(ctx, env, r, checkout.RestoreOptions{
			Source: v.Commit.String(), At: v.Path, Staged: o.staged, Worktree: o.worktree || !o.staged, Force: o.force,
		}, pathspec.List{{Arg: arg, Path: f.Path}})
		if err != nil {
			return nil, err
		}
	}
	return rest, nil
}

type resetOptions struct {
	soft, mixed, hard, patch bool
}

func NewReset(env *cli.Env) *cobra.Command {
	var o resetOptions
	cmd := &cobra.Command{
		Use:   "reset [--soft|--mixed|--hard] [REV] [[--] PATH...]",
		Short: "move the current branch, or unstage files",
		Long: `Moves the current branch to REV, by default HEAD, and resets to that commit:

  --soft    nothing else
  --mixed   the index; this is the default
  --hard    the index and all tracked files: local changes are lost,
            and untracked files that are in the way, too, also all files
            of a folder in the place of a tracked file

--mixed and --hard also end a merge or revert in progress. The old commit of the
branch is ORIG_HEAD, and in the reflog.

With PATHs, the branch stays, and only these paths are reset in the index. Files
in the worktree stay.

With --patch, kist shows each hunk and asks whether to reset it in the index;
see 'kist help add'.

Afterwards kist lists the files that differ from the index, a letter and a path
on each line, unless --quiet is given.`,
		Example: `  kist reset                    unstage everything
  kist reset film.mov           unstage a file
  kist reset -p                 choose the lines to unstage
  kist reset --soft HEAD~1      take back a commit, and keep what it staged
  kist reset --hard ORIG_HEAD   undo the last merge or reset`,
		ValidArgsFunction: cli.CompleteNth(env.CompleteUntilDash(cli.Revisions, cli.TrackedPaths), env.Complete(cli.TrackedPaths)),
	}
	env.Prints(cmd, "", resetJSON{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		return o.run(ctx, env, r, args, cmd.ArgsLenAtDash())
	}, cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	flags := cmd.Flags()
	flags.BoolVar(&o.soft, "soft", false, "move only the branch")
	flags.BoolVar(&o.mixed, "mixed", false, "reset the index, too (the default)")
	flags.BoolVar(&o.hard, "hard", false, "reset the index and all tracked files, too")
	patchFlag(cmd, &o.patch, "choose which changed lines to reset in the index")
	cmd.MarkFlagsMutuallyExclusive("soft", "mixed", "hard", "patch")
	return cmd
}

// resetJSON is what reset prints with --json.
type resetJSON struct {
	ID      *object.ID   `json:"id" doc:"the commit; null: the branch has none yet"`
	Changes []pathStatus `json:"changes,omitempty" doc:"the changed paths"`
}

func (o resetOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string, dash int) error {
	rev, paths, err := resetArgs(ctx, env, r, args, dash)
	if err != nil {
		return err
	}
	if o.hard && r.IsBare() {
		return kist.ErrBare
	}
	if o.patch {
		return chooseHunks(ctx, env, r, hunkMode{rev: rev, index: true}, paths)
	}
	if paths != nil {
		return o.resetPaths(ctx, env, r, rev, paths)
	}
	mode := checkout.ResetMixed
	switch {
	case o.soft:
		mode = checkout.ResetSoft
	case o.hard:
		mode = checkout.ResetHard
	}

	p := env.Progress("resetting")
	id, applyErr := checkout.Reset(ctx, r, rev, mode, p.Amounts())
	p.Stop()
	if applyErr != nil && !stage.IsPartial(applyErr) {
		return env.Unwritten(r, applyErr)
	}
	if err := printReset(ctx, env, r, id, mode); err != nil {
		return err
	}
	return env.Unwritten(r, applyErr)
}

func printReset(ctx context.Context, env *cli.Env, r *kist.Repository, id object.ID, mode checkout.ResetMode) error {
	if mode == checkout.ResetMixed {
		return unstagedChanges(ctx, env, r, id, nil)
	}
	env.JSON(resetJSON{ID: cli.OrNull(id)})
	if mode == checkout.ResetHard && !id.IsZero() {
		env.PrintOutcome("HEAD is now at %s\n", input.Describe(ctx, r, id))
	}
	return nil
}

// unstagedChanges lists the differences between worktree and index after a reset of the
// index to a commit.
func unstagedChanges(ctx context.Context, env *cli.Env, r *kist.Repository, id object.ID, paths []string) error {
	if env.Global.Quiet && !env.Global.JSON {
		return nil
	}
	s, err := stage.ReadStatus(ctx, r, stage.StatusOptions{Paths: paths, NoUntracked: true})
	if errors.Is(err, worktree.ErrNoRoots) {
		s, err = &stage.Status{}, nil // a repository of streams
	}
	if err != nil {
		return err
	}
	var changes []pathStatus
	for _, f := range listedChanges(s.Changed) {
		changes = append(changes, pathStatus{jsonform.NewPath(cli.Folded(f.Path, f.Dir)), string(foundLetter(f))})
	}
	if env.Global.JSON {
		env.JSON(resetJSON{cli.OrNull(id), changes})
		return nil
	}
	if len(changes) > 0 {
		env.Printf("Unstaged changes after reset:\n")
	}

	for _, c := range changes {
		env.Printf("%s\t%s\n", c.Status, env.Shown(r, c.Path))
	}
	return nil
}

// resetArgs separates a revision from paths. The result paths is nil without paths.
func resetArgs(ctx context.Context, env *cli.Env, r *kist.Repository, args []string, dash int) (rev string, paths pathspec.List, err error) {
	if dash > 1 {
		return "", nil, cli.Usagef("one argument too many before --: %s", cli.QuoteArg(args[1]))
	}
	rev = "HEAD"
	hasRev := dash == 1
	if dash < 0 && len(args) > 0 {
		_, err := r.Resolve(ctx, args[0])
		if err != nil && !errors.Is(err, refs.ErrNotFound) {
			return "", nil, err
		}
		hasRev = err == nil || input.IsUnborn(r, args[0])
		path, perr := env.RepoPath(r, args[0])
		known := pathspec.IsPattern(args[0]) || perr == nil && (r.Worktree().Exists(path) || input.Tracked(r, path))
		switch {
		case hasRev && known:
			return "", nil, cli.Hintf(cli.Usagef("%s is a revision and a path", cli.QuoteArg(args[0])),
				"write 'kist reset -- %s' for the path, and 'kist reset %s --' for the revision", args[0], args[0])
		case !hasRev && !known:
			return "", nil, cli.Hintf(err, "write '--' before a path that does not exist now")
		}
	}
	if hasRev {
		rev, args = args[0], args[1:]
	}
	if len(args) == 0 {
		return rev, nil, nil
	}
	paths, err = input.Pathspecs(env, r, args, false)
	return rev, paths, err
}

// resetPaths sets paths in the index to their state in rev.
func (o *resetOptions) resetPaths(ctx context.Context, env *cli.Env, r *kist.Repository, rev string, paths pathspec.List) error {
	if o.soft || o.hard {
		return cli.Hintf(cli.Usagef("--soft and --hard are not for paths"), "'kist restore --source REV --staged --worktree PATH...' brings back files")
	}
	ro := checkout.RestoreOptions{Staged: true}
	var id object.ID
	if !input.IsUnborn(r, rev) {
		var err error
		if id, err = r.Resolve(ctx, rev); err != nil {
			return err
		}
		ro.Source = rev
	}
	var err error
	if ro.Paths, err = restorable(ctx, env, r, ro, paths); err != nil {
		return err
	}
	if _, err := checkout.Restore(ctx, r, ro); err != nil {
		return err
	}
	return unstagedChanges(ctx, env, r, id, ro.Paths)
}
