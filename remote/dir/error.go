package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/kist-vcs/kist/remote"
)

var errNotFolder = errors.New("not a folder")

// kindError is an error inside this package that knows of which kind it is.
type kindError struct{ kind, err error }

func (e *kindError) Error() string { return e.err.Error() }

func (e *kindError) Unwrap() error { return e.err }

// noStore returns an error of the kind ErrNoStore if err says that the folder of
// the remote, or the one above it, does not exist or is not a folder.
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
		e.Err = nil // says nothing more
	}
	return e
}

// failStore is fail for an operation that stores: that something is not there
// means that somebody removed it just then, such as the file in tmp.
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
