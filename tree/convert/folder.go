package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/stage"
)

// Folder returns the source for a folder. Its time is the one in the folder's name, in
// zone if the name has none, or else the folder's modification time.
func Folder(path string, zone *time.Location) (Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Source{}, err
	}
	if !info.IsDir() {
		return Source{}, &fs.PathError{Op: "import", Path: path, Err: errors.New("not a folder")}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Source{}, err
	}
	s := Source{Path: path, Name: filepath.Base(real), load: loadFolder, real: real}
	var dated bool
	if s.Time, dated = timeInName(s.Name, zone); !dated {
		s.Time = info.ModTime().In(zone)
	}
	return s, nil
}

// dateInName matches a date, and perhaps a time, such as 2024-01-31, 20240131T120000Z
// and 2024-01-31-120000.
var dateInName = regexp.MustCompile(`(?:^|\D)(\d{4})[-_.]?(\d{2})[-_.]?(\d{2})(?:[-_.T ]?(\d{2})[-_.:h]?(\d{2})(?:[-_.:m]?(\d{2}))?(Z)?)?(?:\D|$)`)

// timeInName returns the time in a name, such as backup-2024-01-31. A name without a
// time of day means midnight.
func timeInName(name string, zone *time.Location) (time.Time, bool) {
	for _, m := range dateInName.FindAllStringSubmatch(name, -1) {
		text := m[1] + m[2] + m[3] + (m[4] + m[5] + m[6] + "000000")[:6]
		if m[7] != "" {
			zone = time.UTC
		}
		if t, err := time.ParseInLocation("20060102150405", text, zone); err == nil && t.Year() >= 1970 {
			return t, true
		}
	}
	return time.Time{}, false
}

// loadFolder stores a folder and makes the index match it. Files whose stat data is that
// of the latest folder are not read: they are hard links to the same files.
func loadFolder(ctx context.Context, im *importer, s *Source) error {
	return im.scan(ctx, s, im.session, im.idx)
}

// scan stores the files of a folder that differ from idx, and stages them there.
func (im *importer) scan(ctx context.Context, s *Source, session *volume.Session, idx *index.Index) error {
	w, err := im.repo.OpenWorktree(s.real)
	if err != nil {
		return err
	}
	files, err := stage.Prepare(ctx, im.repo, session, idx, stage.AddOptions{Worktree: w, Times: true, Force: true, Progress: im.Progress})
	if err != nil {
		return err
	}
	if err := files.Apply(); err != nil {
		return err
	}
	im.result.Skipped, im.result.Special = files.Result.Skipped, files.Result.Special

	// An unreadable file must not keep the content that it had in the folder before.
	for _, skipped := range im.result.Skipped {
		if !slices.Contains(files.Result.Added, skipped.Path) && !slices.Contains(files.Result.Modified, skipped.Path) {
			idx.Remove(skipped.Path)
		}
	}
	if idx != im.idx {
		return nil
	}
	return im.count(ctx)
}

// deleteSource deletes a folder if its commit has all of it. It reads the folder and the
// commit's data again, and deletes nothing if they differ or a file was skipped.
func (im *importer) deleteSource(ctx context.Context, s *Source) error {
	c, err := object.ReadCommit(ctx, im.repo.Objects(), im.result.ID)
	if err != nil {
		return err
	}
	if err := im.readAll(ctx, object.Key{Kind: object.KindTree, ID: c.Tree}); err != nil {
		return err
	}

	session := im.repo.Objects().Begin(volume.SessionOptions{DryRun: true})
	defer session.Close()
	idx := index.New()
	if err := im.scan(ctx, s, session, idx); err != nil {
		return err
	}
	now, err := idx.PreviewTree(ctx, object.NewOverlay(im.repo.Contents()))
	if err != nil {
		return err
	}
	switch {
	case c.SkippedCount > 0 || len(im.result.Skipped)+len(im.result.Special) > 0:
		im.result.Kept = "the commit does not have all of it"
	case now.ID != c.Tree:
		im.result.Kept = "it differs from the commit"
	default:
		err = os.RemoveAll(s.real)
		im.result.SourceDeleted = err == nil
	}
	return err
}

// readAll reads an object and all below it, and so checks their hashes.
func (im *importer) readAll(ctx context.Context, key object.Key) error {
	objects := im.repo.Objects()
	return graph.Walk(ctx, im.verified, []object.Key{key}, func(key object.Key) ([]object.Key, error) {
		if key.Kind == object.KindChunk {
			return nil, object.Lend(ctx, objects, key, func([]byte) error { return nil })
		}
		return graph.Links(ctx, objects, key)
	})
}

// CheckDeletable returns an error if a folder must not be deleted: it contains one of the
// paths, such as the repository.
func (s *Source) CheckDeletable(paths ...string) error {
	for _, path := range paths {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(s.real, real)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			return fmt.Errorf("%q contains %q, and is not deleted", s.Path, path)
		}
	}
	return nil
}
