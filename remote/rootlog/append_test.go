package rootlog

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// Whatever becomes of requests and replies, Append tells what is in the log.
func TestAppendFindsOut(t *testing.T) {
	const before, after, short = remotetest.Before, remotetest.After, remotetest.Short
	create := func(how remotetest.How, n int) remotetest.Fault { return temporary(remotetest.Create, how, n) }
	read := func(how remotetest.How, n int) remotetest.Fault { return temporary(remotetest.Get, how, n) }
	for _, test := range []struct {
		name    string
		faults  []remotetest.Fault
		creates int
	}{
		{"plain", nil, 1},
		{"request lost", []remotetest.Fault{create(before, 1)}, 2},
		{"reply lost", []remotetest.Fault{create(after, 1)}, 1},
		{"request lost, then the reply", []remotetest.Fault{create(before, 1), create(after, 2)}, 2},
		{"requests lost", []remotetest.Fault{create(before, 1), create(before, 2), create(before, 3)}, 4},
		{"reply lost, and that of reading", []remotetest.Fault{create(after, 1), read(before, 1), read(short, 2), read(after, 3)}, 1},
		{"request lost, and that of reading", []remotetest.Fault{create(before, 1), read(before, 1), read(before, 2)}, 2},
		{"exists, says the store", []remotetest.Fault{{Op: remotetest.Create, How: after, Err: remote.ErrExists}}, 1},
		{"exists, but does not", []remotetest.Fault{{Op: remotetest.Create, How: before, Err: remote.ErrExists}}, 2},
		{"an error without a kind", []remotetest.Fault{{Op: remotetest.Create, How: after, Err: &remote.Error{Op: "create"}}}, 1},
		{"refused, but done", []remotetest.Fault{{Op: remotetest.Create, How: after, Err: remote.ErrFull}}, 1},
		{"damaged for a while", []remotetest.Fault{create(after, 1), {Op: remotetest.Get, Err: remote.ErrDamaged}}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := remotetest.NewMemory()
			s := grow(t, newLog(t, m), 2)
			f := remotetest.NewFaulty(m)
			l := newLog(t, f)
			for _, fault := range test.faults {
				f.Fail(fault)
			}
			next := mustAppend(t, l, s, move("main", 2, 3))
			if n := f.Calls(remotetest.Create); n != test.creates {
				t.Errorf("created %d times, want %d", n, test.creates)
			}
			if head := mustHead(t, newLog(t, m), nil); head.Position() != next.Position() || head.Seq != 3 || head.Refs["refs/heads/main"] != commit(3) {
				t.Errorf("head %d, appended %d", head.Seq, next.Seq)
			}
		})
	}
}

// The same, when somebody else comes first: before the first attempt, or
// between two of them.
func TestAppendLost(t *testing.T) {
	for _, test := range []struct {
		name   string
		faults []remotetest.Fault
		first  int // before which attempt others append
		others int
	}{
		{"plain", nil, 1, 1},
		{"by far", nil, 1, 9},
		{"reply lost", []remotetest.Fault{temporary(remotetest.Create, remotetest.After, 1)}, 1, 2},
		{"request lost", []remotetest.Fault{temporary(remotetest.Create, remotetest.Before, 1)}, 2, 2},
		{"reading fails", []remotetest.Fault{temporary(remotetest.Get, remotetest.Before, 1), temporary(remotetest.Get, remotetest.Short, 2)}, 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := remotetest.NewMemory()
			other := newLog(t, m)
			s := grow(t, other, 2)
			f := remotetest.NewFaulty(m)
			l := newLogWith(t, f, Options{})
			l.o.Rand = newRandom("mine")
			for _, fault := range test.faults {
				f.Fail(fault)
			}
			f.Fail(remotetest.Fault{Op: remotetest.Create, N: test.first, Do: func() { grow(t, other, test.others) }})
			if test.first == 1 && len(test.faults) > 0 && test.faults[0].Op == remotetest.Create {
				f.Heal() // one fault for a call: others append, then the reply is lost
				f.Fail(remotetest.Fault{Op: remotetest.Create, Err: remote.ErrTemporary, Do: func() { grow(t, other, test.others) }})
			}
			_, err := l.Append(ctx, s, move("side", 0, 77))
			var lost *LostError
			if !errors.As(err, &lost) || !errors.Is(err, ErrLost) || errors.Is(err, ErrUnknown) {
				t.Fatal(err)
			}
			if want := mustHead(t, newLog(t, m), nil); lost.Head.Position() != want.Position() || lost.Head.Seq != uint64(2+test.others) {
				t.Errorf("head %d, want %d", lost.Head.Seq, want.Seq)
			}
			next := mustAppend(t, l, lost.Head, move("side", 0, 77))
			if next.Refs["refs/heads/side"] != commit(77) || next.Refs["refs/heads/main"] != commit(2+test.others) {
				t.Errorf("refs %v", next.Refs)
			}
		})
	}
}

// A create that lands after its writer knows the outcome changes nothing.
func TestLateDuplicate(t *testing.T) {
	m := remotetest.NewMemory()
	recorder := &recorder{Memory: m}
	l := newLog(t, recorder)
	s := mustAppend(t, l, mustHead(t, l, nil), move("main", 0, 1))
	before := m.Snapshot()
	next := mustAppend(t, l, s, move("main", 1, 2))
	late := recorder.last
	again := func() {
		t.Helper()
		if err := m.Create(ctx, late.name, late.data); !errors.Is(err, remote.ErrExists) {
			t.Error(err)
		}
	}
	again()
	at := mustAppend(t, l, next, move("main", 2, 3)).Position()
	again()
	if head := mustHead(t, l, nil); head.Position() != at {
		t.Errorf("head %d", head.Seq)
	}

	// The first attempt lands only after another was made, with the same bytes.
	m.Restore(before)
	f := remotetest.NewFaulty(recorder)
	f.Fail(temporary(remotetest.Create, remotetest.Before, 1))
	l = newLog(t, f)
	next = mustAppend(t, l, s, move("main", 1, 2))
	late = recorder.last
	again()
	if head := mustHead(t, l, nil); head.Position() != next.Position() {
		t.Errorf("head %d", head.Seq)
	}
}

// recorder keeps what was created last.
type recorder struct {
	*remotetest.Memory
	last struct {
		name string
		data []byte
	}
}

func (r *recorder) Create(ctx context.Context, name string, data []byte) error {
	r.last.name, r.last.data = name, data
	return r.Memory.Create(ctx, name, data)
}

// All attempts at one root have the same bytes; another Append has others.
func TestSameBytes(t *testing.T) {
	r := &recorder{Memory: remotetest.NewMemory()}
	var all []string
	f := remotetest.NewFaulty(r)
	l := newLog(t, &spy{f, func(data []byte) { all = append(all, string(data)) }})
	s := mustHead(t, l, nil)
	all = nil
	f.Fail(temporary(remotetest.Create, remotetest.Before, 1))
	f.Fail(temporary(remotetest.Create, remotetest.Before, 2))
	mustAppend(t, l, s, move("main", 0, 1))
	if len(all) != 3 || all[0] != all[1] || all[1] != all[2] {
		t.Errorf("%d attempts, not all alike", len(all))
	}
	l.Append(ctx, s, move("main", 0, 1))
	if len(all) != 4 || all[3] == all[0] {
		t.Error("two writers would take each other's root for their own")
	}
}

type spy struct {
	remote.Backend
	create func([]byte)
}

func (s *spy) Create(ctx context.Context, name string, data []byte) error {
	s.create(data)
	return s.Backend.Create(ctx, name, data)
}

// onCreate calls do before each Create.
type onCreate struct {
	remote.Backend
	do func()
}

func (o *onCreate) Create(ctx context.Context, name string, data []byte) error {
	o.do()
	return o.Backend.Create(ctx, name, data)
}

// No answer at all is neither yes nor no.
func TestAppendUnknown(t *testing.T) {
	m := remotetest.NewMemory()
	s := grow(t, newLog(t, m), 2)
	backup := m.Snapshot()
	stuck := func(how remotetest.How) remotetest.Fault { return remotetest.Fault{Op: remotetest.Create, How: how} }
	always := func(op remotetest.Op, how remotetest.How, err error) remotetest.Fault {
		return remotetest.Fault{Op: op, Name: rootFolder, How: how, Err: err, Stays: true}
	}
	for _, test := range []struct {
		name   string
		faults []remotetest.Fault
		also   error
	}{
		{"stuck", []remotetest.Fault{stuck(remotetest.Stuck)}, nil},
		{"stuck, but done", []remotetest.Fault{stuck(remotetest.StuckAfter)}, nil},
		{"never arrives", []remotetest.Fault{always(remotetest.Create, remotetest.Before, nil)}, remote.ErrTemporary},
		{"reply lost, cannot be read", []remotetest.Fault{always(remotetest.Create, remotetest.After, nil), always(remotetest.Get, remotetest.Before, nil)}, remote.ErrTemporary},
		{"reply lost, may not be read", []remotetest.Fault{always(remotetest.Create, remotetest.After, nil), always(remotetest.Get, remotetest.Before, remote.ErrPermission)}, remote.ErrPermission},
		{"reply lost, stays damaged", []remotetest.Fault{always(remotetest.Create, remotetest.After, nil), always(remotetest.Get, remotetest.Before, remote.ErrDamaged)}, remote.ErrDamaged},
		{"request lost, then refused", []remotetest.Fault{temporary(remotetest.Create, remotetest.Before, 1), {Op: remotetest.Create, N: 2, Err: remote.ErrFull}}, remote.ErrFull},
	} {
		for _, cancelled := range []bool{false, true} {
			m.Restore(backup)
			f := remotetest.NewFaulty(m)
			l := newLog(t, f)
			ctx, cancel := context.WithCancel(ctx)
			var sent sync.Once
			switch {
			case test.also == remote.ErrFull: // it ends by itself
			case cancelled:
				l.b = &onCreate{f, func() { sent.Do(func() { time.AfterFunc(20*time.Millisecond, cancel) }) }}
			default:
				l.o.Deadline = 20 * time.Millisecond
			}
			for _, fault := range test.faults {
				f.Fail(fault)
			}
			_, err := l.Append(ctx, s, move("main", 2, 3))
			var unknown *UnknownError
			if !errors.As(err, &unknown) || !errors.Is(err, ErrUnknown) || errors.Is(err, ErrLost) || unknown.Name != RootName(3) || !strings.Contains(err.Error(), "fetch") {
				t.Errorf("%s: %v", test.name, err)
			}
			if test.also != nil && !errors.Is(err, test.also) {
				t.Errorf("%s: %v does not say why", test.name, err)
			}
			cancel()
		}
	}
}

// A store that says no is not asked again.
func TestAppendRefused(t *testing.T) {
	for _, kind := range []error{remote.ErrCredentials, remote.ErrPermission, remote.ErrNoStore, remote.ErrFull, remote.ErrUnsupported} {
		m := remotetest.NewMemory()
		s := grow(t, newLog(t, m), 1)
		f := remotetest.NewFaulty(m)
		l := newLog(t, f)
		f.Fail(remotetest.Fault{Op: remotetest.Create, Err: kind, Stays: true})
		_, err := l.Append(ctx, s, move("main", 1, 2))
		if !errors.Is(err, kind) || errors.Is(err, ErrUnknown) || f.Calls(remotetest.Create) != 1 {
			t.Errorf("%v after %d attempts", err, f.Calls(remotetest.Create))
		}
	}
	m := remotetest.NewMemory()
	l := newLog(t, m)
	s := mustHead(t, l, nil)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := l.Append(ended, s, move("main", 0, 1)); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if head := mustHead(t, l, nil); head.Seq != 0 {
		t.Error("something was appended")
	}
}

// What is there and cannot be read is waited for, and never a lost race.
func TestAppendWaitsForDamage(t *testing.T) {
	m := remotetest.NewMemory()
	other := newLog(t, m)
	s := grow(t, other, 1)
	theirs := mustAppend(t, other, s, move("main", 1, 2))
	whole := m.Data(RootName(2))
	m.Truncate(RootName(2), 40)
	f := remotetest.NewFaulty(m)
	l := newLogWith(t, f, Options{})
	l.o.Rand = newRandom("mine")
	f.Fail(remotetest.Fault{Op: remotetest.Get, N: 4, Do: func() { m.Set(RootName(2), whole) }})
	_, err := l.Append(ctx, s, move("main", 1, 3))
	var lost *LostError
	if !errors.As(err, &lost) || lost.Head.Position() != theirs.Position() {
		t.Error(err)
	}
	if n := f.Calls(remotetest.Create); n != 1 {
		t.Errorf("created %d times", n)
	}
}

func TestAppendRejects(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	s := grow(t, l, 1)
	s = mustAppend(t, l, s, Change{
		Time: noon, AddPacks: []Inline{inline(1, 3), inline(2, 1)}, AddIndexes: []File{indexFile(3)},
		Condemn: []string{name(8).Path(), name(9).IndexPath()},
	})
	tree := object.Key{Kind: object.KindTree, ID: object.Sum(nil)}
	ref := func(name string, from, to object.Key) Change {
		return Change{Time: noon, Refs: []RefChange{{Name: name, Old: from, New: to}}}
	}
	none := object.Key{}
	for _, test := range []struct {
		name   string
		change Change
		want   error
	}{
		{"ref moved", ref("refs/heads/main", commit(9), commit(2)), ErrRefMoved},
		{"ref exists", ref("refs/heads/main", none, commit(2)), ErrRefMoved},
		{"ref is gone", ref("refs/heads/x", commit(1), none), ErrRefMoved},
		{"ref at a tree", ref("refs/heads/x", none, tree), ErrInvalid},
		{"ref at nothing", ref("refs/heads/x", none, object.Key{Kind: object.KindCommit}), ErrInvalid},
		{"no ref", ref("heads/x", none, commit(2)), ErrInvalid},
		{"ref with a line break", ref("refs/heads/x\ny", none, commit(2)), ErrInvalid},
		{"ref too long", ref("refs/heads/"+strings.Repeat("x", maxText), none, commit(2)), ErrInvalid},
		{"ref twice", Change{Refs: append(ref("refs/x/y", none, commit(1)).Refs, ref("refs/x/y", none, commit(2)).Refs...)}, ErrInvalid},
		{"default branch", Change{Head: "main"}, ErrInvalid},
		{"who", Change{Who: "\x1b[31mAnn"}, ErrInvalid},
		{"host", Change{Host: "a\xffb"}, ErrInvalid},
		{"pack again", Change{AddPacks: []Inline{inline(1, 3)}}, ErrInvalid},
		{"empty pack", Change{AddPacks: []Inline{inline(4, 0)}}, ErrInvalid},
		{"condemned pack", Change{AddPacks: []Inline{inline(8, 1)}}, ErrReplan},
		{"index file again", Change{AddIndexes: []File{indexFile(3)}}, ErrInvalid},
		{"empty index file", Change{AddIndexes: []File{{Name: name(4)}}}, ErrInvalid},
		{"condemned index file", Change{AddIndexes: []File{indexFile(9)}}, ErrReplan},
		{"condemned again", Change{Condemn: []string{name(8).Path()}}, ErrInvalid},
		{"condemned root", Change{Condemn: []string{RootName(1)}}, ErrInvalid},
		{"condemned kist.json", Change{Condemn: []string{IdentityName}}, ErrInvalid},
		{"condemned pack in a wrong place", Change{Condemn: []string{"packs/00/" + name(7).String()}}, ErrInvalid},
		{"delisted, never condemned", Change{Delist: []string{name(7).Path()}}, ErrInvalid},
		{"too large", Change{AddPacks: []Inline{inline(5, 15_000), inline(6, 15_000)}}, ErrInvalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.change.Time.IsZero() {
				test.change.Time = noon
			}
			_, err := l.Append(ctx, s, test.change)
			if !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if head := mustHead(t, l, nil); head.Position() != s.Position() {
				t.Fatal("something was appended")
			}
		})
	}
}
