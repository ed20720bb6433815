package retry

import (
	"errors"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
)

// Verified calls read, which reads from a store and verifies the data. If read
// reports damage, Verified calls it once more and returns the second answer: a
// byte may have changed on the way. So read must not use a cache that an
// earlier call filled.
//
// All data of a store is read in this way before it is called damaged.
func Verified(read func() error) error {
	err := read()
	if !looksDamaged(err) {
		return err
	}
	return read()
}

// looksDamaged reports whether wrong bytes can be the reason of an error. They can
// look like a format of a newer program.
func looksDamaged(err error) bool {
	return errors.Is(err, remote.ErrDamaged) || errors.Is(err, object.ErrCorrupt) || errors.Is(err, remote.ErrNewerFormat)
}
