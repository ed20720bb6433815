//go:build !linux

package ingest

import (
	"errors"
	"os"
)

func allocate(*os.File, int64, int64) error       { return errors.ErrUnsupported }
func deallocate(*os.File, int64, int64) error     { return errors.ErrUnsupported }
func beginWriteback(*os.File, int64, int64) error { return nil }
func dropWritten(*os.File, int64, int64) error    { return nil }

type mapping struct{ addr, size uintptr }

func findMappings(prefix, suffix string) []mapping { return nil }
func (mapping) dropPages(int64, int64) error       { return nil }
