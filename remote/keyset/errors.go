package keyset

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/kist-vcs/kist/remote/crypt"
)

var (
	// ErrDamaged means that a keyset breaks the format, or does not match its checksum.
	ErrDamaged = errors.New("damaged keyset")

	// ErrPassphrase means that a passphrase opens none of the things that it was tried on.
	ErrPassphrase = errors.New("wrong passphrase")

	// ErrNoIdentity is matched by every [*NoIdentityError].
	ErrNoIdentity = errors.New("no identity opens the keyset")

	// ErrNoCopy is matched by every [*CopiesError].
	ErrNoCopy = errors.New("no intact copy of the keyset")

	// ErrOtherRemote means that a keyset belongs to another remote.
	ErrOtherRemote = errors.New("the keyset of another remote")

	// ErrKeyChanged is matched by every [*KeyChangedError].
	ErrKeyChanged = errors.New("the key of an epoch changed")

	// ErrOlder means that the keyset is older than one that this clone knows.
	ErrOlder = errors.New("an older keyset than the last known one")
)

// The errors of changes.
var (
	ErrRecipient      = errors.New("not a public key of age or ssh")
	ErrSecret         = errors.New("an identity, which is secret, not a public key")
	ErrName           = errors.New("not a name for a recipient")
	ErrNameTaken      = errors.New("a recipient has this name already")
	ErrRecipientTaken = errors.New("the public key is a recipient already")
	ErrNoRecipient    = errors.New("no such recipient")
	ErrLastRecipient  = errors.New("nobody could open a keyset without recipients")
	ErrTooLarge       = errors.New("the keyset would be too large")
	ErrIdentity       = errors.New("not an identity of age or ssh")
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// NoIdentityError means that no identity opens a keyset.
type NoIdentityError struct {
	Tried   int     // number of identities, without the Unasked ones
	Unasked int     // number of identities that need a passphrase, while there was no way to ask for it
	Failed  []error // of identities that could not be tried, such as for a missing plugin
}

func (e *NoIdentityError) Error() string {
	switch {
	case e.Unasked > 0 && e.Tried > 0:
		return fmt.Sprintf("%v: %d do not fit, and %d need a passphrase", ErrNoIdentity, e.Tried, e.Unasked)
	case e.Unasked > 0:
		return fmt.Sprintf("%v: %d need a passphrase", ErrNoIdentity, e.Unasked)
	case e.Tried > 0:
		return fmt.Sprintf("%v: %d do not fit", ErrNoIdentity, e.Tried)
	}
	return fmt.Sprintf("%v: there is none", ErrNoIdentity)
}

// Is makes errors.Is(err, ErrNoIdentity) true.
func (e *NoIdentityError) Is(target error) bool { return target == ErrNoIdentity }

// Unwrap returns the errors of the identities that could not be tried.
func (e *NoIdentityError) Unwrap() []error { return e.Failed }

// CopiesError means that every copy of a keyset is damaged or missing.
type CopiesError struct {
	Names [2][16]byte
	Errs  []error // of the copies
}

func (e *CopiesError) Error() string {
	return fmt.Sprintf("%v: %v", ErrNoCopy, errors.Join(e.Errs...))
}

// Is makes errors.Is(err, ErrNoCopy) true. The causes do not match: they would look like errors of the
// store, such as a missing blob.
func (e *CopiesError) Is(target error) bool { return target == ErrNoCopy }

// KeyChangedError means that a keyset has another key for an epoch than before. Somebody without
// the keys brought it in.
type KeyChangedError struct {
	Epoch uint32
	Want  crypt.Fingerprint
	Got   crypt.Fingerprint // zero: the keyset does not have the epoch
}

func (e *KeyChangedError) Error() string {
	return fmt.Sprintf("%v: epoch %d", ErrKeyChanged, e.Epoch)
}

// Is makes errors.Is true for ErrKeyChanged, and for the same error of package crypt.
func (e *KeyChangedError) Is(target error) bool {
	return target == ErrKeyChanged || target == crypt.ErrOtherKeys
}

// ModeError means that other users can read or write a file with identities.
type ModeError struct {
	File string
	Mode fs.FileMode
}

func (e *ModeError) Error() string {
	return fmt.Sprintf("%s: others can use it: mode %v", e.File, e.Mode)
}

// IdentityFileError is the error of a file with identities. No text of the file is in it.
type IdentityFileError struct {
	File string
	Line int // 0: the whole file
	Err  error
}

func (e *IdentityFileError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s, line %d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.File, e.Err)
}

// Unwrap returns the cause.
func (e *IdentityFileError) Unwrap() error { return e.Err }

// PluginError is the error of a plugin of age.
type PluginError struct {
	Plugin    string // the program is age-plugin-<plugin>
	Recipient string // name of the recipient that needs it; empty: an identity does
	Err       error  // ErrPluginForbidden, or that of the plugin
}

// ErrPluginForbidden means that a recipient needs a plugin that the user's own files do not name.
var ErrPluginForbidden = errors.New("the plugin belongs to none of the user's own identities")

func (e *PluginError) Error() string { return fmt.Sprintf("age-plugin-%s: %v", e.Plugin, e.Err) }

// Unwrap returns the cause.
func (e *PluginError) Unwrap() error { return e.Err }

// KnownError means that the file in which a clone remembers the keys of a remote is damaged. Only the user can decide to
// trust the store's keys without it.
type KnownError struct {
	File string
	Err  error
}

func (e *KnownError) Error() string { return fmt.Sprintf("%s damaged: %v", e.File, e.Err) }

// Unwrap returns the cause.
func (e *KnownError) Unwrap() error { return e.Err }
