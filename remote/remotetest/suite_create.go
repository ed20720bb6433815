package remotetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/remote"
)

func checkCreate(t testing.TB, b remote.Backend) {
	ctx := context.Background()
	for _, name := range []string{"kist.json", "root/00000000000000000001", "probe/n/root/1"} {
		data := sample(1, 5000)
		given := append(bytes.Clone(data), "what follows"...)
		if err := b.Create(ctx, name, given[:len(data)]); err != nil {
			t.Fatalf("create %q: %v", name, err)
		}
		if !bytes.Equal(given[:len(data)], data) || string(given[len(data):]) != "what follows" {
			t.Errorf("Create changed the bytes it was given, or those after them")
		}
		clear(given)
		want(t, b, name, data)
		for _, again := range [][]byte{data, sample(2, 5000), sample(3, 6000), nil} {
			wantKind(t, fmt.Sprintf("create %q again", name), b.Create(ctx, name, again), remote.ErrExists)
			want(t, b, name, data)
		}
	}
	if r, ok := remote.As[remote.Replacer](b); ok {
		for _, data := range [][]byte{sample(4, 7000), sample(5, 10)} {
			if err := r.Replace(ctx, "kist.json", data); err != nil {
				t.Fatalf("replace: %v", err)
			}
			want(t, b, "kist.json", data)
		}
	}
	put(t, b, "root/2", nil)
	wantKind(t, "create over an empty record", b.Create(ctx, "root/2", []byte("x")), remote.ErrExists)
	want(t, b, "root/2", nil)
}

// checkCreateRace has many callers create one record at once: one does, and
// its bytes stay.
func checkCreateRace(t testing.TB, b remote.Backend) {
	const callers = 32
	for round, size := range []int{16, 9000, 60_000, 300_000, 16} {
		name := fmt.Sprintf("root/%020d", round+1)
		bodies := make([][]byte, callers)
		errs := make([]error, callers)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range callers {
			bodies[i] = append(sample(round*callers+i, size), byte(i))
			wg.Go(func() {
				<-start
				errs[i] = b.Create(context.Background(), name, bodies[i])
			})
		}
		close(start)
		wg.Wait()
		winner := -1
		var unclear []int
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Errorf("round %d: callers %d and %d both created the record", round, winner, i)
			case err == nil:
				winner = i
			case errors.Is(err, remote.ErrTemporary): // this one may have, too
				unclear = append(unclear, i)
			default:
				wantKind(t, fmt.Sprintf("round %d, caller %d", round, i), err, remote.ErrExists)
			}
		}
		if winner < 0 {
			winner = holder(b, name, bodies, unclear)
		}
		if winner < 0 {
			t.Errorf("round %d: of %d callers none created the record", round, callers)
			continue
		}
		want(t, b, name, bodies[winner])
		wantKind(t, "create afterwards", b.Create(context.Background(), name, []byte("late")), remote.ErrExists)
		want(t, b, name, bodies[winner])
	}
}

// holder returns whose body, of the callers given, a record has, or -1.
func holder(b remote.Backend, name string, bodies [][]byte, callers []int) int {
	p := make([]byte, remote.MaxRecord)
	n, err := b.Get(context.Background(), name, p, 0)
	for _, i := range callers {
		if err == nil && bytes.Equal(p[:n], bodies[i]) {
			return i
		}
	}
	return -1
}

func checkMaxRecord(t testing.TB, b remote.Backend) {
	data := sample(1, remote.MaxRecord+1)
	most := remote.MaxRecord
	for remote.StoredSize(b, "root/1", int64(most)) > remote.MaxRecord {
		most--
	}
	put(t, b, "root/1", data[:most])
	want(t, b, "root/1", data[:most])
	for _, name := range []string{"root/1", "root/2"} {
		err := b.Create(context.Background(), name, data)
		wantKind(t, "create a record that is too large", err, nil)
	}
	wantNone(t, b, "root/2")
	want(t, b, "root/1", data[:most])
	put(t, b, "packs/a", data) // a blob may be larger
	want(t, b, "packs/a", data)
}

func checkDelete(t testing.TB, b remote.Backend) {
	ctx := context.Background()
	remove := func(name string) {
		if err := b.Delete(ctx, name); err != nil {
			t.Errorf("delete %q: %v", name, err)
		}
	}
	gone := []string{"packs/ab/cd", "kist.json", "root/1", "state/empty"}
	stay := []string{"packs/ab/cde", "packs/ab/c", "packs/abc", "root/10", "root/0", "index/x"}
	for _, name := range append(gone[1:], "packs", "packs/ab", "nothing/at/all") {
		remove(name) // absent, from an empty store
	}
	put(t, b, "state/empty", nil)
	for i, name := range append(gone[:3:3], stay...) {
		put(t, b, name, sample(i, 100))
	}
	for _, name := range append(gone, "packs", "packs/ab", "root", "packs/ab/cd", "root/1") {
		remove(name)
	}
	for _, name := range gone {
		eventually(func() bool {
			_, err := b.Stat(ctx, name)
			return errors.Is(err, remote.ErrNotFound)
		})
		wantNone(t, b, name)
	}
	for i, name := range stay {
		want(t, b, name, sample(i+3, 100))
	}
	wantList(t, b, "", []string{"index/x", "packs/ab/c", "packs/ab/cde", "packs/abc", "root/0", "root/10"})
}
