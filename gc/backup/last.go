package backup

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/transfer"
)

// successFile is the file that notes the last complete backup to a remote, or without a
// remote: the commit at which it left the branch, and the time.
func successFile(r *kist.Repository, remote string) string {
	if remote == "" {
		return filepath.Join(r.Dir(), "backup.last")
	}
	return filepath.Join(registry.Dir(r, remote), "backup.last")
}

// NoteSuccess notes that a backup to a remote, or to none, was complete now, and left the branch
// at a commit. The caller holds [Lock].
func NoteSuccess(r *kist.Repository, remote string, commit object.ID) error {
	return writeNote(successFile(r, remote), commit.String()+" "+r.Options().Now().UTC().Format(time.RFC3339))
}

// LastSuccess returns what [NoteSuccess] noted, zero if nothing.
func LastSuccess(r *kist.Repository, remote string) (commit object.ID, at time.Time) {
	id, text, _ := strings.Cut(readNote(successFile(r, remote)), " ")
	commit, err := object.ParseID(id)
	at, terr := time.Parse(time.RFC3339, text)
	if err != nil || terr != nil {
		return object.ID{}, time.Time{}
	}
	return commit, at
}

// Last is the last backup of a branch that a remote has.
type Last struct {
	Branch string // the full name
	Commit object.ID
	Time   time.Time
}

// ErrNoBackup means that a remote lacks the branch of the backups.
var ErrNoBackup = errors.New("the remote does not have the branch")

// FindLast returns the last backup of a branch on the open remote called name. Its time is that of
// the commit, or a later one: of the last confirmation by a backup without changes, or of the last
// complete backup of r, if the branch still is where that left it. R is nil outside of a
// repository. Without a branch, it is the one to which r pushes HEAD's, or else the remote's
// default one. The error is [ErrNoBackup] if the remote lacks the branch; its name is returned too.
func FindLast(ctx context.Context, from transfer.Source, r *kist.Repository, name, branch string) (Last, error) {
	objects, head, err := transfer.Objects(ctx, from)
	if err != nil {
		return Last{}, err
	}
	if branch == "" && r != nil {
		branch = currentOn(r, name)
	}
	last := Last{Branch: cmp.Or(branch, head.DefaultBranch)}
	at, ok := head.Refs[last.Branch]
	if !ok {
		return last, ErrNoBackup
	}
	c, err := object.ReadCommit(ctx, objects, at.ID)
	if err != nil {
		return last, err
	}
	last.Commit, last.Time = at.ID, c.Committer.When()
	if confirmed := head.Confirmed(last.Branch); confirmed.After(last.Time) {
		last.Time = confirmed
	}
	if r != nil {
		if commit, ended := LastSuccess(r, name); commit == at.ID && ended.After(last.Time) {
			last.Time = ended
		}
	}
	return last, nil
}

// currentOn returns the full name that the current branch has on a remote, "" if HEAD is
// on no branch.
func currentOn(r *kist.Repository, name string) string {
	head, err := r.Refs().Head()
	if err != nil || head.Branch == "" {
		return ""
	}
	if upstream, err := kist.UpstreamOf(r, head.Branch); err == nil && upstream.Remote == name {
		return upstream.Ref
	}
	return refs.Heads + head.Branch
}
