package worktree

import (
	"context"
	"errors"
	"syscall"

	"github.com/kist-vcs/kist/object"
)

// errnoOf returns the error number that err wraps, or 0.
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

// notFolder reports whether err means that a component of a path is no real
// folder.
func notFolder(err error) bool {
	errno := errnoOf(err)
	return errno == syscall.ENOTDIR || errno == syscall.ELOOP
}

// notEmpty reports whether err means that a folder is not empty.
func notEmpty(err error) bool {
	errno := errnoOf(err)
	return errno == syscall.ENOTEMPTY || errno == syscall.EEXIST
}

// isFatal reports whether err will also stop all later operations. An object
// that cannot be read only stops the paths that need it.
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
