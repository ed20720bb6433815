package gc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/refs/record"
)

// versions stores commits of one text that changes, one upon the other, and
// makes the last one a root.
func (w *world) versions(n int) {
	w.Helper()
	ctx := context.Background()
	for range n {
		session := w.begin()
		tree := object.NewTreeWriter(session)
		text := w.version()
		id, err := session.Put(ctx, object.KindChunk, text)
		w.check(err)
		w.check(tree.Add(ctx, object.Entry{
			Name: "text", Type: object.TypeFile, Mode: 0o644, Size: uint64(len(text)), Content: object.Key{Kind: object.KindChunk, ID: id},
		}))
		var parents []object.ID
		if before, ok := w.roots["versions"]; ok {
			parents = append(parents, before.ID)
		}
		w.roots["versions"] = w.finish(session, tree, parents...)
		session.Close()
	}
}

// optimise collects all garbage, optimises, and wants all to be there that was
// needed.
func (w *world) optimise(o gc.PlanOptions) gc.Stats {
	w.Helper()
	o.Optimise = true
	st := w.collect(o)
	w.wantWhole()
	return st
}

// TestOptimise checks that versions take little once they are optimised, that
// nothing is done twice, and that later versions become differences too.
func TestOptimise(t *testing.T) {
	w := newWorld(t, 21)
	w.versions(20)
	dry, err := w.plan(gc.PlanOptions{Optimise: true, DryRun: true})
	w.check(err)
	planned := dry.Stats()
	dry.Close()
	st := w.optimise(gc.PlanOptions{})
	if st.Optimised != 20 || st.Optimised != planned.Optimised || st.OptimisedBytes != planned.OptimisedBytes || st.Patches < 15 || st.After > st.Before/3 {
		t.Errorf("first: %+v", st)
	}
	again := w.optimise(gc.PlanOptions{})
	if again.Optimised != 0 || again.Written != 0 || again.After != st.After {
		t.Errorf("again: %+v", again)
	}
	w.versions(5)
	more := w.optimise(gc.PlanOptions{})
	if more.Optimised != 6 || more.Patches < 20 || more.After > st.After+5*2500 {
		t.Errorf("five more: %+v, before them %d", more, st.After)
	}
	w.now = w.now.Add(time.Hour)
	plain := w.collect(gc.PlanOptions{PruneOlder: time.Minute})
	if w.wantWhole(); plain.After != more.After {
		t.Errorf("a collection without garbage: %+v", plain)
	}
}

// TestOptimiseGarbage checks that garbage in what is optimised is removed, at
// once or when it is old, and not kept young by being optimised again and again.
func TestOptimiseGarbage(t *testing.T) {
	w := newWorld(t, 22)
	w.versions(5)
	garbage := w.commit()
	const age = 10 * time.Hour
	for hour := range 16 {
		w.now = w.now.Add(time.Hour)
		w.versions(1)
		st := w.optimise(gc.PlanOptions{PruneOlder: age})
		if st.After > 42_000 { // 25,000 are what was there before, and what is garbage
			t.Errorf("after %d hours: %+v", hour+1, st)
		}
		if there, old := w.kept()[garbage], hour >= 9; there == old {
			t.Errorf("after %d hours, garbage is there: %v; %+v", hour+1, there, st)
		}
	}
	w.commit() // garbage
	st := w.optimise(gc.PlanOptions{})
	if reached := w.reached(); !maps.Equal(w.kept(), reached) || st.Live != int64(len(reached)) {
		t.Errorf("%d objects are needed, %d there: %+v", len(reached), len(w.kept()), st)
	}
	// Half of the versions go, what others are made from among them.
	old := st.After
	for key := range w.reached() {
		if key.Kind == object.KindCommit && w.rng.IntN(2) == 0 && key != w.roots["versions"] {
			w.said.Switch(record.Record{Kind: record.Expire, Key: key, On: true, Time: w.now})
		}
	}
	st = w.collect(gc.PlanOptions{})
	if w.wantWhole(); st.After > old+old/4 || st.Removed == 0 {
		t.Errorf("%d bytes, once half has expired: %+v", old, st)
	}
}

// TestOptimiseIdle checks what is left alone: what is young, if only what is idle
// is to be optimised, what is not enough, and what does not compress.
func TestOptimiseIdle(t *testing.T) {
	w := newWorld(t, 23)
	w.versions(6)
	for what, o := range map[string]gc.PlanOptions{
		"young": {Idle: true, PruneOlder: time.Hour}, "too little": {MinOptimise: 1 << 20},
	} {
		if st := w.optimise(o); st.Optimised != 0 {
			t.Errorf("%s: %+v", what, st)
		}
	}
	w.now = w.now.Add(2 * time.Hour)
	w.versions(1)
	if st := w.optimise(gc.PlanOptions{Idle: true, PruneOlder: time.Hour, MinOptimise: 1000}); st.Optimised != 6 {
		t.Errorf("six are old: %+v", st)
	}
	film := newWorld(t, 24)
	session := film.begin()
	defer session.Close()
	tree := object.NewTreeWriter(session)
	ctx := context.Background()
	for i := range 20 {
		id, err := session.Put(ctx, object.KindChunk, film.text(100_000))
		film.check(err)
		film.check(tree.Add(ctx, object.Entry{
			Name: fmt.Sprintf("film%02d", i), Type: object.TypeFile, Mode: 0o644, Size: 100_000, Content: object.Key{Kind: object.KindChunk, ID: id},
		}))
	}
	film.roots["film"] = film.finish(session, tree)
	if st := film.optimise(gc.PlanOptions{}); st.Optimised != 0 {
		t.Errorf("media: %+v", st)
	}
}

// TestOptimiseDamaged checks that nothing is removed if an object that is to be
// optimised is damaged.
func TestOptimiseDamaged(t *testing.T) {
	w := newWorld(t, 25)
	w.versions(3)
	before := w.kept()
	logs, err := filepath.Glob(filepath.Join(w.inVolumes(), "0*", "*.vlog"))
	w.check(err)
	data, err := os.ReadFile(logs[0])
	w.check(err)
	data[len(data)/2] ^= 1
	w.check(os.Chmod(logs[0], 0o644))
	w.check(os.WriteFile(logs[0], data, 0o644))
	w.reopen()
	p, err := w.plan(gc.PlanOptions{Optimise: true})
	if err == nil {
		err = p.Apply(context.Background())
		p.Close()
	}
	if err == nil {
		t.Fatal("no error")
	}
	data[len(data)/2] ^= 1
	w.check(os.WriteFile(logs[0], data, 0o644))
	os.Remove(filepath.Join(w.inVolumes(), "damaged"))
	w.reopen()
	if !maps.Equal(before, w.kept()) {
		t.Error("the store has changed")
	}
	w.wantWhole()
}

// storeAgain stores objects in one more volume, as if others were not there.
func (w *world) storeAgain(keys map[object.Key]bool) {
	w.Helper()
	other := &world{TB: w.TB, dir: w.TempDir(), now: w.now, names: w.names}
	other.reopen()
	session := other.begin()
	for key := range keys {
		data, err := w.store.Get(w.Context(), key)
		w.check(err)
		_, err = session.Put(w.Context(), key.Kind, data)
		w.check(err)
	}
	w.check(session.Close())
	w.check(os.CopyFS(w.inVolumes(), os.DirFS(other.inVolumes())))
	w.reopen()
}

// TestOptimisedCopies checks that objects of which an optimised volume has a
// copy and one that is not optimised another stay if both volumes go, whether
// they are needed or only young.
func TestOptimisedCopies(t *testing.T) {
	w := newWorld(t, 26)
	w.versions(1)
	first := w.roots["versions"]
	w.versions(5)
	half := w.roots["versions"]
	w.versions(6)
	w.optimise(gc.PlanOptions{})
	w.storeAgain(w.kept())
	w.roots["versions"] = half
	if st := w.collect(gc.PlanOptions{}); st.Rewritten != 2 {
		t.Errorf("not both were stored anew: %+v", st)
	}
	w.wantWhole()

	w.now = w.now.Add(2 * time.Hour)
	all := w.reached()
	w.roots["versions"] = first
	again := w.reached()
	var unneeded object.Key
	for key := range all {
		if key.Kind == object.KindChunk && !again[key] {
			unneeded = key
		}
	}
	again[unneeded] = true
	w.storeAgain(again)
	if st := w.optimise(gc.PlanOptions{PruneOlder: time.Hour}); st.Optimised != 2 {
		t.Errorf("not both were optimised: %+v", st)
	}
	if !w.kept()[unneeded] {
		t.Error("what is young is lost")
	}
}

// withBeside stores a commit of a file, and chunks beside it in the same volume.
func (w *world) withBeside(content []byte, beside ...[]byte) object.Key {
	w.Helper()
	session := w.begin()
	defer session.Close()
	var id object.ID
	for _, data := range append(beside, content) {
		var err error
		id, err = session.Put(w.Context(), object.KindChunk, data)
		w.check(err)
	}
	tree := object.NewTreeWriter(session)
	w.check(tree.Add(w.Context(), object.Entry{
		Name: "file", Type: object.TypeFile, Mode: 0o644, Size: uint64(len(content)), Content: object.Key{Kind: object.KindChunk, ID: id},
	}))
	return w.finish(session, tree)
}

// TestYoungCopy checks that what is young stays, if an old volume has it too, in
// which it is garbage, but the young one is optimised.
func TestYoungCopy(t *testing.T) {
	w := newWorld(t, 28)
	text := w.version()
	w.roots["film"] = w.withBeside(w.text(100_000), text)
	young := object.Key{Kind: object.KindChunk, ID: object.Sum(text)}
	w.now = w.now.Add(2 * time.Hour)
	w.versions(1)
	w.storeAgain(map[object.Key]bool{young: true, w.roots["versions"]: true})
	if st := w.optimise(gc.PlanOptions{PruneOlder: time.Hour, MaxWaste: 1}); st.Optimised != 2 || st.Rewritten != 0 {
		t.Errorf("%+v", st)
	}
	w.collect(gc.PlanOptions{PruneOlder: time.Hour})
	if !w.kept()[young] {
		t.Error("what is young is lost")
	}
}

// TestCopyAppears checks that a chunk is not lost of which another copy appears
// while it is found out what is needed, if both volumes go, one after the other.
func TestCopyAppears(t *testing.T) {
	w, other := newWorld(t, 29), newWorld(t, 30)
	text := w.version()
	chunk := object.Key{Kind: object.KindChunk, ID: object.Sum(text)}
	film := w.withBeside(w.text(100_000), text, w.text(50_000))
	late := other.withBeside(other.version(), text)
	appeared := false
	needs := func(context.Context) (gc.Needed, error) {
		if !appeared {
			w.check(os.CopyFS(w.inVolumes(), os.DirFS(other.inVolumes())))
			appeared = true
		}
		return gc.Needed{Roots: []gc.Root{{Key: chunk}, {Key: film}, {Key: late}}, Records: w.said.At(w.now)}, nil
	}
	p, err := gc.NewPlan(t.Context(), w.store, needs, gc.PlanOptions{Now: w.now, Optimise: true})
	w.check(err)
	w.check(p.Apply(t.Context()))
	p.Close()
	if st := p.Stats(); st.Rewritten != 1 || st.Optimised != 1 {
		t.Errorf("%+v", st)
	}
	if _, err := w.store.Get(t.Context(), chunk); err != nil {
		t.Error(err)
	}
}

// TestHealedBase checks that a version stays that only differences are made from,
// if it is damaged among them, and was stored once more.
func TestHealedBase(t *testing.T) {
	w := newWorld(t, 31)
	for _, name := range []string{"one", "another"} {
		w.roots[name] = w.withBeside(w.version())
	}
	w.optimise(gc.PlanOptions{})
	look, err := w.store.Inventory(t.Context())
	w.check(err)
	var base keys.Record
	for rec, err := range look.Keys(0, object.KindChunk) {
		w.check(err)
		if rec.Stored > base.Stored {
			base = rec
		}
	}
	data, err := w.store.Get(t.Context(), base.Key)
	w.check(err)
	path := filepath.Join(w.inVolumes(), look.Volume(0).Name, fmt.Sprintf("%06d.vlog", base.File))
	w.flip(path, int(base.Offset+base.Stored/2))
	w.store.Close()
	w.reopen()
	if _, err := w.store.Get(t.Context(), base.Key); !errors.Is(err, object.ErrCorrupt) {
		t.Fatal(err)
	}
	session := w.begin()
	defer session.Close()
	_, err = session.Put(t.Context(), object.KindChunk, data)
	w.check(err)
	w.check(session.Publish(t.Context(), func(context.Context) error { return nil }))
	w.check(session.Close())
	last := w.roots["another"]
	if delete(w.roots, "another"); w.reached()[base.Key] {
		w.roots["one"] = last
	}
	w.collect(gc.PlanOptions{MaxWaste: 1})
	w.store.Close()
	w.reopen()
	w.reached()
	w.collect(gc.PlanOptions{}) // what is damaged goes
	w.collect(gc.PlanOptions{})
	if w.wantWhole(); w.kept()[base.Key] {
		t.Error("it is there, and nothing is made from it")
	}
}

// flip changes a byte of a file.
func (w *world) flip(path string, offset int) {
	w.Helper()
	data, err := os.ReadFile(path)
	w.check(err)
	data[offset] ^= 0x55
	w.check(os.Chmod(path, 0o644))
	w.check(os.WriteFile(path, data, 0o444))
}

// TestStoppedOnTheWay checks that a commit is not there without what it refers to
// if a collection ends when some volumes are gone.
func TestStoppedOnTheWay(t *testing.T) {
	w := newWorld(t, 32)
	w.versions(1)
	commit := w.roots["versions"]
	w.now = w.now.Add(-time.Second) // the latest goes first
	w.storeAgain(map[object.Key]bool{commit: true})
	infos, err := w.store.Volumes(t.Context())
	w.check(err)
	mark := filepath.Join(w.inVolumes(), infos[1].Name, "TRASH") // cannot be written
	w.check(os.MkdirAll(filepath.Join(mark, "in the way"), 0o777))
	clear(w.roots)
	p, err := w.plan(gc.PlanOptions{})
	w.check(err)
	if err := p.Apply(t.Context()); err == nil {
		t.Fatal("all volumes could be removed")
	}
	p.Close()
	if infos, err = w.store.Volumes(t.Context()); len(infos) != 1 || infos[0].Objects != 1 || err != nil {
		t.Error("not the other volume was removed:", infos, err)
	}
	w.reopen()
	if w.kept()[commit] {
		t.Error("it is")
	}
	w.check(os.RemoveAll(mark))
	w.collect(gc.PlanOptions{})
	if size, err := w.store.Size(t.Context()); size != 0 || err != nil {
		t.Error(size, err)
	}
}
