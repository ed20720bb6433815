package web

import (
	"html/template"
	"path"
	"strings"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"

	"github.com/kist-vcs/kist/tree"
)

// The limits of highlighting. The expressions of some languages are slow on hostile text, so
// a text that takes longer than maxHighlighting is shown without colours.
const (
	maxHighlighted  = 256 << 10
	maxHighlighting = 500 * time.Millisecond
	maxLine         = 4096 // bytes of a line that are shown
)

// highlighted returns the lines of a text as HTML, with a class for each sort of word.
func highlighted(name string, data []byte) []template.HTML {
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	if len(text) <= maxHighlighted {
		if lexer := lexers.Match(path.Base(name)); lexer != nil {
			if lines, ok := colored(lexer, text); ok {
				return lines
			}
		}
	}
	var lines []template.HTML
	for _, line := range tree.SplitLines([]byte(text)) {
		lines = append(lines, visible(shorten(strings.TrimSuffix(line, "\n"))))
	}
	return lines
}

// shorten returns a line with at most maxLine bytes.
func shorten(line string) string {
	if len(line) <= maxLine {
		return line
	}
	return cut(line, maxLine)
}

// colored returns the lines of a text, or false if that takes too long.
func colored(lexer chroma.Lexer, text string) (lines []template.HTML, ok bool) {
	defer func() {
		if recover() != nil { // a lexer that cannot read the text
			lines, ok = nil, false
		}
	}()
	end := time.Now().Add(maxHighlighting)
	tokens, err := chroma.Coalesce(lexer).Tokenise(nil, text)
	if err != nil {
		return nil, false
	}
	var line strings.Builder
	length := 0
	for token := tokens(); token != chroma.EOF; token = tokens() {
		if time.Now().After(end) {
			return nil, false
		}
		class := classOf(token.Type)
		for i, piece := range strings.Split(token.Value, "\n") {
			if i > 0 {
				lines = append(lines, template.HTML(line.String()))
				line.Reset()
				length = 0
			}
			if piece = piece[:min(len(piece), max(0, maxLine-length))]; piece == "" {
				continue
			}
			length += len(piece)
			if class == "" {
				line.WriteString(string(visible(piece)))
			} else {
				line.WriteString(`<span class="` + class + `">` + string(visible(piece)) + `</span>`)
			}
		}
	}
	if line.Len() > 0 {
		lines = append(lines, template.HTML(line.String()))
	}
	return lines, true
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
