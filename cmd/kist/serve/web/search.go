package web

import (
	"context"
	"errors"
	"html/template"
	"io"
	"iter"
	"regexp/syntax"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/ignore"
	"github.com/kist-vcs/kist/tree/look/find"
	"github.com/kist-vcs/kist/tree/look/grep"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// The limits of a search.
const (
	maxQuery     = 500 // bytes
	maxFound     = 200 // files, or files with lines
	maxLines     = 5   // lines of a file
	maxFoundLine = 240 // bytes of a line that are shown
	maxSteps     = 500 // of an expression; each byte of a file may cost that many
)

var maxSearching = 5 * time.Second

// searchPage is the content of the page with the results of a search.
type searchPage struct {
	In      string // "names" or "contents"
	All     bool   // in all history
	Regexp  bool
	Case    bool
	Found   []found
	Cut     string // why there may be more
	Problem string // with the query
	Asked   bool
}

// found is a file that a search found.
type found struct {
	Path  string
	Rev   string // where it is
	Entry *object.Entry
	Kind  string
	Lines []foundLine
	More  int // lines that are not shown

	Binary bool // matches, but is not text
}

// LineAddress returns the address of a line of the file.
func (f *found) LineAddress(number int) string { return lineAddress(f.Path, f.Rev, number) }

type foundLine struct {
	Number int
	Text   template.HTML
}

// Address returns the address of the page with a file or folder.
func (f *found) Address() string {
	if f.Kind == "folder" {
		return address("tree", f.Path, f.Rev)
	}
	return address("blob", f.Path, f.Rev)
}

// showSearch finds files by name or by content.
func (s *site) showSearch(r *request) (page, error) {
	q := strings.TrimSpace(r.parameter("q"))
	out := searchPage{In: r.parameter("in"), All: r.parameter("all") != "", Regexp: r.parameter("regexp") != "", Case: r.parameter("case") != ""}
	if out.In != "contents" {
		out.In = "names"
	}
	p := page{name: "search", Title: "Search", Nav: "search"}
	v, err := r.openCommit()
	if err != nil {
		return page{}, err
	}
	if q == "" {
		p.Data = out
		return p, nil
	}
	out.Asked = true
	if len(q) > maxQuery {
		out.Problem = "The query is too long."
		p.Data = out
		return p, nil
	}

	ctx, cancel := context.WithTimeout(r.Context(), maxSearching)
	defer cancel()
	find := out.findByName
	if out.In == "contents" {
		find = out.contents
	}
	err = find(ctx, r, v, q)
	switch {
	case errors.Is(err, errEnough):
		out.Cut = "There are more results. A longer query finds fewer."
	case ctx.Err() != nil && r.Context().Err() == nil:
		out.Cut = "The search was stopped after five seconds. 'kist find' and 'kist grep' search without a limit."
	case errors.Is(err, errIndexing):
		out.Cut = "The index of all history is being made. Search again in a moment."
	case err != nil:
		return page{}, err
	}
	p.Data = out
	return p, nil
}

var errEnough = errors.New("enough results")

// findByName finds files by an expression of 'kist find'. A plain word is a part of a name.
func (p *searchPage) findByName(ctx context.Context, r *request, v *serve.VisibleCommit, q string) error {
	if !p.All && !strings.Contains(q, "changed=") && !strings.Contains(q, "sha256=") {
		return p.namesWith(ctx, r, v, q, nil)
	}
	return r.site.versions.useIndex(ctx, maxIndexing, func(x *versions.Index) error { return p.namesWith(ctx, r, v, q, x) })
}

// namesWith is names with the index of history, or without one.
func (p *searchPage) namesWith(ctx context.Context, r *request, v *serve.VisibleCommit, q string, x *versions.Index) error {
	query, err := find.Parse(ctx, r.site.Repo, wordsOf(q), find.Options{
		Now:  r.site.Now(),
		Show: r.site.Viewer(ctx).Show,
		Paths: func(pattern string) (func(path string) bool, error) {
			glob, ok := ignore.CompileGlob(pattern, true, false)
			return func(path string) bool { return tree.Below(path, pattern) || ok && glob.Match(path) }, nil
		},
		Resolve: r.site.Resolve,
		Open:    func(string) (io.ReadCloser, error) { return nil, errors.New("only 'kist find' compares files") },
		Index: func() (*versions.Index, error) {
			if x == nil {
				return nil, errors.New("only 'kist find' has this test")
			}
			return x, nil
		},
	})
	var wrong *find.SyntaxError
	if errors.As(err, &wrong) {
		p.Problem = wrong.Err.Error()
		return nil
	}
	if err != nil {
		return err
	}

	if p.All {
		for f, err := range query.All(ctx) {
			if err == nil { // the newest commit with the content
				err = p.addFile(ctx, found{Path: f.Path, Rev: f.Commits[len(f.Commits)-1].String(), Entry: &f.Entry})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	root, err := v.Find(ctx, "")
	if err != nil {
		return err
	}
	for f, err := range query.In(ctx, find.SearchStart{Entry: root, Root: v.Tree, Commit: v.Commit, Objects: v.Objects}) {
		if err == nil {
			err = p.addFile(ctx, found{Path: f.Path, Rev: r.rev, Entry: &f.Entry})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addFile adds a file that the visitor may read.
func (p *searchPage) addFile(ctx context.Context, f found) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(p.Found) == maxFound {
		return errEnough
	}
	_, name := tree.Split(f.Path)
	f.Kind = kindOf(name)
	if f.Entry != nil && f.Entry.Type == object.TypeDir {
		f.Kind = "folder"
	}
	p.Found = append(p.Found, f)
	return nil
}

// wordsOf splits a query into the words of an expression. Quotes keep spaces together. A plain
// word becomes a test for a part of a name.
func wordsOf(q string) (words []string) {
	var word strings.Builder
	quote, open := rune(0), false
	end := func(quoted bool) {
		if open {
			words = append(words, asTest(word.String(), quoted))
		}
		word.Reset()
		open = false
	}
	quoted := false
	for _, r := range q {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, open, quoted = r, true, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			end(quoted)
			quoted = false
		default:
			word.WriteRune(r)
			open = true
		}
	}
	end(quoted)
	return words
}

// asTest returns a word as a test of an expression.
func asTest(word string, quoted bool) string {
	switch {
	case strings.Contains(word, "="), !quoted && slices.Contains([]string{"and", "or", "not", "(", ")"}, word):
		return word
	case strings.Contains(word, "/"):
		return "path=" + word
	case ignore.HasWildcards(word):
		return "iname=" + word
	}
	return "iname=*" + word + "*"
}

// contents finds lines in files.
func (p *searchPage) contents(ctx context.Context, r *request, v *serve.VisibleCommit, q string) error {
	pattern, err := grep.Compile([]string{q}, grep.PatternOptions{Fixed: !p.Regexp, IgnoreCase: !p.Case, MaxSteps: maxSteps})
	var wrong *syntax.Error
	if errors.As(err, &wrong) {
		p.Problem = "The expression is not valid: " + wrong.Code.String()
		return nil
	}
	if errors.Is(err, grep.ErrTooLarge) {
		p.Problem = "The expression is too large for this page. 'kist grep' takes it."
		return nil
	}
	if err != nil {
		return err
	}
	viewer := r.site.Viewer(ctx)
	selected := func(commit object.ID, path string) bool {
		may, err := viewer.Sees(ctx, path, commit)
		return err == nil && may && ctx.Err() == nil
	}
	run := func(files iter.Seq2[*grep.File, error]) error {
		return grep.Search(ctx, files, grep.Options{Pattern: pattern, Spans: true}, max(1, r.site.Jobs), func(b grep.Block) error {
			return p.addBlock(b, r.rev)
		})
	}
	if !p.All {
		return run(grep.InView(ctx, v.Side, func(path string) bool { return selected(v.Commit, path) }))
	}
	return r.site.versions.useIndex(ctx, maxIndexing, func(x *versions.Index) error {
		return run(grep.InHistory(ctx, r.site.Repo, x, selected))
	})
}

// addBlock adds the lines of a part of a file.
func (p *searchPage) addBlock(b grep.Block, rev string) error {
	if b.File == nil || len(b.Lines) == 0 && !(b.Binary && b.Count > 0) {
		return nil
	}
	if !b.Commit.IsZero() && p.All {
		rev = b.Commit.String()
	}
	last := len(p.Found) - 1
	if last < 0 || p.Found[last].Path != b.Path || p.Found[last].Rev != rev {
		if len(p.Found) == maxFound {
			return errEnough
		}
		_, name := tree.Split(b.Path)
		p.Found = append(p.Found, found{Path: b.Path, Rev: rev, Kind: kindOf(name)})
		last++
	}
	f := &p.Found[last]
	f.Binary = b.Binary
	for i := range b.Lines {
		if len(f.Lines) == maxLines {
			f.More += len(b.Lines) - i
			break
		}
		f.Lines = append(f.Lines, foundLine{b.Lines[i].Number, marked(&b.Lines[i])})
	}
	return nil
}

// marked returns the part of a line around its first match, with the matches marked.
func marked(l *grep.Line) template.HTML {
	text := l.Text
	from := 0
	if len(l.Spans) > 0 && l.Spans[0][0] > maxFoundLine/2 {
		from = l.Spans[0][0] - maxFoundLine/4
		for from < len(text) && !utf8.RuneStart(text[from]) {
			from++
		}
	}
	to := min(len(text), from+maxFoundLine)
	for to < len(text) && to > from && !utf8.RuneStart(text[to]) {
		to--
	}
	var b strings.Builder
	if from > 0 {
		b.WriteString("…")
	}
	at := from
	for _, span := range l.Spans {
		start, end := max(span[0], at), min(span[1], to)
		if start >= end {
			continue
		}
		b.WriteString(string(visible(string(text[at:start]))))
		b.WriteString("<mark>" + string(visible(string(text[start:end]))) + "</mark>")
		at = end
	}
	b.WriteString(string(visible(string(text[min(at, to):to]))))
	if to < len(text) {
		b.WriteString("…")
	}
	return template.HTML(b.String())
}
