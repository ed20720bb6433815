package kist

import "errors"

var (
	// ErrNameTaken is matched by the error for a branch, tag or remote that exists.
	ErrNameTaken = errors.New("already exists")

	// ErrNoMatch is matched by the error for a path that matches nothing.
	ErrNoMatch = errors.New("matches nothing")

	// ErrNoUpstream is matched by the error for a branch without an upstream.
	ErrNoUpstream = errors.New("no upstream branch")

	// ErrUnborn is matched by the error for a branch without a commit.
	ErrUnborn = errors.New("the current branch has no commit yet")
)

// Progress receives the state of an operation now and then. Calls come from one
// goroutine at a time. A total of 0 is unknown.
type Progress func(done, total Amount)

// Amount counts files and their bytes.
type Amount struct{ Files, Bytes int64 }
