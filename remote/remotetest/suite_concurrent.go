package remotetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
)

// checkCancelled calls with contexts that have ended: an error says so, even
// where there would be another.
func checkCancelled(t testing.TB, b remote.Backend) {
	put(t, b, "packs/a", []byte("there"))
	put(t, b, "root/1", []byte("there"))
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancelLate := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancelLate()
	for ctx, cause := range map[context.Context]error{cancelled: context.Canceled, late: context.DeadlineExceeded} {
		check := func(what string, err error) {
			if !errors.Is(err, cause) {
				t.Errorf("%s with a context that has ended: error %v, want %v", what, err, cause)
			}
		}
		for _, name := range []string{"packs/a", "root/1", "packs/b", "root/2"} {
			n, err := b.Get(ctx, name, make([]byte, 10), 0)
			check("get", err)
			if n != 0 {
				t.Errorf("get with a context that has ended: %d bytes", n)
			}
			_, err = b.Stat(ctx, name)
			check("stat", err)
			check("delete", b.Delete(ctx, name))
		}
		for _, name := range []string{"packs/a", "packs/b"} {
			check("put", b.Put(ctx, name, bytes.NewReader([]byte("x")), 1))
		}
		for _, name := range []string{"root/1", "root/2"} {
			check("create", b.Create(ctx, name, []byte("x")))
		}
		calls := 0
		for info, err := range b.List(ctx, "") {
			calls++
			check("list", err)
			if info != (remote.Info{}) {
				t.Errorf("list with a context that has ended yields %+v", info)
			}
		}
		if calls != 1 {
			t.Errorf("list with a context that has ended yields %d times", calls)
		}
	}
	// The store goes on, and nothing was deleted.
	want(t, b, "packs/a", []byte("there"))
	want(t, b, "root/1", []byte("there"))
	put(t, b, "packs/c", []byte("another"))
	want(t, b, "packs/c", []byte("another"))
	checkCancelledList(t, b)
}

// checkCancelledList ends the context of a list while it yields.
func checkCancelledList(t testing.TB, b remote.Backend) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last error
	for _, err := range b.List(ctx, "") {
		if last = err; err == nil {
			cancel()
		}
	}
	if last != nil && !errors.Is(last, context.Canceled) { // a page that is here may be yielded to its end
		t.Errorf("list whose context ends: %v", last)
	}
}

// checkConcurrent has workers use all methods at once.
func checkConcurrent(t testing.TB, b remote.Backend) {
	const workers, each = 8, 12
	ctx := context.Background()
	shared := sample(99, 400_000)
	put(t, b, "packs/shared", shared)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				blob := fmt.Sprintf("packs/%02d/%d", i, w)
				record := fmt.Sprintf("root/%d", w*each+i)
				data := sample(w*each+i, 1000*i+w)
				for _, name := range []string{blob, record} {
					if err := store(b, name, data); err != nil {
						t.Errorf("store %q: %v", name, err)
					}
					want(t, b, name, data)
				}
				off := i * 30_000
				wantGet(t, b, "packs/shared", int64(off), 40_000, shared[off:off+40_000])
				if i%3 == 0 {
					if err := b.Delete(ctx, blob); err != nil {
						t.Errorf("delete %q: %v", blob, err)
					}
				}
				if i%4 == 0 {
					if _, err := list(t, b, "packs/"); err != nil {
						t.Errorf("list: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	for w := range workers {
		for i := range each {
			data := sample(w*each+i, 1000*i+w)
			want(t, b, fmt.Sprintf("root/%d", w*each+i), data)
			blob := fmt.Sprintf("packs/%02d/%d", i, w)
			if i%3 != 0 {
				want(t, b, blob, data)
				continue
			}
			eventually(func() bool {
				_, err := b.Stat(ctx, blob)
				return errors.Is(err, remote.ErrNotFound)
			})
			wantNone(t, b, blob)
		}
	}
}
