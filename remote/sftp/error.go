package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/pkg/sftp"

	"github.com/kist-vcs/kist/remote"
)

// callError is an error of this package with its kind, which may be nil.
type callError struct{ kind, err error }

func (e *callError) Error() string { return e.err.Error() }

func (e *callError) Unwrap() error { return e.err }

// The codes of SFTP's answers that package sftp has no names for as numbers.
const (
	codeFailure     = uint32(sftp.ErrSSHFxFailure)
	codeBadMessage  = uint32(sftp.ErrSSHFxBadMessage)
	codeUnsupported = uint32(sftp.ErrSSHFxOpUnsupported)
)

// hasCode reports whether an error is a server's answer with one of codes.
func hasCode(err error, codes ...uint32) bool {
	status, ok := errors.AsType[*sftp.StatusError](err)
	if ok {
		for _, code := range codes {
			if status.Code == code {
				return true
			}
		}
	}
	return false
}

// isLost reports whether an error means that the connection broke.
func isLost(err error) bool {
	if _, known := errors.AsType[*callError](err); known {
		return false
	}
	return errors.Is(err, sftp.ErrSSHFxConnectionLost) || errors.Is(err, sftp.ErrSSHFxNoConnection) || errors.Is(err, os.ErrClosed) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, io.ErrUnexpectedEOF)
}

// convert turns the error of a call into one of package remote.
func convert(ctx context.Context, op, name string, err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*remote.Error](err); ok {
		return known
	}
	e := &remote.Error{Op: op, Name: name}
	known, isKnown := errors.AsType[*callError](err)
	switch {
	case ctx.Err() != nil:
		e.Err = ctx.Err()
	case isKnown:
		e.Kind, e.Err = known.kind, known.err
	case errors.Is(err, fs.ErrNotExist):
		e.Kind = remote.ErrNotFound
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Err = remote.ErrPermission, errors.New("the server does not permit it")
	case hasCode(err, codeUnsupported):
		e.Kind, e.Err = remote.ErrUnsupported, errors.New("the server does not know the operation")
	case isLost(err):
		e.Kind, e.Err = remote.ErrTemporary, errors.New("the connection was lost")
	case hasCode(err, codeFailure, codeBadMessage):
		e.Err = fmt.Errorf("the server refused, and gave no reason but %q", remote.OneLine(err.Error(), maxReason))
	default:
		e.Kind, e.Err = remote.ErrTemporary, errors.New("the server's answer makes no sense: "+remote.OneLine(err.Error(), maxReason))
	}
	return e
}

// failStore returns the error of a call that stores. A missing file or folder then means that another process
// removed it just now.
func failStore(err error) error {
	if err != nil && errors.Is(err, fs.ErrNotExist) {
		return &callError{remote.ErrTemporary, errors.New("a file that was being written, or its folder, was removed")}
	}
	return err
}

// startErrors has the kinds of the errors with which ssh does not connect, by a part of its text.
var startErrors = []struct {
	text string
	kind error
}{
	{"Permission denied (", remote.ErrCredentials},
	{"Too many authentication failures", remote.ErrCredentials},
	{"Host key verification failed", remote.ErrHostKey},
	{"subsystem request failed", remote.ErrUnsupported},
	{"onfiguration option", nil},
	{"Bad owner or permissions", nil},
	{"Bad port", nil},
	{"command not found", nil},
}

// explainStart returns the error for a connection that did not come about. Reason is why ssh ended, or nil. Err is
// that of the first answer.
func explainStart(reason, err error) error {
	if reason == nil {
		text := remote.OneLine(err.Error(), maxReason)
		if errors.Is(err, io.ErrUnexpectedEOF) || isLost(err) {
			return &callError{remote.ErrTemporary, errors.New("the connection was closed before the server answered")}
		}
		return &callError{remote.ErrUnsupported, fmt.Errorf("the server's answer is no SFTP (%s): a start-up file of its shell may print something", text)}
	}
	text := reason.Error()
	if e, ok := errors.AsType[*endError](reason); ok {
		text = e.text
	}
	for _, known := range startErrors {
		switch {
		case !strings.Contains(text, known.text):
		case known.kind == remote.ErrHostKey:
			return &callError{nil, fmt.Errorf("%w: %w", known.kind, reason)}
		default:
			return &callError{known.kind, reason}
		}
	}
	return &callError{remote.ErrTemporary, reason}
}
