package rootlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/retry"
)

// readRecord reads a whole blob of at most limit bytes. One that is longer is
// cut off behind limit+1 bytes.
func readRecord(ctx context.Context, b remote.Blobs, name string, limit int) ([]byte, error) {
	buf := make([]byte, min(64<<10, limit+1))
	n, err := b.Get(ctx, name, buf, 0)
	if err != nil {
		return nil, err
	}
	if n < len(buf) || n > limit {
		return buf[:n], nil
	}
	whole := make([]byte, limit+1)
	copy(whole, buf)
	more, err := b.Get(ctx, name, whole[n:], int64(n))
	if err != nil {
		return nil, err
	}
	return whole[:n+more], nil
}

// readTwice is [retry.Verified] for bytes that ought to pass check. It returns
// those of the last read, also if they do not pass.
func readTwice(read func() ([]byte, error), check func([]byte) error) (data []byte, err error) {
	_ = retry.Verified(func() error {
		data, err = read()
		if err == nil && check(data) != nil {
			return remote.ErrDamaged
		}
		return err
	})
	return data, err
}

// creation is a record to be created.
type creation struct {
	b        remote.Backend
	o        Options
	name     string
	data     []byte // the same in all attempts
	limit    int    // bytes of what may be there instead
	readable func([]byte) bool
}

// create creates the record if it is not there, and returns what is there
// then: the data, or what somebody else created. It is step 4 of a push in
// docs/format/remote.md.
//
// The error of a store that refuses is returned as it is, if nothing is there
// and no attempt was unclear. All else is an [*UnknownError].
func (r *creation) create(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	given := ctx
	ctx, cancel := context.WithTimeoutCause(given, r.o.Deadline, fmt.Errorf("no answer in %v", r.o.Deadline))
	defer cancel()
	unclear := false
	for try := 0; ; try++ {
		err := r.b.Create(ctx, r.name, r.data)
		if err == nil {
			return r.data, nil
		}
		clear := refused(err)
		unclear = unclear || !clear
		stored, readErr := r.settle(ctx)
		switch absent := errors.Is(readErr, remote.ErrNotFound); {
		case readErr == nil:
			return stored, nil
		case clear && !unclear:
			return nil, err
		case clear || !absent:
			return nil, r.unknown(ctx, err, readErr)
		}
		// Absent: the same bytes again. Whichever attempt lands first is the
		// one that counts, and a late one finds the name taken.
		if waitErr := r.o.backOff(ctx, try, err); waitErr != nil {
			return nil, r.unknown(ctx, err, nil)
		}
	}
}

// settle reads the record until there is an answer: what is stored, or that
// nothing is ([remote.ErrNotFound]). One that exists but cannot be read is no
// answer.
func (r *creation) settle(ctx context.Context) ([]byte, error) {
	for try := 0; ; try++ {
		stored, err := readRecord(ctx, r.b, r.name, r.limit)
		switch {
		case err == nil && (bytes.Equal(stored, r.data) || r.readable(stored)):
			return stored, nil
		case err == nil:
			err = &DamageError{Name: r.name, Err: errors.New("cannot be read")}
		case errors.Is(err, remote.ErrNotFound), refused(err):
			return nil, err
		}
		if waitErr := r.o.backOff(ctx, try, err); waitErr != nil {
			return nil, err
		}
	}
}

// unknown returns the error for an outcome that is not known.
func (r *creation) unknown(ctx context.Context, err, readErr error) error {
	if readErr != nil && !errors.Is(readErr, remote.ErrNotFound) {
		err = fmt.Errorf("%w; then %w", err, readErr)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	return &UnknownError{Name: r.name, Err: err}
}
