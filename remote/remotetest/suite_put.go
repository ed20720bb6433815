package remotetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kist-vcs/kist/remote"
)

// body is an io.ReaderAt that gives data, and can be one of the odd kinds that
// io.ReaderAt allows.
type body struct {
	data     []byte
	early    bool        // io.EOF comes with the last byte
	fail     error       // returned at the end of data, instead of io.EOF
	reading  atomic.Bool // by a goroutine
	closed   atomic.Bool // no read is permitted any more
	complain func(format string, args ...any)
}

func (r *body) ReadAt(p []byte, off int64) (n int, err error) {
	if r.reading.Swap(true) {
		r.complain("the body is read by two goroutines at a time")
	}
	defer r.reading.Store(false)
	if r.closed.Load() {
		r.complain("the body is read after Put has returned")
	}
	if off < 0 {
		r.complain("the body is read from offset %d", off)
		return 0, errors.New("negative offset")
	}
	n = copy(p, r.data[min(off, int64(len(r.data))):])
	if n < len(p) || r.early && off+int64(n) == int64(len(r.data)) {
		if err = r.fail; err == nil {
			err = io.EOF
		}
	}
	return n, err
}

func putBody(b remote.Backend, name string, r *body, size int) error {
	defer r.closed.Store(true)
	return b.Put(context.Background(), name, r, int64(size))
}

func checkPutBody(t testing.TB, b remote.Backend) {
	for i, size := range []int{0, 1, 300_000, 3 << 20} {
		data := sample(i, size+1000)
		for _, early := range []bool{false, true} {
			for _, more := range []int{0, 1000} { // than size
				name := fmt.Sprintf("packs/%d-%t-%d", size, early, more)
				if err := putBody(b, name, &body{data: data[:size+more], early: early, complain: t.Errorf}, size); err != nil {
					t.Errorf("put %s: %v", name, err)
				}
				want(t, b, name, data[:size])
			}
		}
	}
}

// checkPutShortBody puts bodies that end too early: that is an error, and
// nothing of them is ever seen.
func checkPutShortBody(t testing.TB, b remote.Backend) {
	failure := errors.New("disk on fire")
	for i, size := range []int{1, 100, 300_000, 3 << 20} {
		for _, have := range []int{0, size / 2, size - 1} {
			for _, fail := range []error{nil, failure} {
				name := fmt.Sprintf("packs/%d-%d-%t", size, have, fail == nil)
				err := putBody(b, name, &body{data: sample(i, have), fail: fail, complain: t.Errorf}, size)
				var re *remote.Error
				if !errors.As(err, &re) {
					t.Errorf("put %d bytes of a body of %d: error %v, want a *remote.Error", size, have, err)
				}
				for _, kind := range []error{remote.ErrExists, remote.ErrName, remote.ErrNotFound} {
					if errors.Is(err, kind) {
						t.Errorf("put %d bytes of a body of %d: error %v", size, have, err)
					}
				}
				wantNone(t, b, name)
			}
		}
	}
	wantList(t, b, "", nil)
}

// checkPutTaken stores under a name that is taken, which callers must not do. A store may
// refuse. In any case, the blob has one of the two contents.
func checkPutTaken(t testing.TB, b remote.Backend) {
	for _, size := range []int{0, 1000, 1 << 20} {
		name := fmt.Sprintf("packs/%d", size)
		old := sample(1, size)
		put(t, b, name, old)
		for _, data := range [][]byte{old, sample(2, size), sample(3, size+10)} {
			err := store(b, name, data)
			if err == nil {
				old = data
			} else {
				wantKind(t, "put of a name that is taken", err, remote.ErrExists)
			}
			want(t, b, name, old)
		}
	}
}

// checkPutWhole looks at a blob while it is stored: it is there whole, or not
// at all.
func checkPutWhole(t testing.TB, b remote.Backend) {
	ctx := context.Background()
	data := sample(1, 8<<20)
	size := remote.StoredSize(b, "packs/a", int64(len(data)))
	var done atomic.Bool
	var wg sync.WaitGroup
	look := func(do func() (seen bool, err error)) {
		wg.Go(func() {
			for seen := false; ; {
				last := done.Load()
				now, err := do()
				switch {
				case err != nil:
					t.Errorf("while it is stored: %v", err)
					return
				case last && !now:
					t.Error("not seen after it was stored")
					return
				case seen && !now:
					t.Error("seen, and then no longer")
				}
				if seen = now; last {
					return
				}
			}
		})
	}
	look(func() (bool, error) {
		p := make([]byte, len(data))
		n, err := b.Get(ctx, "packs/a", p, 0)
		if errors.Is(err, remote.ErrNotFound) {
			return false, nil
		}
		if err == nil && !bytes.Equal(p[:n], data) {
			err = fmt.Errorf("get returns %d bytes that differ from the stored ones", n)
		}
		return true, err
	})
	look(func() (bool, error) {
		info, err := b.Stat(ctx, "packs/a")
		if errors.Is(err, remote.ErrNotFound) {
			return false, nil
		}
		if err == nil && info.Size != size {
			err = fmt.Errorf("stat gives %d bytes", info.Size)
		}
		return true, err
	})
	wg.Go(func() {
		for !done.Load() {
			for info, err := range b.List(ctx, "packs/") {
				if err != nil || info.Name != "packs/a" || info.Size != size {
					t.Errorf("while it is stored: list gives %+v, %v", info, err)
				}
			}
		}
	})
	err := store(b, "packs/a", data)
	done.Store(true)
	wg.Wait()
	if err != nil {
		t.Error(err)
	}
	want(t, b, "packs/a", data)
}
