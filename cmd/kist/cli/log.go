package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/log"
)

type logOptions struct {
	form       changeForm
	oneline    bool
	abbrev     bool
	graph      bool
	topo       bool
	decorate   string
	noDecorate bool

	number, skip     int
	since, until     string
	author, grep     []string
	ignoreCase       bool
	merges, noMerges bool
	firstParent      bool
	follow           bool
	reverse          bool
	all              bool
	branches, tags   bool
	remotes          bool
}

func newLog(env *Env) *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use:   "log [OPTIONS] [REV | A..B]... [-- PATH...]",
		Short: "show the history of commits",
		Long: `Shows the commits that the REVs (by default HEAD) reach, newest first. A..B
means the commits that B reaches and A does not. A...B means the commits that
only one of the two reaches. ^REV excludes the commits that REV reaches. A REV
is a branch, a tag, the first digits of an ID, HEAD, HEAD~2, HEAD^2, main@{1},
main@{yesterday}, or @{-1}.

With PATHs, shows only the commits that changed them. At a merge, log follows
only the parent that the files came from. --follow follows a file through
renames.

--stat, -p and similar options show the changes of each commit compared to its
parent. For a merge they show nothing, or with --first-parent, the changes that
it brought in.

A commit that lacks some paths, since they could not be stored, has a line
'Partial:'. A commit with expired content is marked, and has a line 'Expired:'.
Its changes are unknown: with PATHs it is skipped, and the next commit is
compared with the last commit before it that has content; a line 'Changes:'
names that commit. A held commit is marked, and has a line 'Held:'.

Times are written as in 2026-01-31, '2026-01-31 15:04', yesterday, 2.weeks.ago.
RE is a regular expression (https://golang.org/s/re2syntax).

With --json, one commit on each line: id, tree, parents, author and committer
{name, email, time}, time, message, host, files, bytes; skipped {path, reason}
and skipped_count if it is partial; expired {time, who, host, policy} if its
content has expired; held {time, who, host, until, reason} if it is held; with
--follow path; and with --stat and similar options changes, as in 'kist diff
--json', and changes_since, the commit that they were compared to, if it is not
the first parent.`,
		Example: `  kist log --oneline --graph --all    the whole history, as a picture
  kist log -3 --stat                  the last three commits, and what they changed
  kist log v1..v2 -- src              what happened to src between v1 and v2
  kist log --follow -p notes.txt      the life of a file
  kist log --since yesterday          what happened today and yesterday`,
		ValidArgsFunction: env.completeUntilDash(revisions, trackedPaths),
	}
	env.inRepository(cmd, func(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
		return runLog(cmd, env, r, &o, args)
	})
	passesOverLost(cmd, env)
	flags := cmd.Flags()
	flags.BoolVar(&o.oneline, "oneline", false, "one line a commit: ID and subject")
	registerCount(cmd, &o.number, "commits")
	flags.IntVar(&o.skip, "skip", 0, "leave out the first `N` commits")
	flags.BoolVar(&o.graph, "graph", false, "draw the lines of history")
	flags.BoolVar(&o.topo, "topo-order", false, "show no commit before its children, and do not mix lines of history")
	flags.BoolVar(&o.reverse, "reverse", false, "the oldest first")
	flags.Var(newChoice(&o.decorate, "auto", "short", "full", "no"), "decorate", "show the names of branches and tags")
	flags.Lookup("decorate").NoOptDefVal = "short"
	flags.BoolVar(&o.noDecorate, "no-decorate", false, "show no names of branches and tags")
	flags.BoolVar(&o.abbrev, "abbrev-commit", false, "show short IDs")
	flags.StringVar(&o.since, "since", "", "only commits after `TIME`")
	flags.StringVar(&o.since, "after", "", "the same as --since `TIME`")
	flags.StringVar(&o.until, "until", "", "only commits before `TIME`")
	flags.StringVar(&o.until, "before", "", "the same as --until `TIME`")
	flags.StringArrayVar(&o.author, "author", nil, "only commits whose author, as in 'Anna <anna@chest.example>', matches `RE`")
	flags.StringArrayVar(&o.grep, "grep", nil, "only commits with a line in their message that matches `RE`")
	flags.BoolVarP(&o.ignoreCase, "regexp-ignore-case", "i", false, "ignore case in --author and --grep")
	flags.BoolVar(&o.merges, "merges", false, "only merges")
	flags.BoolVar(&o.noMerges, "no-merges", false, "no merges")
	flags.BoolVar(&o.firstParent, "first-parent", false, "follow only the first parent of merges")
	flags.BoolVar(&o.follow, "follow", false, "follow the one PATH through renames")
	flags.BoolVar(&o.all, "all", false, "begin at HEAD and all branches and tags")
	flags.BoolVar(&o.branches, "branches", false, "begin at all branches")
	flags.BoolVar(&o.tags, "tags", false, "begin at all tags")
	flags.BoolVar(&o.remotes, "remotes", false, "begin at all branches of remotes")
	o.form.register(cmd)
	must(cmd.RegisterFlagCompletionFunc("decorate", cobra.FixedCompletions([]string{"short", "full", "auto", "no"}, cobra.ShellCompDirectiveNoFileComp)))
	for _, name := range []string{"skip", "since", "after", "until", "before", "author", "grep", "unified"} {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
	return cmd
}

func runLog(cmd *cobra.Command, env *Env, r *kist.Repository, o *logOptions, args []string) error {
	ctx := cmd.Context()
	if err := o.form.settle(cmd, func(*changeForm) {}); err != nil {
		return err
	}
	if o.reverse && o.graph {
		return usagef("--reverse and --graph cannot be combined")
	}
	opt, paths, err := o.log(cmd, env, r, args)
	if err != nil {
		return err
	}
	if err := env.inHistory(ctx, r, opt, paths); err != nil {
		return err
	}
	p := &commitPrinter{
		env: env, repo: r, form: &o.form, paths: paths,
		oneline: o.oneline, abbrev: o.oneline || o.abbrev, firstParent: o.firstParent,
	}
	if p.records, err = r.RecordViewOrEmpty(); err != nil {
		return err
	}
	if o.decorated(env) {
		p.decorations = env.decorate(ctx, r, o.decorate == "full")
	}
	if o.graph && !env.global.json {
		p.graph = newGraph(env.paint)
	}
	var backwards []log.Logged
	left, skip := o.number, o.skip
	for c, err := range log.Commits(ctx, r, opt) {
		if err != nil {
			return err
		}
		if skip > 0 {
			skip--
			continue
		}
		if left == 0 {
			break
		}
		left--
		if o.reverse {
			backwards = append(backwards, c)
		} else if err := p.print(ctx, c); err != nil {
			return err
		}
		if left == 0 {
			break // without reading what comes next
		}
	}
	for _, c := range slices.Backward(backwards) {
		if err := p.print(ctx, c); err != nil {
			return err
		}
	}
	p.endGraph()
	return nil
}

// decorated reports whether names of commits are shown. As in git, the default is
// to show them on a terminal only.
func (o *logOptions) decorated(env *Env) bool {
	switch {
	case o.noDecorate || env.global.json:
		return false
	case o.decorate == "auto":
		return env.Terminal.Stdout
	}
	return o.decorate != "no"
}

// log returns the options of the walk, and the selected paths.
func (o *logOptions) log(cmd *cobra.Command, env *Env, r *kist.Repository, args []string) (opt log.Options, paths pathspecs, err error) {
	opt = log.Options{Follow: o.follow, FirstParent: o.firstParent, Topo: o.graph || o.topo}
	if opt.Revs, paths, err = env.revsAndPaths(cmd, r, args); err != nil {
		return opt, nil, err
	}
	opt.Paths, opt.Select = paths.paths(), paths.selector()
	if o.follow && (len(paths) != 1 || opt.Select != nil) {
		return opt, nil, usagef("--follow needs exactly one path")
	}
	for _, from := range []struct {
		wanted bool
		below  string
	}{{o.all, ""}, {o.branches, refs.Heads}, {o.tags, refs.Tags}, {o.remotes, refs.Remotes}} {
		if !from.wanted {
			continue
		}
		list, err := r.Refs().List(from.below)
		if err != nil {
			return opt, nil, err
		}
		for _, ref := range list {
			if !env.repo.lost.tip(cmd.Context(), r, ref.Name) {
				opt.Revs = append(opt.Revs, ref.Name)
			}
		}
	}
	if o.all {
		head, err := r.Refs().Head()
		if err != nil {
			return opt, nil, err
		}
		if !head.ID.IsZero() && !env.repo.lost.tip(cmd.Context(), r, "HEAD") {
			opt.Revs = append(opt.Revs, "HEAD")
		}
	}
	now := env.Now()
	if o.since != "" {
		if opt.Since, err = refs.ParseTime(o.since, now); err != nil {
			return opt, nil, err
		}
	}
	if o.until != "" {
		if opt.Until, err = refs.ParseTime(o.until, now); err != nil {
			return opt, nil, err
		}
	}
	opt.Match, err = o.match()
	return opt, paths, err
}

// inHistory makes sure that each of paths matches something that is tracked, or
// that one of the commits that opt stands for changed.
func (e *Env) inHistory(ctx context.Context, r *kist.Repository, opt log.Options, paths pathspecs) error {
	for _, s := range paths {
		one := pathspecs{s}
		if e.known(ctx, r, one, places{index: true}) == nil {
			continue
		}
		any := log.Options{Revs: opt.Revs, Paths: one.paths(), Select: one.selector()}
		changed := false
		for _, err := range log.Commits(ctx, r, any) {
			if err != nil {
				return err
			}
			changed = true
			break
		}
		if !changed {
			return fmt.Errorf("path %s in these commits: %w", quoteArg(s.arg), kist.ErrNoMatch)
		}
	}
	return nil
}
