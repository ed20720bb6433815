package work

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/pathspec"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
)

type checkoutOptions struct {
	create, reset string
	detach, force bool
	patch         bool
	sideOptions
}

// sideOptions choose a side of files with conflicts.
type sideOptions struct{ ours, theirs bool }

func (o *sideOptions) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.ours, "ours", false, "for conflicting files, take our side")
	cmd.Flags().BoolVar(&o.theirs, "theirs", false, "for conflicting files, take the side being merged")
}

func (o sideOptions) chosenSide() tree.MergeSide {
	switch {
	case o.ours:
		return tree.Ours
	case o.theirs:
		return tree.Theirs
	}
	return tree.NoSide
}

func NewCheckout(env *cli.Env) *cobra.Command {
	var o checkoutOptions
	cmd := &cobra.Command{
		Use:     "checkout [OPTIONS] [BRANCH|REV] [[--] PATH...]",
		Aliases: []string{"co"},
		Short:   "switch to a branch or commit, or restore files",
		Long: `Switches to a branch, or to any other commit with HEAD detached (on no branch),
and updates the worktree. - is the previous branch or commit. If BRANCH does not
exist, but one remote has it, kist creates it from there.

Staged and local changes are kept if both commits have the same content at their
paths. kist lists them, except with --quiet. If the content differs, kist names
the paths and changes nothing. It never overwrites untracked files, and keeps
folders that contain untracked files. --force discards local changes, and
untracked files that are in the way, also all files of a folder in the place of
a file. Repositories stay. If kist cannot write a path, it names the path and
goes on with the others.

With PATHs, the branch does not change. The files are restored from the index,
or with REV from that commit and staged; their local changes are lost. --ours or
--theirs takes that side of files with conflicts. See also 'kist restore'.

With --patch, the branch does not change either. kist shows each hunk and asks
whether to restore it in the worktree, and with REV also in the index; see
'kist help restore'.

An interrupted checkout can be run again.`,
		Example: `  kist checkout topic              switch to a branch
  kist checkout -b topic           make a branch, and switch to it
  kist checkout HEAD~3             look at an older commit
  kist checkout -                  go back to where you were before
  kist checkout v1 -- film.mov     bring back a file`,
		ValidArgsFunction: cli.CompleteNth(env.CompleteUntilDash(cli.Revisions, cli.TrackedPaths), env.Complete(cli.TrackedPaths)),
	}
	env.Prints(cmd, "", switchedJSON{})
	env.Prints(cmd, "with PATHs", restoredJSON{})
	env.InRepository(cmd, cli.NotBare(func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		return o.run(ctx, env, r, args, cmd.ArgsLenAtDash())
	}), cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	flags := cmd.Flags()
	flags.StringVarP(&o.create, "branch", "b", "", "create the branch `NEW` at REV and switch to it")
	flags.StringVarP(&o.reset, "reset-branch", "B", "", "like -b, but move a branch `NEW` that exists to REV")
	flags.BoolVarP(&o.detach, "detach", "d", false, "switch to the commit, even if REV is a branch")
	flags.BoolVarP(&o.force, "force", "f", false, "discard local changes and untracked files in the way")
	patchFlag(cmd, &o.patch, "choose which changed lines to restore")
	o.sideOptions.register(cmd)
	for _, name := range []string{"branch", "reset-branch", "detach", "ours", "theirs", "force"} {
		cmd.MarkFlagsMutuallyExclusive("patch", name)
	}
	cmd.MarkFlagsMutuallyExclusive("branch", "reset-branch", "detach", "ours", "theirs")
	cli.Propose(env, cmd, "reset-branch", env.Complete(cli.Branches))
	cli.RegisterSetID(env, cmd)
	return cmd
}

// CheckoutJSON is the new HEAD, as checkout and clone print it with --json.
type CheckoutJSON struct {
	Branch *string    `json:"branch" doc:"the branch; null: HEAD is detached"`
	ID     *object.ID `json:"id" doc:"its commit; null: the branch has no commit yet"`
}

// restoredJSON is what checkout and restore print with --json for files.
type restoredJSON struct {
	Restored int `json:"restored" doc:"the number of paths that were restored"`
}

// switchedJSON is what checkout and switch print with --json.
type switchedJSON struct {
	CheckoutJSON
	Carried []carriedJSON `json:"carried,omitempty" doc:"the files with local changes"`
}

func NewCheckoutJSON(head refs.Head) CheckoutJSON {
	return CheckoutJSON{cli.OrNull(head.Branch), cli.OrNull(head.ID)}
}

func (o checkoutOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string, dash int) error {
	creates := o.create+o.reset != ""
	rev, paths, isPaths, err := checkoutArgs(ctx, env, r, args, dash)
	var neither *neitherError
	switch {
	case errors.As(err, &neither) && creates:
		return neither.err
	case errors.As(err, &neither):
		return cli.Hintf(err, "'kist checkout -b %s' makes a branch of this name", args[0])
	case err != nil:
		return err
	case o.patch:
		return chooseHunks(ctx, env, r, hunkMode{rev: rev, index: rev != "", worktree: true}, paths)
	case isPaths && (creates || o.detach):
		return cli.Usagef("-b, -B and --detach do not go together with paths")
	case isPaths && rev != "" && o.chosenSide() != tree.NoSide:
		return cli.Usagef("--ours and --theirs do not go together with a revision")
	case isPaths:
		return restore(ctx, env, r, checkout.RestoreOptions{
			Source: rev, Staged: rev != "", Worktree: true, Overlay: true, Force: o.force, Side: o.chosenSide(),
		}, paths)
	case o.ours || o.theirs:
		return cli.Usagef("--ours and --theirs need the paths of conflicting files")
	case rev == "" && !creates && !o.force && !o.detach:
		return cli.Hintf(cli.Usagef("BRANCH is missing"), "'kist branch' lists them")
	}
	return switchTo(ctx, env, r, o, rev)
}

// switchTo switches to a revision or branch, which it creates if o asks for it or if rev
// names a branch of a remote.
func switchTo(ctx context.Context, env *cli.Env, r *kist.Repository, o checkoutOptions, rev string) error {
	create := o.create + o.reset
	if rev != "" && create == "" && !o.detach {
		if full := newRemoteBranch(ctx, r, rev); full != "" {
			o.create, create, rev = rev, rev, full
		}
	}
	old, err := r.Refs().Head()
	if err != nil {
		return err
	}
	reset := o.reset != ""
	if reset {
		if _, err := r.Refs().Get(refs.Heads + o.reset); err != nil {
			o.create, o.reset = o.reset, "" // for say: the branch is new
		}
	}

	p := env.Progress("checking out")
	head, applyErr := checkout.Switch(ctx, r, checkout.SwitchOptions{
		Rev: rev, Create: create, Reset: reset, Detach: o.detach, Force: o.force, Progress: p.Amounts(),
	})
	p.Stop()
	if errors.Is(applyErr, kist.ErrNameTaken) {
		moves := map[string]string{"checkout": "-B", "switch": "-C"}[env.Cmd.Name()]
		return cli.Hintf(applyErr, "'kist %[2]s %[1]s' switches to it, 'kist %[2]s %[3]s %[1]s' moves it", cli.Printable(create), env.Cmd.Name(), moves)
	}
	if applyErr != nil && !stage.IsPartial(applyErr) {
		return cli.HalfDone(env.Unwritten(r, applyErr))
	}
	carried := o.carriedChanges(ctx, env, r, rev)
	env.JSON(switchedJSON{NewCheckoutJSON(head), carried})
	tellCarried(env, carried)
	o.printNewHead(ctx, env, r, old, head)
	if create == "" && head.Branch != "" {
		tellStanding(ctx, env, r, head.Branch)
	}
	if create != "" {
		if err := followNew(ctx, env, r, create, rev); err != nil {
			return err
		}
	}
	return env.Unwritten(r, applyErr)
}

// checkoutArgs separates a revision from paths, as git does: a single name is a revision if
// there is one, and otherwise a tracked path.
func checkoutArgs(ctx context.Context, env *cli.Env, r *kist.Repository, args []string, dash int) (rev string, paths pathspec.List, isPaths bool, err error) {
	if dash > 1 {
		return "", nil, false, cli.Usagef("one argument too many before --: %s", cli.QuoteArg(args[1]))
	}
	if dash >= 0 && len(args) == dash {
		dash = -1
		if len(args) == 1 {
			return input.Previous(args[0]), nil, false, nil
		}
	}
	if len(args) == 0 {
		return "", nil, false, nil
	}
	if dash == 0 {
		paths, err = input.Pathspecs(env, r, args, false)
		return "", paths, true, err
	}
	rev = input.Previous(args[0])
	_, revErr := r.Resolve(ctx, rev)
	unborn := errors.Is(revErr, refs.ErrNotFound) && (input.IsUnborn(r, rev) || len(args) == 1 && newRemoteBranch(ctx, r, rev) != "")
	if dash == 1 || revErr == nil || unborn {
		if dash < 0 && len(args) > 1 {
			if path, perr := env.RepoPath(r, rev); perr == nil && r.Worktree().Exists(path) {
				return "", nil, false, cli.Hintf(cli.Usagef("%s is a revision and a path", cli.QuoteArg(rev)),
					"write 'kist checkout -- %s ...' for paths, and 'kist checkout %s -- ...' for the revision", rev, rev)
			}
		}
		paths, err = input.Pathspecs(env, r, args[1:], false)
		return rev, paths, len(args) > 1, err
	}
	if !errors.Is(revErr, refs.ErrNotFound) {
		return "", nil, false, revErr
	}
	paths, err = onlyPaths(env, r, args, revErr)
	return "", paths, err == nil, err
}

// onlyPaths returns the paths that args name. revErr is the reason why the first one is no
// revision.
func onlyPaths(env *cli.Env, r *kist.Repository, args []string, revErr error) (pathspec.List, error) {
	paths, err := input.Pathspecs(env, r, args, false)
	var unknown *refs.UnknownRevisionError
	switch {
	case pathspec.IsPattern(args[0]):
		return paths, err
	case err != nil:
		return nil, revErr
	case input.Tracked(r, paths[0].Path):
		return paths, nil
	case errors.As(revErr, &unknown) && unknown.Reason != "":
		return nil, revErr
	}
	return nil, &neitherError{args[0], revErr}
}

// neitherError is the error for an argument that is no revision and no path. err is the
// reason why it is no revision.
type neitherError struct {
	arg string
	err error
}

func (e *neitherError) Error() string {
	return cli.QuoteArg(e.arg) + " is neither a revision nor a tracked path"
}
func (e *neitherError) Unwrap() error { return e.err }

// restore restores the files at paths, and prints their source.
func restore(ctx context.Context, e *cli.Env, r *kist.Repository, o checkout.RestoreOptions, paths pathspec.List) error {
	from := "what is staged"
	switch {
	case o.Side == tree.Ours:
		from = "our side"
	case o.Side == tree.Theirs:
		from = "their side"
	case o.Source != "":
		id, err := r.Resolve(ctx, strings.TrimSuffix(o.Source, "^{tree}"))
		if err != nil {
			return err
		}
		from = id.Short()
	case o.Staged:
		from = "HEAD"
	}
	var err error
	if o.Paths, err = restorable(ctx, e, r, o, paths); err != nil {
		return err
	}

	p := e.Progress("restoring")
	o.Progress = p.Amounts()
	n, err := checkout.Restore(ctx, r, o)
	p.Stop()
	if err != nil && !stage.IsPartial(err) {
		return e.Unwritten(r, err)
	}
	if e.Global.JSON {
		e.JSON(restoredJSON{n})
	} else {
		e.Info("%s updated from %s", readable.Plural(uint64(n), "path", "paths"), from)
	}
	return e.Unwritten(r, err)
}

// restorable returns the paths that match and that a restore with o can write.
func restorable(ctx context.Context, env *cli.Env, r *kist.Repository, o checkout.RestoreOptions, paths pathspec.List) ([]string, error) {
	in := pathspec.Places{Index: !o.Overlay || o.Source == ""}
	switch {
	case paths.IsPlain():
	case o.Side != tree.NoSide:
		in = pathspec.Places{Conflicts: true}
	case o.Source != "":
		source, err := compare.OfCommit(ctx, r, o.Source)
		if err != nil {
			return nil, err
		}
		in.Views = []compare.Side{source}
	case o.Staged:
		head, err := compare.OfHead(ctx, r)
		if err != nil {
			return nil, err
		}
		in.Views = []compare.Side{head}
	}
	return pathspec.Find(ctx, r, paths, in)
}

// printNewHead prints the new HEAD, in git's words.
func (o checkoutOptions) printNewHead(ctx context.Context, env *cli.Env, r *kist.Repository, old, head refs.Head) {
	if old.Branch == "" && old.ID != head.ID && !cli.WarnLeaving(ctx, env, r, old.ID) {
		env.Info("Previous HEAD position was %s", input.Describe(ctx, r, old.ID))
	}

	switch {
	case head.Branch == "" && old.Branch != "" && !o.detach:
		env.Info("HEAD is now at %s\nHEAD is detached: commits made here belong to no branch until\n'kist checkout -b NEW' makes one.", input.Describe(ctx, r, head.ID))
	case head.Branch == "":
		env.Info("HEAD is now at %s", input.Describe(ctx, r, head.ID))
	case o.create != "":
		env.Info("Switched to a new branch '%s'", cli.Printable(head.Branch))
	case o.reset != "":
		env.Info("Switched to and reset branch '%s'", cli.Printable(head.Branch))
	case old.Branch == head.Branch:
		env.Info("Already on '%s'", cli.Printable(head.Branch))
	default:
		env.Info("Switched to branch '%s'", cli.Printable(head.Branch))
	}
}
