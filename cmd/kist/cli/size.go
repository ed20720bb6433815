package cli

import (
	"fmt"
	"strconv"
	"strings"
)

var sizeUnits = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// formatSize returns a number of bytes for a person to read: "512 B",
// "1.5 KiB", "23 GiB", never more than four digits.
func formatSize(n uint64) string {
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

// sizeOrBytes is formatSize, or with exact the number of bytes.
func sizeOrBytes(n uint64, exact bool) string {
	if exact {
		return formatCount(n)
	}
	return formatSize(n)
}

// plural returns a number and a noun in the number it takes: "1 file",
// "2 files". Thousands are set apart: "12,345 files".
func plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return formatCount(n) + " " + many
}

// formatCount returns n with its thousands set apart by commas.
func formatCount(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count is a number of things, and their name.
type count struct {
	n         int64
	one, many string
}

// joinCounts lists the counts that are not zero.
func joinCounts(counts []count) string {
	var parts []string
	for _, c := range counts {
		if c.n > 0 {
			parts = append(parts, plural(uint64(c.n), c.one, c.many))
		}
	}
	return strings.Join(parts, ", ")
}
