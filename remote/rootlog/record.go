package rootlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/retry"
)

// readRecord reads a blob of at most limit bytes. It cuts a longer one after limit+1
// bytes.
func readRecord(ctx context.Context, b remote.Blobs, name string, limit int) ([]byte, error) {
	buf := make([]byte, min(64<<10, limit+1))
	n, err := b.Get(ctx, name, buf, 0)
	if err != nil {
		return nil, err
	}
	if n < len(buf) || n > limit {
		return buf[:n], nil
	}

	longer := make([]byte, limit+1)
	copy(longer, buf)
	more, err := b.Get(ctx, name, longer[n:], int64(n))
	if err != nil {
		return nil, err
	}
	return longer[:n+more], nil
}

// readTwice reads bytes, and reads them once more if they do not pass check, as
// [retry.Verified] does. It returns the bytes of the last read, even if they do not
// pass.
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

// creation is a record to create.
type creation struct {
	b        remote.Backend
	o        Options
	name     string
	data     []byte // the same in all attempts
	limit    int    // largest number of bytes of a record of another writer
	readable func([]byte) bool
}

// create creates the record if it is absent, and returns the stored bytes: its own, or
// those of another writer. It is step 4 of a push in docs/format/remote.md.
//
// If the store refused every attempt and the record is absent, create returns the error
// of the store. All other errors are [*UnknownError].
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
		// The record is absent: retry with the same bytes. The first attempt that
		// arrives counts, and a late one finds the name taken.
		if waitErr := r.o.backOff(ctx, try, err); waitErr != nil {
			return nil, r.unknown(ctx, err, nil)
		}
	}
}

// settle reads the record until the store answers with its bytes or with
// [remote.ErrNotFound]. An unreadable record is no answer.
func (r *creation) settle(ctx context.Context) ([]byte, error) {
	for try := 0; ; try++ {
		stored, err := readRecord(ctx, r.b, r.name, r.limit)
		switch {
		case err == nil && (bytes.Equal(stored, r.data) || r.readable(stored)):
			return stored, nil
		case err == nil:
			err = damageError(r.name, errors.New("cannot be read"))
		case errors.Is(err, remote.ErrNotFound), refused(err):
			return nil, err
		}
		if waitErr := r.o.backOff(ctx, try, err); waitErr != nil {
			return nil, err
		}
	}
}

// unknown returns the error for an unknown outcome.
func (r *creation) unknown(ctx context.Context, err, readErr error) error {
	if readErr != nil && !errors.Is(readErr, remote.ErrNotFound) {
		err = fmt.Errorf("%w; then %w", err, readErr)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	return &UnknownError{Name: r.name, Err: err}
}
