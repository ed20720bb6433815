package cli

import (
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/transfer"
)

// refMove is a change of a ref, as push, fetch, clone and remote log print it.
type refMove struct {
	Name   string     `json:"name"`            // full, on the remote
	Local  string     `json:"local,omitempty"` // full, here: a remote-tracking branch or a tag
	Old    *object.ID `json:"old"`             // null: it was not there
	New    *object.ID `json:"new"`             // null: it was deleted
	Status string     `json:"status,omitempty"`
}

func newRefMove(name, local string, old, new object.ID, status string) refMove {
	return refMove{name, local, orNull(old), orNull(new), status}
}

// transferJSON is what push, fetch and clone print with --json.
type transferJSON struct {
	Refs     []refMove `json:"refs"`
	Objects  int64     `json:"objects"`
	Records  int       `json:"records"`
	Sent     *int64    `json:"bytes_sent,omitempty"`
	Received *int64    `json:"bytes_received,omitempty"`

	News []receivedJSON `json:"news,omitempty"` // records of others
	Lost []lostJSON     `json:"lost,omitempty"`

	Locks *locksJSON `json:"locks,omitempty"`
}

// locksJSON counts the locked files of a remote.
type locksJSON struct {
	Files   int       `json:"files"`
	Renewed int       `json:"renewed"`
	Until   time.Time `json:"until"` // when the first lock ends
}

// newLocksJSON returns nil if there are no locks.
func newLocksJSON(l transfer.LockResult) *locksJSON {
	if l.Files == 0 {
		return nil
	}
	return &locksJSON{l.Files, l.Renewed, l.Until.UTC()}
}

// tellLocks prints the number of locks that a push renewed.
func tellLocks(env *Env, l transfer.LockResult) {
	if l.Renewed > 0 {
		env.tell("renewed the locks of %s; all %s are locked until %s or longer\n",
			plural(uint64(l.Renewed), "file", "files"), formatCount(uint64(l.Files)), l.Until.Local().Format("2006-01-02 15:04"))
	}
}

// tell prints a line about a ref that moved, or could not move.
func (m refMove) tell(env *Env, from, to string) {
	mark, what := ' ', ""
	switch m.Status {
	case transfer.StatusNew:
		mark, what = '*', "[new "+refKind(to)+"]"
	case "fetched":
		mark, what = '*', refKind(from)
	case transfer.StatusDeleted:
		mark, what = '-', "[deleted]"
	case transfer.StatusForced:
		mark, what = '+', m.Old.Short()+"..."+m.New.Short()
	case transfer.StatusUpToDate:
		mark, what = '=', "[up to date]"
	case transfer.StatusFastForward, "moved":
		what = m.Old.Short() + ".." + m.New.Short()
	default:
		mark, what = '!', "["+m.Status+"]"
	}
	arrow := printable(shortRef(from)) + " -> " + printable(shortRef(to))
	if m.Status == transfer.StatusDeleted {
		arrow = printable(shortRef(to))
	}
	env.tell(" %c %-20s %s%s\n", mark, what, arrow, map[bool]string{true: " (forced)"}[m.Status == transfer.StatusForced])
}

// tellTransferred prints how much was sent or received.
func tellTransferred(env *Env, verb string, objects, bytes int64, records int) {
	if records > 0 {
		env.tell("%s %s about expired or held commits\n", verb, plural(uint64(records), "record", "records"))
	}
	if objects > 0 {
		env.tell("%s %s, %s\n", verb, plural(uint64(objects), "object", "objects"), formatSize(uint64(bytes)))
	}
}

// tellUpstream prints the new upstream of a branch.
func tellUpstream(env *Env, branch, upstream string) {
	env.tell("branch %s now follows %s\n", quoteArg(branch), quoteArg(upstream))
}
