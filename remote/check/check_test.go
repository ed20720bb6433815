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

// TestBadStores checks that each bad store fails the expected checks and no others.
func TestBadStores(t *testing.T) {
	negative := func(o *odd, wait time.Duration) { // caches absent names
		var mu sync.Mutex
		absent := map[string]time.Time{}
		o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			if until, ok := absent[name]; ok && time.Now().Before(until) {
				return 0, refuse("get", name, remote.ErrNotFound)
			}
			n, err := o.Memory.Get(ctx, name, p, off)
			if errors.Is(err, remote.ErrNotFound) {
				absent[name] = time.Now().Add(wait)
			}
			return n, err
		}
	}
	racy := func(o *odd) { // checks the name some time before it stores
		o.OnCreate = func(ctx context.Context, name string, data []byte) error {
			if o.has(name) {
				return refuse("create", name, remote.ErrExists)
			}
			time.Sleep(time.Millisecond)
			o.Set(name, data)
			return nil
		}
	}
	late := func(wait time.Duration) func(o *odd) { // lists a name some time after the first list
		return func(o *odd) {
			seen := map[string]time.Time{}
			o.ChangeList(func(infos []remote.Info) []remote.Info {
				return slices.DeleteFunc(infos, func(info remote.Info) bool {
					if seen[info.Name].IsZero() {
						seen[info.Name] = time.Now()
					}
					return time.Since(seen[info.Name]) < wait
				})
			})
		}
	}
	tests := map[string]struct {
		make           func(o *odd)
		want           []string // the checks that are neither OK nor skipped
		detail         string   // part of the detail of the first of them
		shared, usable bool
		left           bool // probes stay behind
	}{
		"creates overwrite": {func(o *odd) {
			o.OnCreate = func(ctx context.Context, name string, data []byte) error {
				o.Set(name, data)
				return nil
			}
		}, []string{"create-once failed", "create-race failed"}, "a second create was accepted", false, true, false},
		"creates overwrite and report an error": {func(o *odd) {
			o.OnCreate = func(ctx context.Context, name string, data []byte) error {
				had := o.has(name)
				o.Set(name, data)
				if had {
					return refuse("create", name, remote.ErrExists)
				}
				return nil
			}
		}, []string{"create-once failed", "create-race failed"}, "500 came back", false, true, false},
		"creates race": {racy, []string{"create-race failed"}, "32 of 32 callers", false, true, false},
		"of racing creates, the last stays": {func(o *odd) {
			var mu sync.Mutex
			o.OnCreate = func(ctx context.Context, name string, data []byte) error {
				mu.Lock()
				defer mu.Unlock()
				waiting := o.has(name)
				err := o.Memory.Create(ctx, name, data)
				if waiting && o.Calls(remotetest.Create) > 50 { // after the check create-once
					o.Set(name, data)
				}
				return err
			}
		}, []string{"create-race failed"}, "another caller's bytes", false, true, false},
		"racing creates mix bytes": {func(o *odd) {
			o.OnCreate = func(ctx context.Context, name string, data []byte) error {
				err := o.Memory.Create(ctx, name, data)
				if err != nil && o.Calls(remotetest.Create) > 50 {
					old := o.Data(name)
					o.Set(name, append(old[:len(old)/2], data[len(old)/2:]...))
				}
				return err
			}
		}, []string{"create-race failed"}, "none of theirs", false, true, false},
		"creates are refused": {func(o *odd) {
			o.OnCreate = func(_ context.Context, name string, _ []byte) error {
				return refuse("create", name, remote.ErrUnsupported)
			}
		}, []string{"create failed"}, "the reason", false, false, false},
		"puts overwrite": {func(o *odd) { o.OnPut = o.overwrite },
			[]string{"put-once failed", "put-race failed"}, "a second put was accepted", false, true, false},
		"large puts race": {func(o *odd) {
			o.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
				if size > 16<<20 {
					return o.overwrite(ctx, name, body, size)
				}
				return o.Memory.Put(ctx, name, body, size)
			}
		}, []string{"put-race failed"}, "4 of 4 callers", false, true, false},
		"large puts are mixed": {func(o *odd) {
			o.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64) error {
				err := o.Memory.Put(ctx, name, body, size)
				if err != nil && size > 16<<20 {
					data := o.Data(name)
					_, _ = body.ReadAt(data[size-1:], size-1)
					data[size-1] ^= 1
					o.Set(name, data)
				}
				return err
			}
		}, []string{"put-race failed"}, "none of theirs", false, true, false},
		"absence is cached": {func(o *odd) { negative(o, time.Second) },
			[]string{"read-after-write failed"}, "not found", false, false, false},
		"sizes lag behind": {func(o *odd) {
			o.OnStat = func(ctx context.Context, name string) (remote.Info, error) {
				info, err := o.Memory.Stat(ctx, name)
				info.Size /= 2
				return info, err
			}
		}, []string{"read-after-write failed"}, "with 500", false, false, false},
		"some connections lag behind": {func(o *odd) {
			o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
				if o.has(name) && o.Calls(remotetest.Get)%20 == 19 {
					_, _ = o.Memory.Get(ctx, name, nil, 0)
					return 0, refuse("get", name, remote.ErrNotFound)
				}
				return o.Memory.Get(ctx, name, p, off)
			}
		}, []string{"read-after-write failed"}, "not found", false, false, false},
		"bodies are cut short": {func(o *odd) {
			o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
				n, err := o.Memory.Get(ctx, name, p, off)
				return min(n, 65536), err
			}
		}, []string{"read-after-write failed"}, "65536 came back", false, false, false},
		"bits are flipped": {func(o *odd) {
			o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
				n, err := o.Memory.Get(ctx, name, p, off)
				if n > 100_000 {
					p[100_000] ^= 1
				}
				return n, err
			}
		}, []string{"read-after-write failed"}, "other bytes", false, false, false},
		"ranges are ignored": {func(o *odd) {
			o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
				return o.Memory.Get(ctx, name, p, 0)
			}
		}, []string{"ranges failed"}, "other bytes", false, false, false},
		"ranges are off by one": {func(o *odd) {
			o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
				return o.Memory.Get(ctx, name, p[:max(0, min(len(p), blobSize-1-int(off)))], off)
			}
		}, []string{"read-after-write failed"}, "600000 came back", false, false, false},
		"ranges behind the end are errors": {func(o *odd) {
			o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
				if data := o.Data(name); data != nil && off >= int64(len(data)) {
					return 0, refuse("get", name, nil)
				}
				return o.Memory.Get(ctx, name, p, off)
			}
		}, []string{"ranges failed"}, "the reason", false, false, false},
		"lists miss an entry": {func(o *odd) {
			o.ChangeList(func(infos []remote.Info) []remote.Info { return infos[:len(infos)-1] })
		}, []string{"list failed"}, "is not listed", false, false, false},
		"lists miss folders within folders": {func(o *odd) {
			o.ChangeList(func(infos []remote.Info) []remote.Info {
				if strings.Contains(infos[0].Name, "root/") {
					return nil
				}
				return slices.DeleteFunc(infos, func(info remote.Info) bool { return strings.Contains(info.Name, "packs/") })
			})
		}, []string{"list failed"}, "is not listed", false, false, false},
		"lists lag behind":     {late(3 * time.Second), []string{"list note"}, "complete only after", true, true, false},
		"lists lag far behind": {late(time.Minute), []string{"list failed"}, "is not listed", false, false, false},
		"lists are not in order": {func(o *odd) {
			o.ChangeList(func(infos []remote.Info) []remote.Info { slices.Reverse(infos); return infos })
		}, []string{"list failed"}, "in order", false, false, false},
		"lists have wrong sizes": {func(o *odd) {
			o.ChangeList(func(infos []remote.Info) []remote.Info { infos[0].Size++; return infos })
		}, []string{"list failed"}, "is listed with", false, false, false},
		"lists have other folders": {func(o *odd) {
			o.ChangeList(func(infos []remote.Info) []remote.Info {
				return append(infos, remote.Info{Name: "z"})
			})
		}, []string{"list failed"}, `"z" is listed among`, false, false, false},
		"403 for an absent name": {func(o *odd) {
			o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
				if n, err := o.Memory.Get(ctx, name, p, off); !errors.Is(err, remote.ErrNotFound) {
					return n, err
				}
				return 0, refuse("get", name, remote.ErrPermission)
			}
		}, []string{"absent failed"}, "lack the permission to list", false, false, false},
		"absent names are empty": {func(o *odd) {
			o.OnGet = func(ctx context.Context, name string, p []byte, off int64) (int, error) {
				if n, err := o.Memory.Get(ctx, name, p, off); !errors.Is(err, remote.ErrNotFound) {
					return n, err
				}
				return 0, nil
			}
		}, []string{"absent failed"}, "never stored", false, false, false},
		"only reading is permitted": {func(o *odd) {
			o.OnPut = func(_ context.Context, name string, _ io.ReaderAt, _ int64) error {
				return refuse("put", name, remote.ErrPermission)
			}
			o.OnCreate = func(_ context.Context, name string, _ []byte) error {
				return refuse("create", name, remote.ErrPermission)
			}
		}, []string{"put failed", "create failed"}, "the reason", false, false, false},
		"deleting is not permitted": {func(o *odd) {
			o.OnDelete = func(_ context.Context, name string) error { return refuse("delete", name, remote.ErrPermission) }
		}, []string{"delete note", "clean-up note"}, "the credentials may not delete", true, true, true},
		"deletions have no effect": {func(o *odd) {
			o.OnDelete = func(context.Context, string) error { return nil }
		}, []string{"delete failed"}, "still there", false, false, true},
		"deletions lag behind": {func(o *odd) {
			o.OnDelete = func(_ context.Context, name string) error {
				time.AfterFunc(3*time.Second, func() { o.Remove(name) })
				return nil
			}
		}, []string{"delete note"}, "gone only after", true, true, true},
		"deleting twice is an error": {func(o *odd) {
			o.OnDelete = func(ctx context.Context, name string) error {
				if !o.has(name) {
					return refuse("delete", name, remote.ErrNotFound)
				}
				return o.Memory.Delete(ctx, name)
			}
		}, []string{"delete failed", "clean-up note"}, "deleting a missing name", false, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := &odd{remotetest.NewMutant()}
			run(t, func() remote.Backend { test.make(o); return o }, Options{ExclusivePut: strings.Contains(name, "puts")}, func(r *Report, err error) {
				if err != nil {
					t.Fatal(err)
				}
				got := slices.DeleteFunc(statuses(r), func(s string) bool { return strings.HasSuffix(s, "skipped") })
				if !slices.Equal(got, test.want) || r.Shared() != test.shared || r.Usable() != test.usable {
					t.Errorf("got %q, shared %t, usable %t\n%v", got, r.Shared(), r.Usable(), r)
				}
				var detail string
				for _, c := range r.Checks {
					if c.Status == Failed || c.Status == Note {
						detail = c.Detail
						break
					}
				}
				if !strings.Contains(detail, test.detail) {
					t.Errorf("detail %q, want %q in it", detail, test.detail)
				}
				if (len(o.Names("")) > 0) != test.left {
					t.Errorf("probes left: %q, want any: %t", o.Names(""), test.left)
				}
			})
		})
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
