package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/kist-vcs/kist/remote"
)

var errNotFolder = errors.New("not a folder")

// kindError is an error of this package with its kind.
type kindError struct{ kind, err error }

func (e *kindError) Error() string { return e.err.Error() }

func (e *kindError) Unwrap() error { return e.err }

// noStore returns an ErrNoStore if err means that the remote's folder or its
// parent does not exist or is no folder.
func noStore(err error) error {
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist) && errors.As(err, &at):
		return &kindError{remote.ErrNoStore, fmt.Errorf("folder %q does not exist", at.Path)}
	case errors.Is(err, errNotFolder) || errors.Is(err, syscall.ENOTDIR):
		return &kindError{remote.ErrNoStore, err}
	}
	return err
}

// fail returns err as an error of an operation.
func fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	e := &remote.Error{Op: op, Name: name, Kind: kindOf(err), Err: err}
	if e.Kind == remote.ErrNotFound && errors.Is(err, syscall.ENOENT) {
		e.Err = nil // adds nothing
	}
	return e
}

// failStore is fail for an operation that stores. A missing file or folder
// then means that another process removed it just now, such as the file in
// tmp.
func failStore(op, name string, err error) error {
	if kindOf(err) == remote.ErrNotFound {
		err = &kindError{remote.ErrTemporary, err}
	}
	return fail(op, name, err)
}

func kindOf(err error) error {
	var known *kindError
	if errors.As(err, &known) {
		return known.kind
	}

	var errno syscall.Errno
	errors.As(err, &errno)
	switch errno {
	case syscall.ENOENT:
		return remote.ErrNotFound
	case syscall.EACCES, syscall.EPERM, syscall.EROFS:
		return remote.ErrPermission
	case syscall.ENOSPC, syscall.EDQUOT:
		return remote.ErrFull
	case syscall.ESTALE, syscall.EINTR, syscall.ETIMEDOUT:
		return remote.ErrTemporary
	}

	return nil
}
