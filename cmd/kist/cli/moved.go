package cli

import (
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/transfer"
)

// refMoveJSON is a ref as push, fetch and clone print it with --json.
type refMoveJSON struct {
	Name   string     `json:"name"`            // full, on the remote
	Local  string     `json:"local,omitempty"` // full, here: a remote-tracking branch or a tag
	Old    *object.ID `json:"old"`             // null: it was not there
	New    *object.ID `json:"new"`             // null: it was deleted
	Status string     `json:"status,omitempty"`
}

func newRefMoveJSON(name, local string, old, new object.ID, status string) refMoveJSON {
	m := refMoveJSON{Name: name, Local: local, Status: status}
	if !old.IsZero() {
		m.Old = &old
	}
	if !new.IsZero() {
		m.New = &new
	}
	return m
}

// transferJSON is what push, fetch and clone print with --json.
type transferJSON struct {
	Refs     []refMoveJSON `json:"refs"`
	Objects  int64         `json:"objects"`
	Records  int           `json:"records"`
	Sent     *int64        `json:"bytes_sent,omitempty"`
	Received *int64        `json:"bytes_received,omitempty"`

	News []receivedJSON `json:"news,omitempty"` // what others have recorded
	Lost []lostJSON     `json:"lost,omitempty"`
}

// tellMoved prints a line about a ref that was moved, or could not be.
func (e *Env) tellMoved(from, to string, old, new object.ID, status string) {
	mark, what := ' ', ""
	switch status {
	case transfer.StatusNew:
		mark, what = '*', "[new "+refKind(to)+"]"
	case transfer.StatusDeleted:
		mark, what = '-', "[deleted]"
	case transfer.StatusForced:
		mark, what = '+', old.Short()+"..."+new.Short()
	case transfer.StatusUpToDate:
		mark, what = '=', "[up to date]"
	case transfer.StatusFastForward, "moved":
		what = old.Short() + ".." + new.Short()
	default:
		mark, what = '!', "["+status+"]"
	}
	arrow := printable(shortRef(from)) + " -> " + printable(shortRef(to))
	if status == transfer.StatusDeleted {
		arrow = printable(shortRef(to))
	}
	e.tell(" %c %-20s %s%s\n", mark, what, arrow, map[bool]string{true: " (forced)"}[status == transfer.StatusForced])
}

// refKind returns what a ref is called, by its full name.
func refKind(name string) string {
	switch {
	case strings.HasPrefix(name, refs.Heads), strings.HasPrefix(name, refs.Remotes):
		return "branch"
	case strings.HasPrefix(name, refs.Tags):
		return "tag"
	}
	return "ref"
}

// tellTransferred prints how much was sent or received.
func (e *Env) tellTransferred(verb string, objects, bytes int64, records int) {
	if records > 0 {
		e.tell("%s %s about expired or held commits\n", verb, plural(uint64(records), "record", "records"))
	}
	if objects > 0 {
		e.tell("%s %s, %s\n", verb, plural(uint64(objects), "object", "objects"), formatSize(uint64(bytes)))
	}
}

// tellUpstream says that a branch follows another one now.
func (e *Env) tellUpstream(branch, upstream string) {
	e.tell("branch %s now follows %s\n", quoteArg(branch), quoteArg(upstream))
}
