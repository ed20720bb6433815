package refs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// Root is a commit or tag object that a file of this package names.
type Root struct {
	ID   object.ID
	File string // below the .kist folder, as in "refs/heads/main" or "logs/HEAD"
}

// Roots returns every ID in HEAD, the refs, the special names and the logs,
// with its file. It reads every file in the folders, even with an impossible
// name. It reads all of them at one moment, because it excludes writers. After
// an error it still returns all readable IDs; a caller that removes objects
// must then stop.
func (s *Store) Roots(ctx context.Context) ([]Root, error) {
	return s.RootsWith(ctx, func(LogEntry) bool { return true })
}

// RootsWith is Roots without the log entries for which keep returns false, see
// [Store.ExpireLog].
func (s *Store) RootsWith(ctx context.Context, keep func(LogEntry) bool) ([]Root, error) {
	unlock, err := s.lockOut(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	files, err := s.names("refs", "")
	if err != nil {
		return nil, err
	}

	top, err := disk.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list refs: %w", err)
	}

	for _, e := range top {
		if e.Name() == "HEAD" || isSpecial(e.Name()) {
			files = append(files, e.Name())
		}
	}

	logs, err := s.names("logs", "")
	if err != nil {
		return nil, err
	}

	files = append(files, logs...)

	found := make([][]object.ID, len(files))
	errs := make([]error, len(files))
	each(len(files), func(i int) error {
		found[i], errs[i] = s.rootsOf(files[i], keep)
		return nil
	})

	var roots []Root
	for i, ids := range found {
		for _, id := range ids {
			roots = append(roots, Root{ID: id, File: files[i]})
		}
	}

	return roots, errors.Join(errs...)
}

// rootsOf returns the IDs in a file, each once.
func (s *Store) rootsOf(file string, keep func(LogEntry) bool) (ids []object.ID, err error) {
	if !strings.HasPrefix(file, "logs/") {
		v, _, err := s.value(file)
		if err != nil || v.id.IsZero() {
			return nil, err
		}
		return []object.ID{v.id}, nil
	}

	entries, err := s.readLog(file)
	seen := map[object.ID]bool{{}: true}
	for _, e := range entries {
		if !keep(e) {
			continue
		}
		for _, id := range []object.ID{e.New, e.Old} {
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}

	return ids, err
}
