package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/log"
)

type logOptions struct {
	form            changeForm
	oneline, abbrev bool
	graph           bool
	decorate        string
	noDecorate      bool
	logStarts
	logFilter
	logOrder
}

// logStarts select the refs whose history is listed.
type logStarts struct{ all, branches, tags, remotes bool }

// logFilter selects commits of the history.
type logFilter struct {
	number, skip     int
	since, until     string
	author, grep     []string
	host, label      []string
	ignoreCase       bool
	merges, noMerges bool
}

// logOrder is the way through the history.
type logOrder struct{ topo, firstParent, follow, reverse bool }

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

A line 'Host:' names the machine that made a commit, if that is not this one; -v
shows it always. 'kist backup' records hosts and labels. If --host, --label,
--author or --grep is repeated, one of the values has to match.

A commit that lacks some paths, since they could not be stored, has a line
'Partial:'. A commit with expired content is marked, and has a line 'Expired:'.
Its changes are unknown: with PATHs it is skipped, and the next commit is
compared with the last commit before it that has content; a line 'Changes:'
names that commit. A held commit is marked, and has a line 'Held:'.

Times are written as in 2026-01-31, '2026-01-31 15:04', yesterday, 2.weeks.ago.
RE is a regular expression (https://golang.org/s/re2syntax).

With --json, one commit on each line: id, tree, parents, author and committer
{name, email, time}, time, message, host, files, bytes; labels if there are any;
skipped {path, reason} and skipped_count if it is partial; expired {time, who,
host, policy} if its content has expired; held {time, who, host, until, reason}
if it is held; with --follow path; and with --stat and similar options changes,
as in 'kist diff --json', and changes_since, the commit that they were compared
to, if it is not the first parent.`,
		Example: `  kist log --oneline --graph --all    the whole history, as a picture
  kist log -3 --stat                  the last three commits, and what they changed
  kist log v1..v2 -- src              what happened to src between v1 and v2
  kist log --follow -p notes.txt      the life of a file
  kist log --since yesterday          what happened today and yesterday`,
		ValidArgsFunction: env.completeUntilDash(revisions, trackedPaths),
	}
	env.inRepository(cmd, o.run)
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
	o.logFilter.register(cmd)
	flags.BoolVar(&o.firstParent, "first-parent", false, "follow only the first parent of merges")
	flags.BoolVar(&o.follow, "follow", false, "follow the one PATH through renames")
	flags.BoolVar(&o.all, "all", false, "begin at HEAD and all branches and tags")
	flags.BoolVar(&o.branches, "branches", false, "begin at all branches")
	flags.BoolVar(&o.tags, "tags", false, "begin at all tags")
	flags.BoolVar(&o.remotes, "remotes", false, "begin at all branches of remotes")
	o.form.register(cmd)
	return cmd
}

// register registers the options that look at the commit itself.
func (o *logFilter) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.since, "since", "", "only commits after `TIME`")
	flags.StringVar(&o.since, "after", "", "the same as --since `TIME`")
	flags.StringVar(&o.until, "until", "", "only commits before `TIME`")
	flags.StringVar(&o.until, "before", "", "the same as --until `TIME`")
	flags.StringArrayVar(&o.author, "author", nil, "only commits whose author, as in 'Anna <anna@chest.example>', matches `RE`")
	flags.StringArrayVar(&o.grep, "grep", nil, "only commits with a line in their message that matches `RE`")
	flags.StringArrayVar(&o.host, "host", nil, "only commits made on the host `NAME`")
	flags.StringArrayVar(&o.label, "label", nil, "only commits with the label `NAME`")
	flags.BoolVarP(&o.ignoreCase, "regexp-ignore-case", "i", false, "ignore case in --author and --grep")
	flags.BoolVar(&o.merges, "merges", false, "only merges")
	flags.BoolVar(&o.noMerges, "no-merges", false, "no merges")
}

func (o *logOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	if err := o.form.settle(env, func(*changeForm) {}); err != nil {
		return err
	}
	if o.reverse && o.graph {
		return usagef("--reverse and --graph cannot be combined")
	}

	opt, paths, err := o.log(ctx, env, r, args)
	if err != nil {
		return err
	}
	if err := inHistory(ctx, env, r, opt, paths); err != nil || o.number == 0 {
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
		p.decorations = decorate(ctx, env, r, o.decorate == "full")
	}
	if o.graph && !env.global.json {
		p.graph = newGraph(env.paint)
	}

	var backwards []log.Logged
	print := func(c log.Logged) error { return p.print(ctx, c) }
	if o.reverse {
		print = func(c log.Logged) error {
			backwards = append(backwards, c)
			return nil
		}
	}

	n := min(0, -o.skip) // the number of printed commits
	for c, err := range log.Commits(ctx, r, opt) {
		if err != nil {
			return err
		}
		if n++; n <= 0 {
			continue
		}
		if err := print(c); err != nil {
			return err
		}
		if n == o.number {
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

// decorated reports whether the names of commits are shown. As in git, the default is a
// terminal only.
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
func (o *logOptions) log(ctx context.Context, env *Env, r *kist.Repository, args []string) (opt log.Options, paths pathspecs, err error) {
	opt = log.Options{Follow: o.follow, FirstParent: o.firstParent, Topo: o.graph || o.topo}
	if opt.Revs, paths, err = revsAndPaths(ctx, env, r, args); err != nil {
		return opt, nil, err
	}
	opt.Paths, opt.Select = paths.paths(), paths.selector()
	if o.follow && (len(paths) != 1 || opt.Select != nil) {
		return opt, nil, usagef("--follow needs exactly one path")
	}

	var starts []string
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
			starts = append(starts, ref.Name)
		}
	}
	if o.all {
		head, err := r.Refs().Head()
		if err != nil {
			return opt, nil, err
		}
		if !head.ID.IsZero() {
			starts = append(starts, "HEAD")
		}
	}

	for _, name := range starts {
		if !env.repo.lost.tip(ctx, r, name) {
			opt.Revs = append(opt.Revs, name)
		}
	}

	for _, limit := range []struct {
		text string
		at   *time.Time
	}{{o.since, &opt.Since}, {o.until, &opt.Until}} {
		if limit.text == "" {
			continue
		}
		if *limit.at, err = refs.ParseTime(limit.text, env.Now()); err != nil {
			return opt, nil, err
		}
	}

	opt.Match, err = o.match()
	return opt, paths, err
}

// inHistory returns an error if one of paths matches nothing that is tracked now, and
// nothing that a commit in the range of opt changed.
func inHistory(ctx context.Context, env *Env, r *kist.Repository, opt log.Options, paths pathspecs) error {
	for _, s := range paths {
		one := pathspecs{s}
		if env.known(ctx, r, one, places{index: true}) == nil {
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

// match returns the filter of the shown commits; nil: all are shown.
func (o *logOptions) match() (func(*object.Commit) bool, error) {
	authors, err := o.regexps("--author", o.author)
	if err != nil {
		return nil, err
	}
	messages, err := o.regexps("--grep", o.grep)
	if err != nil {
		return nil, err
	}

	if len(authors)+len(messages)+len(o.host)+len(o.label) == 0 && !o.merges && !o.noMerges {
		return nil, nil
	}
	any := func(list []*regexp.Regexp, text string) bool {
		return len(list) == 0 || slices.ContainsFunc(list, func(re *regexp.Regexp) bool { return re.MatchString(text) })
	}
	return func(c *object.Commit) bool {
		merge := len(c.Parents) > 1
		return !(o.merges && !merge) && !(o.noMerges && merge) &&
			any(authors, c.Author.Name+" <"+c.Author.Email+">") && any(messages, c.Message) &&
			(len(o.host) == 0 || slices.Contains(o.host, c.Host)) &&
			(len(o.label) == 0 || slices.ContainsFunc(labels(c.Message), func(name string) bool { return slices.Contains(o.label, name) }))
	}, nil
}

// regexps compiles the values of an option. "^" and "$" match at every line.
func (o *logOptions) regexps(name string, values []string) ([]*regexp.Regexp, error) {
	list := make([]*regexp.Regexp, len(values))
	for i, value := range values {
		options := "(?m)"
		if o.ignoreCase {
			options = "(?mi)"
		}
		re, err := regexp.Compile(options + value)
		var bad *syntax.Error
		if errors.As(err, &bad) {
			return nil, usagef("%s %s: %s", name, quoteArg(value), bad.Code)
		}
		if err != nil {
			return nil, err
		}
		list[i] = re
	}
	return list, nil
}

// registerCount registers git's options for the number of shown items: -n 3 and -3.
func registerCount(cmd *cobra.Command, number *int, what string) {
	flags := cmd.Flags()
	flags.IntVarP(number, "max-count", "n", -1, "show at most `N` "+what+"; -3 is short for -n 3")
	flags.Lookup("max-count").DefValue = "" // the help shows no default, since all are shown
	for digit := range 10 {
		name := strconv.Itoa(digit)
		flags.BoolFuncP("digit-"+name, name, "", func(string) error { return addDigit(number, digit) })
		flags.Lookup("digit-" + name).Hidden = true
	}
}

// addDigit appends a digit to a number: -12 is -1 -2.
func addDigit(number *int, digit int) error {
	n := max(*number, 0)
	if n > 1e8 {
		return errors.New("too large")
	}
	*number = 10*n + digit
	return nil
}

type reflogOptions struct{ number int }

func newReflog(env *Env) *cobra.Command {
	o := reflogOptions{}
	cmd := &cobra.Command{
		Use:   "reflog [show] [OPTIONS] [REF]",
		Short: "show the earlier values of a branch or HEAD",
		Long: `Shows where REF, by default HEAD, has been, the latest first: the commit, how to
name it, and what moved REF there. What a commit, merge, reset or checkout left
behind can be found here, and brought back with 'kist branch NAME HEAD@{2}'.
-v adds when that was, and who did it.

With --json, one move a line: ref, index, id and old (null: the ref did not
exist), name, email, time, reason.`,
		Example: `  kist reflog              where HEAD was
  kist reflog -3 main      the last three moves of main
  kist show HEAD@{1}       where HEAD was before`,
		Args: func(cmd *cobra.Command, args []string) error {
			return arguments(0, 1)(cmd, afterShow(args))
		},
		ValidArgsFunction: env.complete(branches),
	}
	env.inRepository(cmd, o.run)
	registerCount(cmd, &o.number, "moves")
	return cmd
}

// afterShow returns args without a "show" at their start, which git accepts.
func afterShow(args []string) []string {
	if len(args) > 0 && args[0] == "show" {
		return args[1:]
	}
	return args
}

// moveJSON is a move of a ref as reflog prints it with --json.
type moveJSON struct {
	Ref    string     `json:"ref"`
	Index  int        `json:"index"`
	ID     *object.ID `json:"id"`
	Old    *object.ID `json:"old"`
	Name   string     `json:"name"`
	Email  string     `json:"email"`
	Time   time.Time  `json:"time"`
	Reason string     `json:"reason"`
}

func (o *reflogOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	shown, name := "HEAD", "HEAD"
	if args = afterShow(args); len(args) > 0 && args[0] != name {
		var err error
		shown = args[0]
		if name, err = r.Refs().Expand(ctx, shown); err != nil {
			return err
		}
	}

	// Damaged entries do not hide the others.
	entries, damage := r.Refs().Log(name)
	for i, entry := range entries {
		if i == o.number {
			break
		}
		if env.global.json {
			move := moveJSON{name, i, orNull(entry.New), orNull(entry.Old), entry.Who.Name, entry.Who.Email, entry.Time, entry.Reason}
			env.json(move)
			continue
		}
		env.printf("%s %s@{%d}: %s\n", env.paint(yellow, entry.New.Short()), quotePath(shown), i, printable(entry.Reason))
		if env.global.verbose {
			env.printf("         %s, %s\n", entry.Time.Format(gitTime), person(object.Signature{Name: entry.Who.Name, Email: entry.Who.Email}))
		}
	}
	return damage
}
