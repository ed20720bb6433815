package look

import (
	"context"
	"errors"
	"iter"
	"regexp/syntax"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/grep"
	"github.com/kist-vcs/kist/tree/pathspec"
)

type grepOptions struct {
	patterns                []string
	pattern                 grep.PatternOptions
	search                  grep.Options
	cached, all             bool
	numbers, names, without bool // -n, -l, -L
	only, noPath, silent    bool // -o, -h, -q
	ignored                 bool // of options that are the default
}

func NewGrep(env *cli.Env) *cobra.Command {
	o := grepOptions{}
	cmd := &cobra.Command{
		Use:   "grep [OPTIONS] PATTERN [REV...] [-- PATH...]",
		Short: "search the lines of files",
		Long: `Shows the lines of tracked files that match PATTERN, a regular expression of Go
(https://golang.org/s/re2syntax). It searches the worktree, with --cached the
index, and with REVs these commits. With --all, it searches every version of
every file that HEAD, branches and tags reach, and shows each under its first
commit. It searches the current folder and below, or PATHs only.

A file with a NUL byte in its first 8000 bytes is binary: grep only reports
that it matches. The exit status is 1 if nothing matches. If files could not be
read, it is 3, or 11 if their stored content is damaged.

After the word grep, -q, -v, -h and -C have git's meanings; -C DIR of kist comes
before it.`,
		Example: `  kist grep TODO                     lines of tracked files
  kist grep -n -i 'error|warning' -- '*.go'
  kist grep -l budget v1 v2          files of two versions
  kist grep --all 'password ='       was this ever here?`,
		ValidArgsFunction: env.CompleteUntilDash(cli.Revisions, cli.TrackedPaths),
	}
	env.Prints(cmd, "for each line or file", grepJSON{})
	env.InRepository(cmd, o.run)
	cli.PassesOverLost(cmd, env)
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.patterns, "regexp", "e", nil, "search for `PATTERN`; if repeated, one of them has to match")
	flags.BoolVarP(&o.pattern.Fixed, "fixed-strings", "F", false, "patterns are text, not regular expressions")
	flags.BoolVarP(&o.ignored, "extended-regexp", "E", false, "patterns are regular expressions (the default)")
	flags.BoolVarP(&o.pattern.IgnoreCase, "ignore-case", "i", false, "capital and small letters are the same")
	flags.BoolVarP(&o.pattern.Words, "word-regexp", "w", false, "match whole words only")
	flags.BoolVarP(&o.search.Invert, "verbose", "v", false, "show the lines that do not match")
	flags.BoolVar(&o.search.Invert, "invert-match", false, "the same as -v")
	flags.BoolVar(&o.cached, "cached", false, "search the index")
	flags.BoolVar(&o.all, "all", false, "search all history")
	flags.BoolVarP(&o.numbers, "line-number", "n", false, "show numbers of lines")
	flags.BoolVarP(&o.names, "files-with-matches", "l", false, "show only the paths of files that match")
	flags.BoolVar(&o.names, "name-only", false, "the same as -l")
	flags.BoolVarP(&o.without, "files-without-match", "L", false, "show only the paths of files that do not match")
	flags.BoolVarP(&o.search.Count, "count", "c", false, "show only how many lines of each file match")
	flags.BoolVarP(&o.only, "only-matching", "o", false, "show only the parts of lines that match")
	flags.BoolVarP(&o.noPath, "no-filename", "h", false, "show no paths")
	flags.BoolFuncP("with-filename", "H", "show paths (the default)", func(string) error { o.noPath = false; return nil })
	flags.BoolVarP(&o.silent, "quiet", "q", false, "show nothing; the exit status has the result")
	flags.IntVarP(&o.search.Before, "before-context", "B", 0, "show `N` lines before each match")
	flags.IntVarP(&o.search.After, "after-context", "A", 0, "show `N` lines after each match")
	flags.VarP(&contextFlag{&o.search}, "directory", "C", "show `N` lines before and after each match")
	flags.Var(&contextFlag{&o.search}, "context", "the same as -C `N`")
	for _, name := range []string{"name-only", "invert-match", "context", "extended-regexp", "with-filename"} {
		flags.Lookup(name).Hidden = true
	}
	// The letters need the names of kist's own options to stand in for them.
	flags.Lookup("verbose").Name = "invert-match"
	flags.Lookup("directory").Name = "context"
	cmd.MarkFlagsMutuallyExclusive("cached", "all")
	return cmd
}

// contextFlag is -C of grep.
type contextFlag struct{ o *grep.Options }

func (f *contextFlag) String() string { return "" }
func (f *contextFlag) Type() string   { return "N" }

func (f *contextFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err == nil && n < 0 {
		err = errors.New("must not be negative")
	}
	if err == nil {
		f.o.Before, f.o.After = n, n
	}
	return err
}

func (o *grepOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	revs, paths, err := o.parseArgs(ctx, env, r, args)
	if err != nil {
		return err
	}
	o.only = o.only && !o.search.Invert
	if o.only {
		o.search.Before, o.search.After = 0, 0
	}
	o.search.First = o.names || o.without || o.silent
	o.search.Count = o.search.Count && !o.search.First
	o.search.Spans = o.only || env.Global.JSON || env.Colored(env.Terminal.Stdout)

	p := &grepPrinter{grepOptions: o, env: env, repo: r}
	env.Repo.Damaged = append(env.Repo.Damaged, func() bool { return p.damaged && !(p.silent && p.found) })
	for rev, files := range o.filesToSearch(ctx, env, r, revs, paths) {
		p.rev = rev
		err := grep.Search(ctx, files, o.search, max(2, runtime.GOMAXPROCS(0)), p.printPart)
		if err != nil && err != errFound {
			return err
		}
	}
	switch {
	case p.unread && !(p.silent && p.found):
		return cli.Quiet(cli.ExitPartial)
	case !p.found:
		return cli.Quiet(cli.ExitFailed)
	}
	return nil
}

// parseArgs reads the arguments, and compiles the pattern.
func (o *grepOptions) parseArgs(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) (revs []string, paths pathspec.List, err error) {
	if o.search.Before < 0 || o.search.After < 0 {
		return nil, nil, cli.Usagef("-A and -B must not be negative")
	}
	dash := env.Cmd.ArgsLenAtDash()
	if len(o.patterns) == 0 {
		if len(args) == 0 || dash == 0 {
			return nil, nil, cli.Usagef("PATTERN is missing")
		}
		o.patterns, args, dash = args[:1], args[1:], dash-1
	}
	o.search.Pattern, err = grep.Compile(o.patterns, o.pattern)
	var bad *syntax.Error
	if errors.As(err, &bad) {
		err = cli.Usagef("pattern %s: %s", cli.QuoteArg(bad.Expr), bad.Code)
	}
	if err != nil {
		return nil, nil, err
	}
	if revs, paths, err = input.SplitRevs(ctx, env, r, args, dash); err == nil && len(paths) == 0 {
		paths, err = input.Pathspecs(env, r, []string{"."}, false)
	}
	return revs, paths, err
}

var errFound = errors.New("found")

// filesToSearch yields the files to search, for each revision.
func (o *grepOptions) filesToSearch(ctx context.Context, env *cli.Env, r *kist.Repository, revs []string, paths pathspec.List) iter.Seq2[string, iter.Seq2[*grep.File, error]] {
	return func(yield func(string, iter.Seq2[*grep.File, error]) bool) {
		failed := func(err error) {
			yield("", func(yield func(*grep.File, error) bool) { yield(nil, err) })
		}
		switch {
		case len(revs) > 0 && (o.cached || o.all):
			failed(cli.Usagef("--cached and --all take no REV"))
			return
		case o.all:
			x, err := input.OpenVersions(ctx, env, r)
			if err != nil {
				failed(err)
				return
			}
			yield("", grep.InHistory(ctx, r, x, func(_ object.ID, path string) bool { return paths.Selects(path) }))
		case o.cached:
			v, err := compare.OfIndex(ctx, r)
			if err != nil {
				failed(err)
				return
			}
			yield("", grep.InView(ctx, v, paths.Selects))
		case len(revs) == 0 && r.IsBare():
			failed(cli.Hintf(kist.ErrBare, "name a commit: 'kist grep PATTERN HEAD'"))
		case len(revs) == 0:
			files := r.Worktree().Opener()
			defer files.Close()
			yield("", grep.InWorktree(r, files, paths.Selects))
		}
		for _, rev := range revs {
			v, err := compare.OfCommit(ctx, r, rev)
			if err != nil {
				failed(err)
				return
			}
			if !yield(rev, grep.InView(ctx, v, paths.Selects)) {
				return
			}
		}
	}
}

// grepPrinter prints what grep finds.
type grepPrinter struct {
	*grepOptions
	env   *cli.Env
	repo  *kist.Repository
	rev   string // the searched revision, or ""
	found bool
	lines bool // lines were printed

	unread, damaged bool // files could not be read, or are damaged or missing
}

// grepJSON is a result as grep prints it with --json.
type grepJSON struct {
	jsonform.AtPath
	Commit  *object.ID `json:"commit,omitempty" doc:"the commit, if it is not the worktree"`
	Line    int        `json:"line,omitempty" doc:"the number of the line"`
	Text    *string    `json:"text,omitempty" doc:"the line"`
	Matches [][]int    `json:"matches,omitempty" doc:"the first byte of each match in the line, and the one after its end"`
	Near    bool       `json:"near,omitempty" doc:"true for a line around a match"`
	Count   int        `json:"count,omitempty" doc:"with -c, the number of lines"`
	Binary  bool       `json:"binary,omitempty" doc:"true for a binary file"`
}

// shownName returns the name of a file as it is printed.
func (p *grepPrinter) shownName(f *grep.File) string {
	name := p.env.Shown(p.repo, f.Path)
	switch {
	case p.rev != "":
		name = cli.QuotePath(p.rev) + ":" + name
	case p.all:
		name = f.Commit.Short() + ":" + cli.QuotePath(f.Path)
	}
	return p.env.Paint(cli.Magenta, name)
}

// printPart prints a part of a file's result.
func (p *grepPrinter) printPart(b grep.Block) error {
	for i := range b.Lines {
		p.found = true
		p.printLine(b.File, &b.Lines[i])
	}
	if !b.Last {
		return nil
	}
	if b.Err != nil {
		if lost := p.env.Repo.Lost.PassOver(b.Err); lost == nil || errors.Is(b.Err, context.Canceled) {
			return lost
		}
		if errors.Is(b.Err, object.ErrNewerFormat) {
			return b.Err
		}
		p.env.Warn("%s: %v", p.env.Shown(p.repo, b.Path), b.Err)
		p.unread = p.unread || !object.IsUnreadable(b.Err)
		p.damaged = p.damaged || object.IsUnreadable(b.Err)
		return nil
	}
	if p.without == (b.Count > 0) {
		return nil
	}
	p.found = true
	if p.silent {
		return errFound
	}
	v := grepJSON{AtPath: jsonform.NewPath(b.Path), Commit: cli.OrNull(b.Commit)}
	text := ""
	switch {
	case p.names || p.without:
		text = p.shownName(b.File)
	case p.search.Count:
		v.Count = b.Count
		if text = strconv.Itoa(b.Count); !p.noPath {
			text = p.shownName(b.File) + p.env.Paint(cli.Cyan, ":") + text
		}
	case b.Binary:
		v.Binary = true
		text = "Binary file " + p.shownName(b.File) + " matches"
	default:
		return nil
	}
	if p.env.Global.JSON {
		p.env.JSON(v)
		return nil
	}
	p.env.Printf("%s\n", text)
	return nil
}

// printLine prints a line.
func (p *grepPrinter) printLine(f *grep.File, l *grep.Line) {
	if p.env.Global.JSON {
		v := grepJSON{AtPath: jsonform.NewPath(f.Path), Commit: cli.OrNull(f.Commit), Line: l.Number, Text: new(string(l.Text)), Matches: l.Spans, Near: !l.Hit}
		p.env.JSON(v)
		return
	}
	if l.Gap && p.lines && p.search.Before+p.search.After > 0 {
		p.env.Printf("%s\n", p.env.Paint(cli.Cyan, "--"))
	}
	p.lines = true
	mark := "-"
	if l.Hit {
		mark = ":"
	}
	mark = p.env.Paint(cli.Cyan, mark)
	before := ""
	if !p.noPath {
		before = p.shownName(f) + mark
	}
	if p.numbers {
		before += p.env.Paint(cli.Green, strconv.Itoa(l.Number)) + mark
	}
	if !p.only {
		p.env.Printf("%s%s\n", before, p.markMatches(l))
		return
	}
	for _, at := range l.Spans {
		if at[0] < at[1] {
			p.env.Printf("%s%s\n", before, p.env.Paint(cli.BoldRed, string(l.Text[at[0]:at[1]])))
		}
	}
}

// markMatches returns the text of a line with its matches in colour.
func (p *grepPrinter) markMatches(l *grep.Line) string {
	var out strings.Builder
	at := 0
	for _, span := range l.Spans {
		out.Write(l.Text[at:span[0]])
		out.WriteString(p.env.Paint(cli.BoldRed, string(l.Text[span[0]:span[1]])))
		at = span[1]
	}
	out.Write(l.Text[at:])
	return out.String()
}
