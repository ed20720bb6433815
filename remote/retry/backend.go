package retry

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync/atomic"

	"github.com/kist-vcs/kist/object/trace"
	"github.com/kist-vcs/kist/remote"
)

// AfterLister is implemented by backends that can list from a name on. Without
// it, an interrupted list starts again, and names that were already yielded
// are read and skipped.
type AfterLister interface {
	// ListAfter is [remote.Blobs].List without the names up to and including
	// after.
	ListAfter(ctx context.Context, prefix, after string) iter.Seq2[remote.Info, error]
}

type backend struct {
	inner   remote.Backend
	o       Options // with defaults
	reached atomic.Bool
}

// New returns b with retries, configured by o: for Get, Stat, Delete and List,
// which continues after the last name it yielded. Put and Create are attempted
// once. A call that is stuck is cancelled: Put if its body is not read, another
// call if it takes too long for its amount of data. After several attempts, the
// error wraps the last call's [*remote.Error].
func New(b remote.Backend, o Options) remote.Backend {
	return &backend{inner: b, o: o.withDefaults()}
}

// Unwrap returns the backend without retries.
func (b *backend) Unwrap() remote.Backend { return b.inner }

func (b *backend) Get(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	err = b.repeatCall(ctx, "get", name, int64(len(p)), func(ctx context.Context) (err error) {
		n, err = b.inner.Get(ctx, name, p, off)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (b *backend) Stat(ctx context.Context, name string) (info remote.Info, err error) {
	err = b.repeatCall(ctx, "stat", name, 0, func(ctx context.Context) (err error) {
		info, err = b.inner.Stat(ctx, name)
		return err
	})
	return info, err
}

func (b *backend) Delete(ctx context.Context, name string) error {
	return b.repeatCall(ctx, "delete", name, 0, func(ctx context.Context) error { return b.inner.Delete(ctx, name) })
}

// repeatCall repeats a call that moves so many bytes.
func (b *backend) repeatCall(ctx context.Context, op, name string, size int64, call func(ctx context.Context) error) error {
	return Do(ctx, b.nextOptions(), op, func(ctx context.Context) error {
		return b.callWatched(ctx, op, name, size, func(ctx context.Context, _ *watchdog) error { return call(ctx) })
	})
}

// callWatched makes a call, watched.
func (b *backend) callWatched(ctx context.Context, op, name string, size int64, call func(ctx context.Context, w *watchdog) error) error {
	end := trace.From(ctx).Begin(op, "name", name)
	err := callWatched(ctx, op, name, b.o.limitFor(size), call)
	end(err)
	if ctx.Err() == nil && !errors.Is(err, remote.ErrTemporary) {
		b.reached.Store(true)
	}
	return err
}

// nextOptions returns the options for the next call.
func (b *backend) nextOptions() Options {
	o := b.o
	if !b.reached.Load() {
		o.Deadline = o.Contact
	}
	return o
}

func (b *backend) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	return b.callWatched(ctx, "put", name, 0, func(ctx context.Context, w *watchdog) error {
		return b.inner.Put(ctx, name, &watchedBody{body: body, w: w, o: &b.o}, size)
	})
}

func (b *backend) Create(ctx context.Context, name string, data []byte) error {
	return b.callWatched(ctx, "create", name, int64(len(data)), func(ctx context.Context, _ *watchdog) error {
		return b.inner.Create(ctx, name, data)
	})
}

func (b *backend) Close() error { return b.inner.Close() }

func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		p := patience{o: b.nextOptions(), op: "list"}
		l := list{backend: b, prefix: prefix, yield: yield}
		for {
			from, start := l.last, b.o.Now()
			err := l.goOn(ctx)
			if err == nil {
				return
			}
			if l.last != from {
				b.reached.Store(true)
				p = patience{o: b.o, op: "list"}
			}
			if err := p.waitForNext(ctx, err, b.o.Now().Sub(start)); err != nil {
				yield(remote.Info{}, err)
				return
			}
		}
	}
}

// list is a List under way.
type list struct {
	*backend
	prefix string
	last   string // name yielded; "": none
	yield  func(remote.Info, error) bool
}

// goOn yields the entries after l.last. It returns nil at the end of the list, or
// if the caller wants no more.
func (l *list) goOn(ctx context.Context) error {
	return l.callWatched(ctx, "list", l.prefix, 0, func(ctx context.Context, w *watchdog) error {
		from := l.last
		for info, err := range l.listRest(ctx) {
			if err != nil {
				return err
			}
			w.pause()
			if from == "" || info.Name > from {
				l.last = info.Name
				if !l.yield(info, nil) {
					return nil
				}
			}
			w.reset(l.o.limitFor(0))
		}
		return nil
	})
}

// listRest lists from l.last on, or from the beginning if the store cannot.
func (l *list) listRest(ctx context.Context) iter.Seq2[remote.Info, error] {
	if after, ok := l.inner.(AfterLister); ok && l.last != "" {
		return after.ListAfter(ctx, l.prefix, l.last)
	}
	return l.inner.List(ctx, l.prefix)
}
