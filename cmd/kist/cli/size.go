package cli

import (
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/readable"
)

// SizeOrBytes is FormatSize, or with exact the number of bytes.
func SizeOrBytes(n uint64, exact bool) string {
	if exact {
		return readable.FormatCount(n)
	}
	return readable.FormatSize(n)
}

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
			parts = append(parts, readable.Plural(uint64(c.N), c.One, c.Many))
		}
	}
	return strings.Join(parts, ", ")
}
