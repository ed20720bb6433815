package cli

import (
	"fmt"
	"strconv"
	"strings"
)

var sizeUnits = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// FormatSize returns a number of bytes for a person to read: "512 B",
// "1.5 KiB", "23 GiB", never more than four digits.
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

// SizeOrBytes is formatSize, or with exact the number of bytes.
func SizeOrBytes(n uint64, exact bool) string {
	if exact {
		return FormatCount(n)
	}
	return FormatSize(n)
}

// Plural returns a number and a noun in the number it takes: "1 file",
// "2 files". Thousands are set apart: "12,345 files".
func Plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return FormatCount(n) + " " + many
}

// FormatCount returns n with its thousands set apart by commas.
func FormatCount(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
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
			parts = append(parts, Plural(uint64(c.N), c.One, c.Many))
		}
	}
	return strings.Join(parts, ", ")
}
