package retry

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kist-vcs/kist/remote"
)

var errBusy = &remote.Error{Op: "get", Name: "x", Kind: remote.ErrTemporary, Err: errors.New("503 slow down")}

// failing returns an attempt that fails with err n times, then succeeds.
func failing(n int, err error, calls *int) func(context.Context) error {
	return func(context.Context) error {
		*calls++
		if *calls <= n {
			return err
		}
		return nil
	}
}

func TestDoBacksOff(t *testing.T) {
	var waits []time.Duration
	o := Options{
		Now:   time.Now,
		Sleep: func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil },
		Notify: func(op string, err error, wait time.Duration) {
			if op != "get" || !errors.Is(err, errBusy) || wait <= 0 {
				t.Errorf("Notify(%q, %v, %v)", op, err, wait)
			}
		},
	}
	calls := 0
	if err := Do(t.Context(), o, "get", failing(10, errBusy, &calls)); err != nil || calls != 11 || len(waits) != 10 {
		t.Fatalf("%d calls, %d waits, %v", calls, len(waits), err)
	}
	full := 500 * time.Millisecond
	same := true
	for i, wait := range waits {
		if wait < full/2 || wait > full {
			t.Errorf("wait %d is %v, want %v to %v", i, wait, full/2, full)
		}
		same = same && wait == full
		full = min(2*full, 30*time.Second)
	}
	if same {
		t.Error("the waits are not random")
	}
}

// Do waits as long as the store asks for, unless that is longer than the deadline.
func TestDoHonoursTheStore(t *testing.T) {
	var waits []time.Duration
	o := Options{Now: time.Now, Sleep: func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }}
	calls := 0
	err := Do(t.Context(), o, "get", failing(1, &remote.Error{Op: "get", Kind: remote.ErrTemporary, Wait: 77 * time.Second}, &calls))
	if err != nil || len(waits) != 1 || waits[0] != 77*time.Second {
		t.Errorf("waits %v, error %v; want 77s", waits, err)
	}
	calls, waits = 0, nil
	err = Do(t.Context(), o, "get", failing(1, &remote.Error{Op: "get", Kind: remote.ErrTemporary, Wait: time.Hour}, &calls))
	if !errors.Is(err, remote.ErrTemporary) || len(waits) != 0 || calls != 1 {
		t.Errorf("%d calls, waits %v, error %v; want 1 call and no wait", calls, waits, err)
	}
}

// Permanent errors are returned at once, without a retry.
func TestNoRetryStorm(t *testing.T) {
	for _, kind := range []error{
		remote.ErrNotFound, remote.ErrExists, remote.ErrName, remote.ErrCredentials, remote.ErrPermission,
		remote.ErrNoStore, remote.ErrFull, remote.ErrUnsupported, remote.ErrDamaged, nil,
	} {
		f := &fake{err: func(string, int) error {
			return &remote.Error{Op: "get", Kind: kind, Err: errors.New("the reason")}
		}}
		b := New(f, Options{Now: time.Now, Sleep: func(context.Context, time.Duration) error {
			t.Errorf("%v: waits for a retry", kind)
			return nil
		}})
		_, get := b.Get(t.Context(), "x", make([]byte, 1), 0)
		_, stat := b.Stat(t.Context(), "x")

		var list error
		for _, err := range b.List(t.Context(), "") {
			list = err
		}

		for _, err := range []error{get, stat, list, b.Delete(t.Context(), "x"), b.Put(t.Context(), "x", strings.NewReader(""), 0), b.Create(t.Context(), "root/1", nil)} {
			if e, ok := errors.AsType[*remote.Error](err); !ok || e.Kind != kind || !strings.HasSuffix(err.Error(), "the reason") {
				t.Errorf("error %v, want kind %v", err, kind)
			}
		}

		for op, n := range f.calls {
			if n != 1 {
				t.Errorf("%v: %d calls of %s, want 1", kind, n, op)
			}
		}
		if len(f.calls) != 6 {
			t.Errorf("calls %v, want 6 operations", f.calls)
		}
	}
}

// Do gives up after the deadline, both if the store answers at once and if it answers
// just before it counts as stuck.
func TestDeadline(t *testing.T) {
	for _, each := range []time.Duration{0, 59 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			calls := 0
			err := Do(t.Context(), Options{Now: time.Now}, "get", func(context.Context) error {
				calls++
				time.Sleep(each)
				return errBusy
			})
			if took := time.Since(start); took < 14*time.Minute || took > 16*time.Minute {
				t.Errorf("gave up after %v, want about 15 minutes", took)
			}
			if !errors.Is(err, remote.ErrTemporary) || !strings.Contains(err.Error(), "503 slow down") || calls < 10 {
				t.Errorf("%d calls, error %v", calls, err)
			}
		})
	}
}

// Do retries even if each attempt takes longer than the deadline, as on slow
// connections.
func TestSlowIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		err := Do(t.Context(), Options{Now: time.Now}, "put", func(context.Context) error {
			time.Sleep(20 * time.Minute)
			return failing(2, errBusy, &calls)(nil)
		})
		if err != nil || calls != 3 {
			t.Errorf("%d calls, error %v; want 3 and no error", calls, err)
		}
	})
}

// Do retries even if the clock is set back or forward during each attempt.
func TestClockGoesBack(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, step := range []time.Duration{-10 * 365 * 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		calls := 0
		err := Do(t.Context(), Options{
			Now:   func() time.Time { now = now.Add(step); return now },
			Sleep: func(context.Context, time.Duration) error { return nil },
		}, "get", failing(5, errBusy, &calls))
		if err != nil || calls != 6 {
			t.Errorf("%v: %d calls, error %v; want 6 and no error", step, calls, err)
		}
	}
}

func TestCancelledWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		time.AfterFunc(10*time.Second, cancel)
		calls := 0
		err := Do(ctx, Options{Now: time.Now, First: time.Hour, Longest: time.Hour, Deadline: 24 * time.Hour}, "get", failing(9, errBusy, &calls))
		if !errors.Is(err, context.Canceled) || errors.Is(err, remote.ErrTemporary) || calls != 1 {
			t.Errorf("%d calls, error %v; want 1 and Canceled", calls, err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("took %v, want 10s", took)
		}
	})
}

func TestCancelledAttemptIsNotRepeated(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := Do(ctx, Options{Now: time.Now}, "get", func(context.Context) error {
		calls++
		cancel()
		return errBusy
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "503 slow down") || calls != 1 {
		t.Errorf("%d calls, error %v; want 1 and Canceled", calls, err)
	}
}
