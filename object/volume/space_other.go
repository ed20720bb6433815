//go:build !linux

package volume

import (
	"errors"
	"math"
	"os"
)

func allocate(*os.File, int64, int64) error       { return errors.ErrUnsupported }
func deallocate(*os.File, int64, int64) error     { return errors.ErrUnsupported }
func freeSpace(string) (int64, error)             { return math.MaxInt64, nil }
func beginWriteback(*os.File, int64, int64) error { return nil }
func dropWritten(*os.File, int64, int64) error    { return nil }
func renameNew(from, to string) error             { return renameChecked(from, to) }

type mapping struct{ addr, size uintptr }

func findMappings(prefix, suffix string) []mapping { return nil }
func (mapping) drop(int64, int64) error            { return nil }
