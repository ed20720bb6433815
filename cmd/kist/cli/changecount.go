package cli

import (
	"fmt"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/commits"
)

// changeLetter returns git's letter for what happened to a path: A (added),
// D (deleted), R (renamed), T (of another type) or M (modified).
func changeLetter(c tree.Change) byte {
	switch {
	case c.Old == nil:
		return 'A'
	case c.New == nil:
		return 'D'
	case c.From != "":
		return 'R'
	case c.Old.Type != c.New.Type:
		return 'T'
	}
	return 'M'
}

// ofFolder reports whether a change is one of a folder, which came or went
// empty, or has other permission bits.
func ofFolder(c tree.Change) bool {
	e := c.New
	if e == nil {
		e = c.Old
	}
	return e.Type == object.TypeDir
}

// changeCounts counts changes by what happened.
type changeCounts struct {
	Added    int  `json:"added"`
	Modified int  `json:"modified"` // their type, too
	Deleted  int  `json:"deleted"`
	Renamed  int  `json:"renamed"`
	folders  int  // of all these
	unknown  bool // what changed, so there is nothing to count
}

func countChanges(changes []tree.Change) changeCounts {
	var n changeCounts
	for _, c := range changes {
		switch changeLetter(c) {
		case 'A':
			n.Added++
		case 'D':
			n.Deleted++
		case 'R':
			n.Renamed++
		default:
			n.Modified++
		}
		if ofFolder(c) {
			n.folders++
		}
	}
	return n
}

// committedChanges counts what a commit has changed.
func committedChanges(result *commits.CommitResult) changeCounts {
	n := countChanges(result.Changes)
	n.unknown = result.Unknown
	return n
}

// String returns the counts as in "3 files and 1 folder changed, 1 added, 3
// modified". A folder counts only if it is empty, or has other permission bits.
func (n changeCounts) String() string {
	if n.unknown {
		return "what changed is not known"
	}
	files := n.Added + n.Modified + n.Deleted + n.Renamed - n.folders
	var what []string
	if files > 0 || n.folders == 0 {
		what = append(what, plural(uint64(files), "file", "files"))
	}
	if n.folders > 0 {
		what = append(what, plural(uint64(n.folders), "folder", "folders"))
	}
	return strings.Join(append([]string{strings.Join(what, " and ") + " changed"}, n.parts()...), ", ")
}

// parts returns the counts that are not 0, as in "1 added".
func (n changeCounts) parts() []string {
	var parts []string
	for _, part := range []struct {
		n    int
		verb string
	}{{n.Added, "added"}, {n.Modified, "modified"}, {n.Deleted, "deleted"}, {n.Renamed, "renamed"}} {
		if part.n > 0 {
			parts = append(parts, formatCount(uint64(part.n))+" "+part.verb)
		}
	}
	return parts
}

// work counts the bytes that a command has read and stored.
type work struct {
	Read   uint64 `json:"bytes_read"`   // of files in the worktree
	New    uint64 `json:"bytes_new"`    // of them, not stored before
	Stored uint64 `json:"bytes_stored"` // for the new bytes, compressed
}

func newWork(read kist.Amount, s volume.Stats) work {
	return work{uint64(read.Bytes), uint64(s.NewBytes), uint64(s.StoredBytes)}
}

// String returns the work as in "12 MiB read, 3.1 MiB new, 1.0 MiB stored".
func (w work) String() string {
	text := fmt.Sprintf("%s new, %s stored", formatSize(w.New), formatSize(w.Stored))
	if w.Read > 0 {
		text = formatSize(w.Read) + " read, " + text
	}
	return text
}
