package show

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// maxPadding is the largest number of columns that a placeholder is padded to.
const maxPadding = 10_000

// padding pads the next placeholder with spaces, or cuts it.
type padding struct {
	align  string // "<", ">", "><" or ">>", which uses spaces at the left
	column bool   // columns count from the start of the line
	width  int    // in columns
	cut    string // "trunc", "ltrunc", "mtrunc" or "": not cut
}

var paddingText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(<|>>|><|>)(\|?)\( *([0-9]{1,5}) *(?:, *(trunc|ltrunc|mtrunc))?\)`)
})

// parsePadding returns the padding that a placeholder sets, and the length of the
// placeholder. It returns nil for other placeholders.
func parsePadding(text string) (*padding, int) {
	m := paddingText().FindStringSubmatch(text)
	if m == nil {
		return nil, 0
	}
	width, _ := strconv.Atoi(m[3])
	if width == 0 || width > maxPadding {
		return nil, 0
	}
	return &padding{m[1], m[2] != "", width, m[4]}, len(m[0])
}

// appendPadded appends text, padded.
func (p *padding) appendPadded(b []byte, text string) []byte {
	width, n := p.width, Width(text)
	if p.column {
		width -= Width(string(b[bytes.LastIndexByte(b, '\n')+1:]))
	}
	align := p.align
	if align == ">>" {
		for n > width && len(b) > 0 && b[len(b)-1] == ' ' {
			b = b[:len(b)-1]
			width++
		}
		align = ">"
	}
	if n > width {
		return append(b, p.shortenText(text, n, width)...)
	}
	left := 0
	switch align {
	case ">":
		left = width - n
	case "><":
		left = (width - n) / 2
	}
	b = append(b, strings.Repeat(" ", left)...)
	b = append(b, text...)
	return append(b, strings.Repeat(" ", width-n-left)...)
}

// shortenText returns a text of n columns, cut to width columns. Two dots stand for the rest.
func (p *padding) shortenText(text string, n, width int) string {
	at := max(width-2, 0)
	switch p.cut {
	case "":
		return text
	case "ltrunc":
		at = 0
	case "mtrunc":
		at = max(width/2-1, 0)
	}
	return replaceColumns(text, at, n-(width-2))
}

// replaceColumns replaces width columns of a text from column at by two dots. Escape
// sequences stay.
func replaceColumns(text string, at, width int) string {
	var out strings.Builder
	column, dots := 0, false
	for text != "" {
		if n := escapeSize(text); n > 0 {
			out.WriteString(text[:n])
			text = text[n:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		if column >= at && column < at+width {
			if !dots {
				out.WriteString("..")
				dots = true
			}
		} else {
			out.WriteString(text[:size])
		}
		column += runeWidth(r)
		text = text[size:]
	}
	return out.String()
}

// escapeSize returns the length of the escape sequence of a colour at the start of text.
func escapeSize(text string) int {
	if !strings.HasPrefix(text, "\x1b[") {
		return 0
	}
	if end := strings.IndexByte(text, 'm'); end > 0 && strings.Trim(text[2:end], "0123456789;") == "" {
		return end + 1
	}
	return 0
}

// Width returns the number of columns that a terminal needs for text. Escape sequences
// of colours need none.
func Width(text string) (n int) {
	for text != "" {
		if size := escapeSize(text); size > 0 {
			text = text[size:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		n += runeWidth(r)
		text = text[size:]
	}
	return n
}

// wide lists the characters that need two columns.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1}, {0x2e80, 0x303e, 1}, {0x3041, 0x33ff, 1}, {0x3400, 0x4dbf, 1}, {0x4e00, 0x9fff, 1}, {0xa000, 0xa4cf, 1},
		{0xac00, 0xd7a3, 1}, {0xf900, 0xfaff, 1}, {0xfe30, 0xfe6f, 1}, {0xff00, 0xff60, 1}, {0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{{0x1f300, 0x1f64f, 1}, {0x1f680, 0x1f6ff, 1}, {0x1f900, 0x1faff, 1}, {0x20000, 0x3fffd, 1}},
}

// runeWidth returns the number of columns of a character.
func runeWidth(r rune) int {
	switch {
	case r < 0x20 || r >= 0x7f && r < 0xa0 || unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}
