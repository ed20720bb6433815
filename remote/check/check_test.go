package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/retry"
)

// odd is a store with replaced methods.
type odd struct{ *remotetest.Mutant }

func (o *odd) has(name string) bool { return o.Data(name) != nil }

// overwrite is a Put that replaces an existing blob.
func (o *odd) overwrite(_ context.Context, name string, body io.ReaderAt, size int64) error {
	data, err := io.ReadAll(io.NewSectionReader(body, 0, size))
	o.Set(name, data)
	return err
}

// refuse returns an error with this kind.
func refuse(op, name string, kind error) error {
	return &remote.Error{Op: op, Name: name, Kind: kind, Err: errors.New("the reason")}
}

// run checks a store in a bubble with a fake clock.
func run(t *testing.T, b func() remote.Backend, o Options, then func(*Report, error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Now = time.Now
		then(Run(t.Context(), b(), o))
	})
}

// statuses returns the checks that were not OK, as "name status".
func statuses(r *Report) (list []string) {
	for _, c := range r.Checks {
		if c.Status != OK {
			list = append(list, c.Name+" "+string(c.Status))
		}
	}
	return list
}

func TestGoodStore(t *testing.T) {
	for _, exclusive := range []bool{false, true} {
		m := remotetest.NewMemory()
		var progress []Result
		o := Options{ExclusivePut: exclusive, Progress: func(r Result) { progress = append(progress, r) }}
		run(t, func() remote.Backend { return m }, o, func(r *Report, err error) {
			if err != nil || !r.Shared() || !r.Usable() {
				t.Fatalf("error %v, shared %t, usable %t\n%v", err, r.Shared(), r.Usable(), r)
			}
			var want []string
			if !exclusive {
				want = []string{"put-once skipped", "put-race skipped"}
			}

			if got := statuses(r); !slices.Equal(got, want) {
				t.Errorf("checks that are not OK: %q, want %q", got, want)
			}
			if len(r.Checks) != len(steps) || !slices.EqualFunc(progress, r.Checks, func(a, b Result) bool { return a.Name == b.Name }) {
				t.Errorf("Progress had %d checks, the report has %d, want %d", len(progress), len(r.Checks), len(steps))
			}
			if lines := strings.Count(r.String(), "\n"); lines != len(steps)+len(want) {
				t.Errorf("report has %d lines, want %d:\n%v", lines, len(steps)+len(want), r)
			}

			data, err := json.Marshal(r)
			var back Report
			if err != nil || json.Unmarshal(data, &back) != nil || !back.Shared() || back.Prefix != r.Prefix {
				t.Errorf("report as JSON: %s, %v", data, err)
			}
		})

		if left := m.Names(""); len(left) > 0 {
			t.Errorf("probes left: %q", left)
		}
	}
}

// TestTrouble checks that failed calls and lost replies do not make a good store fail.
func TestTrouble(t *testing.T) {
	for seed := range uint64(20) {
		f := remotetest.NewFaulty(remotetest.NewMemory())
		f.Random(seed, remotetest.Rates{Before: 0.1, After: 0.05, Short: 0.02, Slow: 0.5, Delay: 100 * time.Millisecond})
		run(t, func() remote.Backend { return f }, Options{ExclusivePut: seed == 0}, func(r *Report, err error) {
			if err != nil || !r.Shared() {
				t.Errorf("seed %d: error %v, want a shared store\n%v", seed, err, r)
			}
		})
	}
}

// If all replies of a race are lost, the check repeats the race.
func TestAllRepliesOfARaceAreLost(t *testing.T) {
	o := &odd{remotetest.NewMutant()}
	o.OnCreate = func(ctx context.Context, name string, data []byte) error {
		if n := o.Calls(remotetest.Create); n > 20 && n < 20+racers {
			_ = o.Memory.Create(ctx, "x", nil) // counts the call, and stores nothing
			return refuse("create", name, remote.ErrTemporary)
		}
		return o.Memory.Create(ctx, name, data)
	}
	run(t, func() remote.Backend { return o }, Options{}, func(r *Report, err error) {
		if err != nil || !r.Shared() || o.Calls(remotetest.Create) < 20+racers {
			t.Errorf("%d creates, error %v\n%v", o.Calls(remotetest.Create), err, r)
		}
	})
}

// Run returns an error that is unrelated to the checks. It does not repeat such a call
// often, and deletes its probes.
func TestCannotBeChecked(t *testing.T) {
	noFiles := &remote.Error{Op: "get", Err: syscall.EMFILE}
	for _, kind := range []error{remote.ErrCredentials, remote.ErrNoStore, remote.ErrFull, remote.ErrTemporary, noFiles} {
		for _, op := range []remotetest.Op{remotetest.Get, remotetest.Put, remotetest.Create, remotetest.List, remotetest.Delete} {
			m := remotetest.NewMemory()
			f := remotetest.NewFaulty(m)
			f.Fail(remotetest.Fault{Op: op, N: 1, Err: kind, Stays: true})
			run(t, func() remote.Backend { return f }, Options{}, func(r *Report, err error) {
				if !errors.Is(err, kind) || r.Shared() || r.Usable() {
					t.Errorf("%v of %v: error %v\n%v", kind, op, err, r)
				}
				if n := f.Calls(op); op != remotetest.Delete && kind != remote.ErrTemporary && n > 10 {
					t.Errorf("%v of %v: %d calls, want at most 10", kind, op, n)
				}
			})
			if left := m.Names(""); (len(left) > 0) != (op == remotetest.Delete) {
				t.Errorf("%v of %v: probes left: %q", kind, op, left)
			}
		}
	}
}

// An interrupt at any call ends the check soon and leaves no probes.
func TestInterrupted(t *testing.T) {
	for n := 1; ; n += 1 + rand.IntN(20) {
		m := remotetest.NewMemory()
		f := remotetest.NewFaulty(m)
		var over bool
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.Fail(remotetest.Fault{N: n, Do: cancel})
			start := time.Now()
			r, err := Run(ctx, f, Options{Now: time.Now})
			over = ctx.Err() == nil
			if !over && err != nil && (!errors.Is(err, context.Canceled) || r.Usable()) {
				t.Errorf("at call %d: error %v\n%v", n, err, r)
			}
			if time.Since(start) > time.Minute {
				t.Errorf("at call %d: took %v", n, time.Since(start))
			}
		})
		if left := m.Names(""); len(left) > 0 {
			t.Errorf("at call %d: probes left: %q", n, left)
		}
		if over {
			break
		}
	}
}

// An interrupted check ends even if the store no longer answers. Its report has the
// prefix of the probes left behind.
func TestStuckWhenInterrupted(t *testing.T) {
	f := remotetest.NewFaulty(remotetest.NewMemory())
	f.Fail(remotetest.Fault{N: 30, How: remotetest.Stuck, Stays: true})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		r, err := Run(ctx, f, Options{Now: time.Now})
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > time.Second+cleaning {
			t.Errorf("took %v, error %v", took, err)
		}
		if last := r.Checks[len(r.Checks)-1]; last.Name != CleanUp || !strings.Contains(last.Detail, r.Prefix) {
			t.Errorf("last check %+v, want %s with the prefix %s", last, CleanUp, r.Prefix)
		}
	})
}

// TestCorner checks that every run stores only below a random prefix of its own.
func TestCorner(t *testing.T) {
	o := &odd{remotetest.NewMutant()}
	var mu sync.Mutex
	used := map[string]bool{}

	use := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		used[name] = true
	}
	o.OnCreate = func(ctx context.Context, name string, data []byte) error {
		use(name)
		return o.Memory.Create(ctx, name, data)
	}
	o.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
		use(name)
		return o.Memory.Put(ctx, name, body, size)
	}

	var prefixes []string
	for range 2 {
		run(t, func() remote.Backend { return o }, Options{Retry: retry.Options{First: time.Second}}, func(r *Report, err error) {
			if err != nil {
				t.Fatal(err)
			}
			prefixes = append(prefixes, r.Prefix)
		})
	}
	if prefixes[0] == prefixes[1] || !strings.HasPrefix(prefixes[0], "probe/") {
		t.Errorf("prefixes %q, want two different ones below probe/", prefixes)
	}

	for name := range used {
		if !strings.HasPrefix(name, prefixes[0]) && !strings.HasPrefix(name, prefixes[1]) {
			t.Errorf("%q was stored outside the prefixes", name)
		}
	}

	o.Set("packs/x", []byte("x"))
	run(t, func() remote.Backend { return o }, Options{Rand: bytes.NewReader(make([]byte, 16))}, func(r *Report, err error) {
		if err != nil || r.Prefix != "probe/"+strings.Repeat("0", 32)+"/" {
			t.Errorf("prefix %q, error %v\n%v", r.Prefix, err, r)
		}
	})

	if left := o.Names(""); !slices.Equal(left, []string{"packs/x"}) {
		t.Errorf("left %q, want only packs/x", left)
	}
}
