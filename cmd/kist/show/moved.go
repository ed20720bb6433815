package show

import (
	"time"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/transfer"
)

// RefMove is a change of a ref, as push, fetch, clone and remote log print it.
type RefMove struct {
	Name   string     `json:"name" doc:"the full name on the remote"`
	Local  string     `json:"local,omitempty" doc:"the full name here"`
	Old    *object.ID `json:"old" doc:"the ID before; null: the ref was not there"`
	New    *object.ID `json:"new" doc:"the ID now; null: the ref was deleted"`
	Status string     `json:"status,omitempty" doc:"how it moved: new, fast-forward, forced, deleted, up to date; of a fetch also kept, conflict (another ref is in the way of local), fetched, or moved (only the download can show how)"`
}

func NewRefMove(name, local string, old, new object.ID, status string) RefMove {
	return RefMove{name, local, cli.OrNull(old), cli.OrNull(new), status}
}

// TransferJSON is what push, fetch and clone print with --json.
type TransferJSON struct {
	Refs     []RefMove `json:"refs" doc:"the refs"`
	Objects  int64     `json:"objects" doc:"the number of objects that were copied"`
	Records  int       `json:"records" doc:"the number of records that were copied"`
	Sent     *int64    `json:"bytes_sent,omitempty" doc:"the number of bytes that were sent"`
	Received *int64    `json:"bytes_received,omitempty" doc:"the number of bytes that were received"`

	News []receivedJSON `json:"news,omitempty" doc:"the records of others"`
	Lost []lostJSON     `json:"lost,omitempty" doc:"the objects that are missing, since their loss was accepted"`

	Locks *locksJSON `json:"locks,omitempty" doc:"the locked files of the remote"`
}

// locksJSON counts the locked files of a remote.
type locksJSON struct {
	Files   int       `json:"files" doc:"the number of locked files"`
	Renewed int       `json:"renewed" doc:"the number of renewed locks"`
	Until   time.Time `json:"until" doc:"when the first lock ends"`
}

// NewLocksJSON returns nil if there are no locks.
func NewLocksJSON(l transfer.LockResult) *locksJSON {
	if l.Files == 0 {
		return nil
	}
	return &locksJSON{l.Files, l.Renewed, l.Until.UTC()}
}

// TellLocks prints the number of locks that a push renewed.
func TellLocks(env *cli.Env, l transfer.LockResult) {
	if l.Renewed > 0 {
		env.PrintOutcome("renewed the locks of %s; all %s are locked until %s or longer\n",
			readable.Plural(uint64(l.Renewed), "file", "files"), readable.FormatCount(uint64(l.Files)), l.Until.Local().Format("2006-01-02 15:04"))
	}
}

// Tell prints a line about a ref that moved, or could not move.
func (m RefMove) Tell(env *cli.Env, from, to string) {
	mark, what := ' ', ""
	switch m.Status {
	case transfer.StatusNew:
		mark, what = '*', "[new "+cli.RefKind(to)+"]"
	case "fetched":
		mark, what = '*', cli.RefKind(from)
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
	arrow := cli.Printable(cli.ShortRef(from)) + " -> " + cli.Printable(cli.ShortRef(to))
	if m.Status == transfer.StatusDeleted {
		arrow = cli.Printable(cli.ShortRef(to))
	}
	env.PrintOutcome(" %c %-20s %s%s\n", mark, what, arrow, map[bool]string{true: " (forced)"}[m.Status == transfer.StatusForced])
}

// TellTransferred prints how much was sent or received.
func TellTransferred(env *cli.Env, verb string, objects, bytes int64, records int) {
	if records > 0 {
		env.PrintOutcome("%s %s about expired or held commits\n", verb, readable.Plural(uint64(records), "record", "records"))
	}
	if objects > 0 {
		env.PrintOutcome("%s %s, %s\n", verb, readable.Plural(uint64(objects), "object", "objects"), readable.FormatSize(uint64(bytes)))
	}
}

// TellUpstream prints the new upstream of a branch.
func TellUpstream(env *cli.Env, branch, upstream string) {
	env.PrintOutcome("branch %s now follows %s\n", cli.QuoteArg(branch), cli.QuoteArg(upstream))
}
