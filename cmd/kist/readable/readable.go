// Package readable writes numbers, and texts of others, so that a person can read them without being
// misled. The command line and the pages of the server share it.
package readable

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

var sizeUnits = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// FormatSize returns a number of bytes for a person to read: "512 B", "1.5 KiB", "23 GiB", never
// more than four digits.
func FormatSize(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), 0
	for value >= 1023.5 && unit < len(sizeUnits)-1 {
		value /= 1024
		unit++
	}
	if value < 9.95 {
		return fmt.Sprintf("%.1f %s", value, sizeUnits[unit])
	}
	return fmt.Sprintf("%.0f %s", value, sizeUnits[unit])
}

// FormatCount returns n with its thousands set apart by commas.
func FormatCount(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural returns a number and a noun in the number it takes: "1 file", "2 files". Thousands are
// set apart: "12,345 files".
func Plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return FormatCount(n) + " " + many
}

// IsBadByte reports whether r, found at s[i], stands for a byte that is not UTF-8.
func IsBadByte(s string, i int, r rune) bool {
	if r != utf8.RuneError {
		return false
	}
	_, size := utf8.DecodeRuneInString(s[i:])
	return size == 1
}

// IsDeceptive reports whether printing r does something to a terminal other than showing a
// letter: control characters, separators of lines, and marks that change the direction of text.
func IsDeceptive(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0, r == 0x2028, r == 0x2029: // C0, DEL, C1, separators of lines
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // direction
		return true
	}
	return false
}

// IsInvisible reports whether a name with r can look like another name: r shows nothing, or
// changes the text around it.
func IsInvisible(r rune) bool {
	return IsDeceptive(r) || unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point)
}

// QuoteLabel returns the value of a label in the text format of Prometheus.
func QuoteLabel(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(value, "\ufffd")) + `"`
}

// Escaped yields s in parts. Invisible characters and bytes that are not UTF-8 are parts of their
// own, as escapes such as \x1b and \u202e; then escape is true. The characters in keep stay.
func Escaped(s, keep string) iter.Seq2[string, bool] {
	return func(yield func(part string, escape bool) bool) {
		plain := 0 // start of the text that was not yielded yet
		for i, r := range s {
			form, size := `\u%04x`, utf8.RuneLen(r)
			switch {
			case IsBadByte(s, i, r):
				form, r, size = `\x%02x`, rune(s[i]), 1
			case !IsInvisible(r) || strings.ContainsRune(keep, r):
				continue
			case r < 0x100:
				form = `\x%02x`
			}
			if plain < i && !yield(s[plain:i], false) || !yield(fmt.Sprintf(form, r), true) {
				return
			}
			plain = i + size
		}
		if plain < len(s) {
			yield(s[plain:], false)
		}
	}
}

// Escape returns s with escapes as [Escaped] yields them.
func Escape(s string) string {
	var b strings.Builder
	for part := range Escaped(s, "") {
		b.WriteString(part)
	}
	return b.String()
}
