package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/kist-vcs/kist/remote"
)

// unsent is how many bytes of a body that were read may not have left this
// machine yet: what buffers of the connection hold, and what a backend reads to
// send it at once.
const unsent = 8 << 20

var errStuck = errors.New("no progress")

// A watchdog cancels a call that makes no progress.
type watchdog struct {
	timer *time.Timer
	limit atomic.Int64 // a time.Duration
}

// watched calls call with a context that ends when the watchdog was not reset
// for limit. The error of a call that ended so is temporary.
func watched(ctx context.Context, op, name string, limit time.Duration, call func(ctx context.Context, w *watchdog) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watchdog{timer: time.AfterFunc(limit, func() { cancel(errStuck) })}
	w.limit.Store(int64(limit))
	defer w.timer.Stop()

	err := call(inner, w)
	if err != nil && ctx.Err() == nil && context.Cause(inner) == errStuck && errors.Is(err, context.Canceled) {
		return &remote.Error{Op: op, Name: name, Kind: remote.ErrTemporary, Err: fmt.Errorf("%w for %v", errStuck, time.Duration(w.limit.Load()))}
	}
	return err
}

// pause is called before what takes time but is not the remote's doing.
func (w *watchdog) pause() { w.timer.Stop() }

// reset is called when there was progress; the next has to come within limit.
func (w *watchdog) reset(limit time.Duration) {
	w.limit.Store(int64(limit))
	w.timer.Reset(limit)
}

// watchedBody is a body whose being read is progress.
type watchedBody struct {
	body io.ReaderAt
	w    *watchdog
	o    *Options
	read int64
}

func (b *watchedBody) ReadAt(p []byte, off int64) (int, error) {
	b.w.pause()
	n, err := b.body.ReadAt(p, off)
	b.read += int64(n)
	b.w.reset(b.o.limit(min(b.read, unsent)))
	return n, err
}

// limit returns for how long a call that moves so many bytes may be silent.
func (o *Options) limit(bytes int64) time.Duration {
	return o.Idle + time.Duration(float64(bytes)/float64(o.Rate)*float64(time.Second))
}
