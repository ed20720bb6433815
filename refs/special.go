package refs

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/kist-vcs/kist/object"
)

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
