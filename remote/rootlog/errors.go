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
	// ErrEmpty says that there is no kist remote in a store: it has no
	// kist.json, and no root either.
	ErrEmpty = errors.New("nothing was pushed there yet")

	// ErrNoRoots says that a remote has packs, but no root that names any. Its
	// roots were lost, or its first push was interrupted.
	ErrNoRoots = errors.New("there are packs, but no roots: they were lost, or the first push was interrupted")

	// ErrSingleWriter says that a store cannot tell two writers apart, and that
	// the writer does not know that it must be the only one.
	ErrSingleWriter = errors.New("the store cannot tell two writers apart: only one may write to it at a time")

	// ErrFormat is matched by errors that say that a newer program is needed.
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

	// ErrReplan says that what a writer relied on is no longer live, or that
	// files of its own were condemned: it plans again at the head, and keeps
	// those of its packs that are not condemned.
	ErrReplan = errors.New("what the push relies on was collected meanwhile")

	// ErrFloor says that a writer began before the floor: its packs may have
	// been condemned, deleted and forgotten since. It gives up all of them and
	// begins anew at the head.
	ErrFloor = errors.New("push began too long ago")
)

// DamageError says that a root, a state file or kist.json is damaged or gone.
// It matches [object.ErrCorrupt] and [remote.ErrDamaged].
type DamageError struct {
	Name string // of the blob on the remote
	Err  error  // what is wrong
}

func (e *DamageError) Error() string { return fmt.Sprintf("%s is damaged: %v", e.Name, e.Err) }

// Is makes errors.Is work with [object.ErrCorrupt] and [remote.ErrDamaged].
func (e *DamageError) Is(target error) bool {
	return target == object.ErrCorrupt || target == remote.ErrDamaged
}

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Err }

// RollbackError says that a root that was seen is no longer there: the remote
// was restored from a copy, or is another one. Nothing may be written to it.
type RollbackError struct {
	Remembered Position
	Found      *Position // what is there under the same number; nil: nothing
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

// LostError says that somebody else created the root that was to be appended.
// What was to be appended is not in the log.
type LostError struct{ Head *State } // the head now

func (e *LostError) Error() string {
	return fmt.Sprintf("append root: %v, the head is root %d now", ErrLost, e.Head.Seq)
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// UnknownError says that nothing told whether a record was created. It may have
// been, or may be later.
type UnknownError struct {
	Name string // of the record
	Err  error  // why there was no answer
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

// Unwrap returns why there was no answer.
func (e *UnknownError) Unwrap() error { return e.Err }

// FeatureError says that a remote uses features that this program does not
// know, without which it must not act on the remote. It matches [ErrFormat].
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

// InvalidError says why a change cannot be recorded. It matches [ErrInvalid].
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return fmt.Sprintf("append root: %v: %v", ErrInvalid, e.Err) }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Unwrap returns the reason.
func (e *InvalidError) Unwrap() error { return e.Err }

// RefMovedError says that a ref is not where a change wants it to be. A zero
// key stands for a ref that does not exist.
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

// refused reports whether an error says that a store will not do what it was
// asked for: another try does not help.
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

// gone is a state file that is not there: the head names it no longer, or it
// is damage.
type gone struct{ name pack.Name }

func (e *gone) Error() string { return fmt.Sprintf("%s%s is not there", stateFolder, e.name) }
