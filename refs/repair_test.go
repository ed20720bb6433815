package refs

import (
	"errors"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// Guess restores the value of a file in which one bit is flipped, whichever bit it is. It
// guesses nothing if three bits are flipped.
func TestGuess(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and single-threaded: the race detector finds nothing here")
	}
	s := newStore(t)
	s.set(t, Heads+"main", id(1))
	s.set(t, "refs/remotes/origin/main", id(2))

	if err := s.SetRemoteHead(ctx, "refs/remotes/origin/HEAD", "refs/remotes/origin/main"); err != nil {
		t.Fatal(err)
	}
	if err := s.SetSpecial(ctx, MergeHead, id(3)); err != nil {
		t.Fatal(err)
	}

	for name, want := range map[string]refValue{
		Heads + "main": {id: id(1)}, "HEAD": {target: Heads + "main"}, MergeHead: {id: id(3)},
		"refs/remotes/origin/HEAD": {target: "refs/remotes/origin/main"},
	} {
		intact := s.mustRead(t, name)
		for bit := range 8 * len(intact) {
			data := []byte(intact)
			data[bit/8] ^= 1 << (bit % 8)
			s.spoil(t, name, string(data))
			if _, found, err := s.readValue(name); found || !errors.Is(err, object.ErrCorrupt) {
				t.Errorf("%s with bit %d flipped: found %v, error %v, want damage", name, bit, found, err)
			}
			if id, target, ok := s.Guess(name); !ok || id != want.id || target != want.target {
				t.Errorf("%s with bit %d flipped: guessed %v %q %v, want %v", name, bit, id, target, ok, want)
			}

			data[(bit/8+40)%len(data)] ^= 3
			s.spoil(t, name, string(data))
			if id, target, ok := s.Guess(name); ok {
				t.Errorf("%s with three bits flipped: guessed %v %q, want nothing", name, id, target)
			}
		}

		s.spoil(t, name, "")
		if _, _, ok := s.Guess(name); ok {
			t.Errorf("%s: guessed a value from an empty file", name)
		}
	}

	if _, _, ok := s.Guess("refs/heads/none"); ok {
		t.Error("guessed a value of a missing file")
	}
}

func TestDiscard(t *testing.T) {
	s := newStore(t)
	s.set(t, Heads+"main", id(1))
	s.set(t, Heads+"a/b", id(2))
	if err := s.SetMessage(ctx, MergeMsg, "text"); err != nil {
		t.Fatal(err)
	}
	no := errors.New("no")
	for _, name := range []string{Heads + "a/b", MergeMsg} {
		if did, err := s.Discard(ctx, name, func() (bool, error) { return false, nil }); did || err != nil {
			t.Errorf("%s, sure is false: removed %v, error %v", name, did, err)
		}
		if did, err := s.Discard(ctx, name, func() (bool, error) { return true, no }); did || !errors.Is(err, no) {
			t.Errorf("%s, sure fails: removed %v, error %v", name, did, err)
		}
		s.mustRead(t, name)
		if did, err := s.Discard(ctx, name, func() (bool, error) { return true, nil }); !did || err != nil {
			t.Errorf("%s: removed %v, error %v", name, did, err)
		}
	}
	if got := s.all(t); got != "heads/main=1" {
		t.Errorf("refs are %s", got)
	}
	for _, name := range []string{"HEAD", "config", "logs/HEAD"} {
		if did, err := s.Discard(ctx, name, func() (bool, error) { return true, nil }); did || err == nil {
			t.Errorf("%s: removed %v, error %v, want an error", name, did, err)
		}
	}
}

// Repair refuses an intact ref. It restores a damaged one, and the log records no move.
func TestRepairRef(t *testing.T) {
	s := newStore(t)
	name := Heads + "main"
	s.set(t, name, id(1))
	s.set(t, name, id(2))
	var moved *MovedError
	if err := s.Repair(ctx, name, id(1), ann, "repair"); !errors.As(err, &moved) {
		t.Errorf("repair of an intact ref: %v, want a MovedError", err)
	}
	s.spoil(t, name, strings.Repeat("x", 20))
	if err := s.Repair(ctx, name, id(2), ann, "repair"); err != nil {
		t.Fatal(err)
	}
	if got := s.log(t, name); got != "2>2 repair; 1>2 test; ->1 test" {
		t.Errorf("log is %q", got)
	}
}
