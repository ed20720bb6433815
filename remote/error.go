package remote

import (
	"errors"
	"fmt"
	"time"
)

// What an [Error] may match. The first three are answers; the others say why
// there is none.
var (
	ErrNotFound = errors.New("not found on the remote")
	ErrExists   = errors.New("exists on the remote already")
	ErrName     = errors.New("not a name for a blob")

	// ErrTemporary is for what may go well if it is tried again: the store is
	// busy or cannot be reached, the connection broke, the body was cut short.
	// It is unclear whether a write took effect.
	ErrTemporary = errors.New("temporary remote error")
	// ErrCredentials is for credentials that are missing, wrong or expired.
	ErrCredentials = errors.New("credentials not accepted by the remote")
	// ErrCertificate says that the server's certificate is not trusted.
	ErrCertificate = errors.New("certificate not trusted")
	// ErrPermission is for what the credentials do not allow.
	ErrPermission = errors.New("not permitted by the remote")
	// ErrNoStore says that the bucket, database or folder does not exist.
	ErrNoStore = errors.New("remote does not exist")
	// ErrFull says that the store has no room left.
	ErrFull = errors.New("remote is full")
	// ErrUnsupported means that the store does not support an operation.
	ErrUnsupported = errors.New("not supported by the remote")
	// ErrDamaged says that a store has a blob but cannot give its bytes back.
	ErrDamaged = errors.New("damaged on the remote")
)

// Error is the error of an operation on a remote.
type Error struct {
	Op   string // "get", "put", "create", "replace", "stat", "list", "delete", "open"
	Name string // of the blob, or the prefix of a list; may be empty
	Kind error  // one of the sentinels above; nil: anything else, and not worth another try

	// Wait is how long the store asked to wait before the next try; 0: it did
	// not say.
	Wait time.Duration

	// Err is the cause, with the store's own reason; may be nil. It has no
	// credentials in it.
	Err error
}

func (e *Error) Error() string {
	s := e.Op
	if e.Name != "" {
		s += fmt.Sprintf(" %q", e.Name)
	}
	switch {
	case e.Kind != nil && e.Err != nil:
		return fmt.Sprintf("%s: %v: %v", s, e.Kind, e.Err)
	case e.Kind != nil:
		return fmt.Sprintf("%s: %v", s, e.Kind)
	default:
		return fmt.Sprintf("%s: %v", s, e.Err)
	}
}

// EnvError says that the user has to set a variable of the environment.
type EnvError struct {
	Variable string
	Value    string // "": any
	Reason   string // why it is needed
}

func (e *EnvError) Error() string { return e.Reason }

// ForeignError says that a folder is no remote and has other files in it.
type ForeignError struct {
	Folder string
	File   string // one of the files
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%q has other files in it, such as %q, and is no kist remote", e.Folder, e.File)
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Kind != nil {
		errs = append(errs, e.Kind)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}
