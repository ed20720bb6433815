package web

import (
	"context"
	"html/template"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/chroma/v2"

	"github.com/kist-vcs/kist/tree"
)

// The limits of highlighting. The expressions of some languages are slow on hostile text, so
// a text that takes longer than maxHighlighting is shown without colours.
const (
	maxHighlighted = 64 << 10
	maxPainting    = 2    // texts at once
	maxLine        = 4096 // bytes of a line that are shown
)

var maxHighlighting = 500 * time.Millisecond

// room is the space for text on a page. One byte of hostile text can become 40 bytes of HTML.
type room struct{ lines, bytes int }

// maxShown is the number of bytes of HTML after which no text follows on a page.
const maxShown = 4 << 20

// takeLine takes the space for a line, and reports whether there was some left.
func (r *room) takeLine(line template.HTML) bool {
	if r.lines <= 0 || r.bytes <= 0 {
		return false
	}
	r.lines--
	r.bytes -= len(line)
	return true
}

// highlighted returns the lines of a text as HTML, with a class for each sort of word. It stops
// colouring when ctx ends.
func (p *painter) highlighted(ctx context.Context, name string, data []byte) []template.HTML {
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	if len(text) <= maxHighlighted && utf8.ValidString(text) {
		if lexer := lexerFor(name); lexer != nil {
			if lines, ok := p.colorLines(ctx, lexer, text); ok {
				return lines
			}
		}
	}
	var lines []template.HTML
	for _, line := range tree.SplitLines([]byte(text)) {
		lines = append(lines, visible(cut(strings.TrimSuffix(line, "\n"), maxLine)))
	}
	return lines
}

// painter colours texts, a few at once. A page waits for a lexer for maxHighlighting. The lexer
// stops after the word that it is reading, and keeps its place until then.
type painter struct{ places chan struct{} }

func newPainter() *painter { return &painter{make(chan struct{}, maxPainting)} }

// colorLines returns the lines of a text, or false if that takes too long.
func (p *painter) colorLines(ctx context.Context, lexer chroma.Lexer, text string) ([]template.HTML, bool) {
	ctx, stop := context.WithTimeout(ctx, maxHighlighting)
	defer stop()
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	done := make(chan *coloring, 1)
	go func() {
		defer func() { <-p.places }()
		c := &coloring{}
		c.readText(ctx, lexer, text)
		done <- c
	}()
	select {
	case c := <-done:
		return c.lines, !c.failed
	case <-ctx.Done():
		return nil, false
	}
}

// stoppable is a lexer that fails when ended returns an error. [chroma.Coalesce] joins any number of words
// before it returns one, so this lexer has to be the inner one.
type stoppable struct {
	chroma.Lexer
	ended func() error
}

func (s stoppable) Tokenise(o *chroma.TokeniseOptions, text string) (chroma.Iterator, error) {
	next, err := s.Lexer.Tokenise(o, text)
	if err != nil {
		return nil, err
	}
	return func() chroma.Token {
		if err := s.ended(); err != nil {
			panic(err) // an iterator has no other way to fail
		}
		return next()
	}, nil
}

// coloring collects the lines of a text.
type coloring struct {
	lines  []template.HTML
	line   strings.Builder // the present one
	length int             // of its text
	failed bool
}

// readText reads a text. It fails if ctx ends, or if the lexer cannot read the text.
func (c *coloring) readText(ctx context.Context, lexer chroma.Lexer, text string) {
	defer func() {
		if recover() != nil {
			c.failed = true
		}
	}()
	tokens, err := chroma.Coalesce(stoppable{lexer, ctx.Err}).Tokenise(nil, text)
	if err != nil {
		c.failed = true
		return
	}
	for token := tokens(); token != chroma.EOF; token = tokens() {
		class := classOf(token.Type)
		for i, piece := range strings.Split(token.Value, "\n") {
			if i > 0 {
				c.endLine()
			}
			c.addWords(class, piece)
		}
	}
	if c.line.Len() > 0 {
		c.endLine()
	}
}

// addWords adds words of one sort to the present line.
func (c *coloring) addWords(class, text string) {
	text = cut(text, maxLine-c.length)
	c.length += len(text)
	switch {
	case text == "":
	case class == "":
		c.line.WriteString(string(visible(text)))
	default:
		c.line.WriteString(`<span class="` + class + `">` + string(visible(text)) + `</span>`)
	}
}

func (c *coloring) endLine() {
	c.lines = append(c.lines, template.HTML(c.line.String()))
	c.line.Reset()
	c.length = 0
}

// classOf returns the class of a sort of word, or "" for plain text. static/style.css has a
// colour for each class.
func classOf(t chroma.TokenType) string {
	switch {
	case t.InCategory(chroma.Comment):
		return "hl-comment"
	case t == chroma.KeywordType:
		return "hl-type"
	case t.InCategory(chroma.Keyword), t == chroma.OperatorWord, t == chroma.NameTag:
		return "hl-keyword"
	case t.InSubCategory(chroma.LiteralString):
		return "hl-string"
	case t.InCategory(chroma.Literal):
		return "hl-number"
	case t == chroma.NameFunction, t == chroma.NameClass, t == chroma.NameDecorator, t == chroma.NameAttribute:
		return "hl-name"
	case t == chroma.NameBuiltin, t == chroma.NameConstant:
		return "hl-type"
	case t == chroma.GenericDeleted:
		return "hl-deleted"
	case t == chroma.GenericInserted:
		return "hl-inserted"
	case t == chroma.GenericHeading, t == chroma.GenericSubheading, t == chroma.GenericStrong:
		return "hl-heading"
	}
	return ""
}
