package convert

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
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
	list, err := os.ReadDir(real)
	if err != nil {
		return Source{}, err
	}
	s := Source{Path: path, Name: filepath.Base(real), load: loadFolder, real: real, info: info, empty: len(list) == 0}
	for _, d := range list {
		if id, found := parseMark(d.Name()); found {
			s.half = id
		}
	}
	var dated bool
	if s.Time, dated = timeInName(s.Name, zone); !dated {
		s.Time = info.ModTime().In(zone)
	}
	return s, nil
}

// dateInName matches a date, and perhaps a time, such as 2024-01-31, 20240131T120000Z
// and 2024-01-31-120000.
var dateInName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:^|\D)(\d{4})[-_.]?(\d{2})[-_.]?(\d{2})(?:[-_.T ]?(\d{2})[-_.:h]?(\d{2})(?:[-_.:m]?(\d{2}))?(Z)?)?(?:\D|$)`)
})

// timeInName returns the time in a name, such as backup-2024-01-31. A name without a
// time of day means midnight.
func timeInName(name string, zone *time.Location) (time.Time, bool) {
	for _, m := range dateInName().FindAllStringSubmatch(name, -1) {
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
	dir, err := s.openSame(func() (*os.File, error) { return disk.OpenFile(s.real, os.O_RDONLY|unix.O_DIRECTORY, 0) })
	if err != nil {
		return err
	}
	defer dir.Close()
	w, err := worktree.OpenFile(dir, im.repo.WorktreeOptions(dir.Name()))
	if err != nil {
		return err
	}
	files, err := stage.Prepare(ctx, im.repo, im.tx, im.idx, stage.AddOptions{Worktree: w, Times: true, Force: true, Progress: im.Progress})
	if err != nil {
		return err
	}
	if err := files.Apply(); err != nil {
		return err
	}
	if err := checkComplete(s.real, im.idx); err != nil {
		return err
	}
	im.result.Skipped, im.result.Special = files.Result.Skipped, files.Result.NeverStored
	for _, path := range nestedIn(dir) {
		im.result.Special = append(im.result.Special, object.Skipped{Path: path, Reason: worktree.Nested.String()})
	}

	// An unreadable file must not keep the content that it had in the folder before.
	staged := slices.Concat(files.Result.Added.Paths(), files.Result.Modified)
	for _, skipped := range im.result.Skipped {
		if !slices.Contains(staged, skipped.Path) {
			im.idx.Remove(skipped.Path)
		}
	}
	return im.countFiles(ctx)
}
