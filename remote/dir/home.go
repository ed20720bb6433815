package dir

import (
	"errors"
	"os"
	"sync"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote"
)

// home is the folder that a backend found first.
type home struct {
	mu   sync.Mutex
	held *disk.Held // nil: not found yet
}

// openRoot opens the folder that is the remote. If the path leads to another
// folder than before, or to none, the error wraps a [*disk.AwayError].
func (b *Backend) openRoot() (*os.File, error) {
	held, err := b.holdHome()
	if err != nil {
		return nil, noStore(err)
	}
	d, err := held.Open()
	if isAway(err) {
		return nil, &kindError{remote.ErrNoStore, err}
	}
	return d, err
}

func (b *Backend) holdHome() (*disk.Held, error) {
	b.home.mu.Lock()
	defer b.home.mu.Unlock()
	var err error
	if b.home.held == nil {
		b.home.held, err = disk.Hold(b.root)
	}
	return b.home.held, err
}

func isAway(err error) bool {
	_, away := errors.AsType[*disk.AwayError](err)
	return away
}

// confirmFolder returns an error if the folder went away while a file was stored. The
// disk may have the file or not.
func (b *Backend) confirmFolder() error {
	d, err := b.openRoot()
	if err != nil {
		return &kindError{remote.ErrTemporary, err}
	}
	return d.Close()
}

// Close implements [remote.Backend].
func (b *Backend) Close() error {
	b.home.mu.Lock()
	defer b.home.mu.Unlock()
	if b.home.held == nil {
		return nil
	}
	err := b.home.held.Close()
	b.home.held = nil
	return err
}
