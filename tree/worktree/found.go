package worktree

import (
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// State says how a path in the worktree differs from the index.
type State uint8

// The states of paths.
const (
	// Untracked is a path that the index does not have.
	Untracked State = iota + 1

	// Modified is a file or symlink whose stat data is not what the index
	// has, or is racy. Its content may still be the same: [Worktree.Confirm]
	// finds out.
	Modified

	// ModeChanged is a folder with other permission bits. After
	// [Worktree.Confirm] it may also be a file.
	ModeChanged

	// TypeChanged is something of another type than the index has: a symlink
	// where a file was, a file where a folder was. What the index has below a
	// folder that is one no more is Deleted.
	TypeChanged

	// Deleted is a path that the index has and the worktree has not.
	Deleted

	// Unreadable is a path that could not be read, as Err says. Nothing below
	// it is known, and it is not to be taken for deleted.
	Unreadable

	// Special is a FIFO, a socket or a device, which is not stored. Old is what
	// the index has in its place, if anything.
	Special

	// Nested is a name that is a form of ".kist": the folder of another
	// repository. It is not looked into.
	Nested

	// Ignored is an untracked path that an ignore file excludes. It is only
	// reported when asked for or named.
	Ignored

	// Absent is a path that was named in [ScanOptions.Paths], but is neither in
	// the worktree nor in the index.
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
	Type  object.EntryType // what is there now; 0: nothing, or it could not be told
	Dir   bool             // it is a folder; a deleted one was
	Mode  uint16           // its permission bits now
	Stat  index.Stat       // as it is now, ReadAt being zero; zero if it is deleted
	Old   *index.Entry     // what the index has, unless that is a folder or nothing; the index's own
	Err   error            // why it could not be read, nil otherwise
}
