package collect

import (
	"github.com/kist-vcs/kist/remote/transfer"
)

// Names for the external tests.
const (
	MaxIndexFiles   = maxIndexFiles
	MinPacksToMerge = minPacksToMerge
	MaxWholeRead    = maxWholeRead
)

// NewFollower returns the methods moveToRoot and close of a reachFinder.
func NewFollower(r *transfer.Remote) (follow func(*transfer.Snapshot) (bool, error), end func(), err error) {
	m, err := newReachFinder(r, nil, 1)
	if err != nil {
		return nil, nil, err
	}
	return m.moveToRoot, m.close, nil
}
