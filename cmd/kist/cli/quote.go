package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/kist-vcs/kist/cmd/kist/readable"
)

// QuotePath returns a path as git prints it: unchanged if it can be shown and read back,
// and otherwise in double quotes with C's escapes.
// Letters beyond ASCII are left alone (git's core.quotePath=false); quotes,
// backslashes, control characters, what reorders text, and bytes that are not
// UTF-8 are escaped. Where a command has -z, it prints paths as they are.
func QuotePath(path string) string {
	if !NeedsQuotes(path) {
		return path
	}
	return QuoteArg(path)
}

// QuoteSpaced is QuotePath, but it also quotes paths with spaces, so that their ends are
// clear. Git does so in short statuses.
func QuoteSpaced(path string) string {
	if strings.Contains(path, " ") {
		return QuoteArg(path)
	}
	return QuotePath(path)
}

func NeedsQuotes(s string) bool {
	for i, r := range s {
		if r == '"' || r == '\\' || readable.IsInvisible(r) || readable.IsBadByte(s, i, r) {
			return true
		}
	}
	return false
}

// QuoteArg returns text in double quotes, escaped as [QuotePath] does, for the
// subject of a message.
func QuoteArg(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case readable.IsBadByte(s, i, r):
			octal(&b, s[i:i+1])
		case readable.IsInvisible(r):
			if letter, ok := cEscapes[r]; ok {
				b.WriteByte('\\')
				b.WriteByte(letter)
			} else {
				octal(&b, string(r))
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

var cEscapes = map[rune]byte{'\a': 'a', '\b': 'b', '\t': 't', '\n': 'n', '\v': 'v', '\f': 'f', '\r': 'r'}

func octal(b *strings.Builder, s string) {
	for i := range len(s) {
		fmt.Fprintf(b, `\%03o`, s[i])
	}
}

// Printable makes text of others, such as a commit message, safe for a terminal. Newlines
// and tabs stay. Other control characters become pictures of them (ESC becomes ␛), and
// invalid bytes become U+FFFD.
func Printable(text string) string {
	plain := true
	for i := range len(text) {
		c := text[i]
		plain = plain && (c >= 0x20 && c < 0x7f || c == '\n' || c == '\t')
	}
	if plain {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20:
			return 0x2400 + r
		case r == 0x7f:
			return 0x2421
		case readable.IsDeceptive(r):
			return utf8.RuneError
		}
		return r
	}, text)
}

// Style is how a terminal shows a piece of text: the parameters of an SGR
// escape sequence.
type Style string

const (
	Bold    Style = "1"
	dim     Style = "2"
	Red     Style = "31"
	Green   Style = "32"
	Yellow  Style = "33"
	Blue    Style = "34"
	Magenta Style = "35"
	Cyan    Style = "36"

	BoldRed    Style = "1;31"
	boldGreen  Style = "1;32"
	boldYellow Style = "1;33"
	boldCyan   Style = "1;36"
)

// Paint returns text in the given style, for Stdout, if colours are wanted.
func (e *Env) Paint(s Style, text string) string {
	return paint(e.Colored(e.Terminal.Stdout), s, text)
}

// PaintErr returns text in the given style, for Stderr, if colours are wanted.
func (e *Env) PaintErr(s Style, text string) string {
	return paint(e.Colored(e.Terminal.Stderr), s, text)
}

func paint(colored bool, s Style, text string) string {
	if !colored || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[m"
}

// Colored reports whether a stream gets colours. Without --color and the key color.ui, it
// does if it is a terminal with colours and NO_COLOR is not set.
func (e *Env) Colored(terminal bool) bool {
	mode := e.Global.Color
	if e.Global.colors != nil && !e.Global.colors.given && e.color != "" {
		mode = e.color
	}
	switch mode {
	case "always":
		return true
	case "never":
		return false
	}
	return terminal && e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb"
}

// Subject returns the first line of a message, cut if it is very long.
func Subject(message string) string {
	message = strings.TrimLeft(message, "\n")
	line, _, _ := strings.Cut(message[:min(len(message), 4*maxSubject+4)], "\n")
	if runes := []rune(line); len(runes) > maxSubject {
		return string(runes[:maxSubject]) + "…"
	}
	return line
}

// maxSubject is the number of characters after which a subject is cut.
const maxSubject = 200
