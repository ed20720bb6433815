package object

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// CutText returns the beginning of a text, in whole characters and at most size bytes.
func CutText(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

// CleanText returns a text in valid UTF-8 with control in place of each control character. A
// negative control drops them. U+FFFD stands for bytes that are not UTF-8.
func CleanText(text string, control rune) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return control
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

// OneLine is [CleanText] with one space in place of each run of spaces and control characters,
// cut to at most size bytes.
func OneLine(text string, size int) string {
	text = strings.Join(strings.Fields(CleanText(text, ' ')), " ")
	return strings.TrimSpace(CutText(text, size))
}
