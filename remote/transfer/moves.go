package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// RefUpdate is a ref of a remote that a push is to move.
type RefUpdate struct {
	Name string     // full
	New  object.Key // a commit, or for a tag also a tag object; zero: delete the ref

	// Force moves the ref even if commits are lost from it, or if it is a tag.
	Force bool

	// Expect, if not nil, is the value that the ref must have; zero: no ref. If the ref
	// has this value, the update may do all that Force permits.
	Expect *object.ID
}

// The statuses of a [RefResult].
const (
	StatusUpToDate    = "up to date"
	StatusNew         = "new"
	StatusFastForward = "fast-forward"
	StatusForced      = "forced"
	StatusDeleted     = "deleted"
	StatusRejected    = "rejected"   // followed by ": " and the reason
	StatusNotPushed   = "not pushed" // because another ref was rejected
)

// RefResult is the outcome for a ref.
type RefResult struct {
	Name     string // full
	Old, New object.ID
	Status   string
	Err      error // why the ref was rejected: [ErrNotFastForward] or a [*refs.ConflictError]
}

// ErrNotFastForward is matched by the error for a ref that is not moved, because it
// would lose commits.
var ErrNotFastForward = errors.New("not a fast-forward")

// checkUpdates refuses updates that no remote would take.
func checkUpdates(updates []RefUpdate) error {
	seen := map[string]bool{}
	for _, u := range updates {
		if err := refs.CheckName(u.Name); err != nil {
			return err
		}
		// A fetch would store this branch where it notes the remote's default branch.
		if u.Name == refs.Heads+"HEAD" && !u.New.IsZero() {
			return &refs.NameError{Name: u.Name, Reason: "means a remote's default branch"}
		}
		if seen[u.Name] {
			return fmt.Errorf("%s is named twice", u.Name)
		}
		seen[u.Name] = true
		switch kind := u.New.Kind; {
		case u.New.IsZero(), kind == object.KindCommit:
		case kind == object.KindTag && !strings.HasPrefix(u.Name, refs.Heads):
		default:
			return fmt.Errorf("%s cannot name a %s", u.Name, kind)
		}
	}
	return nil
}

// judgeUpdates returns the changes that updates make at a head, and the outcome for each ref. The
// error is that of the rejected updates, or the reason why they cannot be judged.
func judgeUpdates(ctx context.Context, local object.Reader, head *rootlog.State, updates []RefUpdate) ([]rootlog.RefChange, []RefResult, error) {
	var changes []rootlog.RefChange
	var rejected []error
	results := make([]RefResult, len(updates))
	for i, u := range updates {
		old := head.Refs[u.Name]
		res := RefResult{Name: u.Name, Old: old.ID, New: u.New.ID}
		status, reason, err := judgeUpdate(ctx, local, old, u)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", u.Name, err)
		}
		res.Status = status
		switch status {
		case StatusUpToDate:
		case StatusRejected:
			res.Status += ": " + reason
			res.Err = fmt.Errorf("%s: %w: %s", u.Name, ErrNotFastForward, reason)
			rejected = append(rejected, res.Err)
		default:
			changes = append(changes, rootlog.RefChange{Name: u.Name, Old: old, New: u.New})
		}
		results[i] = res
	}

	for _, conflict := range conflicts(head.Refs, changes) {
		i := slices.IndexFunc(results, func(r RefResult) bool { return r.Name == conflict.Name })
		results[i].Status = StatusRejected + ": " + conflict.With + " is in its way"
		results[i].Err = conflict
		rejected = append(rejected, conflict)
	}
	if rejected == nil {
		return changes, results, nil
	}

	for i := range results {
		if results[i].Err == nil && results[i].Status != StatusUpToDate {
			results[i].Status = StatusNotPushed
		}
	}
	if len(rejected) == 1 {
		return nil, results, rejected[0]
	}
	return nil, results, errors.Join(rejected...)
}

// conflicts returns an error for each ref that changes would create although its name is a
// folder in the name of another, or the other way round. No repository could have both.
func conflicts(have map[string]object.Key, changes []rootlog.RefChange) []*refs.ConflictError {
	after := make(map[string]bool, len(have)+len(changes)) // by name: whether a change creates the ref
	for name := range have {
		after[name] = false
	}

	made := false
	for _, c := range changes {
		switch {
		case c.New.IsZero():
			delete(after, c.Name)
		case c.Old.IsZero():
			after[c.Name], made = true, true
		}
	}
	if !made {
		return nil
	}

	found := map[string]*refs.ConflictError{}
	for name, isNew := range after {
		for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
			switch aboveIsNew, ok := after[name[:i]]; {
			case !ok:
			case isNew:
				found[name] = &refs.ConflictError{Name: name, With: name[:i]}
			case aboveIsNew:
				found[name[:i]] = &refs.ConflictError{Name: name[:i], With: name}
			}
		}
	}

	var list []*refs.ConflictError
	for _, name := range slices.Sorted(maps.Keys(found)) {
		list = append(list, found[name])
	}
	return list
}

// judgeUpdate returns the effect of an update on a ref that is at old, and the reason if it is
// rejected.
func judgeUpdate(ctx context.Context, local object.Reader, old object.Key, u RefUpdate) (status, reason string, err error) {
	allowed := u.Force || u.Expect != nil
	switch {
	case old == u.New:
		return StatusUpToDate, "", nil
	case u.Expect != nil && *u.Expect != old.ID:
		return StatusRejected, "it was moved on the remote meanwhile", nil
	case u.New.IsZero():
		return StatusDeleted, "", nil
	case old.IsZero():
		return StatusNew, "", nil
	case strings.HasPrefix(u.Name, refs.Tags):
		if !allowed {
			return StatusRejected, "the remote has another tag of this name", nil
		}
		return StatusForced, "", nil
	}

	forward, reason, err := isForward(ctx, local, old, u.New)
	switch {
	case err != nil:
		return "", "", err
	case forward:
		return StatusFastForward, "", nil
	case allowed:
		return StatusForced, "", nil
	}
	return StatusRejected, reason, nil
}

// isForward reports whether a ref that moves from old to next loses no commit, as far as
// is known here. If it does, reason says why.
func isForward(ctx context.Context, local object.Reader, old, next object.Key) (ok bool, reason string, err error) {
	if old.Kind != object.KindCommit || next.Kind != object.KindCommit {
		return false, "it is no branch", nil
	}
	missing, err := local.Missing(ctx, []object.Key{old})
	if err != nil {
		return false, "", err
	}
	const notHere = "the remote has commits that are not here"
	if slices.Contains(missing, old) {
		return false, notHere, nil
	}
	ok, err = history.IsAncestor(ctx, local, old.ID, next.ID)
	if errors.Is(err, object.ErrNotFound) && isComplete(ctx, local, next.ID) {
		return false, notHere, nil // a fetch that was interrupted has brought old, but not all before it
	}
	return ok, "the remote has commits that the pushed ones do not include", err
}

// isComplete reports whether a commit and all its ancestors can be read.
func isComplete(ctx context.Context, local object.Reader, id object.ID) bool {
	_, err := history.Ancestors(ctx, local, []object.ID{id})
	return err == nil
}
