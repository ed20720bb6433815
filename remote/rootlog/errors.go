package rootlog

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

var (
	// ErrEmpty: the store is no kist remote. It has neither kist.json nor a root.
	ErrEmpty = errors.New("nothing was pushed there yet")

	// ErrNoRoots: the remote has packs, but no root. Its roots were lost, or its
	// first push was interrupted.
	ErrNoRoots = errors.New("there are packs, but no roots: they were lost, or the first push was interrupted")

	// ErrSingleWriter: the store cannot distinguish two writers, and the change does
	// not confirm that its writer is the only one.
	ErrSingleWriter = errors.New("the store cannot tell two writers apart: only one may write to it at a time")

	// ErrFormat is matched by errors that ask for a newer program.
	ErrFormat = remote.ErrNewerFormat

	// ErrRollback is matched by every [*RollbackError].
	ErrRollback = errors.New("remote was rolled back or replaced")

	// ErrLost is matched by every [*LostError].
	ErrLost = errors.New("somebody else was first")

	// ErrUnknown is matched by every [*UnknownError].
	ErrUnknown = errors.New("outcome is not known")

	// ErrInvalid is matched by every [*InvalidError].
	ErrInvalid = errors.New("cannot be recorded")

	// ErrRefMoved is matched by every [*RefMovedError].
	ErrRefMoved = errors.New("ref moved on the remote meanwhile")

	// ErrReplan: a pack that the writer relied on is no longer live, or one of its
	// own files was condemned. The writer plans again at the head, and keeps its
	// packs that are not condemned.
	ErrReplan = errors.New("what the push relies on was collected meanwhile")

	// ErrFloor: the writer began before the floor. Its packs may have been condemned,
	// deleted and delisted since. It gives up all of them and plans at the head.
	ErrFloor = errors.New("push began too long ago")
)

// damageError returns the error for a root, a state file or kist.json that is damaged or
// missing. It matches [object.ErrCorrupt] and [remote.ErrDamaged].
func damageError(name string, err error) error {
	return &object.DamageError{Name: name, Err: err, Kind: remote.ErrDamaged}
}

// RollbackError is a remembered root that the remote no longer has: the remote was
// restored from a copy, or is another one. Nothing may be written to it.
type RollbackError struct {
	Remembered Position
	Found      *Position // the root of the same number, or nil
}

func (e *RollbackError) Error() string {
	found := "it is gone"
	if e.Found != nil {
		found = fmt.Sprintf("it is %.8s now", e.Found.Hash)
	}
	return fmt.Sprintf("%v: root %d was %.8s, %s", ErrRollback, e.Remembered.Seq, e.Remembered.Hash, found)
}

// Is makes errors.Is(err, ErrRollback) true.
func (e *RollbackError) Is(target error) bool { return target == ErrRollback }

// LostError is the root of another writer under the number of the appended root. The
// change is not in the log.
type LostError struct{ Head *State } // the head now

func (e *LostError) Error() string {
	return fmt.Sprintf("append root: %v, the head is root %d now", ErrLost, e.Head.Seq)
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// UnknownError is a record for which the store gave no answer. The record may exist, or
// may be created later.
type UnknownError struct {
	Name string // of the record
	Err  error  // the reason
}

func (e *UnknownError) Error() string {
	what := "it may or may not have been created"
	if e.Name != identityName {
		what = "the change may or may not have been made; a fetch will tell"
	}
	return fmt.Sprintf("create %s: %v: %s: %v", e.Name, ErrUnknown, what, e.Err)
}

// Is makes errors.Is(err, ErrUnknown) true.
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }

// Unwrap returns the reason.
func (e *UnknownError) Unwrap() error { return e.Err }

// FeatureError has the features of a remote that this program does not know. The
// program must not do Act on the remote. It matches [ErrFormat].
type FeatureError struct {
	Name     string // of the blob that asks for them
	Act      Act
	Features []string
}

func (e *FeatureError) Error() string {
	return fmt.Sprintf("%v: %s asks for %q to %s", ErrFormat, e.Name, strings.Join(e.Features, ", "), e.Act)
}

// Is makes errors.Is(err, ErrFormat) true.
func (e *FeatureError) Is(target error) bool { return target == ErrFormat }

// InvalidError is the reason why a root cannot have a change. It matches [ErrInvalid].
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return fmt.Sprintf("append root: %v: %v", ErrInvalid, e.Err) }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Unwrap returns the reason.
func (e *InvalidError) Unwrap() error { return e.Err }

// RefMovedError is a ref that is not at the Old of its change. A zero key stands for a
// ref that does not exist.
type RefMovedError struct {
	Name       string
	Want, Have object.Key
}

func (e *RefMovedError) Error() string {
	switch {
	case e.Want.IsZero():
		return fmt.Sprintf("%s exists on the remote, at %s", e.Name, e.Have)
	case e.Have.IsZero():
		return fmt.Sprintf("%s no longer exists on the remote, was to be at %s", e.Name, e.Want)
	}
	return fmt.Sprintf("%s is at %s on the remote, was to be at %s", e.Name, e.Have, e.Want)
}

// Is makes errors.Is(err, ErrRefMoved) true.
func (e *RefMovedError) Is(target error) bool { return target == ErrRefMoved }

// askedWait returns how long a store asked to wait before the next try.
func askedWait(err error) time.Duration {
	var e *remote.Error
	if errors.As(err, &e) {
		return e.Wait
	}
	return 0
}

// refused reports whether the store refused an operation, so that a retry cannot help.
func refused(err error) bool {
	for _, kind := range []error{
		remote.ErrCredentials, remote.ErrCertificate, remote.ErrPermission, remote.ErrNoStore,
		remote.ErrFull, remote.ErrUnsupported, remote.ErrName,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// gone is a missing state file. Either a newer head does not name it, or the remote is
// damaged.
type gone struct{ name pack.Name }

func (e *gone) Error() string { return fmt.Sprintf("%s%s is not there", stateFolder, e.name) }
