// Package look has the commands that look at history.
package look

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree/look/blame"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/pathspec"
)

type logOptions struct {
	form         show.ChangeForm
	commits      show.CommitForm
	graph        bool
	number, skip int
	lines        []string // of -L
	logStarts
	logFilter
	logOrder
}

// logStarts select the history that is listed, beside the revisions.
type logStarts struct {
	refs []logRefs
	not  int // the number of revisions before --not; negative: there is no --not
}

// logRefs are the refs below a prefix that match a pattern.
type logRefs struct {
	below    string
	pattern  string
	negative bool // after --not
}

// logFilter selects commits of the history.
type logFilter struct {
	since, until      string
	author, committer []string
	grep              []string
	allMatch, invert  bool
	host, label       []string
	ignoreCase, fixed bool
	fewest, most      int // parents
}

// logOrder is the way through the history.
type logOrder struct{ topo, firstParent, follow, reverse, moves, leftRight bool }

func NewLog(env *cli.Env) *cobra.Command {
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

-L follows lines of a file from the only REV back through all changes and
renames, and shows the changes of these lines. RANGE is START,END, as in 'kist
blame', or :RE, the lines from a heading that matches up to the next heading. A
heading begins with a letter, an underscore or a dollar sign.

Times are written as in 2026-01-31, '2026-01-31 15:04', yesterday, 2.weeks.ago.
RE is a regular expression (https://golang.org/s/re2syntax).

` + show.FormatHelp + ``,
		Example: `  kist log --oneline --graph --all    the whole history, as a picture
  kist log -3 --stat                  the last three commits, and what they changed
  kist log v1..v2 -- src              what happened to src between v1 and v2
  kist log --follow -p notes.txt      the life of a file
  kist log -L 10,20:notes.txt         how these lines came about
  kist log --since yesterday          what happened today and yesterday
  kist log --format='%h %an, %ar: %s' a line of your own for each commit
  kist log main...side --left-right   what only one of two branches has`,
		ValidArgsFunction: env.CompleteUntilDash(cli.Revisions, cli.TrackedPaths),
	}
	env.Prints(cmd, "for each commit", show.LoggedJSON{})
	env.InRepository(cmd, o.run)
	cli.PassesOverLost(cmd, env)
	flags := cmd.Flags()
	cli.RegisterCount(cmd, &o.number, "commits")
	flags.IntVar(&o.skip, "skip", 0, "leave out the first `N` commits")
	flags.BoolVar(&o.graph, "graph", false, "draw the lines of history")
	flags.BoolVar(&o.topo, "topo-order", false, "show no commit before its children, and do not mix lines of history")
	flags.BoolVar(&o.reverse, "reverse", false, "the oldest first")
	o.commits.Register(env, cmd)
	o.logFilter.register(cmd)
	flags.BoolVar(&o.firstParent, "first-parent", false, "follow only the first parent of merges")
	flags.BoolVar(&o.follow, "follow", false, "follow the one PATH through renames")
	flags.BoolVarP(&o.moves, "walk-reflogs", "g", false, "show where HEAD or the branch REV was, as 'kist reflog' does, the latest first")
	flags.BoolVar(&o.leftRight, "left-right", false, "with A...B, mark the commits of A by '<' and those of B by '>'")
	flags.StringArrayVarP(&o.lines, "lines", "L", nil, "only changes of the lines `RANGE:FILE`, and where they came from; may be repeated")
	o.logStarts.register(cmd)
	o.form.Register(cmd)
	return cmd
}

// register registers the options that select the beginning of the history.
func (o *logStarts) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	o.not = -1
	cli.WithoutValue(flags, "all", "begin at HEAD and all branches and tags", func() error {
		o.refs = append(o.refs, logRefs{"", "*", o.not >= 0})
		return nil
	})
	for _, from := range []struct{ name, below, usage string }{
		{"branches", refs.Heads, "begin at all branches that match `PATTERN`, by default *"},
		{"tags", refs.Tags, "begin at all tags that match `PATTERN`, by default *"},
		{"remotes", refs.Remotes, "begin at all branches of remotes that match `PATTERN`, by default *"},
	} {
		flags.Func(from.name, from.usage, func(pattern string) error {
			if !strings.ContainsAny(pattern, "*?[") {
				pattern += "/*" // as in git
			}
			o.refs = append(o.refs, logRefs{from.below, pattern, o.not >= 0})
			return nil
		})
		flags.Lookup(from.name).NoOptDefVal = "*"
	}
	cli.WithoutValue(flags, "not", "exclude the revisions after this option, as ^REV does", func() error {
		if o.not >= 0 {
			return errors.New("cannot be repeated")
		}
		o.not = flags.NArg()
		return nil
	})
}

// register registers the options that look at the commit itself.
func (o *logFilter) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.since, "since", "", "only commits after `TIME`")
	flags.StringVar(&o.since, "after", "", "the same as --since `TIME`")
	flags.StringVar(&o.until, "until", "", "only commits before `TIME`")
	flags.StringVar(&o.until, "before", "", "the same as --until `TIME`")
	flags.StringArrayVar(&o.author, "author", nil, "only commits whose author, as in 'Anna <anna@chest.example>', matches `RE`")
	flags.StringArrayVar(&o.committer, "committer", nil, "only commits whose committer matches `RE`")
	flags.StringArrayVar(&o.grep, "grep", nil, "only commits with a line in their message that matches `RE`")
	flags.BoolVar(&o.allMatch, "all-match", false, "only commits that match all --grep, not one of them")
	flags.BoolVar(&o.invert, "invert-grep", false, "only commits that --grep does not match")
	flags.StringArrayVar(&o.host, "host", nil, "only commits made on the host `NAME`")
	flags.StringArrayVar(&o.label, "label", nil, "only commits with the label `NAME`")
	flags.BoolVarP(&o.ignoreCase, "regexp-ignore-case", "i", false, "ignore case in --author, --committer, --grep, -S and -G")
	flags.BoolVarP(&o.fixed, "fixed-strings", "F", false, "take each RE as plain text")
	flags.BoolP("extended-regexp", "E", false, "take each RE as a regular expression (the default)")
	cli.WithoutValue(flags, "merges", "only merges; the same as --min-parents 2", func() error { o.fewest = 2; return nil })
	cli.WithoutValue(flags, "no-merges", "no merges; the same as --max-parents 1", func() error { o.most = 1; return nil })
	flags.IntVar(&o.fewest, "min-parents", 0, "only commits with at least `N` parents")
	flags.IntVar(&o.most, "max-parents", -1, "only commits with at most `N` parents")
	flags.Lookup("max-parents").DefValue = "" // the help shows no default
}

func (o *logOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	o.form.Filter.Fold = o.ignoreCase
	if err := o.form.Settle(env, func(*show.ChangeForm) {}); err != nil {
		return err
	}
	switch {
	case o.reverse && o.graph:
		return cli.Usagef("--reverse and --graph cannot be combined")
	case o.moves && (o.reverse || o.graph || o.follow):
		return cli.Usagef("--walk-reflogs cannot be combined with --reverse, --graph and --follow")
	}

	opt, paths, err := o.walkOptions(ctx, env, r, args)
	if err == nil && len(o.lines) > 0 {
		if err = o.checkLines(env, paths); err == nil {
			opt.Lines, err = o.fileLines(ctx, env, r, opt.Revs)
		}
	}
	if err != nil {
		return err
	}
	if err := inHistory(ctx, env, r, opt, paths); err != nil || o.number == 0 {
		return err
	}

	p, err := show.NewCommitPrinter(ctx, env, r, &o.form, &o.commits)
	if err != nil {
		return err
	}
	p.Paths, p.FirstParent, p.Text.Marks = paths, o.firstParent, o.leftRight
	if o.graph && !env.Global.JSON {
		p.Graph = show.NewGraph(env.Paint)
	}
	commits := log.Commits(ctx, r, opt)
	if o.number < 0 {
		commits = history.Ahead(commits)
	}
	if o.number >= 0 && !o.form.Filter.Set() {
		commits = firstOf(commits, o.skip+o.number) // the rest need not come near
	}
	return o.printCommits(ctx, p, p.Near(ctx, commits))
}

// firstOf yields the first values of seq.
func firstOf[T any](seq iter.Seq2[T, error], most int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		n := 0
		for value, err := range seq {
			if n++; !yield(value, err) || n >= most {
				return
			}
		}
	}
}

// printCommits prints the commits that --skip and -n leave.
func (o *logOptions) printCommits(ctx context.Context, p *show.CommitPrinter, commits iter.Seq2[log.Logged, error]) error {
	var backwards []log.Logged
	printed, skip := 0, o.skip
	for c, err := range commits {
		if err != nil {
			return err
		}
		if skip > 0 {
			skip--
			continue
		}
		shown := o.reverse
		if o.reverse {
			backwards = append(backwards, c)
		} else if shown, err = p.Print(ctx, c); err != nil {
			return err
		}
		if shown {
			printed++
		}
		if printed == o.number {
			break // without reading what comes next
		}
	}

	for _, c := range slices.Backward(backwards) {
		if _, err := p.Print(ctx, c); err != nil {
			return err
		}
	}
	p.EndGraph()
	return nil
}

// walkOptions returns the options of the walk, and the selected paths.
func (o *logOptions) walkOptions(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) (opt log.Options, paths pathspec.List, err error) {
	if opt, paths, err = o.startOptions(ctx, env, r, args, &o.logFilter); err != nil {
		return opt, nil, err
	}
	opt.Follow, opt.FirstParent, opt.Topo = o.follow, o.firstParent, o.graph || o.topo
	opt.Reflog, opt.LeftRight = o.moves, o.leftRight || o.commits.Format.UsesMarks()
	if o.follow && (len(paths) != 1 || opt.Select != nil) {
		return opt, nil, cli.Usagef("--follow needs exactly one path")
	}
	return opt, paths, nil
}

// startOptions returns the options of a walk through the history that args and the options
// select, and the selected paths.
func (o *logStarts) startOptions(ctx context.Context, env *cli.Env, r *kist.Repository, args []string, filter *logFilter) (opt log.Options, paths pathspec.List, err error) {
	if opt.Revs, paths, err = input.RevsAndPaths(ctx, env, r, args); err != nil {
		return opt, nil, err
	}
	opt.Revs = slices.Clone(opt.Revs)
	if o.not >= 0 {
		for i := o.not; i < len(opt.Revs); i++ {
			opt.Revs[i] = negated(opt.Revs[i])
		}
	}
	opt.Paths, opt.Select = paths.Paths(), paths.Selector()

	for _, from := range o.refs {
		names, err := from.refNames(r)
		if err != nil {
			return opt, nil, err
		}
		for _, name := range names {
			if env.Repo.Lost.IsTipLost(ctx, r, name) {
				continue
			}
			if from.negative {
				name = negated(name)
			}
			opt.Revs = append(opt.Revs, name)
		}
	}
	if len(o.refs) > 0 && len(opt.Revs) == 0 && !input.IsUnborn(r, "HEAD") {
		opt.Revs = []string{"^HEAD"} // no ref matches, so the log is empty
	}

	for _, limit := range []struct {
		text string
		at   *time.Time
	}{{filter.since, &opt.Since}, {filter.until, &opt.Until}} {
		if limit.text == "" {
			continue
		}
		if *limit.at, err = refs.ParseTime(limit.text, env.Now()); err != nil {
			return opt, nil, err
		}
	}

	opt.Match, err = filter.newTest()
	return opt, paths, err
}

// negated returns the revision that excludes the commits of rev, and the other way round.
func negated(rev string) string {
	if rest, ok := strings.CutPrefix(rev, "^"); ok {
		return rest
	}
	return "^" + rev
}

// refNames returns the names of the refs.
func (l logRefs) refNames(r *kist.Repository) (names []string, err error) {
	list, err := r.Refs().List(l.below)
	if err != nil {
		return nil, err
	}
	for _, ref := range list {
		if input.MatchesAny([]string{l.pattern}, strings.TrimPrefix(ref.Name, l.below)) {
			names = append(names, ref.Name)
		}
	}
	if l.below == "" {
		head, err := r.Refs().Head()
		if err != nil {
			return nil, err
		}
		if !head.ID.IsZero() {
			names = append(names, "HEAD")
		}
	}
	return names, nil
}

// inHistory returns an error if one of paths matches nothing that is tracked now, and
// nothing that a commit in the range of opt changed.
func inHistory(ctx context.Context, env *cli.Env, r *kist.Repository, opt log.Options, paths pathspec.List) error {
	for _, s := range paths {
		one := pathspec.List{s}
		if pathspec.CheckMatches(ctx, r, one, pathspec.Places{Index: true}) == nil {
			continue
		}
		any := log.Options{Revs: opt.Revs, Paths: one.Paths(), Select: one.Selector()}
		changed := false
		for _, err := range log.Commits(ctx, r, any) {
			if err != nil {
				return err
			}
			changed = true
			break
		}
		if !changed {
			return fmt.Errorf("path %s in these commits: %w", cli.QuoteArg(s.Arg), kist.ErrNoMatch)
		}
	}
	return nil
}

// newTest returns the filter of the shown commits; nil: all are shown.
func (o *logFilter) newTest() (func(*object.Commit) bool, error) {
	f := log.Filter{AllMessages: o.allMatch, NotMessages: o.invert, MinParents: o.fewest, MaxParents: o.most}
	for _, list := range []struct {
		name   string
		values []string
		into   *[]*regexp.Regexp
	}{{"--author", o.author, &f.Authors}, {"--committer", o.committer, &f.Committers}, {"--grep", o.grep, &f.Messages}} {
		var err error
		if *list.into, err = o.compilePatterns(list.name, list.values); err != nil {
			return nil, err
		}
	}

	if len(f.Authors)+len(f.Committers)+len(f.Messages)+len(o.host)+len(o.label) == 0 && f.MinParents <= 0 && f.MaxParents < 0 {
		return nil, nil
	}
	return func(c *object.Commit) bool {
		return f.Match(c) && (len(o.host) == 0 || slices.Contains(o.host, c.Host)) &&
			(len(o.label) == 0 || slices.ContainsFunc(jsonform.Labels(c.Message), func(name string) bool { return slices.Contains(o.label, name) }))
	}, nil
}

// compilePatterns compiles the values of an option. "^" and "$" match at every line.
func (o *logFilter) compilePatterns(name string, values []string) ([]*regexp.Regexp, error) {
	list := make([]*regexp.Regexp, len(values))
	for i, value := range values {
		options := "(?m)"
		if o.ignoreCase {
			options = "(?mi)"
		}
		if o.fixed {
			value = regexp.QuoteMeta(value)
		}
		re, err := regexp.Compile(options + value)
		var bad *syntax.Error
		if errors.As(err, &bad) {
			return nil, cli.Usagef("%s %s: %s", name, cli.QuoteArg(value), bad.Code)
		}
		if err != nil {
			return nil, err
		}
		list[i] = re
	}
	return list, nil
}

type reflogOptions struct {
	number int
	date   refs.DateForm
}

func NewReflog(env *cli.Env) *cobra.Command {
	o := reflogOptions{}
	cmd := &cobra.Command{
		Use:   "reflog [show] [OPTIONS] [REF]",
		Short: "show the earlier values of a branch or HEAD",
		Long: `Shows where REF, by default HEAD, has been, the latest first: the commit, how to
name it, and what moved REF there. A commit that a reset, merge or checkout left
behind is listed here. 'kist branch NAME HEAD@{2}' brings it back.
-v adds when that was, and who did it. With --date, the time stands in place of
the number.`,
		Example: `  kist reflog              where HEAD was
  kist reflog -3 main      the last three moves of main
  kist show HEAD@{1}       where HEAD was before`,
		Args: func(cmd *cobra.Command, args []string) error {
			return cli.Arguments(0, 1)(cmd, afterShow(args))
		},
		ValidArgsFunction: env.Complete(cli.Branches),
	}
	env.Prints(cmd, "for each move", moveJSON{})
	env.InRepository(cmd, o.run)
	cli.RegisterCount(cmd, &o.number, "moves")
	show.RegisterDate(env, cmd, &o.date)
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
	Ref    string     `json:"ref" doc:"the ref"`
	Index  int        `json:"index" doc:"the number of the move, from 0 for the last one"`
	ID     *object.ID `json:"id" doc:"the commit afterwards; null: the ref was deleted"`
	Old    *object.ID `json:"old" doc:"the commit before; null: the ref did not exist"`
	Name   string     `json:"name" doc:"the name of the user"`
	Email  string     `json:"email" doc:"the e-mail address of the user"`
	Time   time.Time  `json:"time" doc:"when it moved"`
	Reason string     `json:"reason" doc:"why it moved"`
}

func (o *reflogOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
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
	dated := env.Cmd.Flags().Changed("date")
	for i, entry := range entries {
		if i == o.number {
			break
		}
		if env.Global.JSON {
			move := moveJSON{name, i, cli.OrNull(entry.New), cli.OrNull(entry.Old), entry.Who.Name, entry.Who.Email, entry.Time, entry.Reason}
			env.JSON(move)
			continue
		}
		at := strconv.Itoa(i)
		if dated {
			at = cli.Printable(o.date.Format(entry.Time, env.Now()))
		}
		env.Printf("%s %s@{%s}: %s\n", env.Paint(cli.Yellow, entry.New.Short()), cli.QuotePath(shown), at, cli.Printable(entry.Reason))
		if env.Global.Verbose {
			env.Printf("         %s, %s\n", o.date.Format(entry.Time, env.Now()), show.FormatPerson(object.Stamp{Name: entry.Who.Name, Email: entry.Who.Email}))
		}
	}
	return damage
}

// checkLines returns an error if -L is used with an option or a path that it excludes.
func (o *logOptions) checkLines(env *cli.Env, paths pathspec.List) error {
	f := o.form
	f.Patch = false
	switch {
	case f.Wanted() || f.Reverse || f.Filter.Set() || f.Lines != (show.LineForm{Words: f.Lines.Words}) || env.Cmd.Flags().Changed("word-diff"):
		return cli.Usagef("-L shows its lines as a patch; of the other forms, it only takes -s")
	case o.follow || o.moves:
		return cli.Usagef("-L cannot be combined with --follow and --walk-reflogs")
	case len(paths) > 0:
		return cli.Usagef("-L names its file, and takes no other paths")
	}
	return nil
}

// fileLines reads the values of -L, in the commit that revs name.
func (o *logOptions) fileLines(ctx context.Context, env *cli.Env, r *kist.Repository, revs []string) (list []log.FileLines, err error) {
	commit, err := log.OneStart(ctx, r, revs)
	if err != nil {
		return nil, err
	}
	specs := map[string][]string{}
	var paths []string
	for _, value := range o.lines {
		spec, file, ok := blame.CutPath(value)
		if !ok {
			return nil, cli.Usagef("-L %s: neither START,END:FILE nor :RE:FILE", cli.QuoteArg(value))
		}
		path, err := env.RepoPath(r, file)
		if err != nil {
			return nil, err
		}
		if specs[path] == nil {
			paths = append(paths, path)
		}
		specs[path] = append(specs[path], spec)
	}

	slices.Sort(paths)
	for _, path := range paths {
		f, err := blame.Committed(ctx, r, commit, path)
		if err != nil {
			return nil, err
		}
		text, err := f.Text(ctx, r)
		if errors.Is(err, blame.ErrTooLarge) {
			return nil, cli.Failf(cli.ExitFailed, "too-large", "%s is %w", cli.QuoteArg(path), err)
		}
		if err != nil {
			return nil, err
		}
		ranges, err := parseLines(specs[path], text)
		if err != nil {
			return nil, err
		}
		list = append(list, log.FileLines{Path: path, Ranges: ranges})
	}
	return list, nil
}
