package remotetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
)

func TestMemoryDouble(t *testing.T) {
	ctx := t.Context()
	m := NewMemory()
	put(t, m, "packs/a", []byte("aaaa"))
	put(t, m, "packs/b", []byte("bb"))
	put(t, m, "root/1", []byte("root"))
	if got := m.Names("packs/"); !slices.Equal(got, []string{"packs/a", "packs/b"}) {
		t.Errorf("Names = %q", got)
	}
	before := m.Snapshot()

	info, _ := m.Stat(ctx, "packs/a")
	if !m.Damage("packs/a", 0) || !m.Damage("packs/a", -1) || string(m.Data("packs/a")) != "`aa`" {
		t.Errorf("after Damage: %q", m.Data("packs/a"))
	}
	if again, _ := m.Stat(ctx, "packs/a"); again != info {
		t.Errorf("Stat after Damage = %+v, want %+v", again, info)
	}
	if m.Damage("packs/a", 4) || m.Damage("packs/a", -5) || m.Damage("packs/c", 0) {
		t.Error("Damage of an absent byte or blob returns true")
	}
	if !m.Truncate("packs/a", 1) || m.Truncate("packs/a", 1) || m.Truncate("packs/c", 0) || string(m.Data("packs/a")) != "`" {
		t.Errorf("after Truncate: %q", m.Data("packs/a"))
	}
	if !m.Swap("packs/a", "root/1") || m.Swap("packs/a", "packs/c") || string(m.Data("packs/a")) != "root" || string(m.Data("root/1")) != "`" {
		t.Errorf("after Swap: %q, %q", m.Data("packs/a"), m.Data("root/1"))
	}
	m.Remove("packs/b")
	wantNone(t, m, "packs/b")
	if m.Data("packs/b") != nil {
		t.Error("Data of a removed blob is not nil")
	}
	m.Set("packs/c", []byte("c"))
	want(t, m, "packs/c", []byte("c"))

	m.Restore(before)
	put(t, m, "root/2", []byte("two"))
	m.Restore(before) // a snapshot can be used twice
	for name, data := range map[string]string{"packs/a": "aaaa", "packs/b": "bb", "root/1": "root"} {
		want(t, m, name, []byte(data))
	}
	wantNone(t, m, "packs/c")
	wantNone(t, m, "root/2")
}

func TestMemoryCounts(t *testing.T) {
	ctx := t.Context()
	m := NewMemory()
	put(t, m, "packs/a", make([]byte, 100))
	put(t, m, "root/1", make([]byte, 10))
	m.Create(ctx, "root/1", make([]byte, 7)) // refused, but sent
	m.Get(ctx, "packs/a", make([]byte, 30), 90)
	m.Get(ctx, "packs/b", nil, 0)
	m.Stat(ctx, "../b")
	m.Delete(ctx, "packs/a")
	list(t, m, "")
	for op, want := range map[Op][2]int{Any: {8, 127}, Put: {1, 100}, Create: {2, 17}, Get: {2, 10}, Stat: {1, 0}, Delete: {1, 0}, List: {1, 0}} {
		if calls, bytes := m.Calls(op), m.Bytes(op); calls != want[0] || bytes != int64(want[1]) {
			t.Errorf("%s: %d calls, %d bytes; want %d", op, calls, bytes, want)
		}
	}
	m.ResetCounts()
	if m.Calls(Any) != 0 || m.Bytes(Any) != 0 {
		t.Error("counts are not reset")
	}
}

func TestMemoryClock(t *testing.T) {
	m := NewMemory()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	put(t, m, "packs/a", nil)
	put(t, m, "packs/b", nil)
	a, _ := m.Stat(t.Context(), "packs/a")
	b, _ := m.Stat(t.Context(), "packs/b")
	if !b.Modified.After(a.Modified) {
		t.Errorf("modified at %v, then at %v", a.Modified, b.Modified)
	}
	m.Now = func() time.Time { return now }
	put(t, m, "packs/c", nil)
	if c, _ := m.Stat(t.Context(), "packs/c"); !c.Modified.Equal(now) {
		t.Errorf("modified at %v, want %v", c.Modified, now)
	}
}

func TestFaulty(t *testing.T) {
	own := errors.New("own error")
	full := &remote.Error{Op: "put", Kind: remote.ErrFull}
	tests := []struct {
		name   string
		fault  Fault
		failed string // x for each failed put of six
		stored string // the blobs after the puts
		kind   error
	}{
		{"the next", Fault{Op: Put}, "x.....", "bcdef", remote.ErrTemporary},
		{"third before", Fault{Op: Put, N: 3}, "..x...", "abdef", remote.ErrTemporary},
		{"third after", Fault{Op: Put, N: 3, How: After}, "..x...", "abcdef", remote.ErrTemporary},
		{"short is before", Fault{Op: Put, N: 2, How: Short}, ".x....", "acdef", remote.ErrTemporary},
		{"fourth and on", Fault{Op: Put, N: 4, Stays: true, Err: remote.ErrPermission}, "...xxx", "abc", remote.ErrPermission},
		{"fourth and on, after", Fault{Op: Put, N: 4, Stays: true, How: After, Err: full}, "...xxx", "abcdef", full},
		{"of another method", Fault{Op: Get, Stays: true}, "......", "abcdef", nil},
		{"of any method", Fault{Op: Any, N: 2, Err: own}, ".x....", "acdef", own},
		{"of a name", Fault{Op: Put, Name: "packs/e"}, "....x.", "abcdf", remote.ErrTemporary},
		{"of names", Fault{Op: Put, Name: "packs/", N: 2}, ".x....", "acdef", remote.ErrTemporary},
	}

	for _, test := range tests {
		m := NewMemory()
		f := NewFaulty(m)
		f.Fail(test.fault)

		var failed, stored []byte
		for _, c := range "abcdef" {
			err := store(f, "packs/"+string(c), []byte{byte(c)})
			if err == nil {
				failed = append(failed, '.')
				continue
			}
			failed = append(failed, 'x')
			if re := (*remote.Error)(nil); !errors.As(err, &re) || re.Op != "put" || !errors.Is(err, test.kind) {
				t.Errorf("%s: error %v, want %v", test.name, err, test.kind)
			}
		}

		for _, name := range m.Names("") {
			stored = append(stored, name[len(name)-1])
		}
		if string(failed) != test.failed || string(stored) != test.stored {
			t.Errorf("%s: failed %s, stored %s; want %s, %s", test.name, failed, stored, test.failed, test.stored)
		}
		if f.Calls(Put) != 6 || f.Calls(Any) != 6 || f.Calls(Get) != 0 {
			t.Errorf("%s: calls of Put %d, Any %d, Get %d; want 6, 6, 0", test.name, f.Calls(Put), f.Calls(Any), f.Calls(Get))
		}

		f.Heal()
		put(t, f, "packs/g", nil)
	}
}

func TestFaultyReplies(t *testing.T) {
	ctx := t.Context()
	f := NewFaulty(NewMemory())
	data := bytes.Repeat([]byte("data"), 100)
	put(t, f, "packs/a", data)
	put(t, f, "packs/b", nil)

	f.Fail(Fault{Op: Get, How: Short})
	p := make([]byte, len(data))
	if n, err := f.Get(ctx, "packs/a", p, 0); n != len(data)/2 || !errors.Is(err, ErrFault) || !errors.Is(err, remote.ErrTemporary) || bytes.Equal(p, data) {
		t.Errorf("short get: %d bytes, %v", n, err)
	}
	f.Fail(Fault{Op: List, How: Short})
	if infos, err := list(t, f, ""); len(infos) != 1 || !errors.Is(err, ErrFault) {
		t.Errorf("short list: %d entries, %v", len(infos), err)
	}
	f.Fail(Fault{Op: List, How: After})
	if infos, err := list(t, f, ""); len(infos) != 2 || !errors.Is(err, ErrFault) {
		t.Errorf("list with an error at its end: %d entries, %v", len(infos), err)
	}
	f.Fail(Fault{Op: Stat, How: After})
	if info, err := f.Stat(ctx, "packs/a"); info != (remote.Info{}) || !errors.Is(err, ErrFault) {
		t.Errorf("stat: %+v, %v", info, err)
	}
	// An error of the store replaces the error of a fault After.
	f.Fail(Fault{Op: Create, How: After, N: 2})
	put(t, f, "root/1", data)
	wantKind(t, "create again", f.Create(ctx, "root/1", data), remote.ErrExists)
	f.Fail(Fault{Op: Delete, How: After})
	if err := f.Delete(ctx, "packs/a"); !errors.Is(err, ErrFault) {
		t.Errorf("delete: %v", err)
	}
	wantNone(t, f, "packs/a")

	f.Hide("root/")
	wantList(t, f, "", []string{"packs/b"})
	f.Heal()
	wantList(t, f, "", []string{"packs/b", "root/1"})
}

func TestFaultyStuck(t *testing.T) {
	f := NewFaulty(NewMemory())
	for i, how := range []How{Stuck, StuckAfter} {
		name := []string{"root/1", "root/2"}[i]
		ctx, cancel := context.WithCancel(t.Context())
		f.Fail(Fault{Op: Create, How: how})
		got := make(chan error)
		go func() { got <- f.Create(ctx, name, []byte("x")) }()
		select {
		case err := <-got:
			t.Errorf("Create is not stuck: error %v", err)
		case <-time.After(10 * time.Millisecond):
		}
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("stuck, then cancelled: error %v, want Canceled", err)
		}
	}
	wantNone(t, f, "root/1")
	want(t, f, "root/2", []byte("x"))

	f.Random(1, Rates{Slow: 1, Delay: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := f.Stat(ctx, "root/2"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("slow, then cancelled: error %v, want DeadlineExceeded", err)
	}
}

// A fault with Do and without Err runs Do, and the call succeeds.
func TestFaultyDo(t *testing.T) {
	m := NewMemory()
	f := NewFaulty(m)
	f.Fail(Fault{Op: Create, N: 2, Do: func() { m.Set("root/2", []byte("theirs")) }})
	f.Fail(Fault{Op: Put, How: After, Do: func() { m.Set("packs/a", []byte("theirs")) }})
	put(t, f, "root/1", []byte("ours"))
	wantKind(t, "create", f.Create(t.Context(), "root/2", []byte("ours")), remote.ErrExists)
	put(t, f, "packs/a", []byte("ours"))
	want(t, f, "packs/a", []byte("theirs"))
}

func TestFaultyAtRandom(t *testing.T) {
	run := func(seed uint64, rates Rates) (failed string, stored, listed int) {
		m := NewMemory()
		f := NewFaulty(m)
		f.Random(seed, rates)
		for i := range 1000 {
			if err := store(f, fmt.Sprintf("packs/%d", i), nil); err == nil {
				failed += "."
			} else {
				failed += "x"
			}
		}
		infos, _ := list(t, f, "")
		return failed, len(m.Names("")), len(infos)
	}

	count := func(failed string) int { return bytes.Count([]byte(failed), []byte("x")) }

	near := func(what string, got, want int) {
		t.Helper()
		if got < want-60 || got > want+60 {
			t.Errorf("%s: %d, want about %d", what, got, want)
		}
	}

	failed, stored, _ := run(1, Rates{Before: 0.2, After: 0.3, Ops: []Op{Put}})
	near("failed", count(failed), 500)
	near("stored", stored, 800)
	again, _, _ := run(1, Rates{Before: 0.2, After: 0.3, Ops: []Op{Put}})
	other, _, _ := run(2, Rates{Before: 0.2, After: 0.3, Ops: []Op{Put}})
	if again != failed || other == failed {
		t.Error("equal seeds give other failures, or other seeds equal ones")
	}

	failed, _, listed := run(1, Rates{Before: 1, Hide: 0.3, Ops: []Op{Get, Stat}})
	near("failed, of other methods", count(failed), 0)
	near("listed", listed, 700)
}
