package cli

import (
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/readable"
)

// FormatSize returns a number of bytes for a person to read. See [readable.FormatSize].
func FormatSize(n uint64) string { return readable.FormatSize(n) }

// SizeOrBytes is formatSize, or with exact the number of bytes.
func SizeOrBytes(n uint64, exact bool) string {
	if exact {
		return FormatCount(n)
	}
	return FormatSize(n)
}

// Plural returns a number and a noun in the number it takes. See [readable.Plural].
func Plural(n uint64, one, many string) string { return readable.Plural(n, one, many) }

// FormatCount returns n with its thousands set apart by commas.
func FormatCount(n uint64) string { return readable.FormatCount(n) }

// Count is a number of things, and their name.
type Count struct {
	N         int64
	One, Many string
}

// JoinCounts lists the counts that are not zero.
func JoinCounts(counts []Count) string {
	var parts []string
	for _, c := range counts {
		if c.N > 0 {
			parts = append(parts, Plural(uint64(c.N), c.One, c.Many))
		}
	}
	return strings.Join(parts, ", ")
}
