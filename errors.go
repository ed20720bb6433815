package kist

import (
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
)

var (

	// ErrNameTaken is matched by the error for a branch or tag that exists.
	ErrNameTaken = errors.New("already exists")
)

// Progress is told, now and then and from one goroutine at a time, how far an
// operation is. A total of 0 is not known.
type Progress func(done, total Amount)

// Amount counts files and their bytes.
type Amount struct{ Files, Bytes int64 }

// staleTries is how often a command begins anew because of what others remove.
const staleTries = 10

// RetryStale runs f again when objects that it relied on were removed by
// another process meanwhile: they have to be stored again.
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

// ErrNoUpstream is matched by the error for a branch that follows no branch of
// a remote.
var ErrNoUpstream = errors.New("no upstream branch")
