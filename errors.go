package kist

import (
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
)

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

// staleTries bounds the attempts of RetryStale.
const staleTries = 10

// RetryStale runs f until it returns no [*volume.StaleError], at most ten times.
// A StaleError means that another process removed objects that f relied on, so f
// must store them again.
func RetryStale(f func() error) error {
	for range staleTries {
		err := f()
		var stale *volume.StaleError
		if !errors.As(err, &stale) {
			return err
		}
	}
	return fmt.Errorf("objects were removed by other processes, time and again: %w", disk.ErrBusy)
}
