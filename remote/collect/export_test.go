package collect

import (
	"github.com/kist-vcs/kist/remote/transfer"
)

// Names for the external tests.
const (
	ManyIndexes = manyIndexes
	MergeFrom   = mergeFrom
	WholePack   = wholePack
)

// NewFollower returns the methods follow and close of a marker.
func NewFollower(r *transfer.Remote) (follow func(*transfer.Snapshot) (bool, error), end func(), err error) {
	m, err := newMarker(r, nil, 1)
	if err != nil {
		return nil, nil, err
	}
	return m.moveTo, m.close, nil
}
