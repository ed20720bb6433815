package refs

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/kist-vcs/kist/object"
)

// Expand returns the full name of the ref that a revision names:
// "refs/heads/main" for "main", or for "@{-1}" after a checkout from main;
// "HEAD" for "@"; special names unchanged. Among several refs it chooses as
// [Store.Resolve] does. The error matches [ErrNotFound] if the revision is no
// name, such as "main~1" or an ID.
func (s *Store) Expand(ctx context.Context, rev string) (name string, err error) {
	r, err := parseRevision(rev)
	if err != nil {
		return "", err
	}
	if len(r.steps) > 0 || r.at == atEntry || r.at == atTime || len(r.name) == 64 && isHex(r.name) {
		return "", r.unknown("it is not a name")
	}
	if name, err = r.lookup(s); err != nil {
		return "", err
	}
	if r.at == atCheckout && !strings.HasPrefix(name, Heads) {
		return "", r.unknown("it is not a name")
	}

	return name, ctx.Err()
}

// Candidates returns all full names that a short name can stand for, in the
// order in which [Store.Resolve] prefers them. With more than one, the name is
// ambiguous.
func (s *Store) Candidates(name string) ([]string, error) {
	var found []string
	if name == "HEAD" || name == "@" {
		found = append(found, "HEAD")
	}
	if isSpecial(name) {
		if _, err := s.Special(name); err == nil {
			found = append(found, name)
		} else if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}

	for _, full := range []string{name, "refs/" + name, Tags + name, Heads + name, Remotes + name, Remotes + name + "/HEAD"} {
		if CheckName(full) != nil {
			continue
		}
		if _, err := s.get(full); err == nil {
			found = append(found, full)
		} else if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}

	return found, nil
}

// lookup returns the full name for a revision's name, for an empty name, or
// for its "@{-n}".
func (r revision) lookup(s *Store) (string, error) {
	switch {
	case r.at == atCheckout:
		return r.checkedOut(s)
	case r.name == "":
		head, _, err := s.value("HEAD")
		if err != nil || head.target == "" {
			return "HEAD", err
		}
		return head.target, nil
	}

	found, err := s.Candidates(r.name)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", &UnknownRevisionError{Rev: r.text}
	}

	return found[0], nil
}

// checkedOut returns the full name of the branch, or the ID, of an earlier
// checkout.
func (r revision) checkedOut(s *Store) (string, error) {
	previous, err := s.Previous(r.number)
	switch {
	case errors.Is(err, ErrNotFound):
		return "", r.unknown("there were not so many checkouts")
	case err != nil:
		return "", err
	case len(previous) == 64 && isHex(previous):
		return previous, nil
	}
	if _, err := s.Get(Heads + previous); errors.Is(err, ErrNotFound) {
		return "", r.unknown("branch %q is gone", previous)
	} else if err != nil {
		return "", err
	}

	return Heads + previous, nil
}

// present returns the present ID of a full name.
func (r revision) present(s *Store, full string) (object.ID, error) {
	switch {
	case full == "HEAD":
		head, err := s.Head()
		if err == nil && head.Unborn() {
			err = r.unknown("branch %q has no commit yet", head.Branch)
		}
		return head.ID, err
	case isSpecial(full):
		return s.Special(full)
	}
	if id, err := object.ParseID(full); err == nil {
		return id, nil
	}

	id, err := s.Get(full)
	if errors.Is(err, ErrNotFound) {
		err = r.unknown("%s has no commit", full)
	}

	return id, err
}

// entryAt returns the value of a ref a number of moves ago.
func (r revision) entryAt(s *Store, full string) (object.ID, error) {
	if r.number == 0 {
		return r.present(s, full)
	}

	entries, err := s.readLog("logs/" + full)
	if err != nil {
		return object.ID{}, err
	}

	var id object.ID
	switch {
	case r.number < len(entries):
		id = entries[r.number].New
	case r.number == len(entries):
		id = entries[r.number-1].Old
	default:
		return id, r.unknown("the log of %s has only %d entries", full, len(entries))
	}
	if id.IsZero() {
		return id, r.unknown("%s did not exist then", full)
	}

	return id, nil
}

// timeAt returns the value of a ref at a time. Before the first entry of its
// log, the value is unknown, and the result is an error.
func (r revision) timeAt(s *Store, full string) (object.ID, error) {
	at, err := ParseTime(r.when, s.now())
	if err != nil {
		return object.ID{}, r.unknown("%v", err)
	}

	entries, err := s.readLog("logs/" + full)
	if err != nil {
		return object.ID{}, err
	}

	for _, e := range entries {
		if e.Time.After(at) {
			continue
		}
		if e.New.IsZero() {
			return object.ID{}, r.unknown("%s did not exist then", full)
		}
		return e.New, nil
	}

	if len(entries) == 0 {
		return object.ID{}, r.unknown("%s has no log", full)
	}

	begin := entries[len(entries)-1].Time
	return object.ID{}, r.unknown("the log of %s begins at %s", full, begin.Format("2006-01-02 15:04:05"))
}

// Special names, for state that commands leave for each other. Any name in
// capital letters that ends in _HEAD or _MSG may be used.
const (
	MergeHead  = "MERGE_HEAD"  // the commit being merged
	OrigHead   = "ORIG_HEAD"   // HEAD before a merge, reset or pull
	FetchHead  = "FETCH_HEAD"  // the last fetched commit
	RevertHead = "REVERT_HEAD" // the commit being reverted
	MergeMsg   = "MERGE_MSG"   // the message for the next commit
	RevertMsg  = "REVERT_MSG"  // the remaining commits of a revert of several
)

// Special returns the commit with a name such as MERGE_HEAD. The error matches
// [ErrNotFound] if there is none, and [object.ErrCorrupt] if its file is
// damaged.
func (s *Store) Special(name string) (object.ID, error) {
	if !isSpecial(name) {
		return object.ID{}, badSpecial(name)
	}
	v, found, err := s.value(name)
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
	return s.writeOne(ctx, file{name, value{id: id}.encode()})
}

// Message returns the text with a name such as MERGE_MSG. The error matches
// [ErrNotFound] if there is none. It matches [object.ErrCorrupt] if the text
// is longer than a commit's message may be, or not UTF-8.
func (s *Store) Message(name string) (string, error) {
	if !isMessage(name) {
		return "", badSpecial(name)
	}

	data, found, err := s.read(name, object.MaxMessageSize)
	switch {
	case err != nil:
		return "", err
	case !found:
		return "", &NotFoundError{Name: name}
	case !utf8.Valid(data):
		return "", &CorruptError{File: name, Err: errNotUTF8}
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
	return s.writeOne(ctx, file{name, []byte(text)})
}

// ClearSpecial removes special names, both commits and texts. Missing names
// are no error.
func (s *Store) ClearSpecial(ctx context.Context, names ...string) error {
	for _, name := range names {
		if !isSpecial(name) && !isMessage(name) {
			return badSpecial(name)
		}
	}

	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	for _, name := range names {
		if _, err := s.remove(name); err != nil {
			return err
		}
	}

	return syncDirs([]string{s.dir})
}

func (s *Store) writeOne(ctx context.Context, f file) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.write(f)
}

var errNotUTF8 = errors.New("the text is not UTF-8")

func badSpecial(name string) error {
	return &NameError{Name: name, Reason: "is not one like MERGE_HEAD or MERGE_MSG"}
}
