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

// Append reports success if its root is in the log, whichever requests and replies
// are lost.
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
		{"reply lost, reads fail", []remotetest.Fault{create(after, 1), read(before, 1), read(short, 2), read(after, 3)}, 1},
		{"request lost, reads fail", []remotetest.Fault{create(before, 1), read(before, 1), read(before, 2)}, 2},
		{"created, but reported as existing", []remotetest.Fault{{Op: remotetest.Create, How: after, Err: remote.ErrExists}}, 1},
		{"absent, but reported as existing", []remotetest.Fault{{Op: remotetest.Create, How: before, Err: remote.ErrExists}}, 2},
		{"an error without a kind", []remotetest.Fault{{Op: remotetest.Create, How: after, Err: &remote.Error{Op: "create"}}}, 1},
		{"created, but refused", []remotetest.Fault{{Op: remotetest.Create, How: after, Err: remote.ErrFull}}, 1},
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
				t.Errorf("%d calls of Create, want %d", n, test.creates)
			}
			if head := mustHead(t, newLog(t, m), nil); head.Position() != next.Position() || head.Seq != 3 || head.Refs["refs/heads/main"] != commit(3) {
				t.Errorf("head is root %d, appended root %d, want 3", head.Seq, next.Seq)
			}
		})
	}
}

// Append returns a LostError with the head if another writer creates the root first:
// before the first attempt, or between two attempts.
func TestAppendLost(t *testing.T) {
	for _, test := range []struct {
		name   string
		faults []remotetest.Fault
		first  int // the other writer appends before this attempt
		others int // roots of the other writer
	}{
		{"plain", nil, 1, 1},
		{"many roots", nil, 1, 9},
		{"reply lost", []remotetest.Fault{temporary(remotetest.Create, remotetest.After, 1)}, 1, 2},
		{"request lost", []remotetest.Fault{temporary(remotetest.Create, remotetest.Before, 1)}, 2, 2},
		{"reads fail", []remotetest.Fault{temporary(remotetest.Get, remotetest.Before, 1), temporary(remotetest.Get, remotetest.Short, 2)}, 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := remotetest.NewMemory()
			other := newLog(t, m)
			s := grow(t, other, 2)
			f := remotetest.NewFaulty(m)
			l := newLog(t, f)
			l.o.Rand = newRandom("mine")

			for _, fault := range test.faults {
				f.Fail(fault)
			}
			f.Fail(remotetest.Fault{Op: remotetest.Create, N: test.first, Do: func() { grow(t, other, test.others) }})
			if test.first == 1 && len(test.faults) > 0 && test.faults[0].Op == remotetest.Create {
				f.Heal() // a call has one fault: the other writer appends, then the reply is lost
				f.Fail(remotetest.Fault{Op: remotetest.Create, Err: remote.ErrTemporary, Do: func() { grow(t, other, test.others) }})
			}
			_, err := l.Append(ctx, s, move("side", 0, 77))
			var lost *LostError
			if !errors.As(err, &lost) || !errors.Is(err, ErrLost) || errors.Is(err, ErrUnknown) {
				t.Fatalf("Append: error %v, want a LostError", err)
			}
			if want := mustHead(t, newLog(t, m), nil); lost.Head.Position() != want.Position() || lost.Head.Seq != uint64(2+test.others) {
				t.Errorf("head of the error is root %d, want %d", lost.Head.Seq, want.Seq)
			}

			next := mustAppend(t, l, lost.Head, move("side", 0, 77))
			if next.Refs["refs/heads/side"] != commit(77) || next.Refs["refs/heads/main"] != commit(2+test.others) {
				t.Errorf("refs after the second Append: %v", next.Refs)
			}
		})
	}
}

// A Create that takes effect late changes nothing.
func TestLateDuplicate(t *testing.T) {
	m := remotetest.NewMemory()
	recorder := &recorder{Memory: m}
	l := newLog(t, recorder)
	s := mustAppend(t, l, mustHead(t, l, nil), move("main", 0, 1))
	before := m.Snapshot()
	next := mustAppend(t, l, s, move("main", 1, 2))
	late := recorder.last
	repeat := func() {
		t.Helper()
		if err := m.Create(ctx, late.name, late.data); !errors.Is(err, remote.ErrExists) {
			t.Errorf("late Create: error %v, want ErrExists", err)
		}
	}
	repeat()
	at := mustAppend(t, l, next, move("main", 2, 3)).Position()
	repeat()
	if head := mustHead(t, l, nil); head.Position() != at {
		t.Errorf("head is root %d, want 3", head.Seq)
	}

	// The first attempt takes effect after the second, which has the same bytes.
	m.Restore(before)
	f := remotetest.NewFaulty(recorder)
	f.Fail(temporary(remotetest.Create, remotetest.Before, 1))
	l = newLog(t, f)
	next = mustAppend(t, l, s, move("main", 1, 2))
	late = recorder.last
	repeat()
	if head := mustHead(t, l, nil); head.Position() != next.Position() {
		t.Errorf("head is root %d, want 2", head.Seq)
	}
}

// recorder keeps the arguments of the last Create.
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

// All attempts of one Append have the same bytes. Another Append has other bytes.
func TestSameBytes(t *testing.T) {
	var all []string
	f := remotetest.NewFaulty(remotetest.NewMemory())
	l := newLog(t, &onCreate{f, func(data []byte) { all = append(all, string(data)) }})
	s := mustHead(t, l, nil)
	all = nil
	f.Fail(temporary(remotetest.Create, remotetest.Before, 1))
	f.Fail(temporary(remotetest.Create, remotetest.Before, 2))
	mustAppend(t, l, s, move("main", 0, 1))
	if len(all) != 3 || all[0] != all[1] || all[1] != all[2] {
		t.Errorf("%d attempts with different bytes, want 3 with the same", len(all))
	}
	l.Append(ctx, s, move("main", 0, 1))
	if len(all) != 4 || all[3] == all[0] {
		t.Error("two Appends sent the same bytes: each would take the other's root for its own")
	}
}

// onCreate calls do before each Create.
type onCreate struct {
	remote.Backend
	do func(data []byte)
}

func (o *onCreate) Create(ctx context.Context, name string, data []byte) error {
	o.do(data)
	return o.Backend.Create(ctx, name, data)
}

// Append returns an UnknownError if the store does not answer.
func TestAppendUnknown(t *testing.T) {
	m := remotetest.NewMemory()
	s := grow(t, newLog(t, m), 2)
	backup := m.Snapshot()
	stuck := func(how remotetest.How) remotetest.Fault { return remotetest.Fault{Op: remotetest.Create, How: how} }

	always := func(op remotetest.Op, how remotetest.How, err error) remotetest.Fault {
		return remotetest.Fault{Op: op, Name: RootFolder, How: how, Err: err, Stays: true}
	}
	for _, test := range []struct {
		name   string
		faults []remotetest.Fault
		also   error
	}{
		{"stuck", []remotetest.Fault{stuck(remotetest.Stuck)}, nil},
		{"created, then stuck", []remotetest.Fault{stuck(remotetest.StuckAfter)}, nil},
		{"never arrives", []remotetest.Fault{always(remotetest.Create, remotetest.Before, nil)}, remote.ErrTemporary},
		{"reply lost, reads fail", []remotetest.Fault{always(remotetest.Create, remotetest.After, nil), always(remotetest.Get, remotetest.Before, nil)}, remote.ErrTemporary},
		{"reply lost, reads forbidden", []remotetest.Fault{always(remotetest.Create, remotetest.After, nil), always(remotetest.Get, remotetest.Before, remote.ErrPermission)}, remote.ErrPermission},
		{"reply lost, reads damaged", []remotetest.Fault{always(remotetest.Create, remotetest.After, nil), always(remotetest.Get, remotetest.Before, remote.ErrDamaged)}, remote.ErrDamaged},
		{"request lost, then refused", []remotetest.Fault{temporary(remotetest.Create, remotetest.Before, 1), {Op: remotetest.Create, N: 2, Err: remote.ErrFull}}, remote.ErrFull},
	} {
		for _, cancelled := range []bool{false, true} {
			m.Restore(backup)
			f := remotetest.NewFaulty(m)
			ctx, cancel := context.WithCancel(ctx)
			var sent sync.Once
			store := remote.Backend(f)
			if cancelled && test.also != remote.ErrFull { // with that, Append ends by itself
				store = &onCreate{f, func([]byte) { sent.Do(func() { time.AfterFunc(20*time.Millisecond, cancel) }) }}
			}
			l := newLog(t, store)
			if !cancelled && test.also != remote.ErrFull {
				l.o.Deadline = 20 * time.Millisecond
			}

			for _, fault := range test.faults {
				f.Fail(fault)
			}
			_, err := l.Append(ctx, s, move("main", 2, 3))
			var unknown *UnknownError
			if !errors.As(err, &unknown) || !errors.Is(err, ErrUnknown) || errors.Is(err, ErrLost) || unknown.Name != RootName(3) || !strings.Contains(err.Error(), "fetch") {
				t.Errorf("%s: error %v, want an UnknownError of root 3", test.name, err)
			}
			if test.also != nil && !errors.Is(err, test.also) {
				t.Errorf("%s: error %v does not match the reason %v", test.name, err, test.also)
			}
			cancel()
		}
	}
}

// Append does not retry if the store refuses the request.
func TestAppendRefused(t *testing.T) {
	for _, kind := range []error{remote.ErrCredentials, remote.ErrPermission, remote.ErrNoStore, remote.ErrFull, remote.ErrUnsupported} {
		m := remotetest.NewMemory()
		s := grow(t, newLog(t, m), 1)
		f := remotetest.NewFaulty(m)
		l := newLog(t, f)
		f.Fail(remotetest.Fault{Op: remotetest.Create, Err: kind, Stays: true})
		_, err := l.Append(ctx, s, move("main", 1, 2))
		if !errors.Is(err, kind) || errors.Is(err, ErrUnknown) || f.Calls(remotetest.Create) != 1 {
			t.Errorf("error %v after %d attempts, want %v after 1", err, f.Calls(remotetest.Create), kind)
		}
	}
	m := remotetest.NewMemory()
	l := newLog(t, m)
	s := mustHead(t, l, nil)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := l.Append(ended, s, move("main", 0, 1)); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknown) {
		t.Errorf("cancelled context: error %v", err)
	}
	if head := mustHead(t, l, nil); head.Seq != 0 {
		t.Error("cancelled context: a root was appended")
	}
}

// Append waits for an unreadable root. It does not take it for a lost race.
func TestAppendWaitsForDamage(t *testing.T) {
	m := remotetest.NewMemory()
	other := newLog(t, m)
	s := grow(t, other, 1)
	theirs := mustAppend(t, other, s, move("main", 1, 2))
	intact := m.Data(RootName(2))
	m.Truncate(RootName(2), 40)
	f := remotetest.NewFaulty(m)
	l := newLog(t, f)
	l.o.Rand = newRandom("mine")
	f.Fail(remotetest.Fault{Op: remotetest.Get, N: 4, Do: func() { m.Set(RootName(2), intact) }})
	_, err := l.Append(ctx, s, move("main", 1, 3))
	var lost *LostError
	if !errors.As(err, &lost) || lost.Head.Position() != theirs.Position() {
		t.Errorf("error %v, want a LostError with the other writer's root", err)
	}
	if n := f.Calls(remotetest.Create); n != 1 {
		t.Errorf("%d calls of Create, want 1", n)
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
				t.Fatalf("head is root %d, want %d", head.Seq, s.Seq)
			}
		})
	}
}
