package rootlog

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/kist-vcs/kist/remote"
)

// Stored reads kist.json and the state files of s from the remote, which may be
// known from copies until then, and returns what is wrong with them. What is
// gone matches [remote.ErrNotFound]. The error says why there is no answer.
func (l *Log) Stored(ctx context.Context, s *State) ([]*DamageError, error) {
	var all []*DamageError
	check := func(name string, read func() ([]byte, error), whole func([]byte) bool) error {
		data, err := readTwice(read, func(data []byte) error {
			if !whole(data) {
				return errCanonical
			}
			return nil
		})
		switch {
		case errors.Is(err, remote.ErrNotFound), errors.Is(err, remote.ErrDamaged):
		case err != nil:
			return err
		case whole(data):
			return nil
		default:
			err = errors.New("it does not have the hash that the roots say")
		}
		all = append(all, &DamageError{Name: name, Err: err})
		return nil
	}
	err := check(identityName, func() ([]byte, error) {
		return readRecord(ctx, l.b, identityName, maxIdentity)
	}, func(data []byte) bool { return sha256.Sum256(data) == l.id.Hash })
	for _, t := range s.tables() {
		if err != nil {
			return all, err
		}
		if t.base == nil {
			continue
		}
		f := t.base.file
		err = check(StateName(f.Name), func() ([]byte, error) { return l.readState(ctx, f) }, f.fits)
	}
	return all, err
}
