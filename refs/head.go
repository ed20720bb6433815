package refs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/kist-vcs/kist/object"
)

// Head is the branch or commit that is checked out.
type Head struct {
	Branch string    // short name, as in "main"; empty: HEAD is detached
	ID     object.ID // the commit; zero: the branch has no commit yet
}

// Unborn reports whether HEAD is on a branch without a commit.
func (h Head) Unborn() bool { return h.ID.IsZero() }

// String returns the branch, or the ID if there is none.
func (h Head) String() string {
	if h.Branch != "" {
		return h.Branch
	}
	return h.ID.String()
}

// Head returns HEAD. Every repository has one, so a missing HEAD is damage.
func (s *Store) Head() (Head, error) {
	v, found, err := s.readValue("HEAD")
	switch {
	case err != nil:
		return Head{}, err
	case !found:
		return Head{}, Damaged("HEAD", errors.New("missing"))
	case v.target == "":
		return Head{ID: v.id}, nil
	}

	id, err := s.Get(v.target)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Head{}, err
	}

	return Head{Branch: strings.TrimPrefix(v.target, Heads), ID: id}, nil
}

// Init puts the HEAD of a new repository on a branch without a commit.
func (s *Store) Init(branch string) error {
	if err := CheckName(Heads + branch); err != nil {
		return err
	}
	return s.writeOne(context.Background(), fileUpdate{"HEAD", refValue{target: Heads + branch}.encode()})
}

// SetHead puts HEAD on a branch, or detaches it at a commit if h has no branch.
// The branch may have no commit. If h has both, and the branch is not at the ID,
// the error is a [*MovedError]. SetHead also replaces a damaged or missing HEAD.
// It writes reason to HEAD's log. After a checkout the reason must be
// [CheckoutReason], because "@{-1}" depends on it.
func (s *Store) SetHead(ctx context.Context, h Head, who Who, reason string) error {
	v := refValue{id: h.ID}
	if h.Branch != "" {
		v = refValue{target: Heads + h.Branch}
		if err := CheckName(v.target); err != nil {
			return err
		}
	} else if h.ID.IsZero() {
		return &NameError{Reason: "HEAD needs a branch or a commit"}
	}

	unlock, err := s.lockWriters(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	id := h.ID
	if v.target != "" {
		if id, err = s.currentID(v.target, refValue{}); err != nil {
			return err
		}
		if !h.ID.IsZero() && h.ID != id {
			return &MovedError{Name: v.target, Want: h.ID, Have: id}
		}
	}

	old, err := s.Head()
	if err != nil && !errors.Is(err, object.ErrCorrupt) {
		return err
	}
	if err := s.setHead(v, old.ID, id, who, reason); err != nil {
		return fmt.Errorf("set HEAD: %w", err)
	}

	return nil
}

// setHead writes HEAD and logs the change. The caller holds the lock.
func (s *Store) setHead(v refValue, old, new object.ID, who Who, reason string) error {
	e, err := s.newEntry(old, new, who, reason)
	if err != nil {
		return err
	}
	var lines []logLine
	if !old.IsZero() || !new.IsZero() {
		lines = append(lines, logLine{"HEAD", e, "HEAD"})
	}
	return s.replaceFiles(lines, []fileUpdate{{"HEAD", v.encode()}})
}

// BranchOf returns the short name of a branch, given its full one.
func BranchOf(name string) (branch string, ok bool) { return strings.CutPrefix(name, Heads) }

const checkoutPrefix = "checkout: moving from "

// CheckoutReason returns the reason to log when a checkout moves HEAD.
func CheckoutReason(from, to Head) string {
	return checkoutPrefix + from.String() + " to " + to.String()
}

// CheckedOut returns the target of a checkout that a reason in HEAD's log
// records: the short name of a branch, or an ID in hexadecimal digits. It
// returns "" for any other reason.
func CheckedOut(reason string) string {
	move, ok := strings.CutPrefix(reason, checkoutPrefix)
	if !ok {
		return ""
	}
	_, to, _ := strings.Cut(move, " to ")
	return to
}

// Previous returns the meaning of "@{-n}": the branch, or the ID in hexadecimal
// digits, that was checked out before the n-th last checkout. n is at least 1.
func (s *Store) Previous(n int) (string, error) {
	entries, err := s.Log("HEAD")
	if err != nil {
		return "", err
	}

	for _, e := range entries {
		move, ok := strings.CutPrefix(e.Reason, checkoutPrefix)
		from, _, found := strings.Cut(move, " to ")
		if !ok || !found {
			continue
		}
		if n--; n == 0 {
			return from, nil
		}
	}

	return "", &NotFoundError{Name: "@{-n}"}
}

// SetRemoteHead makes a remote's HEAD, such as "refs/remotes/origin/HEAD",
// refer to one of the remote's branches, such as "refs/remotes/origin/main".
// An empty target removes the remote's HEAD, if it exists.
func (s *Store) SetRemoteHead(ctx context.Context, name, target string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if target != "" {
		if err := CheckName(target); err != nil {
			return err
		}
	}
	if !isRemoteHead(name) || target != "" && !mayReferTo(name, target) {
		return &NameError{Name: name, Reason: fmt.Sprintf("cannot stand for %q", target)}
	}

	unlock, err := s.lockWriters(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	if target == "" {
		return s.deleteRefs([]string{name})
	}

	return s.writeFiles(fileUpdate{name, refValue{target: target}.encode()})
}

// Special names, for state that commands leave for each other. Any name in
// capital letters that ends in _HEAD or _MSG may be used.
const (
	MergeHead  = "MERGE_HEAD"  // the commit being merged
	OrigHead   = "ORIG_HEAD"   // HEAD before a merge, rebase, reset or pull
	FetchHead  = "FETCH_HEAD"  // the last fetched commit
	RevertHead = "REVERT_HEAD" // the commit being reverted
	MergeMsg   = "MERGE_MSG"   // the message for the next commit
	StepsHead  = "STEPS_HEAD"  // the commit that HEAD is being brought to
	StepsMsg   = "STEPS_MSG"   // the remaining steps of a revert, cherry-pick or rebase
	SquashMsg  = "SQUASH_MSG"  // the message for the commit of squashed changes, after HEAD's commit
	BisectMsg  = "BISECT_MSG"  // the state of a bisection

	PickHead   = "CHERRY_PICK_HEAD" // the commit being picked
	RebaseHead = "REBASE_HEAD"      // the commit being rebased, or HEAD's commit while the user edits it
)

// Special returns the commit with a name such as MERGE_HEAD. The error matches
// [ErrNotFound] if there is none, and [object.ErrCorrupt] if its file is
// damaged.
func (s *Store) Special(name string) (object.ID, error) {
	if !isSpecial(name) {
		return object.ID{}, badSpecial(name)
	}
	v, found, err := s.readValue(name)
	if err == nil && !found {
		err = &NotFoundError{Name: name}
	}
	return v.id, err
}

// SetSpecial stores a commit under a name such as MERGE_HEAD.
func (s *Store) SetSpecial(ctx context.Context, name string, id object.ID) error {
	if !isSpecial(name) {
		return badSpecial(name)
	}
	if id.IsZero() {
		return &NameError{Name: name, Reason: "needs an ID"}
	}
	return s.writeOne(ctx, fileUpdate{name, refValue{id: id}.encode()})
}

// Message returns the text with a name such as MERGE_MSG. The error matches
// [ErrNotFound] if there is none. It matches [object.ErrCorrupt] if the text
// is longer than a commit's message may be, or not UTF-8.
func (s *Store) Message(name string) (string, error) {
	if !isMessage(name) {
		return "", badSpecial(name)
	}

	data, found, err := s.readFile(name, object.MaxMessageSize)
	switch {
	case err != nil:
		return "", err
	case !found:
		return "", &NotFoundError{Name: name}
	case !utf8.Valid(data):
		return "", Damaged(name, errNotUTF8)
	}

	return string(data), nil
}

// SetMessage stores a text under a name such as MERGE_MSG.
func (s *Store) SetMessage(ctx context.Context, name, text string) error {
	switch {
	case !isMessage(name):
		return badSpecial(name)
	case len(text) > object.MaxMessageSize:
		return &NameError{Name: name, Reason: "longer than a message may be"}
	case !utf8.ValidString(text):
		return errNotUTF8
	}
	return s.writeOne(ctx, fileUpdate{name, []byte(text)})
}

// ClearSpecial removes special names, both commits and texts. Missing names
// are no error.
func (s *Store) ClearSpecial(ctx context.Context, names ...string) error {
	for _, name := range names {
		if !isSpecial(name) && !isMessage(name) {
			return badSpecial(name)
		}
	}

	unlock, err := s.lockWriters(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	for _, name := range names {
		if _, err := s.removeFile(name); err != nil {
			return err
		}
	}

	return syncDirs([]string{s.dir})
}

func (s *Store) writeOne(ctx context.Context, f fileUpdate) error {
	unlock, err := s.lockWriters(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.writeFiles(f)
}

var errNotUTF8 = errors.New("the text is not UTF-8")

func badSpecial(name string) error {
	return &NameError{Name: name, Reason: "is not one like MERGE_HEAD or MERGE_MSG"}
}
