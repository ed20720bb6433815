// Package retry repeats calls to a remote after temporary errors: a store that is
// busy, a connection that breaks or gets stuck. [New] wraps a [remote.Backend];
// [Do] is for what a caller repeats itself.
//
// Only errors that match [remote.ErrTemporary] are retried. Wrong credentials, a
// missing bucket, and errors such as "not permitted", "not found" or "full" are
// returned after one call.
//
// A name is for one attempt, so the wrapper does not repeat Put and Create. The
// caller repeats Put under a new name:
//
//	err := retry.Do(ctx, o, "put", func(ctx context.Context) error {
//		name, err := pack.NewName(rand)
//		if err != nil {
//			return err
//		}
//		return b.Put(ctx, name.Path(), body, size)
//	})
//
// The caller of Create handles an unclear outcome.
//
// A wrapper that delays calls, such as package limit's, goes around this one.
// Otherwise its delays would count as a stuck connection.
package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
)

// Options configure how often and how long calls are retried.
type Options struct {
	Now func() time.Time // the clock; must be set

	// Sleep waits for d, or until ctx ends. Then it returns the error of ctx.
	// Nil: [Sleep].
	Sleep func(ctx context.Context, d time.Duration) error

	// Notify receives each error that is retried, before the wait. Any number
	// of goroutines may call it. It may be nil.
	Notify func(op string, err error, wait time.Duration)

	// Deadline is the time that an operation may lose by waits and failed
	// attempts. At most Idle of each attempt counts, so that operations over
	// slow connections go on. 0: 15 minutes.
	Deadline time.Duration

	// Contact is the Deadline of a wrapper's calls until the store answers one
	// of them, so that a wrong address fails soon. 0: 15 seconds.
	Contact time.Duration

	// First is the wait after the first failure. It doubles with each failure,
	// up to Longest. A random part of up to half of each wait is left out.
	// 0: half a second and half a minute.
	First, Longest time.Duration

	// Idle is the longest time without progress in a call, before it is
	// cancelled as stuck. The time for the call's bytes at Rate, in bytes per
	// second, is added to it. 0: a minute and 32 KiB.
	Idle time.Duration
	Rate int64
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&o.Deadline, 15*time.Minute)
	set(&o.Contact, min(15*time.Second, o.Deadline))
	set(&o.First, 500*time.Millisecond)
	set(&o.Longest, 30*time.Second)
	set(&o.Idle, time.Minute)
	if o.Rate <= 0 {
		o.Rate = 32 << 10
	}
	if o.Sleep == nil {
		o.Sleep = Sleep
	}
	if o.Notify == nil {
		o.Notify = func(string, error, time.Duration) {}
	}
	return o
}

// Sleep waits for d, or until ctx ends. Then it returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Do calls attempt until it succeeds, fails with an error that does not match
// [remote.ErrTemporary], or has failed for too long. The error is that of the
// last attempt. It is the context's if that ended. op, as in [remote.Error],
// is for o.Notify.
func Do(ctx context.Context, o Options, op string, attempt func(ctx context.Context) error) error {
	p := patience{o: o.withDefaults(), op: op}
	for {
		start := o.Now()
		err := attempt(ctx)
		if err == nil {
			return nil
		}
		if err := p.waitForNext(ctx, err, o.Now().Sub(start)); err != nil {
			return err
		}
	}
}

// patience is the remaining patience for one operation.
type patience struct {
	o     Options // with defaults
	op    string
	tries int
	pause time.Duration // the next, before chance; 0: the first
	lost  time.Duration
}

// waitForNext waits until the next attempt and returns nil, or returns the error of the
// operation. The last attempt took the given time.
func (p *patience) waitForNext(ctx context.Context, failed error, after time.Duration) error {
	if ctx.Err() != nil {
		return endedError(ctx, failed)
	}
	if !errors.Is(failed, remote.ErrTemporary) {
		return failed
	}
	p.tries++
	p.lost += min(max(after, 0), p.o.Idle)

	p.pause = min(max(2*p.pause, p.o.First), p.o.Longest)
	wait := p.pause/2 + rand.N(p.pause/2+1)
	if e, ok := errors.AsType[*remote.Error](failed); ok {
		wait = max(wait, e.Wait)
	}
	if p.lost+wait > p.o.Deadline {
		return fmt.Errorf("%w (tried %d times)", failed, p.tries)
	}
	p.o.Notify(p.op, failed, wait)
	p.lost += wait
	if err := p.o.Sleep(ctx, wait); err != nil {
		return endedError(ctx, failed)
	}
	return nil
}

// endedError returns the error of a call whose context ended, with the last failure.
func endedError(ctx context.Context, failed error) error {
	if err := ctx.Err(); !errors.Is(failed, err) {
		return fmt.Errorf("%w, after: %v", err, failed)
	}
	return failed
}

// Verified calls read, which reads from a store and verifies the data. If read
// reports damage, Verified calls it once more and returns the second answer: a
// byte may have changed on the way. So read must not use a cache that an
// earlier call filled.
//
// A caller must read data in this way before it reports damage.
func Verified(read func() error) error {
	err := read()
	if !looksDamaged(err) {
		return err
	}
	return read()
}

// looksDamaged reports whether wrong bytes can be the reason of an error. Wrong
// bytes can look like a newer format.
func looksDamaged(err error) bool {
	return errors.Is(err, remote.ErrDamaged) || errors.Is(err, object.ErrCorrupt) || errors.Is(err, remote.ErrNewerFormat)
}

// unsent limits the bytes of a body that were read but not sent yet: they are in
// buffers of the connection or of the backend.
const unsent = 8 << 20

var errStuck = errors.New("no progress")

// A watchdog cancels a call that makes no progress.
type watchdog struct {
	timer *time.Timer
	limit atomic.Int64 // a time.Duration
}

// callWatched calls call with a context that ends if the watchdog is not reset for
// limit. The error of such a call is temporary.
func callWatched(ctx context.Context, op, name string, limit time.Duration, call func(ctx context.Context, w *watchdog) error) error {
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

// pause stops the clock while the caller, and not the remote, needs time.
func (w *watchdog) pause() { w.timer.Stop() }

// reset notes progress. The next progress has to follow within limit.
func (w *watchdog) reset(limit time.Duration) {
	w.limit.Store(int64(limit))
	w.timer.Reset(limit)
}

// watchedBody is a body. Every read of it counts as progress.
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
	b.w.reset(b.o.limitFor(min(b.read, unsent)))
	return n, err
}

// limitFor returns the longest time without progress of a call that moves so many bytes.
func (o *Options) limitFor(bytes int64) time.Duration {
	return o.Idle + time.Duration(float64(bytes)/float64(o.Rate)*float64(time.Second))
}
