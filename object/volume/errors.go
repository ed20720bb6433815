package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kist-vcs/kist/object"
)

// DamageError says that a volume itself, not one object in it, is damaged or
// cannot be read. It matches [object.ErrCorrupt].
type DamageError struct {
	Volume string
	File   string // in the volume's folder; "" is the folder
	Err    error  // what is wrong
}

func (e *DamageError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("volume %s: %v", e.Volume, e.Err)
	}
	return fmt.Sprintf("volume %s, file %s: %v", e.Volume, e.File, e.Err)
}

// Is makes errors.Is(err, object.ErrCorrupt) true.
func (e *DamageError) Is(target error) bool { return target == object.ErrCorrupt }

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Err }

// StaleError says that objects that a session was told are there already have
// been removed since, by a garbage collection that did not know they would be
// used. Put them again, then Publish again. Without keys, it is not known which:
// begin again with a new session.
type StaleError struct{ Keys []object.Key }

func (e *StaleError) Error() string {
	if len(e.Keys) == 0 {
		return "objects were removed meanwhile"
	}
	if len(e.Keys) == 1 {
		return fmt.Sprintf("%s was removed meanwhile", e.Keys[0])
	}
	return fmt.Sprintf("%d objects were removed meanwhile", len(e.Keys))
}

// isGone reports whether err says that a file or folder is not there, or was
// closed because its volume was dropped.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrClosed)
}
