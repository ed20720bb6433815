package kist

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize reads a number of bytes as a person writes it: "4096", "64KiB",
// "64k", "1.5 MiB". Units are powers of 1024.
func ParseSize(s string) (uint64, error) {
	lower := strings.ToLower(s)
	number := strings.TrimRight(lower, "abcdefghijklmnopqrstuvwxyz")
	unit := strings.TrimSuffix(strings.TrimSuffix(lower[len(number):], "b"), "i")
	number = strings.TrimSpace(number)
	shift := 0
	if unit != "" {
		shift = 10 * (1 + strings.Index("kmgtpe", unit))
	}
	value, err := strconv.ParseFloat(number, 64)
	value *= float64(uint64(1) << shift)
	switch {
	case err != nil, strings.Trim(number, "0123456789.") != "",
		len(unit) > 1, unit != "" && shift == 0,
		value >= math.MaxInt64, value != math.Trunc(value):
		return 0, fmt.Errorf("%q is no size: write it as in 64KiB", s)
	}
	return uint64(value), nil
}
