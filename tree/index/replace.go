package index

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist/object/disk"
)

// Replace writes x, which was not loaded from files, in place of an index that is
// damaged or missing. Before, keep is called with the names of the files that
// there are in kistDir; they are replaced or removed afterwards. An index that is
// whole is left alone, and replaced is false. An index in a newer format is a
// [*VersionError].
func Replace(ctx context.Context, kistDir string, x *Index, keep func(names []string) error) (replaced bool, err error) {
	lock, err := disk.Lock(ctx, filepath.Join(kistDir, lockName), disk.Exclusive, disk.DefaultWait)
	if err != nil {
		return false, fmt.Errorf("lock index: %w", err)
	}
	defer lock.Unlock()
	old, err := Load(kistDir)
	var damage *CorruptError
	if err != nil && !errors.As(err, &damage) {
		return false, err
	}
	if err == nil && old.Saved() {
		return false, nil
	}
	entries, err := disk.ReadDir(kistDir)
	if err != nil {
		return false, fmt.Errorf("replace index: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() == headName || strings.HasPrefix(e.Name(), basePrefix) {
			names = append(names, e.Name())
		}
	}
	if err := keep(names); err != nil {
		return false, err
	}
	if err := x.save(kistDir); err != nil {
		return false, fmt.Errorf("replace index: %w", err)
	}
	return true, nil
}
