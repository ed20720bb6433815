package look

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/ignore"
	"github.com/kist-vcs/kist/tree/look/find"
	"github.com/kist-vcs/kist/tree/look/versions"
)

type findOptions struct {
	lsOptions
	all    bool
	sha256 object.ID
	like   string

	progress *cli.Progress
}

func NewFind(env *cli.Env) *cobra.Command {
	var o findOptions
	cmd := &cobra.Command{
		Use:   "find [OPTIONS] [REV[:PATH]] [--] [TEST...]",
		Short: "find files by name, size, time, type or content",
		Long: `Lists the files and folders that pass all TESTs. It searches HEAD, or the commit
that the first argument names. REV:PATH searches one folder, and ':' the index.

--all searches every commit that HEAD, a branch or a tag reaches. It takes no
REV. It lists each version of a file once, as COMMIT:PATH for 'kist cat', with
the first commit that has it. Files that were deleted since are listed, too.

A TEST is the name of a file, a PATTERN for names, or one of these:

  name=PATTERN       the name; iname= ignores the case of ASCII letters
  path=PATH          the path, as in other commands: a folder with its content,
                     or a pattern
  type=TYPE          file, dir, symlink, fifo, socket, char-device or
                     block-device; or a letter, as in find(1)
  size=SIZE          the size of a file: +10M is 10 MiB or more, -4k is 4 KiB or
                     less, and 0 is empty
  newer=TIME         modified after TIME: 2026-01-31, yesterday, '2 weeks ago'
  older=TIME         modified before TIME
  changed=REV        new or different since REV; with a time instead of REV,
                     since the last commit before that time
  content-type=TYPE  the media type, such as 'image/*': the attribute
                     content-type, or else a guess from the first bytes
  attr.KEY=PATTERN   the value of an attribute, which may be inherited
  id=ID              the ID that 'ls --json' shows; its first digits will do
  sha256=HASH        the checksum of the content, as sha256sum prints it
  like=FILE          the file shares content with FILE, which may be anywhere

In a PATTERN, '*' stands for any text, '?' for one byte and '[a-z]' for one of
several. Quote it, or the shell expands it. A TEST with a slash and without '='
is a path. If a file is called like a branch, write name=main.

'not' inverts the next TEST. 'or' needs only one of its two sides. TESTs without
'or' between them belong together: a b or c is a and b, or else c. '(' and ')'
group TESTs. Each of these words is an argument of its own.

Paths start from the current folder, with --all from the root of the worktree.
With like=, identical files come first, and then the files that share most.
Each line begins with the shared part of FILE in percent.`,
		Example: `  kist find '*.mov' size=+1G         large films
  kist find v1 type=dir photos       folders of v1 with the name photos
  kist find newer=7d not '*.tmp'     files modified in the last week
  kist find path=trip '(' '*.jpg' or '*.png' ')'
  kist find --all budget.ods         all versions, deleted ones too
  kist find --like ../old.iso        is this file here, or most of it?
  kist find -0 '*.log' | xargs -0 wc -l`,
		ValidArgsFunction: cli.CompleteNth(env.Complete(input.TreePaths, findTests), env.Complete(findTests)),
	}
	env.Prints(cmd, "for each path", foundJSON{})
	env.InRepository(cmd, o.run)
	cli.PassesOverLost(cmd, env)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if strings.HasPrefix(err.Error(), "unknown") { // as in find -name
			return cli.Hintf(cli.Usagef("%w", err), "tests have no dashes: name='*.mov' type=file size=+1M; see '%s --help'", cmd.CommandPath())
		}
		return err
	})
	flags := cmd.Flags()
	flags.BoolVarP(&o.long, "long", "l", false, "show type and permissions, size and time, as ls does")
	flags.BoolVarP(&o.nul, "null", "0", false, "end paths with NUL, and do not quote them")
	flags.BoolVarP(&o.nul, "print0", "z", false, "the same as -0")
	flags.Lookup("print0").Hidden = true
	flags.BoolVarP(&o.all, "all", "a", false, "search all history")
	flags.Var(cli.NewParsed(&o.sha256, "", find.ParseSum), "sha256", "the same as the TEST sha256=`HASH`")
	flags.StringVar(&o.like, "like", "", "the same as the TEST like=`FILE`")
	return cmd
}

// findTests proposes the beginnings of tests.
func findTests(context.Context, *cli.Env, *kist.Repository, string) []string {
	var words []string
	for _, key := range find.TestKeys {
		words = append(words, key+"=")
	}
	return words
}

// foundJSON is a file as find prints it with --json.
type foundJSON struct {
	jsonform.Entry
	*likenessJSON
	Commits []object.ID `json:"commits,omitempty" doc:"with --all, the commits that gave the path this content"`
}

// likenessJSON compares a file with the file of the test like=.
type likenessJSON struct {
	Shared uint64 `json:"shared" doc:"with like=, the number of bytes that both files have"`
	Same   bool   `json:"same" doc:"with like=, true for equal content"`
}

func (o *findOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	rev, words, err := "", args, error(nil)
	if !o.all {
		rev, words, err = splitFind(ctx, env, r, args)
	}
	if err != nil {
		return err
	}
	q, err := o.parseTests(ctx, env, r, words)
	if err != nil {
		return err
	}
	records, err := r.RecordViewOrEmpty()
	if err != nil {
		return err
	}

	o.progress = env.Progress("searching")
	defer func() { o.progress.Stop() }()
	list := q.All(ctx)
	if !o.all {
		place, err := findPlace(ctx, env, r, rev)
		if err != nil {
			return err
		}
		env.Repo.Lost.BeginAt(place.Path)
		list = q.In(ctx, place)
	}

	found := false
	for f, err := range list {
		if err != nil {
			return err
		}
		var purged error
		if records.AnyPurged() {
			if purged, err = r.Purged(ctx, &f.Entry); err != nil {
				return err
			}
		}
		found = true
		path := ""
		if o.all {
			path = f.Commits[0].Short() + ":" + f.Path
		} else {
			path = env.Relative(r, f.Path)
		}
		o.showResult(env, path, q, f, purged != nil)
	}
	if !found && !env.Global.JSON {
		env.Info("nothing passes these tests")
	}
	return nil
}

// findPlace returns the file or folder REV[:PATH].
func findPlace(ctx context.Context, env *cli.Env, r *kist.Repository, rev string) (find.SearchStart, error) {
	at, err := input.Locate(ctx, env, r, rev)
	if err != nil {
		return find.SearchStart{}, err
	}
	head, err := r.Refs().Head()
	return find.SearchStart{Path: at.Path, Entry: at.Entry, Root: at.Tree, Commit: cmp.Or(at.Commit, head.ID), Objects: at.Objects}, err
}

// splitFind separates a commit or folder, "HEAD" by default, from the tests.
func splitFind(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) (rev string, words []string, err error) {
	switch dash := env.Cmd.ArgsLenAtDash(); {
	case dash > 1:
		return "", nil, cli.Usagef("one argument too many before --: %s", cli.QuoteArg(args[1]))
	case dash == 1:
		return args[0], args[1:], nil
	case dash == 0 || len(args) == 0:
		return "HEAD", args, nil
	}

	rev, _, hasPath := refs.SplitPath(args[0])
	if strings.Contains(rev, "=") {
		return "HEAD", args, nil
	}
	switch err := input.Resolvable(ctx, r, rev); {
	case err == nil || rev == "" && hasPath:
		return args[0], args[1:], nil
	case ignore.HasWildcards(args[0]) || !hasPath && errors.Is(err, refs.ErrNotFound):
		return "HEAD", args, nil
	default:
		return "", nil, err
	}
}

// parseTests reads the tests, and those of options.
func (o *findOptions) parseTests(ctx context.Context, env *cli.Env, r *kist.Repository, words []string) (*find.Query, error) {
	opt := find.Options{
		Now: env.Now(),
		Paths: func(pattern string) (func(path string) bool, error) {
			list, err := input.Pathspecs(env, r, []string{pattern}, true)
			return list.Selects, err
		},
		Open: func(name string) (io.ReadCloser, error) { return os.Open(env.Path(name)) },
		Index: func() (*versions.Index, error) {
			o.progress.Stop()
			x, err := input.OpenVersions(ctx, env, r)
			o.progress = env.Progress("searching")
			return x, err
		},
		Progress: func(done, _ kist.Amount) { o.progress.SetDone(uint64(done.Files), uint64(done.Bytes)) },
	}
	if env.Cmd.Flags().Changed("sha256") {
		opt.Also = append(opt.Also, "sha256="+o.sha256.String())
	}
	if o.like != "" {
		opt.Also = append(opt.Also, "like="+o.like)
	}

	q, err := find.Parse(ctx, r, words, opt)
	var syntax *find.SyntaxError
	if errors.As(err, &syntax) {
		return nil, wrongWord(syntax)
	}
	return q, err
}

// wrongWord shows an expression with a mark below the wrong word.
func wrongWord(e *find.SyntaxError) error {
	var before, line string
	for i, word := range append(e.Words, "") {
		if i == e.Word {
			before = line
		}
		line += cli.QuoteSpaced(word) + " "
	}
	mark := strings.Repeat(" ", utf8.RuneCountInString(before)) + "^"
	return cli.Failf(cli.ExitUsage, "expression", "word %d of the expression: %w\n%s\n%s", e.Word+1, e.Err, strings.TrimRight(line, " "), mark)
}

// showResult prints a result.
func (o *findOptions) showResult(env *cli.Env, path string, q *find.Query, f find.File, purged bool) {
	size, compares := q.Likeness()
	if env.Global.JSON {
		v := foundJSON{Entry: jsonform.NewEntry(f.Path, f.Entry), Commits: f.Commits}
		v.Purged = purged
		if len(f.Commits) > 0 { // the index has no totals of folders
			v.Files = nil
		}
		if compares {
			v.likenessJSON = &likenessJSON{f.Shared, f.Same}
		}
		env.JSON(v)
		return
	}
	if compares && !o.nul {
		percent := 100
		if !f.Same { // however much they share
			percent = min(99, int(100*float64(f.Shared)/float64(max(size, 1))))
		}
		env.Printf("%3d%% ", percent)
	}
	o.printEntry(env, path, f.Entry, purged)
}
