package volume

import (
	"bytes"
	"errors"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// openLazy opens an empty lazy store. Its chunks are at f, unless that is nil.
func openLazy(t *testing.T, dir string, f *far) *Store {
	t.Helper()
	o := testOptions(t)
	o.Lazy = true
	s := openStore(t, dir, o)
	if f != nil {
		s.Elsewhere = f
	}
	return s
}

// aChunk returns a chunk of the samples.
func aChunk() (object.Key, []byte) {
	for i := 0; ; i++ {
		if key, data := sample(0, i); key.Kind == object.KindChunk {
			return key, data
		}
	}
}

// A lazy store fetches an object that is away, and has it from then on.
func TestLazyGet(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	key, data := aChunk()
	f := &far{room: 1 << 20}
	s := openLazy(t, dir, f)
	if missing, err := s.Missing(ctx, []object.Key{key}); err != nil || len(missing) > 0 || !IsAbsent(s, key) {
		t.Errorf("before: missing %v, %v, absent %v", missing, err, IsAbsent(s, key))
	}
	for range 2 {
		if got, err := s.Get(ctx, key); err != nil || !bytes.Equal(got, data) {
			t.Errorf("Get: %v", err)
		}
	}
	if f.fetched != 1 {
		t.Errorf("%d fetches, want 1", f.fetched)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = openLazy(t, dir, nil)
	if got, err := OnlyHere(s).Get(ctx, key); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the next process: %v", err)
	}
	wantSound(t, s)
}

// What cannot be fetched is away, and not missing. What no remote has is missing.
func TestLazyErrors(t *testing.T) {
	ctx := t.Context()
	key, _ := aChunk()
	commit := object.Key{Kind: object.KindCommit, ID: key.ID}
	for name, test := range map[string]struct {
		far  *far
		key  object.Key
		away bool
	}{
		"no remotes": {nil, key, true},
		"gone":       {&far{gone: map[object.Key]bool{key: true}}, key, false},
		"a commit":   {&far{}, commit, false},
	} {
		s := openLazy(t, t.TempDir(), test.far)
		_, err := s.Get(ctx, test.key)
		if object.IsAway(err) != test.away || errors.Is(err, object.ErrNotFound) == test.away {
			t.Errorf("%s: Get: %v, want away %v", name, err, test.away)
		}
		if berr := s.GetBriefly(ctx, test.key, func([]byte) error { return nil }); object.IsAway(berr) != test.away {
			t.Errorf("%s: GetBriefly: %v", name, berr)
		}
		if _, _, serr := s.GetStored(ctx, test.key, nil); object.IsAway(serr) != test.away {
			t.Errorf("%s: GetStored: %v", name, serr)
		}
		if _, herr := OnlyHere(s).Get(ctx, test.key); object.IsAway(herr) != test.key.Kind.CanBeAway() {
			t.Errorf("%s: Here: %v", name, herr)
		}
		missing, err := s.Missing(ctx, []object.Key{test.key})
		if here, herr := OnlyHere(s).Missing(ctx, []object.Key{test.key}); err != nil || herr != nil || len(here) != 1 || (len(missing) == 1) == test.key.Kind.CanBeAway() {
			t.Errorf("%s: missing %v, here %v; %v, %v", name, missing, here, err, herr)
		}
	}
}

// Wrong bytes and malformed nodes of a remote are refused.
func TestLazyLies(t *testing.T) {
	ctx := t.Context()
	key, _ := aChunk()
	s := openLazy(t, t.TempDir(), nil)
	s.Elsewhere = &liar{far{room: 1 << 20}}
	s.Prefetch(ctx, []object.Key{key})
	if _, err := s.Get(ctx, key); !errors.Is(err, object.ErrCorrupt) {
		t.Errorf("Get of a lie: %v", err)
	}
	if !IsAbsent(s, key) {
		t.Error("the lie was kept")
	}
	if err := checkFetched(object.Key{Kind: object.KindTree, ID: object.Sum([]byte("x"))}, []byte("x")); err == nil {
		t.Error("a malformed tree passes")
	}
}

// Reach asks before a command changes anything.
func TestReach(t *testing.T) {
	ctx := t.Context()
	key, data := aChunk()
	for name, test := range map[string]struct {
		far  *far
		here bool
		n    int
		is   func(error) bool
	}{
		"there":   {&far{}, false, 1, func(err error) bool { return err == nil }},
		"here":    {&far{down: true}, true, 0, func(err error) bool { return err == nil }},
		"offline": {&far{down: true}, false, 1, object.IsAway},
		"nobody":  {nil, false, 1, object.IsAway},
		"gone":    {&far{gone: map[object.Key]bool{key: true}}, false, 1, func(err error) bool { return errors.Is(err, object.ErrNotFound) }},
	} {
		s := openLazy(t, t.TempDir(), test.far)
		if test.here {
			ss := s.Begin(SessionOptions{})
			if _, err := ss.Put(ctx, key.Kind, data); err != nil {
				t.Fatal(err)
			}
			if err := ss.Close(); err != nil {
				t.Fatal(err)
			}
		}
		away := Far(s, []object.Key{key})
		if err := Reach(ctx, s, away); len(away) != test.n || !test.is(err) {
			t.Errorf("%s: %d, %v", name, len(away), err)
		}
	}
}

// A Put of an object that is away stores it.
func TestLazyPut(t *testing.T) {
	ctx := t.Context()
	key, data := aChunk()
	s := openLazy(t, t.TempDir(), &far{})
	ss := s.Begin(SessionOptions{})
	if missing, err := ss.Missing(ctx, []object.Key{key}); err != nil || len(missing) != 1 || !ss.IsAbsent(key) {
		t.Errorf("the session misses %v, %v", missing, err)
	}
	if _, err := ss.Put(ctx, key.Kind, data); err != nil {
		t.Fatal(err)
	}
	if ss.IsAbsent(key) {
		t.Error("the object is absent after a Put")
	}
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	if IsAbsent(s, key) {
		t.Error("the object is absent after the session")
	}
	wantSound(t, s)
}
