package look

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/blame"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/pathspec"
)

type blameOptions struct {
	lines                         []string
	date                          refs.DateForm
	bytes, ignoreSpace            bool
	email, noAuthor, long, raw    bool
	porcelain, everyLinePorcelain bool
}

func NewBlame(env *cli.Env) *cobra.Command {
	var o blameOptions
	cmd := &cobra.Command{
		Use:     "blame [OPTIONS] [REV] [--] FILE",
		Aliases: []string{"annotate"},
		Short:   "show who changed each line of a file last",
		Long: `Shows each line of FILE with the commit that brought it: ID, author, time and
number of the line. blame follows the file through renames. Without REV, it
shows FILE as it is in the worktree; lines that are not committed belong to 'Not
Committed Yet'. With A..B, it looks no further back than A. A ^ before the ID
marks a line of the first commit, or one that was there in A already.

With --bytes, it shows each range of bytes, rounded to the chunks of the file.
A chunk that moved within the file keeps its commit. kist compares lists of
chunks and reads no content, so this is fast for files of any size and kind.

A RANGE is START,END: numbers of lines, or /RE/, the next line that matches a
regular expression (https://golang.org/s/re2syntax). END can be +N or -N, a
number of lines.

--porcelain is git's form for programs. Each group of lines begins with the ID,
the number of the line in that commit and in FILE, and the number of lines. At
the first group of a commit, its properties follow. Each line comes after a tab.

The first call indexes the history in .kist/versions, later calls only new
commits. Text of more than 8 MiB is not compared.`,
		Example: `  kist blame notes.txt               who wrote what
  kist blame -L 10,+5 notes.txt      lines 10 to 14
  kist blame -L '/^func main/,/^}/' main.go
  kist blame v1..v2 -- notes.txt     what came between v1 and v2
  kist blame --bytes disk.img        which commit changed which part`,
		Args:              cli.Arguments(1, -1, "FILE"),
		ValidArgsFunction: env.CompleteUntilDash(cli.Revisions, cli.TrackedPaths),
	}
	env.Prints(cmd, "for each group of lines", blameJSON{})
	env.InRepository(cmd, o.run)
	cli.PassesOverLost(cmd, env)
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.lines, "lines", "L", nil, "only the lines in `RANGE`; may be repeated")
	flags.BoolVar(&o.bytes, "bytes", false, "show ranges of bytes instead of lines")
	flags.BoolVarP(&o.ignoreSpace, "ignore-space", "w", false, "ignore white space when lines are compared")
	flags.BoolVarP(&o.email, "show-email", "e", false, "show addresses instead of names")
	flags.BoolVarP(&o.noAuthor, "short", "s", false, "show no author and time")
	flags.BoolVarP(&o.long, "long", "l", false, "show IDs in full")
	flags.BoolVarP(&o.raw, "raw-time", "t", false, "show times as seconds since 1970")
	flags.Var(cli.NewParsed(&o.date, "iso", refs.ParseDateForm), "date", "show times in a `FORM`: iso, short, relative and others, as in 'kist log'")
	flags.BoolVarP(&o.porcelain, "porcelain", "p", false, "the form for programs")
	flags.BoolVar(&o.everyLinePorcelain, "line-porcelain", false, "like --porcelain, with all facts for each line")
	cmd.MarkFlagsMutuallyExclusive("bytes", "lines")
	cmd.MarkFlagsMutuallyExclusive("bytes", "porcelain")
	cmd.MarkFlagsMutuallyExclusive("bytes", "line-porcelain")
	return cmd
}

func (o *blameOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	f, opt, err := blamed(ctx, env, r, args)
	if err != nil {
		return err
	}
	if o.ignoreSpace {
		opt.Space = tree.WithoutSpace
	}
	p := &blamePrinter{blameOptions: o, env: env, repo: r, file: f, commits: map[object.ID]*blamedCommit{}}
	if o.bytes {
		ranges, err := blame.ByBytes(ctx, r, f, opt)
		if err != nil {
			return err
		}
		return p.printBytes(ctx, ranges)
	}

	text, err := f.Text(ctx, r)
	if errors.Is(err, blame.ErrTooLarge) {
		return cli.Hintf(cli.Failf(cli.ExitFailed, "too-large", "%s is %w", cli.QuoteArg(f.Path), err), "'kist blame --bytes' compares files of any size")
	}
	if err != nil {
		return err
	}
	if opt.Lines, err = parseLines(o.lines, text); err != nil {
		return err
	}
	hunks, err := blame.ByLines(ctx, r, f, text, opt)
	if err != nil {
		return err
	}
	return p.printLines(ctx, hunks, text)
}

// parseLines reads the values of -L.
func parseLines(specs []string, text []string) (list []blame.Lines, err error) {
	after := 0
	for _, spec := range specs {
		lines, err := blame.ParseLines(spec, text, after)
		if err != nil {
			return nil, cli.Usagef("-L %s: %w", cli.QuoteArg(spec), err)
		}
		list = append(list, lines)
		after = lines.Hi
	}
	return blame.JoinLines(list), nil
}

// blamed returns the file that the arguments [REV] [--] FILE name, and the options of its
// history.
func blamed(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) (f *blame.File, opt blame.Options, err error) {
	revs, files := args[:len(args)-1], args[len(args)-1:]
	if dash := env.Cmd.ArgsLenAtDash(); dash >= 0 {
		revs, files = args[:dash], args[dash:]
	}
	if len(files) != 1 {
		return nil, opt, cli.Usagef("blame needs exactly one file")
	}
	path, err := env.RepoPath(r, files[0])
	if err != nil {
		return nil, opt, err
	}

	var starts, exclude []object.ID
	for _, rev := range revs {
		from, to, err := log.ParseRange(ctx, r, rev)
		if err != nil {
			return nil, opt, err
		}
		starts, exclude = append(starts, from...), append(exclude, to...)
	}
	if len(starts) > 1 {
		return nil, opt, cli.Usagef("one argument too many: %s", cli.QuoteArg(revs[len(revs)-1]))
	}
	if opt.Exclude, err = history.Ancestors(ctx, r.Objects(), exclude); err != nil {
		return nil, opt, err
	}
	if len(starts) == 0 {
		f, err = blame.InWorktree(ctx, r, path)
	} else {
		f, err = blame.Committed(ctx, r, starts[0], path)
	}
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
		err = pathspec.NoMatch(files[0])
	}
	if err != nil {
		return nil, opt, err
	}
	opt.Index, err = input.OpenVersions(ctx, env, r, starts...)
	return f, opt, err
}

// blamePrinter prints who changed a file.
type blamePrinter struct {
	*blameOptions
	env     *cli.Env
	repo    *kist.Repository
	file    *blame.File
	commits map[object.ID]*blamedCommit
}

// blamedCommit has the facts of a commit that are printed.
type blamedCommit struct {
	author, committer object.Stamp
	subject           string
	shown             bool   // with --porcelain: the facts were printed
	path              string // the path in it, "" if there are several
}

// readFacts returns the facts of an origin's commit.
func (p *blamePrinter) readFacts(ctx context.Context, o *blame.Origin) (*blamedCommit, error) {
	if c := p.commits[o.Commit]; c != nil {
		if c.path != o.Path {
			c.path = ""
		}
		return c, nil
	}
	b := &blamedCommit{path: o.Path}
	if o.Commit.IsZero() {
		now := p.env.Now()
		_, zone := now.Zone()
		b.author = object.Stamp{Name: "Not Committed Yet", Email: "not.committed.yet", Time: object.TimeOf(now), Zone: int16(zone / 60)}
		b.committer = b.author
		b.subject = "Version of " + cli.QuotePath(p.file.Path) + " from " + cli.QuotePath(p.file.Path)
	} else {
		c, err := object.ReadCommit(ctx, p.repo.Objects(), o.Commit)
		if err != nil {
			return nil, err
		}
		b.author, b.committer, b.subject = c.Author, c.Committer, cli.Subject(c.Message)
	}
	p.commits[o.Commit] = b
	return b, nil
}

// authorText returns the author as it is shown.
func (p *blamePrinter) authorText(c *blamedCommit) string {
	if p.email {
		return cli.Printable("<" + c.author.Email + ">")
	}
	return cli.Printable(c.author.Name)
}

// timeText returns the time of the author as it is shown.
func (p *blamePrinter) timeText(c *blamedCommit) string {
	if p.raw {
		return fmt.Sprintf("%d %s", c.author.Time.Sec, c.author.When().Format("-0700"))
	}
	return p.date.Format(c.author.When(), p.env.Now())
}

// columns are the columns before a line or range, which have the same width everywhere.
type blameColumns struct {
	p               *blamePrinter
	path, who, when int // widths
	showsPath       bool
}

// measureColumns reads the facts of commits, and finds the widths for them.
func (p *blamePrinter) measureColumns(ctx context.Context, origins []*blame.Origin) (*blameColumns, error) {
	w := &blameColumns{p: p}
	for _, o := range origins {
		c, err := p.readFacts(ctx, o)
		if err != nil {
			return nil, err
		}
		w.showsPath = w.showsPath || o.Path != p.file.Path
		w.path = max(w.path, utf8.RuneCountInString(cli.QuotePath(o.Path)))
		w.when = max(w.when, utf8.RuneCountInString(p.timeText(c)))
		w.who = max(w.who, utf8.RuneCountInString(p.authorText(c)))
	}
	return w, nil
}

// columnsText returns the columns for an origin.
func (w *blameColumns) columnsText(o *blame.Origin) string {
	p := w.p
	id := o.Commit.Short()
	if p.long {
		id = o.Commit.String()
	}
	if o.Boundary {
		id = "^" + id[:len(id)-1]
	}
	text := p.env.Paint(cli.Yellow, id)
	if w.showsPath {
		text += " " + pad(cli.QuotePath(o.Path), w.path)
	}
	if !p.noAuthor {
		c := p.commits[o.Commit]
		text += " (" + pad(p.authorText(c), w.who) + " " + pad(p.timeText(c), w.when)
	}
	return text
}

// pad returns text with spaces at its end, so that it has a width.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0))
}

func (p *blamePrinter) printLines(ctx context.Context, hunks []blame.Hunk, text []string) error {
	origins := make([]*blame.Origin, len(hunks))
	last := 0
	for i, h := range hunks {
		origins[i], last = h.Origin, h.Hi
	}
	w, err := p.measureColumns(ctx, origins)
	if err != nil {
		return err
	}
	for _, h := range hunks {
		switch {
		case p.env.Global.JSON:
			p.printJSON(h.Origin, func(v *blameJSON) {
				v.Line, v.OriginalLine = h.Lo+1, h.At+1
				for _, line := range text[h.Lo:h.Hi] {
					v.Lines = append(v.Lines, strings.TrimSuffix(line, "\n"))
				}
			})
		case p.porcelain || p.everyLinePorcelain:
			p.printPorcelain(h, text)
		default:
			before, digits := w.columnsText(h.Origin), len(fmt.Sprint(last))
			for i := h.Lo; i < h.Hi; i++ {
				p.env.Printf("%s %*d) %s\n", before, digits, i+1, strings.TrimSuffix(text[i], "\n"))
			}
		}
	}
	return nil
}

// printPorcelain prints lines in git's form for programs.
func (p *blamePrinter) printPorcelain(h blame.Hunk, text []string) {
	for i := h.Lo; i < h.Hi; i++ {
		p.env.Printf("%s %d %d", h.Origin.Commit, h.At+i-h.Lo+1, i+1)
		if i == h.Lo {
			p.env.Printf(" %d", h.Hi-h.Lo)
		}
		p.env.Printf("\n")
		if i == h.Lo || p.everyLinePorcelain {
			p.printFacts(h.Origin)
		}
		p.env.Printf("\t%s\n", strings.TrimSuffix(text[i], "\n"))
	}
}

// printFacts prints the facts of a commit, unless they were printed before.
func (p *blamePrinter) printFacts(o *blame.Origin) {
	c := p.commits[o.Commit]
	first := !c.shown || p.everyLinePorcelain
	c.shown = true
	if first {
		for _, by := range []struct {
			role string
			object.Stamp
		}{{"author", c.author}, {"committer", c.committer}} {
			p.env.Printf("%[1]s %[2]s\n%[1]s-mail <%[3]s>\n%[1]s-time %[4]d\n%[1]s-tz %[5]s\n",
				by.role, cli.Printable(by.Name), cli.Printable(by.Email), by.Time.Sec, by.When().Format("-0700"))
		}
		p.env.Printf("summary %s\n", cli.Printable(c.subject))
		if o.Boundary {
			p.env.Printf("boundary\n")
		}
	}
	if first || c.path == "" {
		if !o.Previous.Commit.IsZero() {
			p.env.Printf("previous %s %s\n", o.Previous.Commit, cli.QuotePath(o.Previous.Path))
		}
		p.env.Printf("filename %s\n", cli.QuotePath(o.Path))
	}
}

func (p *blamePrinter) printBytes(ctx context.Context, ranges []blame.Range) error {
	origins := make([]*blame.Origin, len(ranges))
	digits := len(fmt.Sprint(p.file.Entry.Size))
	for i, r := range ranges {
		origins[i] = r.Origin
	}
	w, err := p.measureColumns(ctx, origins)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		if p.env.Global.JSON {
			p.printJSON(r.Origin, func(v *blameJSON) { v.Offset, v.Size = &r.Offset, r.Size })
			continue
		}
		p.env.Printf("%s %*d..%-*d) %s\n", w.columnsText(r.Origin), digits, r.Offset, digits, r.Offset+r.Size, readable.FormatSize(r.Size))
	}
	return nil
}

// blameJSON is a part of a file as blame prints it with --json.
type blameJSON struct {
	Commit          *object.ID `json:"commit" doc:"the commit; null: not committed yet"`
	jsonform.AtPath `doc:"the path in that commit"`
	Line            int              `json:"line,omitempty" doc:"the number of the first line"`
	OriginalLine    int              `json:"original_line,omitempty" doc:"its number in that commit"`
	Lines           []string         `json:"lines,omitempty" doc:"the text of the lines"`
	Offset          *uint64          `json:"offset,omitempty" doc:"with --bytes, the offset of the first byte"`
	Size            uint64           `json:"size,omitempty" doc:"with --bytes, the number of bytes"`
	Author          *jsonform.Person `json:"author,omitempty" doc:"who wrote the commit"`
	Subject         string           `json:"subject,omitempty" doc:"the first line of its message"`
	Boundary        bool             `json:"boundary,omitempty" doc:"true if the search ended at this commit"`
	Previous        *placeJSON       `json:"previous,omitempty" doc:"the version before"`
}

// placeJSON is a file of a commit.
type placeJSON struct {
	Commit object.ID `json:"commit" doc:"the commit"`
	jsonform.AtPath
}

// printJSON prints a part of the file, which set fills in.
func (p *blamePrinter) printJSON(o *blame.Origin, set func(*blameJSON)) {
	c := p.commits[o.Commit]
	v := blameJSON{Commit: cli.OrNull(o.Commit), AtPath: jsonform.NewPath(o.Path), Boundary: o.Boundary}
	if !o.Commit.IsZero() {
		v.Author, v.Subject = new(jsonform.NewPerson(c.author)), c.subject
	}
	if !o.Previous.Commit.IsZero() {
		v.Previous = &placeJSON{o.Previous.Commit, jsonform.NewPath(o.Previous.Path)}
	}
	set(&v)
	p.env.JSON(v)
}
