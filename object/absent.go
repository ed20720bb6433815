package object

import (
	"errors"
	"fmt"
)

// The reasons why an object is absent.
var (
	// ErrNotFound is the reason if nobody knows another one.
	ErrNotFound = errors.New("object not found")

	// ErrLost is the reason for a missing object whose loss was accepted. It matches
	// ErrNotFound.
	ErrLost = fmt.Errorf("%w; its loss was accepted", ErrNotFound)

	// ErrEvicted is the reason for an object that is only on a remote, if nothing can
	// fetch it.
	ErrEvicted = errors.New("only on a remote")

	// ErrPurged is the reason for a content that a user deleted for good.
	ErrPurged = errors.New("content was purged")

	// ErrExpired is the reason for a commit whose content has expired.
	ErrExpired = errors.New("the content has expired")
)

// AbsentError is the error for an object that cannot be read: it is not here, or a user
// gave it up. It matches its reason. Purged and expired content may still be here.
type AbsentError struct {
	Key    Key    // the commit, if its content has expired
	Reason error  // matches one of the reasons above; nil means ErrNotFound
	Record string // when, by whom and why it was given up: see record.Record.Decision
}

func (e *AbsentError) Error() string {
	switch {
	case errors.Is(e.Reason, ErrPurged):
		return ErrPurged.Error() + " " + e.Record
	case errors.Is(e.Reason, ErrExpired):
		return fmt.Sprintf("the content of %s expired %s", e.Key.ID.Short(), e.Record)
	case errors.Is(e.Reason, ErrEvicted):
		return e.Key.String() + " is only on a remote"
	case errors.Is(e.Reason, ErrLost):
		return fmt.Sprintf("%s %s not found; its loss was accepted", e.Key.Kind, e.Key.ID)
	}
	return fmt.Sprintf("%s %s not found", e.Key.Kind, e.Key.ID)
}

// Is makes errors.Is work with [ErrNotFound] if there is no reason.
func (e *AbsentError) Is(target error) bool { return e.Reason == nil && target == ErrNotFound }

// Unwrap returns the reason.
func (e *AbsentError) Unwrap() error { return e.Reason }

// AbsentKey returns the absent object that err is about, if it is absent for a reason.
func AbsentKey(err, reason error) (key Key, ok bool) {
	var e *AbsentError
	if !errors.As(err, &e) || !errors.Is(e, reason) {
		return Key{}, false
	}
	return e.Key, true
}

// ExplainMissing returns the error for an object that r does not have because of err. It
// has the reason [ErrLost] if r knows that its loss was accepted. It returns all other
// errors unchanged.
func ExplainMissing(r Reader, key Key, err error) error {
	if errors.Is(err, ErrNotFound) && IsLost(r, key) {
		return &AbsentError{Key: key, Reason: ErrLost}
	}
	return err
}
