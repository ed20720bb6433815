package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/work/bisect"
	"github.com/kist-vcs/kist/tree/work/commits"
)

type branchOptions struct {
	list, all, remotes, current bool
	force, delete, forceDelete  bool
	move, forceMove, unset      bool
	copy                        bool
	verbosity                   int
	upstream                    string
	commitFilter
	refOrder
}

func NewBranch(env *cli.Env) *cobra.Command {
	var o branchOptions
	cmd := &cobra.Command{
		Use:   "branch [OPTIONS] [NEW [REV]]",
		Short: "list, create, rename and delete branches",
		Long: `Without arguments, lists the branches and marks the current one with *. With -v,
also shows the commit of each branch and its subject. With --list, the arguments
are patterns: * stands for any characters, ? for one character, [a-z] for one
character of this range.

With NEW, creates a branch at REV, by default at HEAD. The current branch stays
the same.

-d deletes branches. It refuses if the current branch lacks commits of the
branch; -D deletes it nevertheless. -m renames a branch; without OLD, the
current one. -c copies a branch in the same way, with its log and upstream.

A branch can follow a branch of a remote, its upstream. 'kist push' and 'kist
pull' use the upstream by default, and 'kist status' compares the branch with
it. A branch gets its upstream when it is created from a branch of a remote,
when it is pushed for the first time, or with -u. It can also follow a local
branch: then 'kist pull' merges that one, and 'kist push' does not use it. -v
shows how many commits only one of the two has; -vv also names the upstream.`,
		Example: `  kist branch                     list the branches
  kist branch topic HEAD~2        make a branch
  kist branch -d topic            delete it, if it has been merged
  kist branch -m trunk            give the current branch another name
  kist branch -vv                 each branch with its commit and upstream
  kist branch --sort=-committerdate     the latest first
  kist branch --contains v1       which branches have it?
  kist branch -u origin/main      have the current branch follow it
  kist branch -u main topic       compare topic with the local branch main`,
		ValidArgsFunction: env.Complete(cli.Branches),
	}
	env.Prints(cmd, "for each branch", branchJSON{})
	env.Prints(cmd, "with --show-current", CheckoutJSON{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		return runBranch(cmd, env, r, o, args)
	}, cli.ExitMoved, cli.ExitBusy)
	flags := cmd.Flags()
	flags.BoolVarP(&o.list, "list", "l", false, "list the branches that fit a pattern")
	flags.BoolVarP(&o.all, "all", "a", false, "list the branches of remotes, too")
	flags.BoolVarP(&o.remotes, "remotes", "r", false, "list, or with -d delete, branches of remotes")
	flags.BoolVar(&o.current, "show-current", false, "print the name of the current branch; nothing if HEAD is detached")
	o.commitFilter.register(cmd)
	o.refOrder.register(env, cmd)
	flags.CountVarP(&o.verbosity, "verbose", "v", "show commits; -vv also shows upstreams")
	flags.BoolVarP(&o.force, "force", "f", false, "move the branch to REV if it exists; with -d and -m as -D and -M; with -c, replace NEW")
	flags.BoolVarP(&o.delete, "delete", "d", false, "delete branches that are merged into the current one")
	flags.BoolVarP(&o.forceDelete, "force-delete", "D", false, "delete branches, merged or not")
	flags.BoolVarP(&o.move, "move", "m", false, "rename a branch: -m [OLD] NEW")
	flags.BoolVarP(&o.forceMove, "force-move", "M", false, "like -m, in place of a branch NEW that exists")
	flags.BoolVarP(&o.copy, "copy", "c", false, "copy a branch: -c [OLD] NEW")
	flags.StringVarP(&o.upstream, "set-upstream-to", "u", "", "make a branch, by default the current one, follow `UPSTREAM`")
	flags.BoolVar(&o.unset, "unset-upstream", false, "no longer follow an upstream")
	cmd.MarkFlagsMutuallyExclusive("list", "show-current", "delete", "force-delete", "move", "force-move", "copy", "set-upstream-to", "unset-upstream")
	return cmd
}

// checkOptions returns an error for options that exclude each other.
func (o *branchOptions) checkOptions(cmd *cobra.Command) error {
	changes := o.delete || o.forceDelete || o.move || o.forceMove || o.copy || o.upstream != "" || o.unset
	if changes && (o.isFiltered(cmd) || len(o.sort) > 0) {
		return cli.Usagef("options that select or sort the listed branches do not go together with a change of branches")
	}
	return nil
}

func runBranch(cmd *cobra.Command, env *cli.Env, r *kist.Repository, o branchOptions, args []string) error {
	ctx := cmd.Context()
	if err := o.checkOptions(cmd); err != nil {
		return err
	}
	switch {
	case o.current:
		return showCurrentBranch(env, r, args)
	case o.delete || o.forceDelete:
		return each(env, args, "BRANCH", func(arg string) error { return deleteBranch(ctx, env, r, o, arg) })
	case o.upstream != "" || o.unset:
		return setUpstream(ctx, env, r, o.upstream, args)
	case o.move || o.forceMove || o.copy:
		return renameBranch(ctx, r, o, args)
	case o.list || o.all || o.remotes || o.isFiltered(cmd) || len(o.sort) > 0 || len(args) == 0:
		return listBranches(env, cmd, r, o, args)
	case len(args) > 2:
		return cli.Usagef("one argument too many: %s", cli.QuoteArg(args[2]))
	}
	rev := "HEAD"
	if len(args) == 2 {
		rev = input.Previous(args[1])
	}
	id, err := commits.CreateBranch(ctx, r, args[0], rev, o.force)
	if errors.Is(err, kist.ErrNameTaken) {
		return cli.Hintf(err, "-f moves it")
	}
	if err != nil {
		return err
	}
	env.JSON(newBranchJSON(refs.Ref{Name: refs.Heads + args[0], ID: id}, ""))
	return followNew(ctx, env, r, args[0], rev)
}

func showCurrentBranch(env *cli.Env, r *kist.Repository, args []string) error {
	if len(args) > 0 {
		return cli.Usagef("--show-current takes no arguments")
	}
	head, err := r.Refs().Head()
	if err != nil {
		return err
	}
	if env.Global.JSON {
		env.JSON(NewCheckoutJSON(head))
		return nil
	}
	if head.Branch != "" {
		env.Printf("%s\n", cli.Printable(head.Branch))
	}
	return nil
}

// branchArg returns the branch that an argument names. Forms such as "-" and "@{-1}" are
// possible.
func branchArg(ctx context.Context, r *kist.Repository, arg string) (string, error) {
	arg = input.Previous(arg)
	if _, err := r.Refs().Get(refs.Heads + arg); err == nil {
		return arg, nil
	}
	if full, err := r.Refs().Expand(ctx, arg); err == nil {
		if branch, ok := refs.BranchOf(full); ok {
			return branch, nil
		}
	}
	return "", cli.HintSimilar(cli.Failf(cli.ExitFailed, "unknown-ref", "branch %s not found", cli.QuoteArg(arg)), arg, cli.RefNames(r, refs.Heads))
}

// each calls do with each of args. It reports all errors except the last one, and returns
// that. Without args, the error names the missing argument.
func each(e *cli.Env, args []string, missing string, do func(arg string) error) error {
	if len(args) == 0 {
		return cli.Usagef("%s is missing", missing)
	}
	var failed error
	for _, arg := range args {
		if err := do(arg); err != nil {
			if failed != nil {
				e.Report(failed)
			}
			failed = err
		}
	}
	return failed
}

func deleteBranch(ctx context.Context, env *cli.Env, r *kist.Repository, o branchOptions, arg string) error {
	full, what := refs.Remotes+arg, "remote-tracking branch"
	if !o.remotes {
		name, err := branchArg(ctx, r, arg)
		if err != nil {
			return err
		}
		full, what, arg = refs.Heads+name, "branch", name
	} else if _, err := r.Refs().Get(full); errors.Is(err, refs.ErrNotFound) {
		return cli.HintSimilar(cli.Failf(cli.ExitFailed, "unknown-ref", "remote-tracking branch %s not found", cli.QuoteArg(arg)), arg, cli.RefNames(r, refs.Remotes))
	}
	var id object.ID
	err := gc.WithReserve(ctx, r, func() (err error) {
		id, err = commits.DeleteBranch(ctx, r, full, o.forceDelete || o.force)
		return err
	})
	switch {
	case errors.Is(err, commits.ErrNotMerged):
		return cli.Hintf(err, "'kist branch -D %s' deletes it anyway", arg)
	case err != nil && object.IsLost(r.Objects(), object.Key{Kind: object.KindCommit, ID: id}):
		return cli.Hintf(cli.Failf(cli.ExitDamaged, "lost", "the commit of branch %s, %s, is lost, so nothing shows whether it is merged", cli.QuoteArg(arg), id.Short()),
			"'kist branch -D %s' deletes it anyway", arg)
	case err != nil:
		return err
	}
	env.PrintOrJSON(newBranchJSON(refs.Ref{Name: full, ID: id}, ""), "Deleted %s %s (was %s).\n", what, cli.Printable(arg), id.Short())
	return nil
}

// renameBranch renames or copies a branch.
func renameBranch(ctx context.Context, r *kist.Repository, o branchOptions, args []string) error {
	from := ""
	switch len(args) {
	case 1:
	case 2:
		var err error
		head, herr := r.Refs().Head()
		if herr == nil && head.Branch == args[0] {
			from = args[0] // it may be unborn
		} else if from, err = branchArg(ctx, r, args[0]); err != nil {
			return err
		}
		args = args[1:]
	default:
		return cli.Usagef("-m and -c take one or two names: [OLD] NEW")
	}
	if o.copy {
		return commits.CopyBranch(ctx, r, from, args[0], o.force)
	}
	return commits.RenameBranch(ctx, r, from, args[0], o.forceMove || o.force)
}

// branchJSON is a branch as branch prints it with --json.
type branchJSON struct {
	Name    string    `json:"name" doc:"the branch"`
	Ref     string    `json:"ref" doc:"its full name"`
	ID      object.ID `json:"id" doc:"its commit"`
	Current bool      `json:"current,omitempty" doc:"true for the branch of HEAD"`
	Target  string    `json:"target,omitempty" doc:"the ref that the HEAD of a remote stands for"`
	trackingJSON
}

func newBranchJSON(ref refs.Ref, current string) branchJSON {
	return branchJSON{Name: cli.ShortRef(ref.Name), Ref: ref.Name, ID: ref.ID, Current: current != "" && ref.Name == refs.Heads+current, Target: ref.Target}
}

// listBranches lists branches as git does.
func listBranches(env *cli.Env, cmd *cobra.Command, r *kist.Repository, o branchOptions, args []string) error {
	ctx := cmd.Context()
	keep, args, err := o.newTest(cmd, r, args)
	if err != nil {
		return err
	}
	if len(args) > 0 && !o.list && (o.all || o.remotes) {
		return cli.Hintf(cli.Usagef("%s is not expected", cli.QuoteArg(args[0])), "--list is for patterns")
	}
	list, err := o.matching(ctx, r, args, keep)
	if err == nil {
		err = log.SortRefs(ctx, r, list, o.sort)
	}
	if err != nil {
		return err
	}
	head, err := r.Refs().Head()
	if err != nil {
		return err
	}
	if env.Global.JSON {
		for _, ref := range list {
			out := newBranchJSON(ref, head.Branch)
			out.trackingJSON = newTrackingJSON(tracking(ctx, env, r, ref.Name))
			env.JSON(out)
		}
		return nil
	}
	if ok, err := keep(ctx, head.ID); err == nil && ok && head.Branch == "" && len(args) == 0 && (!o.remotes || o.all) {
		list = slices.Insert(list, 0, refs.Ref{ID: head.ID})
	}
	o.printBranches(ctx, env, r, list, head.Branch)
	return nil
}

// matching returns the branches to list: of the kinds that o selects, with names that
// match one of the patterns, and with commits for which keep returns true.
func (o branchOptions) matching(ctx context.Context, r *kist.Repository, patterns []string, keep commitTest) (list []refs.Ref, err error) {
	if !o.remotes || o.all {
		if list, err = listRefs(ctx, r, refs.Heads, patterns, keep); err != nil {
			return nil, err
		}
	}
	if !o.remotes && !o.all {
		return list, nil
	}
	more, err := listRefs(ctx, r, refs.Remotes, patterns, keep)
	return append(list, more...), err
}

// listRefs returns the refs below prefix with a name that matches one of the patterns, and
// with a commit for which keep returns true.
func listRefs(ctx context.Context, r *kist.Repository, prefix string, patterns []string, keep commitTest) (list []refs.Ref, err error) {
	found, err := r.Refs().List(prefix)
	if err != nil {
		return nil, err
	}

	for _, ref := range found {
		if !input.MatchesAny(patterns, ref.Name[len(prefix):]) {
			continue
		}
		ok, err := keep(ctx, ref.ID)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, ref)
		}
	}
	return list, nil
}

// commitTest reports whether the ref at a commit is listed.
type commitTest func(context.Context, object.ID) (bool, error)

// tracking compares a ref with its upstream. It returns nil if the ref has none, or if
// the two cannot be compared.
func tracking(ctx context.Context, e *cli.Env, r *kist.Repository, ref string) *kist.UpstreamComparison {
	branch, ok := refs.BranchOf(ref)
	if !ok {
		return nil
	}
	t, err := kist.CompareUpstream(ctx, r, branch)
	if err != nil {
		return nil
	}
	return &t
}

// printBranches prints a line for each branch. A ref without a name is the detached HEAD.
func (o branchOptions) printBranches(ctx context.Context, env *cli.Env, r *kist.Repository, list []refs.Ref, current string) {
	type row struct {
		name, mark string
		color      cli.Style
		ref        refs.Ref
	}
	var rows []row
	width := 0
	for _, ref := range list {
		at := row{cli.Printable(cli.ShortRef(ref.Name)), "  ", "", ref}
		switch branch, local := refs.BranchOf(ref.Name); {
		case ref.Name == "":
			at.name, at.mark, at.color = fmt.Sprintf("(HEAD detached at %s)", detachedAt(r, ref.ID)), "* ", cli.Green
			if b, err := bisect.Current(r); err == nil {
				at.name = fmt.Sprintf("(no branch, bisect started on %s)", cli.Printable(b.Start))
			}
		case local && branch == current:
			at.mark, at.color = "* ", cli.Green
		case !local:
			at.color = cli.Red
			if o.all {
				at.name = "remotes/" + at.name
			}
		}
		rows = append(rows, at)
	}

	for _, at := range rows {
		width = max(width, len([]rune(at.name)))
	}

	for _, at := range rows {
		name := env.Paint(at.color, at.name)
		switch pad := fmt.Sprintf("%*s", width-len([]rune(at.name)), ""); {
		case at.ref.Target != "":
			if o.verbosity == 0 {
				pad = ""
			}
			env.Printf("%s%s%s -> %s\n", at.mark, name, pad, cli.Printable(cli.ShortRef(at.ref.Target)))
		case o.verbosity > 0:
			id, subject, _ := strings.Cut(input.Describe(ctx, r, at.ref.ID), " ")
			if t := tracking(ctx, env, r, at.ref.Name); t != nil {
				if upstream, how := standing(*t); o.verbosity > 1 {
					subject = "[" + env.Paint(cli.Blue, cli.Printable(upstream)) + how + "] " + subject
				} else if how != "" {
					subject = "[" + strings.TrimPrefix(how, ": ") + "] " + subject
				}
			}
			env.Printf("%s%s%s %s %s\n", at.mark, name, pad, id, subject)
		default:
			env.Printf("%s%s\n", at.mark, name)
		}
	}
}

// commitFilter are the options that choose branches or tags by their commits.
type commitFilter struct {
	contains, noContains, merged, noMerged, pointsAt string
}

// commitFilters describes the options of a commitFilter. The revision of an option may be
// the next argument. Without an argument it is HEAD.
var commitFilters = []struct {
	name, usage string
	value       func(*commitFilter) *string
}{
	{"contains", "only if they have the commit `REV`, by default HEAD", func(f *commitFilter) *string { return &f.contains }},
	{"no-contains", "only if they lack `REV`", func(f *commitFilter) *string { return &f.noContains }},
	{"merged", "only if `REV` has them, by default HEAD", func(f *commitFilter) *string { return &f.merged }},
	{"no-merged", "only if `REV` lacks them", func(f *commitFilter) *string { return &f.noMerged }},
	{"points-at", "only if they are at the commit `REV`, by default HEAD", func(f *commitFilter) *string { return &f.pointsAt }},
}

// refOrder is the option for the order of a list of branches or tags.
type refOrder struct{ sort []string }

func (o *refOrder) register(env *cli.Env, cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&o.sort, "sort", nil, "sort by `KEY`, or with '-' before it backwards: refname, version:refname, creatordate, taggerdate, committerdate; the last --sort comes first")
	cli.Propose(env, cmd, "sort", cli.OneOf(log.SortKeys...))
}

// noRev is the value of an option that was given without a revision.
const noRev = "\x00"

func (f *commitFilter) register(cmd *cobra.Command) {
	for _, option := range commitFilters {
		cmd.Flags().StringVar(option.value(f), option.name, "", option.usage)
		cmd.Flags().Lookup(option.name).NoOptDefVal = noRev
	}
}

// isFiltered reports whether any of the options is given.
func (f *commitFilter) isFiltered(cmd *cobra.Command) bool {
	for _, option := range commitFilters {
		if cmd.Flags().Changed(option.name) {
			return true
		}
	}
	return false
}

// newTest returns the test that the options describe, and the arguments that are not
// revisions of an option.
func (f commitFilter) newTest(cmd *cobra.Command, r *kist.Repository, args []string) (commitTest, []string, error) {
	ctx := cmd.Context()
	type test struct {
		id       object.ID
		contains bool // the ref has to reach id; otherwise id has to reach the ref
		not      bool
		exact    bool // the ref, or its commit, has to be id
	}
	var tests []test
	for _, option := range commitFilters {
		if !cmd.Flags().Changed(option.name) {
			continue
		}
		rev := *option.value(&f)
		if rev == noRev {
			rev = "HEAD"
			if len(args) > 0 {
				rev, args = args[0], args[1:]
			}
		}
		exact := option.name == "points-at"
		id, err := r.Resolve(ctx, rev)
		if err == nil && exact {
			var key object.Key
			key, err = refs.ResolveObject(ctx, r.Refs(), r.Objects(), rev)
			id = key.ID
		}
		if err != nil {
			return nil, nil, err
		}
		tests = append(tests, test{id, strings.HasSuffix(option.name, "contains"), strings.HasPrefix(option.name, "no-"), exact})
	}
	return func(ctx context.Context, id object.ID) (bool, error) {
		if len(tests) == 0 {
			return true, nil
		}
		commit, err := refs.Peel(ctx, r.Objects(), id)
		if err != nil {
			return false, err
		}
		for _, t := range tests {
			if t.exact {
				if t.id != id && t.id != commit {
					return false, nil
				}
				continue
			}
			old, new := commit, t.id
			if t.contains {
				old, new = t.id, commit
			}
			has, err := history.IsAncestor(ctx, r.Objects(), old, new)
			if err != nil || has == t.not {
				return false, err
			}
		}
		return true, nil
	}, args, nil
}

// detachedAt returns the first tag that names a commit, or else the commit's short ID.
func detachedAt(r *kist.Repository, commit object.ID) string {
	list, err := r.Refs().List(refs.Tags)
	if err != nil {
		return commit.Short()
	}
	for _, ref := range list {
		if target, err := refs.Peel(context.Background(), r.Objects(), ref.ID); err == nil && target == commit {
			return cli.Printable(cli.ShortRef(ref.Name))
		}
	}
	return commit.Short()
}
