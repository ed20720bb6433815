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

// versions stores n commits of a text that changes, each on the one before. It
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

// repack collects garbage, repacks, and checks the store.
func (w *world) repack(o gc.PlanOptions) gc.Stats {
	w.Helper()
	o.Repack = true
	st := w.collect(o)
	w.wantIntact()
	return st
}

// Repacking stores versions as patches, also later versions. A second collection
// changes nothing.
func TestRepack(t *testing.T) {
	w := newWorld(t, 21)
	w.versions(20)
	dry, err := w.plan(gc.PlanOptions{Repack: true, DryRun: true})
	w.check(err)
	planned := dry.Stats()
	dry.Close()
	st := w.repack(gc.PlanOptions{})
	if st.Repacked != 20 || st.Repacked != planned.Repacked || st.RepackedBytes != planned.RepackedBytes || st.Patches < 15 || st.After > st.Before/3 {
		t.Errorf("first collection: %+v, planned %+v", st, planned)
	}
	again := w.repack(gc.PlanOptions{})
	if again.Repacked != 0 || again.Written != 0 || again.After != st.After {
		t.Errorf("second collection: %+v, want no change", again)
	}
	w.versions(5)
	more := w.repack(gc.PlanOptions{})
	if more.Repacked != 6 || more.Patches < 20 || more.After > st.After+5*2500 {
		t.Errorf("with five more versions: %+v, before them %d bytes", more, st.After)
	}
	w.now = w.now.Add(time.Hour)
	plain := w.collect(gc.PlanOptions{PruneOlder: time.Minute})
	if w.wantIntact(); plain.After != more.After {
		t.Errorf("collection without garbage: %+v, want %d bytes after", plain, more.After)
	}
}

// Garbage in repacked volumes is removed when it is old enough. Repeated
// repacking does not keep it young.
func TestRepackGarbage(t *testing.T) {
	w := newWorld(t, 22)
	w.versions(5)

	garbage := w.commit()
	const age = 10 * time.Hour
	for hour := range 16 {
		w.now = w.now.Add(time.Hour)
		w.versions(1)
		st := w.repack(gc.PlanOptions{PruneOlder: age})
		if st.After > 42_000 { // with 25,000 of the first versions and the garbage
			t.Errorf("after %d hours: %+v, want at most 42000 bytes", hour+1, st)
		}
		if kept, old := w.kept()[garbage], hour >= 9; kept == old {
			t.Errorf("after %d hours, garbage is kept: %t; %+v", hour+1, kept, st)
		}
	}

	w.commit() // garbage
	st := w.repack(gc.PlanOptions{})
	if reached := w.reached(); !maps.Equal(w.kept(), reached) || st.Live != int64(len(reached)) {
		t.Errorf("%d objects are reachable, %d stored: %+v", len(reached), len(w.kept()), st)
	}

	// Half of the versions expire, among them bases of patches.
	old := st.After
	for key := range w.reached() {
		if key.Kind == object.KindCommit && w.rng.IntN(2) == 0 && key != w.roots["versions"] {
			w.records.Switch(record.Record{Kind: record.Expire, Key: key, On: true, Time: w.now})
		}
	}

	st = w.collect(gc.PlanOptions{})
	if w.wantIntact(); st.After > old+old/4 || st.Removed == 0 {
		t.Errorf("after half expired: %+v, before %d bytes", st, old)
	}
}

// Repacking skips young volumes if Idle is set, too few bytes, and content that
// does not compress.
func TestRepackIdle(t *testing.T) {
	w := newWorld(t, 23)
	w.versions(6)

	for name, o := range map[string]gc.PlanOptions{
		"young": {Idle: true, PruneOlder: time.Hour}, "too little": {MinRepack: 1 << 20},
	} {
		if st := w.repack(o); st.Repacked != 0 {
			t.Errorf("%s: %+v, want nothing repacked", name, st)
		}
	}

	w.now = w.now.Add(2 * time.Hour)
	w.versions(1)
	if st := w.repack(gc.PlanOptions{Idle: true, PruneOlder: time.Hour, MinRepack: 1000}); st.Repacked != 6 {
		t.Errorf("Idle: %+v, want the six old volumes repacked", st)
	}

	film := newWorld(t, 24)
	session := film.begin()
	defer session.Close()

	tree := object.NewTreeWriter(session)
	ctx := context.Background()
	for i := range 20 {
		id, err := session.Put(ctx, object.KindChunk, film.noise(100_000))
		film.check(err)
		film.check(tree.Add(ctx, object.Entry{
			Name: fmt.Sprintf("film%02d", i), Type: object.TypeFile, Mode: 0o644, Size: 100_000, Content: object.Key{Kind: object.KindChunk, ID: id},
		}))
	}

	film.roots["film"] = film.finish(session, tree)
	if st := film.repack(gc.PlanOptions{}); st.Repacked != 0 {
		t.Errorf("media: %+v, want nothing repacked", st)
	}
}

// Nothing is removed if an object to repack is damaged.
func TestRepackDamaged(t *testing.T) {
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
	p, err := w.plan(gc.PlanOptions{Repack: true})
	if err == nil {
		err = p.Apply(context.Background())
		p.Close()
	}
	if err == nil {
		t.Fatal("no error with a damaged object")
	}
	data[len(data)/2] ^= 1
	w.check(os.WriteFile(logs[0], data, 0o644))
	os.Remove(filepath.Join(w.inVolumes(), "damaged"))
	w.reopen()
	if !maps.Equal(before, w.kept()) {
		t.Error("the store has changed")
	}
	w.wantIntact()
}

// storeAgain stores copies of objects in a new volume.
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

// Objects with copies in a repacked and in a plain volume stay if gc removes
// both volumes. Some of the objects are live, and one is only young.
func TestRepackCopies(t *testing.T) {
	w := newWorld(t, 26)
	w.versions(1)
	first := w.roots["versions"]
	w.versions(5)
	half := w.roots["versions"]
	w.versions(6)
	w.repack(gc.PlanOptions{})
	w.storeAgain(w.kept())
	w.roots["versions"] = half
	if st := w.collect(gc.PlanOptions{}); st.Rewritten != 2 {
		t.Errorf("%+v, want both volumes rewritten", st)
	}
	w.wantIntact()

	w.now = w.now.Add(2 * time.Hour)
	all := w.reached()
	w.roots["versions"] = first
	again := w.reached()
	var young object.Key // unreachable
	for key := range all {
		if key.Kind == object.KindChunk && !again[key] {
			young = key
		}
	}
	again[young] = true
	w.storeAgain(again)
	if st := w.repack(gc.PlanOptions{PruneOlder: time.Hour}); st.Repacked != 2 {
		t.Errorf("%+v, want both volumes repacked", st)
	}
	if !w.kept()[young] {
		t.Error("the young object is missing")
	}
}

// withBeside stores a commit of a file, and more chunks in the same volume.
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

// A young object stays if its young volume is repacked, although an old volume
// has a copy: the copy is garbage there.
func TestYoungCopy(t *testing.T) {
	w := newWorld(t, 28)
	text := w.version()
	w.roots["film"] = w.withBeside(w.noise(100_000), text)
	young := object.Key{Kind: object.KindChunk, ID: object.Sum(text)}
	w.now = w.now.Add(2 * time.Hour)
	w.versions(1)
	w.storeAgain(map[object.Key]bool{young: true, w.roots["versions"]: true})
	if st := w.repack(gc.PlanOptions{PruneOlder: time.Hour, MaxWaste: 1}); st.Repacked != 2 || st.Rewritten != 0 {
		t.Errorf("%+v, want two volumes repacked and none rewritten", st)
	}
	w.collect(gc.PlanOptions{PruneOlder: time.Hour})
	if !w.kept()[young] {
		t.Error("the young object is missing")
	}
}

// A chunk stays if a second copy appears while gc marks, and gc then removes both
// volumes one after the other.
func TestCopyAppears(t *testing.T) {
	w, other := newWorld(t, 29), newWorld(t, 30)
	text := w.version()
	chunk := object.Key{Kind: object.KindChunk, ID: object.Sum(text)}
	film := w.withBeside(w.noise(100_000), text, w.noise(50_000))
	late := other.withBeside(other.version(), text)
	appeared := false
	needs := func(context.Context) (gc.Needed, error) {
		if !appeared {
			w.check(os.CopyFS(w.inVolumes(), os.DirFS(other.inVolumes())))
			appeared = true
		}
		return gc.Needed{Roots: []gc.Root{{Key: chunk}, {Key: film}, {Key: late}}, Records: w.records.At(w.now)}, nil
	}
	p, err := gc.NewPlan(t.Context(), w.store, needs, gc.PlanOptions{Now: w.now, Repack: true})
	w.check(err)
	w.check(p.Apply(t.Context()))
	p.Close()
	if st := p.Stats(); st.Rewritten != 1 || st.Repacked != 1 {
		t.Errorf("%+v, want one volume rewritten and one repacked", st)
	}
	if _, err := w.store.Get(t.Context(), chunk); err != nil {
		t.Error(err)
	}
}

// An unreachable object stays as long as a live patch needs it as its base. Here
// the base is damaged in the patch's volume, but another volume has it intact.
func TestHealedBase(t *testing.T) {
	w := newWorld(t, 31)
	for _, name := range []string{"one", "another"} {
		w.roots[name] = w.withBeside(w.version())
	}
	w.repack(gc.PlanOptions{})
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
		t.Fatalf("the base: error %v, want ErrCorrupt", err)
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
	w.collect(gc.PlanOptions{}) // removes the damaged base
	w.collect(gc.PlanOptions{})
	if w.wantIntact(); w.kept()[base.Key] {
		t.Error("the base is still stored, although no patch needs it")
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

// If a collection stops after it removed some volumes, no commit is left without
// its objects.
func TestStoppedOnTheWay(t *testing.T) {
	w := newWorld(t, 32)
	w.versions(1)
	commit := w.roots["versions"]
	w.now = w.now.Add(-time.Second) // gc removes the newest volume first
	w.storeAgain(map[object.Key]bool{commit: true})
	infos, err := w.store.Volumes(t.Context())
	w.check(err)
	mark := filepath.Join(w.inVolumes(), infos[1].Name, "TRASH") // gc cannot write this file
	w.check(os.MkdirAll(filepath.Join(mark, "in the way"), 0o777))
	clear(w.roots)
	p, err := w.plan(gc.PlanOptions{})
	w.check(err)

	if err := p.Apply(t.Context()); err == nil {
		t.Fatal("gc removed all volumes, want an error")
	}
	p.Close()
	if infos, err = w.store.Volumes(t.Context()); len(infos) != 1 || infos[0].Objects != 1 || err != nil {
		t.Errorf("volumes %+v, error %v; want only the copy of the commit", infos, err)
	}

	w.reopen()
	if w.kept()[commit] {
		t.Error("the commit is still stored, without its tree")
	}

	w.check(os.RemoveAll(mark))
	w.collect(gc.PlanOptions{})
	if size, err := w.store.Size(t.Context()); size != 0 || err != nil {
		t.Errorf("store has %d bytes, error %v; want 0", size, err)
	}
}
