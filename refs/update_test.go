package refs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
)

// all returns the refs as "name=n" for id(n).
func (s *Store) all(t testing.TB) string {
	t.Helper()
	refs, err := s.List("")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, r := range refs {
		list = append(list, strings.TrimPrefix(r.Name, "refs/")+"="+number(r.ID))
	}
	return strings.Join(list, " ")
}

func number(i object.ID) string {
	if i.IsZero() {
		return "-"
	}
	for n := range 100 {
		if id(n) == i {
			return fmt.Sprint(n)
		}
	}
	return i.Short()
}

// log returns the moves in a log, newest first, as "0>1 reason".
func (s *Store) log(t testing.TB, name string) string {
	t.Helper()
	entries, err := s.Log(name)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, number(e.Old)+">"+number(e.New)+" "+e.Reason)
	}
	return strings.Join(list, "; ")
}

func TestUpdate(t *testing.T) {
	for _, test := range []struct {
		name    string
		changes []Change
		err     error  // nil with an empty after: a NameError
		after   string // the refs then; empty: heads/a=1 heads/d/e=2 tags/v=3, as before
	}{
		{"make", []Change{{Name: "refs/heads/b", New: id(4)}}, nil, "heads/a=1 heads/b=4 heads/d/e=2 tags/v=3"},
		{"move", []Change{{Name: "refs/heads/a", Old: id(1), New: id(4)}}, nil, "heads/a=4 heads/d/e=2 tags/v=3"},
		{"delete", []Change{{Name: "refs/heads/a", Old: id(1)}}, nil, "heads/d/e=2 tags/v=3"},
		{"check", []Change{{Name: "refs/heads/a", Old: id(1), New: id(1)}, {Name: "refs/heads/x"}}, nil, "heads/a=1 heads/d/e=2 tags/v=3"},
		{"move, delete and make", []Change{{Name: "refs/heads/a", Old: id(1), New: id(5)}, {Name: "refs/tags/v", Old: id(3)}, {Name: "refs/tags/w/x", New: id(6)}},
			nil, "heads/a=5 heads/d/e=2 tags/w/x=6"},
		{"nothing", nil, nil, "heads/a=1 heads/d/e=2 tags/v=3"},

		{"exists", []Change{{Name: "refs/heads/b", New: id(4)}, {Name: "refs/heads/a", New: id(4)}}, ErrMoved, ""},
		{"moved", []Change{{Name: "refs/heads/b", New: id(4)}, {Name: "refs/heads/a", Old: id(2), New: id(4)}}, ErrMoved, ""},
		{"deleted", []Change{{Name: "refs/heads/b", Old: id(1), New: id(4)}}, ErrMoved, ""},
		{"delete a deleted ref", []Change{{Name: "refs/heads/b", Old: id(1)}}, ErrMoved, ""},
		{"delete a moved ref", []Change{{Name: "refs/heads/a", Old: id(2)}}, ErrMoved, ""},
		{"check fails", []Change{{Name: "refs/heads/b", New: id(4)}, {Name: "refs/heads/a"}}, ErrMoved, ""},
		{"below a ref", []Change{{Name: "refs/heads/b", New: id(4)}, {Name: "refs/heads/a/b/c", New: id(4)}}, ErrConflict, ""},
		{"above a ref", []Change{{Name: "refs/heads/d", New: id(4)}}, ErrConflict, ""},
		{"below a new ref", []Change{{Name: "refs/heads/b", New: id(4)}, {Name: "refs/heads/b/c", New: id(4)}}, ErrConflict, ""},
		{"above a new ref", []Change{{Name: "refs/heads/b/c", New: id(4)}, {Name: "refs/heads/b", New: id(4)}}, ErrConflict, ""},
		{"in place of a deleted ref", []Change{{Name: "refs/heads/a", Old: id(1)}, {Name: "refs/heads/a/b", New: id(4)}}, ErrConflict, ""},
		{"twice", []Change{{Name: "refs/heads/b", New: id(4)}, {Name: "refs/heads/b", New: id(4)}}, nil, ""},
		{"bad name", []Change{{Name: "refs/heads/b", New: id(4)}, {Name: "refs/heads/../b", New: id(4)}}, nil, ""},
		{"special name", []Change{{Name: "MERGE_HEAD", New: id(4)}}, nil, ""},
		{"delete HEAD", []Change{{Name: "HEAD", Old: id(9)}}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStore(t)
			s.set(t, "refs/heads/a", id(1))
			s.set(t, "refs/heads/d/e", id(2))
			s.set(t, "refs/tags/v", id(3))
			if err := s.SetHead(ctx, Head{ID: id(9)}, ann, "detach"); err != nil {
				t.Fatal(err)
			}
			logs := s.log(t, "refs/heads/a")

			err := s.Update(ctx, test.changes, ann)
			after, failed := test.after, test.after == ""
			if failed {
				after = "heads/a=1 heads/d/e=2 tags/v=3"
			}
			var name *NameError
			switch {
			case !failed && err != nil, test.err != nil && !errors.Is(err, test.err), failed && test.err == nil && !errors.As(err, &name):
				t.Errorf("error %v, want %v", err, test.err)
			}
			if diff := cmp.Diff(after, s.all(t)); diff != "" {
				t.Error(diff)
			}
			if got := s.log(t, "refs/heads/a"); failed && got != logs {
				t.Errorf("log is %q, was %q", got, logs)
			}
			want := "->2 test"
			if got := s.log(t, "refs/heads/d/e"); got != want {
				t.Errorf("log is %q, want %q", got, want)
			}
			if _, err := s.Get("refs/heads/b"); failed && !errors.Is(err, ErrNotFound) {
				t.Errorf("refs/heads/b was made: %v", err)
			}
		})
	}
}

// Errors name the ref in the way, and the expected and present values.
func TestUpdateErrors(t *testing.T) {
	s := newStore(t)
	s.set(t, "refs/heads/a", id(1))
	s.set(t, "refs/heads/d/e", id(2))
	var moved *MovedError
	err := s.Update(ctx, []Change{{Name: "refs/heads/a", Old: id(7), New: id(4)}}, ann)
	if !errors.As(err, &moved) || *moved != (MovedError{"refs/heads/a", id(7), id(1)}) {
		t.Error(err)
	}
	var conflict *ConflictError
	err = s.Update(ctx, []Change{{Name: "refs/heads/a/b/c", New: id(4)}}, ann)
	if !errors.As(err, &conflict) || *conflict != (ConflictError{"refs/heads/a/b/c", "refs/heads/a"}) {
		t.Error(err)
	}
	err = s.Update(ctx, []Change{{Name: "refs/heads/d", New: id(4)}}, ann)
	if !errors.As(err, &conflict) || *conflict != (ConflictError{"refs/heads/d", "refs/heads/d/e"}) {
		t.Error(err)
	}
}

// An update of HEAD moves the branch that HEAD names. The log of HEAD records each move of that
// branch, by either name, and each checkout.
func TestUpdateHead(t *testing.T) {
	s := newStore(t)
	steps := func(name string, ids ...int) {
		t.Helper()
		var old object.ID
		if ids[0] != 0 {
			old = id(ids[0])
		}
		for _, n := range ids[1:] {
			if err := s.Update(ctx, []Change{{Name: name, Old: old, New: id(n), Reason: "commit: x"}}, ann); err != nil {
				t.Fatal(err)
			}
			old = id(n)
		}
	}

	steps("HEAD", 0, 1, 2)
	steps("refs/heads/main", 2, 3)
	steps("refs/heads/other", 0, 4)
	if err := s.SetHead(ctx, Head{ID: id(3)}, ann, "checkout"); err != nil {
		t.Fatal(err)
	}

	steps("HEAD", 3, 5)
	steps("refs/heads/main", 3, 6)

	for name, want := range map[string]string{
		"HEAD":             "3>5 commit: x; 3>3 checkout; 2>3 commit: x; 1>2 commit: x; ->1 commit: x",
		"refs/heads/main":  "3>6 commit: x; 2>3 commit: x; 1>2 commit: x; ->1 commit: x",
		"refs/heads/other": "->4 commit: x",
	} {
		if got := s.log(t, name); got != want {
			t.Errorf("log of %s: %q, want %q", name, got, want)
		}
	}

	if h, err := s.Head(); h != (Head{ID: id(5)}) || err != nil {
		t.Error(h, err)
	}
	err := s.Update(ctx, []Change{{Name: "HEAD", Old: id(4), New: id(1)}}, ann)
	if !errors.Is(err, ErrMoved) {
		t.Error(err)
	}

	s.SetHead(ctx, Head{Branch: "main"}, ann, "checkout")
	var name *NameError
	err = s.Update(ctx, []Change{{Name: "HEAD", Old: id(6), New: id(1)}, {Name: "refs/heads/main", Old: id(6), New: id(1)}}, ann)
	if !errors.As(err, &name) {
		t.Errorf("update of one ref by two names: %v, want a NameError", err)
	}
}

// Deleting a ref deletes its log and the directories that become empty. A later ref may use the
// same path as a directory, or a directory's path as its name.
func TestDelete(t *testing.T) {
	s := newStore(t)
	for range 2 {
		for _, name := range []string{"refs/heads/a", "refs/heads/a/b/c", "refs/remotes/o/x/y"} {
			s.set(t, name, id(1))
			if got := s.log(t, name); got != "->1 test" {
				t.Errorf("log of %s: %q", name, got)
			}
			if err := s.Update(ctx, []Change{{Name: name, Old: id(1)}}, ann); err != nil {
				t.Fatal(err)
			}
			if got := s.all(t) + s.log(t, name); got != "" {
				t.Errorf("left of %s: %q", name, got)
			}
		}
	}
	for _, dir := range []string{"refs", "logs"} {
		if entries, _ := os.ReadDir(s.filePath(dir)); len(entries) > 0 {
			t.Errorf("left in %s: %v", dir, entries)
		}
	}
}

// Empty directories and logs of deleted refs do not block a new ref.
func TestLeftovers(t *testing.T) {
	s := newStore(t)
	s.spoil(t, "refs/heads/a/b/c", "")
	s.spoil(t, "logs/refs/heads/a/b/c", "")
	s.spoil(t, "logs/refs/heads/x", "")
	s.spoil(t, staging+"/0", "half")
	os.Remove(s.filePath("refs/heads/a/b/c"))
	changes := []Change{{Name: "refs/heads/a", New: id(1), Reason: "r"}}
	for i := range 20 {
		changes = append(changes, Change{Name: fmt.Sprintf("refs/heads/x/y%d/z", i), New: id(2), Reason: "r"})
	}
	if err := s.Update(ctx, changes, ann); err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if got, err := s.Get(c.Name); got != c.New || err != nil {
			t.Errorf("%s: %v, %v", c.Name, got, err)
		}
		if got, want := s.log(t, c.Name), "->"+number(c.New)+" r"; got != want {
			t.Errorf("log of %s is %q, want %q", c.Name, got, want)
		}
	}
}

// A failed write of one log leaves all refs and logs unchanged.
func TestUpdateFails(t *testing.T) {
	s := newStore(t)
	s.set(t, "refs/heads/a", id(1))
	s.spoil(t, "logs/refs/heads/b", "")
	if err := os.Remove(s.filePath("logs/refs/heads/b")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", s.filePath("logs/refs/heads/b")); err != nil {
		t.Fatal(err)
	}
	log := s.log(t, "refs/heads/a")
	for range 2 {
		err := s.Update(ctx, []Change{{Name: "refs/heads/a", Old: id(1), New: id(2)}, {Name: "refs/heads/b", New: id(2)}, {Name: "refs/heads/c", New: id(2)}}, ann)
		if !errors.Is(err, syscall.ELOOP) {
			t.Errorf("error %v, want ELOOP", err)
		}
		if got := s.all(t); got != "heads/a=1" {
			t.Errorf("refs are %s", got)
		}
		if got := s.log(t, "refs/heads/a"); got != log {
			t.Errorf("log is %q, was %q", got, log)
		}
		if got := s.log(t, "refs/heads/c"); got != "" {
			t.Errorf("log of a ref that was not made: %q", got)
		}
	}
}

// If an update fails after some refs moved, only their logs record a move.
func TestUpdateFailsInTheMiddle(t *testing.T) {
	s := newStore(t)
	s.set(t, Heads+"main", id(1))
	s.set(t, "refs/heads/a", id(1))
	s.spoil(t, "refs/heads/dir/.in-the-way", "") // Update's own check would refuse this
	err := s.applyMoves([]move{
		{Change{Name: "refs/heads/a", Old: id(1), New: id(2)}, false}, {Change{Name: "refs/heads/dir", New: id(2)}, false},
		{Change{Name: "refs/heads/z", New: id(2)}, false}, {Change{Name: "refs/heads/main", Old: id(1)}, true}}, ann)
	if err == nil {
		t.Fatal("no error")
	}
	refs := s.all(t)
	for name, want := range map[string]string{
		"refs/heads/a": "1>2 ; ->1 test", "refs/heads/z": "", "refs/heads/dir": "", "HEAD": "->1 test", "refs/heads/main": "->1 test",
	} {
		if got := s.log(t, name); got != want || refs != "heads/a=2 heads/main=1" {
			t.Errorf("refs are %s, log of %s: %q", refs, name, got)
		}
	}
}

// Exactly one of many goroutines that move a ref from the same value succeeds.
func TestUpdateRace(t *testing.T) {
	s := newStore(t)
	s.set(t, Heads+"main", id(0))
	const racers, rounds = 16, 5
	for round := range rounds {
		have, err := s.Get(Heads + "main")
		if err != nil {
			t.Fatal(err)
		}

		var wg sync.WaitGroup
		var won atomic.Int32
		for r := range racers {
			wg.Go(func() {
				own, tag, to := Open(s.dir, time.Now), fmt.Sprintf("refs/tags/%d-%d", round, r), id(100*round+r+1)
				err := own.Update(ctx, []Change{{Name: "HEAD", Old: have, New: to}, {Name: tag, New: to}}, ann)
				_, tagErr := own.Get(tag)
				switch {
				case err == nil && tagErr == nil:
					won.Add(1)
				case !errors.Is(err, ErrMoved) || !errors.Is(tagErr, ErrNotFound):
					t.Errorf("racer %d: %v, %v", r, err, tagErr)
				}
			})
		}

		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("round %d: %d racers won, want 1", round, won.Load())
		}
	}

	// Each move in the log begins where the move before it ended.
	entries, err := s.Log("HEAD")
	if err != nil {
		t.Fatal(err)
	}

	for i, e := range entries[:len(entries)-1] {
		if e.Old != entries[i+1].New {
			t.Errorf("entry %d begins at %s, the entry before ended at %s", i, e.Old.Short(), entries[i+1].New.Short())
		}
	}
}

func TestBusy(t *testing.T) {
	s := newStore(t)
	unlock, err := s.lockWriters(ctx)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if err := s.Update(short, []Change{{Name: "refs/heads/a", New: id(1)}}, ann); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("update while locked: %v, want DeadlineExceeded", err)
	}
	unlock()
	if err := s.Update(ctx, []Change{{Name: "refs/heads/a", New: id(1)}}, ann); err != nil {
		t.Error(err)
	}
}
