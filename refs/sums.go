package refs

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// AddSums gives a checksum to the files of HEAD and refs that have none, and returns their
// names. With dryRun, it only returns the names. It first calls sure with the ID in each file,
// and changes nothing if that returns an error: a checksum must not confirm a damaged ID.
//
// It keeps an old file until the new one is on disk and decodes to the same value.
func AddSums(ctx context.Context, s *Store, dryRun bool, sure func(name string, id object.ID) error) ([]string, error) {
	unlock, err := s.lockWriters(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()

	names, err := s.listNames("refs", "refs/")
	if err != nil {
		return nil, err
	}
	var changed []string
	var files []fileUpdate
	for _, name := range append(names, "HEAD") {
		v, found, err := s.readValue(name)
		if err != nil {
			return nil, err
		}
		data, _, err := s.readFile(name, maxValueSize)
		if err != nil {
			return nil, err
		}
		new := v.encode()
		if !found || bytes.Equal(data, new) {
			continue
		}
		if again, err := decodeValue(new); err != nil || again != v {
			return nil, fmt.Errorf("%s: the new file would not be the same", name)
		}
		if !v.id.IsZero() {
			if err := sure(name, v.id); err != nil {
				return nil, err
			}
		}
		changed, files = append(changed, name), append(files, fileUpdate{name, new})
	}
	slices.Sort(changed)
	if dryRun || len(files) == 0 {
		return changed, nil
	}
	return changed, s.replaceFiles(nil, files)
}
