package retry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kist-vcs/kist/remote"
)

// fake is a backend whose blobs have their names as content.
type fake struct {
	names []string
	err   func(op string, n int) error // the error of call n of an op, from 1 on
	stuck string                       // calls of this op last until their context ends

	mu    sync.Mutex
	calls map[string]int
	read  []string // names that lists yielded
}

func (f *fake) call(ctx context.Context, op string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[op]++
	if f.stuck == op {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.err == nil {
		return nil
	}
	return f.err(op, f.calls[op])
}

func (f *fake) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if err := f.call(ctx, "get"); err != nil {
		return 1, err
	}
	return copy(p, name[off:]), nil
}

func (f *fake) Stat(ctx context.Context, name string) (remote.Info, error) {
	return remote.Info{Name: name, Size: int64(len(name))}, f.call(ctx, "stat")
}

func (f *fake) Delete(ctx context.Context, name string) error { return f.call(ctx, "delete") }

func (f *fake) Create(ctx context.Context, name string, data []byte) error {
	return f.call(ctx, "create")
}

func (f *fake) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	return f.call(ctx, "put")
}

func (f *fake) Close() error { return nil }

// List yields two names per call of the store, or an error.
func (f *fake) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return f.from(ctx, 0)
}

func (f *fake) from(ctx context.Context, start int) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		for i := start; ; i++ {
			if i%2 == 0 {
				if err := f.call(ctx, "list"); err != nil {
					yield(remote.Info{}, err)
					return
				}
			}
			if i == len(f.names) {
				return
			}
			f.read = append(f.read, f.names[i])
			if !yield(remote.Info{Name: f.names[i]}, nil) {
				return
			}
		}
	}
}

// afterFake is a fake that can also list the names after a given name.
type afterFake struct{ *fake }

func (f afterFake) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[remote.Info, error] {
	return f.from(ctx, slices.Index(f.names, after)+1)
}

// busyAt makes these calls of each op fail.
func busyAt(calls ...int) func(string, int) error {
	return func(_ string, n int) error {
		if slices.Contains(calls, n) {
			return errBusy
		}
		return nil
	}
}

func noWait(context.Context, time.Duration) error { return nil }

func names(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("packs/%03d", i))
	}
	return names
}

func TestIdempotentCallsAreRepeated(t *testing.T) {
	f := &fake{err: busyAt(1, 2, 3), names: names(1)}
	b := New(f, Options{Now: time.Now, Sleep: noWait})
	p := make([]byte, 3)
	if n, err := b.Get(t.Context(), "name", p, 1); n != 3 || err != nil || string(p) != "ame" {
		t.Errorf("get: %d, %v, %q", n, err, p)
	}
	if info, err := b.Stat(t.Context(), "name"); err != nil || info.Size != 4 {
		t.Errorf("stat: %v, %v", info, err)
	}
	if err := b.Delete(t.Context(), "name"); err != nil {
		t.Errorf("delete: %v", err)
	}
	for op, n := range f.calls {
		if n != 4 {
			t.Errorf("%d calls of %s, want 4", n, op)
		}
	}
}

func TestWritesAreNotRepeated(t *testing.T) {
	f := &fake{err: busyAt(1)}
	b := New(f, Options{Now: time.Now, Sleep: noWait})
	if err := b.Put(t.Context(), "x", bytes.NewReader(nil), 0); !errors.Is(err, remote.ErrTemporary) || f.calls["put"] != 1 {
		t.Errorf("put: %d calls, error %v; want 1 and ErrTemporary", f.calls["put"], err)
	}
	if err := b.Create(t.Context(), "root/1", nil); !errors.Is(err, remote.ErrTemporary) || f.calls["create"] != 1 {
		t.Errorf("create: %d calls, error %v; want 1 and ErrTemporary", f.calls["create"], err)
	}
}

// After an error, List continues behind the last name and yields each name once. It
// reads no name twice if the backend can list after a name.
func TestListGoesOn(t *testing.T) {
	all := names(7)
	for _, busy := range [][]int{{}, {1}, {2}, {1, 2, 3}, {4}, {2, 4, 5, 9}} {
		f := &fake{err: busyAt(busy...), names: all}
		for _, b := range []remote.Backend{f, afterFake{&fake{err: f.err, names: all}}} {
			var got []string
			for info, err := range New(b, Options{Now: time.Now, Sleep: noWait}).List(t.Context(), "packs/") {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, info.Name)
			}
			if !slices.Equal(got, all) {
				t.Errorf("failures %v: listed %q, want %q", busy, got, all)
			}
			if after, ok := b.(afterFake); ok && !slices.Equal(after.read, all) {
				t.Errorf("failures %v: read %q, want %q", busy, after.read, all)
			}
		}
	}
}

func TestListStopsEarly(t *testing.T) {
	f := &fake{names: names(7)}
	for range New(f, Options{Now: time.Now}).List(t.Context(), "packs/") {
		break
	}
	if len(f.read) != 1 || f.calls["list"] != 1 {
		t.Errorf("read %q in %d calls, want 1 name in 1 call", f.read, f.calls["list"])
	}
}

// A list that makes progress may have more failures in total than are allowed in a row.
func TestListGetsOn(t *testing.T) {
	f := afterFake{&fake{names: names(500), err: func(_ string, n int) error {
		if n%2 == 1 {
			return errBusy
		}
		return nil
	}}}
	n := 0
	for _, err := range New(f, Options{Now: time.Now, Sleep: noWait, Deadline: 5 * time.Second}).List(t.Context(), "packs/") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 500 {
		t.Errorf("listed %d names, want 500", n)
	}
}

func TestListGivesUp(t *testing.T) {
	f := &fake{names: names(7), err: func(_ string, n int) error {
		if n > 1 {
			return errBusy
		}
		return nil
	}}
	var got []string
	var errs []error
	for info, err := range New(f, Options{Now: time.Now, Sleep: noWait}).List(t.Context(), "packs/") {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		got = append(got, info.Name)
	}
	if len(got) != 2 || len(errs) != 1 || !errors.Is(errs[0], remote.ErrTemporary) {
		t.Errorf("listed %q, errors %v; want 2 names and one ErrTemporary", got, errs)
	}
}

func TestStuckCallsAreCancelled(t *testing.T) {
	const mib = 1 << 20
	calls := map[string]struct {
		call func(context.Context, remote.Backend) error
		want time.Duration // for one attempt
		once bool
	}{
		"get": {call: func(ctx context.Context, b remote.Backend) error {
			_, err := b.Get(ctx, "x", make([]byte, mib), 0)
			return err
		}, want: time.Minute + 32*time.Second},
		"stat": {call: func(ctx context.Context, b remote.Backend) error {
			_, err := b.Stat(ctx, "x")
			return err
		}, want: time.Minute},
		"delete": {call: func(ctx context.Context, b remote.Backend) error { return b.Delete(ctx, "x") }, want: time.Minute},
		"list": {call: func(ctx context.Context, b remote.Backend) error {
			for _, err := range b.List(ctx, "") {
				return err
			}
			return nil
		}, want: time.Minute},
		"create": {call: func(ctx context.Context, b remote.Backend) error {
			return b.Create(ctx, "root/1", make([]byte, mib))
		}, want: time.Minute + 32*time.Second, once: true},
		"put": {call: func(ctx context.Context, b remote.Backend) error {
			return b.Put(ctx, "x", bytes.NewReader(make([]byte, mib)), mib)
		}, want: time.Minute, once: true},
	}

	for op, test := range calls {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{stuck: op}
				start := time.Now()
				var first time.Duration
				b := New(f, Options{Now: time.Now, Contact: time.Hour, Notify: func(string, error, time.Duration) {
					if first == 0 {
						first = time.Since(start)
					}
				}})
				err := test.call(t.Context(), b)
				if !errors.Is(err, remote.ErrTemporary) || !errors.Is(err, errStuck) || errors.Is(err, context.Canceled) {
					t.Error(err)
				}

				if test.once {
					first = time.Since(start)
				}
				if first != test.want {
					t.Errorf("the first attempt took %v, want %v", first, test.want)
				}
				if n := f.calls[op]; test.once != (n == 1) {
					t.Errorf("%d calls, want only one: %t", n, test.once)
				}
			})
		})
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	for _, op := range []string{"get", "put", "list"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			b := New(&fake{stuck: op}, Options{Now: time.Now})
			start := time.Now()
			var err error
			switch op {
			case "get":
				_, err = b.Get(ctx, "x", nil, 0)
			case "put":
				err = b.Put(ctx, "x", bytes.NewReader(nil), 0)
			case "list":
				for _, err = range b.List(ctx, "") {
				}
			}
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
				t.Errorf("%s: error %v after %v, want DeadlineExceeded after 1s", op, err, time.Since(start))
			}
		})
	}
}

// slowPut reads its body a piece at a time, and waits after each piece.
type slowPut struct {
	remote.Backend
	piece int
	every time.Duration
	then  time.Duration // wait after the last
}

func (s slowPut) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	p := make([]byte, s.piece)
	for off := int64(0); off < size; off += int64(len(p)) {
		if _, err := body.ReadAt(p, off); err != nil {
			return err
		}
		if err := Sleep(ctx, s.every); err != nil {
			return err
		}
	}
	return Sleep(ctx, s.then)
}

// slowBody waits at each read.
type slowBody struct {
	io.ReaderAt
	every time.Duration
}

func (s slowBody) ReadAt(p []byte, off int64) (int, error) {
	time.Sleep(s.every)
	return s.ReaderAt.ReadAt(p, off)
}

// A Put is cancelled if the store reads and answers nothing for too long, and not if the
// body is slow.
func TestPutIsWatched(t *testing.T) {
	const size, piece = 1 << 20, 32 << 10
	for name, test := range map[string]struct {
		put   slowPut
		body  time.Duration
		stuck bool
	}{
		"slow but steady": {put: slowPut{every: 59 * time.Second}},
		"slow answer":     {put: slowPut{then: 90 * time.Second}}, // a minute, and 32 seconds for a MiB
		"no answer":       {put: slowPut{then: 93 * time.Second}, stuck: true},
		"stuck in a body": {put: slowPut{every: 92 * time.Second}, stuck: true},
		"slow body":       {body: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.put.piece = piece
				b := New(test.put, Options{Now: time.Now})
				err := b.Put(t.Context(), "x", slowBody{bytes.NewReader(make([]byte, size)), test.body}, size)
				if test.stuck != errors.Is(err, errStuck) || !test.stuck && err != nil {
					t.Errorf("error %v, want stuck: %t", err, test.stuck)
				}
			})
		})
	}
}

// The answer of the store counts even if the watchdog has cancelled the call.
func TestAnswerOutlivesWatchdog(t *testing.T) {
	for _, answer := range []error{nil, &remote.Error{Op: "get", Kind: remote.ErrNotFound}} {
		synctest.Test(t, func(t *testing.T) {
			err := callWatched(t.Context(), "get", "x", time.Second, func(ctx context.Context, _ *watchdog) error {
				<-ctx.Done()
				return answer
			})
			if err != answer {
				t.Errorf("error %v, want %v", err, answer)
			}
		})
	}
}

// An unreachable store fails soon at first contact. Later calls wait longer for it.
func TestFirstContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		f := &fake{names: names(1), err: func(string, int) error {
			if down {
				return errBusy
			}
			return nil
		}}

		b := New(f, Options{Now: time.Now})
		list := func() (err error) {
			for _, err = range b.List(t.Context(), "") {
			}
			return err
		}

		get := func() error {
			_, err := b.Get(t.Context(), "x", nil, 0)
			return err
		}

		outage := func(call func() error, min, max time.Duration) {
			t.Helper()
			start := time.Now()
			err := call()
			if took := time.Since(start); !errors.Is(err, remote.ErrTemporary) || took < min || took > max {
				t.Errorf("error %v after %v, want ErrTemporary after %v to %v", err, took, min, max)
			}
		}

		outage(get, 5*time.Second, 15*time.Second)
		outage(list, 5*time.Second, 15*time.Second)
		down = false
		if err := list(); err != nil {
			t.Fatal(err)
		}

		down = true
		outage(get, 14*time.Minute, 15*time.Minute)
		outage(list, 14*time.Minute, 15*time.Minute)
	})
}
