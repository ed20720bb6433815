package rootlog

import (
	"errors"
	"fmt"
	"slices"

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
	ErrSingleWriter = errors.New("the store does not support concurrent writers: only one may write to it at a time")

	// ErrFormat is matched by errors that ask for a newer program.
	ErrFormat = remote.ErrNewerFormat

	// ErrRollback is matched by every [*RollbackError].
	ErrRollback = errors.New("remote was rolled back or replaced")

	// ErrLost is matched by every error of a change whose root another writer created.
	ErrLost = errors.New("another push was first")

	// ErrUnknown is matched by every [*UnknownError].
	ErrUnknown = errors.New("outcome is not known")

	// ErrInvalid: a root cannot have the change.
	ErrInvalid = errors.New("cannot be recorded")

	// ErrRefMoved: a ref is not at the Old of its change.
	ErrRefMoved = errors.New("ref moved on the remote meanwhile")

	// ErrReplan: a pack that the writer relied on is no longer live, or one of its
	// own files was condemned. The writer plans again at the head, and keeps its
	// packs that are not condemned.
	ErrReplan = errors.New("a gc has removed data that the push relies on")

	// ErrKeysetMoved: another writer has changed the keys of the remote. The writer makes its
	// change of keys again, from the keyset of the head.
	ErrKeysetMoved = errors.New("the keys of the remote were changed meanwhile")

	// ErrUnsigned: a root must be signed, and is not, or not by a trusted key.
	ErrUnsigned = errors.New("not signed by a trusted key")

	// ErrNoSigner: each root of the remote must be signed, and the writer has no key for that.
	ErrNoSigner = errors.New("the roots of the remote are signed, and there is no key to sign with")

	// ErrFloor: the writer began before the floor, or before the epoch of the head. Its packs may have been condemned,
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
	Emptied    bool      // kist.json is also gone: perhaps a disk is not mounted

	// Fork is the number of a later root that does not descend from the remembered one, which is
	// unchanged: the store shows a part of another history. 0: there is none.
	Fork uint64
}

func (e *RollbackError) Error() string {
	found := "it is gone"
	switch {
	case e.Found != nil:
		found = fmt.Sprintf("it is %.8s now", e.Found.Hash)
	case e.Emptied:
		found = "it is gone, and so is " + IdentityName
	case e.Fork != 0:
		found = fmt.Sprintf("and root %d does not descend from it", e.Fork)
	}
	return fmt.Sprintf("%v: root %d was %.8s, %s", ErrRollback, e.Remembered.Seq, e.Remembered.Hash, found)
}

// Is makes errors.Is(err, ErrRollback) true.
func (e *RollbackError) Is(target error) bool { return target == ErrRollback }

// LostError means that another writer created the root that Append tried to create. The
// change is not in the log.
type LostError struct{ Head *State } // the head now, perhaps a later root

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
	if e.Name != IdentityName {
		what = "the change may or may not have been made; a fetch shows whether it was"
	}
	return fmt.Sprintf("create %s: %v: %s: %v", e.Name, ErrUnknown, what, e.Err)
}

// Is makes errors.Is(err, ErrUnknown) true.
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }

// Unwrap returns the reason.
func (e *UnknownError) Unwrap() error { return e.Err }

// asInvalid adds [ErrInvalid] to the reason why a root cannot have a change.
func asInvalid(reason error) error { return fmt.Errorf("append root: %w: %w", ErrInvalid, reason) }

// isRefused reports whether the store refused an operation, or there is no key for it, so that a retry cannot help.
func isRefused(err error) bool {
	return slices.ContainsFunc([]error{
		remote.ErrCredentials, remote.ErrCertificate, remote.ErrPermission, remote.ErrNoStore,
		remote.ErrFull, remote.ErrUnsupported, remote.ErrName, remote.ErrNoKey, ErrEncrypted, ErrNotEncrypted,
	}, func(kind error) bool { return errors.Is(err, kind) })
}

// gone is a missing state file. Either a newer head does not name it, or the remote is
// damaged.
type gone struct{ name pack.Name }

func (e *gone) Error() string { return fmt.Sprintf("%s%s is not there", stateFolder, e.name) }
