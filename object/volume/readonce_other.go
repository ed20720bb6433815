//go:build !linux

package volume

import "os"

// readOnce is f.ReadAt.
func readOnce(f *os.File, buf []byte, off int64) (int, error) { return f.ReadAt(buf, off) }
