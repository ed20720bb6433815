package refs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

var (
	// ErrRefMissing is matched by the error for a ref that is missing, although its log is
	// here and does not end with a deletion.
	ErrRefMissing = errors.New("missing, its log says that it is at")

	// ErrCut is matched by the error for a log that does not lead to the present value of
	// its ref. Its last lines, or all of them, are lost. So is a line of the stash's log if the
	// lines around its place do not meet.
	ErrCut = errors.New("lines are missing")
)

// fileContent is the content of one file of a ref or a log.
type fileContent struct {
	ids     []object.ID
	value   refValue  // of a ref
	summed  bool      // the ref has a checksum
	newest  *LogEntry // of a log; nil: it has none
	damaged bool
}

// compareLogs returns an error for each ref that does not match its log. Found has all
// files of refs and logs, by name. A log may be one move ahead: a killed process adds the
// line before it moves the ref. Refs without a checksum count as written by a person. The
// caller holds the lock.
func (d folder) compareLogs(found map[string]fileContent) (errs []error) {
	names := map[string]bool{}
	for file := range found {
		if name := strings.TrimPrefix(file, "logs/"); hasLog(name) {
			names[name] = true
		}
	}
	for _, name := range d.notedNames() {
		delete(names, name)
	}

	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := compareLog(found, name); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// compareLog compares a ref, or HEAD, with its log.
func compareLog(found map[string]fileContent, name string) error {
	ref, log := found[name], found["logs/"+name]
	if name == "HEAD" && ref.value.target != "" {
		branch := found[ref.value.target]
		ref.value.id, ref.summed, ref.damaged = branch.value.id, branch.summed, branch.damaged
	} else if ref.value.target != "" {
		return nil // a remote's HEAD has no log
	}
	at := ref.value.id
	if ref.damaged || log.damaged || !at.IsZero() && !ref.summed {
		return nil
	}

	_, exists := found["logs/"+name]
	switch newest := log.newest; {
	case at.IsZero() && (newest == nil || newest.New.IsZero() || name == "HEAD"):
		return nil // the branch has no commit yet, or its own log shows the loss
	case at.IsZero():
		return Damaged(name, fmt.Errorf("%w %s", ErrRefMissing, newest.New))
	case !exists:
		return Damaged("logs/"+name, fmt.Errorf("%w: there is no log", ErrCut))
	case newest == nil:
		return Damaged("logs/"+name, fmt.Errorf("%w: it is empty", ErrCut))
	case newest.New != at && newest.Old != at:
		return Damaged("logs/"+name, fmt.Errorf("%w: it leads to %s, and %s is at %s", ErrCut, newest.New.Short(), name, at.Short()))
	}
	return nil
}

// findGap returns the index of an entry of the stash's log that begins elsewhere than the entry
// before it ends, or -1. Entries are newest first. A line between them is lost: lines of this
// log never expire, and a dropped one joins its neighbours.
func findGap(entries []LogEntry) int {
	for i, e := range entries {
		if i == len(entries)-1 {
			if !e.Old.IsZero() {
				return i
			}
		} else if before := entries[i+1]; e.Old != before.New && e.Old != before.Old { // after a kill, before had no effect
			return i
		}
	}
	return -1
}

// begunFile is the file in the staging folder with the names that an update is about to
// create or delete, a line each. A log of such a name proves nothing while the ref is
// missing.
const begunFile = staging + "/begun"

// noteNames notes the names that the caller is about to create or delete. Their next state is
// complete when [folder.removeStaging] removes the note. After a kill, [folder.endNoted] completes it. The caller holds the lock.
//
// Deletions need a note that outlives a power failure: write syncs it. Without the note of a
// creation, at worst the ref counts as lost, and a repair makes it.
func (d folder) noteNames(names []string, write func(path string, data []byte) error) error {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !hasLog(name) })
	if len(names) == 0 {
		return nil
	}
	if err := disk.Mkdir(d.filePath(staging), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return write(d.filePath(begunFile), []byte(strings.Join(names, "\n")+"\n"))
}

// notedNames returns the names that a killed process was about to create or delete.
func (d folder) notedNames() (names []string) {
	data, _, err := d.readFile(begunFile, maxLogSize)
	if err != nil {
		return nil // the staging folder holds nothing that counts
	}
	for name := range strings.Lines(string(data)) {
		if name = strings.TrimSuffix(name, "\n"); hasLog(name) && checkLocal(name) == nil {
			names = append(names, name)
		}
	}
	return names
}

// endNoted removes the logs of refs that a killed process did not create, or deleted.
func (d folder) endNoted() error {
	var dirs []string
	for _, name := range d.notedNames() {
		if _, found, err := d.readValue(name); found || err != nil {
			continue
		}
		if _, err := disk.Lstat(d.filePath("logs/" + name)); err != nil {
			continue
		}
		dir, err := d.removeFile("logs/" + name)
		if err != nil {
			return err
		}
		dirs = append(dirs, filepath.Clean(dir))
	}
	return syncDirs(dirs)
}
