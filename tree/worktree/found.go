package worktree

import (
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// State is the way a path in the worktree differs from the index.
type State uint8

// The states of paths.
const (
	// Untracked is a path that is not in the index.
	Untracked State = iota + 1

	// Modified is a file or symlink whose stat data differs from the index or
	// is racy. Its content may still be the same: [Worktree.Confirm] finds
	// out.
	Modified

	// ModeChanged is a folder with other permission bits. After
	// [Worktree.Confirm] it may also be a file.
	ModeChanged

	// TypeChanged is a path whose type differs from the index, such as a
	// symlink in place of a file. If a file took the place of a folder, the
	// paths below the folder are Deleted.
	TypeChanged

	// Deleted is a path that is in the index but not in the worktree.
	Deleted

	// Unreadable is a path that could not be read; Err has the reason. The
	// paths below it are unknown and do not count as deleted.
	Unreadable

	// Special is a FIFO, a socket or a device. kist does not store it. Old is
	// the entry that the index has at its path, if any.
	Special

	// Nested is a name that is a form of ".kist": the folder of another
	// repository. kist does not look into it.
	Nested

	// Ignored is an untracked path that an ignore file excludes. It is
	// reported only if [ScanOptions] ask for it or name it.
	Ignored

	// Absent is a path in [ScanOptions.Paths] that is neither in the worktree
	// nor in the index.
	Absent
)

var stateNames = [...]string{
	Untracked: "untracked", Modified: "modified", ModeChanged: "mode changed", TypeChanged: "type changed",
	Deleted: "deleted", Unreadable: "unreadable", Special: "special file", Nested: "nested repository",
	Ignored: "ignored", Absent: "absent",
}

// String returns the state in lower-case words.
func (s State) String() string {
	if s == 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return stateNames[s]
}

// Found is a path in the worktree that differs from the index.
type Found struct {
	Path  string
	State State
	Type  object.EntryType // the present type; 0: absent or unknown
	Dir   bool             // it is a folder, or was one before it was deleted
	Mode  uint16           // the present permission bits
	Stat  index.Stat       // the present stat data, without ReadAt; zero if deleted
	Old   *index.Entry     // the entry in the index, not a copy; nil for a folder or an untracked path
	Err   error            // the reason for Unreadable, Nested or Absent; nil otherwise
}
