package rootlog

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// many returns a change that creates n refs.
func many(n int) Change {
	c := Change{Time: noon, Who: "Ann"}
	for i := range n {
		c.Refs = append(c.Refs, RefChange{Name: fmt.Sprintf("refs/heads/topic/number-%05d", i), New: commit(i)})
	}
	return c
}

// advance returns a change that moves each of n refs from commit i to commit i+1.
func advance(n int) Change {
	c := many(n)
	for i := range c.Refs {
		c.Refs[i].Old, c.Refs[i].New = c.Refs[i].New, commit(i+1)
	}
	return c
}

// With 10,000 refs, a push writes a root of some KiB, and seldom a state file.
func TestTenThousandRefs(t *testing.T) {
	const refs, pushes = 10_000, 300
	m := remotetest.NewMemory()
	l := newLogWith(t, m, Options{Cache: t.TempDir()})
	s := mustAppend(t, l, mustHead(t, l, nil), many(refs))
	if n := len(m.Data(RootName(1))); n > 10<<10 {
		t.Errorf("the root that creates the refs has %d bytes, want at most %d", n, 10<<10)
	}
	if r, err := l.At(ctx, 1); err != nil || r.Moved != refs || len(r.Moves) < 50 || len(r.Moves) > 200 {
		t.Errorf("%d moves, %d of them listed: %v", r.Moved, len(r.Moves), err)
	}
	want := maps.Clone(s.Refs)
	written, largest, inlined := 0, 0, []Inline(nil)
	for n := range pushes {
		name := fmt.Sprintf("refs/heads/topic/number-%05d", n*7919%refs)
		c := Change{Time: noon, Refs: []RefChange{{Name: name, Old: want[name], New: commit(refs + n)}}, AddPacks: []Inline{inline(n, 10)}}
		if n%10 == 9 { // a pusher merges inline packs if there are too many
			for _, p := range s.Packs {
				c.Merged = append(c.Merged, p.Name)
			}
			c.AddIndexes = []File{indexFile(n)}
		}
		want[name] = commit(refs + n)
		s = mustAppend(t, l, s, c)
		inlined = s.Packs
		size := len(m.Data(RootName(s.Seq)))
		written, largest = written+size, max(largest, size)
	}
	states := len(m.Names(stateFolder))
	if written/pushes > 16<<10 || largest > 32<<10 {
		t.Errorf("roots have %d bytes on average, %d at most", written/pushes, largest)
	}
	if states < 2 || states > 10 || len(inlined) > 10 {
		t.Errorf("%d state files, %d packs inline", states, len(inlined))
	}
	if used := len(s.NamedFiles()); len(s.Condemned) != states-used {
		t.Errorf("%d files condemned; %d of %d state files are in use", len(s.Condemned), used, states)
	}

	// A new reader gets the same state. Later it reads only roots.
	cache := t.TempDir()
	l = newLogWith(t, m, Options{Cache: cache})
	read := mustHead(t, l, nil)
	if diff := cmp.Diff(want, read.Refs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(s.Indexes, read.Indexes); diff != "" || len(read.Indexes) != pushes/10 {
		t.Errorf("%d index files: %s", len(read.Indexes), diff)
	}
	if diff := cmp.Diff(s.Condemned, read.Condemned); diff != "" {
		t.Error(diff)
	}
	at := read.Position()
	m.ResetCounts()
	for _, l := range []*Log{l, newLogWith(t, m, Options{Cache: cache})} { // tables from memory, then from the cache
		m.ResetCounts()
		if s := mustHead(t, l, &at); len(s.Refs) != refs || m.Calls(remotetest.Any) != 2 {
			t.Errorf("%d requests, want 2", m.Calls(remotetest.Any))
		}
	}
}

func TestCache(t *testing.T) {
	m := remotetest.NewMemory()
	dir := filepath.Join(t.TempDir(), "made", "when-needed")
	write := newLogWith(t, m, Options{})
	s := mustAppend(t, write, mustHead(t, write, nil), many(1000))
	l := func() *Log { return newLogWith(t, m, Options{Cache: dir}) }
	state := path.Base(s.NamedFiles()[0])
	list := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !IsRootCopy(e.Name()) {
				names = append(names, e.Name())
			}
		}
		return names
	}
	read := func(gets int) {
		t.Helper()
		at := s.Position()
		m.ResetCounts()
		if got := mustHead(t, l(), &at); len(got.Refs) != len(s.Refs) {
			t.Errorf("%d refs, want %d", len(got.Refs), len(s.Refs))
		}
		if n := m.Calls(remotetest.Get) - 4; n != gets { // two roots, and kist.json twice
			t.Errorf("%d state files read, want %d", n, gets)
		}
		if got := list(); !slices.Equal(got, []string{state}) {
			t.Errorf("cache has %q, want %s", got, state)
		}
	}
	read(1)
	read(0)
	cached := filepath.Join(dir, state)
	data, err := os.ReadFile(cached)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]byte{nil, data[:100], append(slices.Clone(data[:200]), make([]byte, len(data)-200)...)} {
		if err := os.WriteFile(cached, bad, 0o666); err != nil {
			t.Fatal(err)
		}
		read(1)
	}
	for _, name := range []string{name(1).String(), "tmp-17"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	read(0)

	// A new base replaces the old one.
	old := state
	s = mustAppend(t, l(), s, advance(1000))
	if state = path.Base(s.NamedFiles()[0]); state == old || s.Condemned[stateFolder+old] != s.Seq {
		t.Errorf("old base %s, new %s, condemned %v", old, state, s.Condemned)
	}
	read(0)

	// Head works without a cache that it cannot write.
	dir = filepath.Join(cached, "below-a-file")
	at := s.Position()
	if got := mustHead(t, l(), &at); len(got.Refs) != 1000 {
		t.Errorf("%d refs, want 1000", len(got.Refs))
	}
}

func TestDamagedStateFile(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	s := mustAppend(t, l, mustHead(t, l, nil), many(1000))
	name := s.NamedFiles()[0]
	backup := m.Snapshot()
	for _, do := range []func(){
		func() { m.Damage(name, 500) },
		func() { m.Truncate(name, 500) },
		func() { m.Set(name, append(m.Data(name), 0)) },
		func() { m.Remove(name) },
	} {
		m.Restore(backup)
		do()
		at := s.Position()
		for _, remembered := range []*Position{nil, &at} {
			_, err := newLog(t, m).Head(ctx, remembered)
			wantDamage(t, err, name)
		}
	}
}

// A missing state file is no damage if a newer head does not name it.
func TestStateFileGoneMeanwhile(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	old := mustAppend(t, l, mustHead(t, l, nil), many(1000))
	name := old.NamedFiles()[0]
	f := remotetest.NewFaulty(m)
	f.Fail(remotetest.Fault{Op: remotetest.Get, Name: name, Do: func() {
		mustAppend(t, l, old, advance(1000))
		m.Remove(name)
	}})
	if s := mustHead(t, newLog(t, f), nil); s.Seq != 2 || s.Refs["refs/heads/topic/number-00007"] != commit(8) {
		t.Errorf("head is root %d, want 2", s.Seq)
	}
}

// A failed upload of a state file is retried under another name.
func TestStateFileUploads(t *testing.T) {
	m := remotetest.NewMemory()
	f := remotetest.NewFaulty(m)
	l := newLog(t, f)
	s := mustHead(t, l, nil)
	f.Fail(remotetest.Fault{Op: remotetest.Put, How: remotetest.After, N: 1})
	f.Fail(remotetest.Fault{Op: remotetest.Put, How: remotetest.Before, N: 2})
	s = mustAppend(t, l, s, many(1000))
	names := m.Names(stateFolder)
	if f.Calls(remotetest.Put) != 3 || len(names) != 2 || !slices.Contains(names, s.NamedFiles()[0]) {
		t.Errorf("%d uploads, want 3; state files %q", f.Calls(remotetest.Put), names)
	}
	f.Fail(remotetest.Fault{Op: remotetest.Put, Err: remote.ErrFull})
	c := many(1000)
	for i := range c.Refs {
		c.Refs[i].Old, c.Refs[i].New = c.Refs[i].New, object.Key{}
	}
	c.Refs = append(c.Refs, many(2000).Refs[1000:]...)
	if _, err := l.Append(ctx, s, c); !errors.Is(err, remote.ErrFull) || errors.Is(err, ErrUnknown) {
		t.Errorf("full store: error %v", err)
	}
	next := mustAppend(t, l, s, c)
	if len(next.Refs) != 1000 || next.Refs["refs/heads/topic/number-01500"] != commit(1500) {
		t.Errorf("%d refs, want 1000", len(next.Refs))
	}
}

// Each change has its effect on the state, and Head reads the same state.
func TestChanges(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	s := mustHead(t, l, nil)

	step := func(c Change) {
		t.Helper()
		c.Time = noon
		s = mustAppend(t, l, s, c)
		read := mustHead(t, newLog(t, m), nil)
		if diff := cmp.Diff(s, read, cmp.AllowUnexported(State{}, tableSet{}, table{}, base{}), cmp.FilterPath(func(p cmp.Path) bool {
			return p.Last().String() == ".extra" || p.Last().String() == ".entries" || p.Last().String() == ".Refs" || p.Last().String() == ".Condemned"
		}, cmp.Comparer(func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }))); diff != "" {
			t.Fatal(diff)
		}
	}

	step(Change{Head: "refs/heads/main", AddPacks: []Inline{inline(1, 3), inline(2, 1), inline(3, 1)}, AddIndexes: []File{indexFile(5), indexFile(4)}, Who: "Ann", Host: "attic"})
	if s.DefaultBranch != "refs/heads/main" || len(s.Packs) != 3 || len(s.Indexes) != 2 || s.Who != "Ann" || s.Host != "attic" || !s.Time.Equal(noon) {
		t.Errorf("%+v", s)
	}

	step(Change{Merged: []pack.Name{name(1), name(9)}, AddIndexes: []File{indexFile(6)}})
	if s.DefaultBranch != "refs/heads/main" || len(s.Packs) != 2 || len(s.Indexes) != 3 || s.Who != "" {
		t.Errorf("%+v", s)
	}

	step(Change{Condemn: []string{name(2).Path(), indexFile(5).Name.IndexPath(), name(7).Path()}})
	if len(s.Packs) != 1 || len(s.Indexes) != 2 || len(s.Condemned) != 3 || s.Condemned[name(7).Path()] != 3 || s.Floor != 0 {
		t.Errorf("%+v", s)
	}

	step(Change{Condemn: []string{name(8).Path()}})
	step(Change{Delist: []string{name(7).Path()}})
	if len(s.Condemned) != 3 || s.Floor != 3 {
		t.Errorf("%+v", s)
	}

	step(Change{Delist: []string{name(8).Path(), name(2).Path()}})
	if len(s.Condemned) != 1 || s.Floor != 4 {
		t.Errorf("%+v", s)
	}

	step(Change{Records: []record.Record{purge(1), purge(2)}})
	again := purge(2)
	again.Generation, again.On = 2, false
	step(Change{Records: []record.Record{again, purge(3)}})
	step(Change{Records: []record.Record{purge(2)}}) // from a writer that does not know the later generation

	if got, _ := s.Records.Get(record.Purge, again.Key); got != again || s.Records.Len() != 3 {
		t.Errorf("%+v of %d", got, s.Records.Len())
	}
	bad := purge(4)
	bad.Reason = "\x1b"
	if _, err := l.Append(ctx, s, Change{Time: noon, Records: []record.Record{bad}}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}

	before := fmt.Sprint(s.Refs, s.Condemned, s.Packs, s.Indexes)
	mustAppend(t, l, s, Change{Time: noon, Refs: many(3).Refs, Condemn: []string{name(3).Path()}, AddIndexes: []File{indexFile(8)}})
	if after := fmt.Sprint(s.Refs, s.Condemned, s.Packs, s.Indexes); after != before {
		t.Errorf("Append changed its base from %s to %s", before, after)
	}
	if got, want := InlineSize(s.Packs), len(m.Data(RootName(s.Seq))); got < 40 || got > want {
		t.Errorf("InlineSize = %d, want 40 to %d", got, want)
	}
}
