package object

import (
	"context"
	"errors"
	"fmt"
)

// Reader reads objects. Implementations are safe for concurrent use.
type Reader interface {
	// Get returns an object's bytes, verified against its ID. The slice is the
	// caller's own. An object that is not there is a [*NotFoundError], one that
	// is there but cannot be read back whole is a [*CorruptError].
	Get(ctx context.Context, key Key) ([]byte, error)

	// Missing returns those of keys that are not there, in their order.
	Missing(ctx context.Context, keys []Key) ([]Key, error)
}

// Lender is a [Reader] that can lend an object's bytes, which spares a slice
// for each.
type Lender interface {
	Reader

	// Lend calls use with an object's bytes, verified as by Get, and returns
	// its error. Use must not keep or change them. It is not called if they
	// cannot be had; then errors are those of Get.
	Lend(ctx context.Context, key Key, use func(data []byte) error) error
}

// Lend has use called with an object's bytes by r, if that is a [Lender]; else
// it gets them first.
func Lend(ctx context.Context, r Reader, key Key, use func(data []byte) error) error {
	if l, ok := r.(Lender); ok {
		return l.Lend(ctx, key, use)
	}
	data, err := r.Get(ctx, key)
	if err != nil {
		return err
	}
	return use(data)
}

// Writer stores objects. Implementations are safe for concurrent use.
type Writer interface {
	// Put stores data and returns its ID. It is idempotent: an existing object
	// is not stored again. Put does not keep data, and does not change it. A
	// node is stored by its encoding.
	Put(ctx context.Context, kind Kind, data []byte) (ID, error)
}

// ReadWriter is a [Reader] that sees at once what its [Writer] has put.
type ReadWriter interface {
	Reader
	Writer
}

// ErrNotFound is matched by every [*NotFoundError].
var ErrNotFound = errors.New("object not found")

// NotFoundError says that a store does not have an object.
type NotFoundError struct {
	Key  Key
	Lost bool // its loss was accepted
}

func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("%s %s not found", e.Key.Kind, e.Key.ID)
	if e.Lost {
		text += "; its loss was accepted"
	}
	return text
}

// Is makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// LostKey returns the missing object that err is about, if its loss was accepted.
func LostKey(err error) (key Key, lost bool) {
	var e *NotFoundError
	if !errors.As(err, &e) || !e.Lost {
		return Key{}, false
	}
	return e.Key, true
}

// ErrPurged is matched by errors that say that a content was given up on
// purpose: whoever asks for it has to do without.
var ErrPurged = errors.New("content was purged")

// ErrCorrupt is matched by every error that says that stored data is damaged.
var ErrCorrupt = errors.New("damaged data")

// CorruptError says that a store has an object but cannot give its bytes back.
type CorruptError struct {
	Key   Key
	Where string // file and offset, or pack and offset
	Err   error  // the cause
}

func (e *CorruptError) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("%s %s is damaged: %v", e.Key.Kind, e.Key.ID, e.Err)
	}
	return fmt.Sprintf("%s %s is damaged (%s): %v", e.Key.Kind, e.Key.ID, e.Where, e.Err)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// DamageError is a damaged or missing file of a store. It matches [ErrCorrupt], and also
// Kind, if that is set.
type DamageError struct {
	Name string // of the file in the store, or on the remote
	Err  error  // the damage
	Kind error
}

func (e *DamageError) Error() string { return fmt.Sprintf("%s is damaged: %v", e.Name, e.Err) }

// Is makes errors.Is work with [ErrCorrupt] and Kind.
func (e *DamageError) Is(target error) bool {
	return target == ErrCorrupt || e.Kind != nil && target == e.Kind
}

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Err }

// Discard is a [Writer] that stores nothing and returns each object's ID.
var Discard Writer = discard{}

type discard struct{}

func (discard) Put(ctx context.Context, kind Kind, data []byte) (ID, error) {
	return Sum(data), ctx.Err()
}
