//go:build !linux

package disk

import "math"

// FreeSpace returns the number of free bytes in the file system of dir, if it is known.
func FreeSpace(string) (int64, error) { return math.MaxInt64, nil }
