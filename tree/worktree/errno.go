package worktree

import (
	"context"
	"errors"
	"syscall"

	"github.com/kist-vcs/kist/object"
)

// errnoOf returns the error number in err, 0 if there is none.
func errnoOf(err error) syscall.Errno {
	if errno, ok := err.(syscall.Errno); ok {
		return errno
	}
	var errno syscall.Errno
	errors.As(err, &errno)
	return errno
}

// isErrno reports whether err is or wraps an error number.
func isErrno(err error, want syscall.Errno) bool { return errnoOf(err) == want }

// notFolder reports whether err says that a component of a path is not a real
// folder.
func notFolder(err error) bool {
	errno := errnoOf(err)
	return errno == syscall.ENOTDIR || errno == syscall.ELOOP
}

// notEmpty reports whether err says that a folder has something in it.
func notEmpty(err error) bool {
	errno := errnoOf(err)
	return errno == syscall.ENOTEMPTY || errno == syscall.EEXIST
}

// isFatal reports whether err will be the same for all that comes after. An
// object that cannot be read is a matter of those who want it.
func isFatal(err error) bool {
	if errors.Is(err, object.ErrCorrupt) || errors.Is(err, object.ErrNotFound) {
		return false
	}
	switch errnoOf(err) {
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		return true
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
