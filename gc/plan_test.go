package gc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
)

// A world is a store with its gc roots and records.
type world struct {
	testing.TB
	dir     string
	store   *volume.Store
	rng     *rand.Rand
	roots   map[string]object.Key
	records record.Set
	now     time.Time
	names   io.Reader // random numbers for the names of volumes
	lines   []string  // of the text that version changes
}

func newWorld(t testing.TB, seed uint64) *world {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	w := &world{
		TB: t, dir: t.TempDir(), rng: rand.New(rand.NewPCG(seed, 7)), roots: map[string]object.Key{},
		now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), names: &lockedReader{r: rand.NewChaCha8(key)},
	}
	w.reopen()
	return w
}

// A lockedReader is safe for concurrent use.
type lockedReader struct {
	mu sync.Mutex
	r  io.Reader
}

func (l *lockedReader) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(p)
}

func (w *world) reopen() {
	store, err := volume.Open(w.dir, volume.Options{Now: func() time.Time { return w.now }, Rand: w.names, Warn: func(s string) { w.Log("warning:", s) }})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { store.Close() })
	w.store = store
}

func (w *world) inVolumes() string { return filepath.Join(w.dir, "volumes") }

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// noise returns n random bytes.
func (w *world) noise(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(w.rng.Uint32())
	}
	return data
}

// version returns a text that differs a little from the last one.
func (w *world) version() []byte {
	for len(w.lines) < 200 {
		w.lines = append(w.lines, fmt.Sprintf("line %x\n", w.noise(20)))
	}
	for range 1 + w.rng.IntN(4) {
		w.lines[w.rng.IntN(len(w.lines))] = fmt.Sprintf("changed to %x\n", w.noise(10))
	}
	return []byte(strings.Join(w.lines, ""))
}

// commit stores a commit of some files. Some contents may be those of others.
func (w *world) commit(parents ...object.ID) object.Key {
	w.Helper()
	ctx := context.Background()
	session := w.begin()
	defer session.Close()
	tree := object.NewTreeWriter(session)
	for i := range 1 + w.rng.IntN(5) {
		text := w.noise(50 + w.rng.IntN(20_000))
		switch w.rng.IntN(4) {
		case 0, 1:
			text = w.version()
		case 2:
			text = fmt.Appendf(nil, "one of a few texts that are stored by many commits, number %d", w.rng.IntN(9))
		}
		id, err := session.Put(ctx, object.KindChunk, text)
		w.check(err)
		w.check(tree.Add(ctx, object.Entry{
			Name: fmt.Sprintf("file%d", i), Type: object.TypeFile, Mode: 0o644, Size: uint64(len(text)),
			Content: object.Key{Kind: object.KindChunk, ID: id},
		}))
	}
	return w.finish(session, tree, parents...)
}

func (w *world) begin() *volume.Session { return w.store.Begin(volume.SessionOptions{}) }

// finish stores a commit of a tree.
func (w *world) finish(session *volume.Session, tree *object.TreeWriter, parents ...object.ID) object.Key {
	w.Helper()
	ctx := context.Background()
	root, err := tree.Finish(ctx)
	w.check(err)
	who := object.Stamp{Name: "Anna", Time: object.TimeOf(w.now)}
	c := &object.Commit{Tree: root, Parents: parents, Author: who, Committer: who, Message: fmt.Sprint(w.rng.Uint64())}
	data, err := c.Encode()
	w.check(err)
	id, err := session.Put(ctx, object.KindCommit, data)
	w.check(err)
	w.check(session.Publish(ctx, func(context.Context) error { return nil }))
	return object.Key{Kind: object.KindCommit, ID: id}
}

// needs implements [gc.Needs].
func (w *world) needs(context.Context) (gc.Needed, error) {
	needed := gc.Needed{Records: w.records.At(w.now)}
	for name, key := range w.roots {
		needed.Roots = append(needed.Roots, gc.Root{Name: name, Key: key})
	}
	return needed, nil
}

func (w *world) plan(o gc.PlanOptions) (*gc.Plan, error) {
	o.Now = w.now
	p, err := gc.NewPlan(context.Background(), w.store, w.needs, o)
	if err == nil {
		w.Cleanup(p.Close)
	}
	return p, err
}

// collect applies a plan, checks its statistics and returns them.
func (w *world) collect(o gc.PlanOptions) gc.Stats {
	w.Helper()
	p, err := w.plan(o)
	w.check(err)
	planned := p.Stats()
	w.check(p.Apply(context.Background()))
	p.Close()
	if did := p.Stats(); did.Removed != planned.Removed || did.Live != planned.Live || did.Rewritten != planned.Rewritten || did.Deleted != planned.Deleted || did.Repacked != planned.Repacked {
		w.Errorf("planned %+v, did %+v", planned, did)
	} else if size, err := w.store.Size(context.Background()); err != nil || size != did.After {
		w.Errorf("the store has %d bytes, error %v; Apply reported %+v", size, err, did)
	} else if off := did.After - planned.After; did.Repacked == 0 && max(off, -off) > 20_000+planned.After/20 {
		w.Errorf("planned %d bytes after, got %d: %+v", planned.After, did.After, did)
	}
	return p.Stats()
}

// reached returns the objects that the roots reach and no record excludes.
func (w *world) reached() map[object.Key]bool {
	w.Helper()
	records := w.records.At(w.now)
	reached := map[object.Key]bool{}
	queue := slices.Collect(maps.Values(w.roots))
	for len(queue) > 0 {
		key := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if reached[key] {
			continue
		}
		reached[key] = true
		data, err := w.store.Get(context.Background(), key)
		w.check(err)
		if key.Kind.IsNode() {
			links, err := object.Links(key.Kind, data)
			w.check(err)
			for _, link := range links {
				if !records.Skips(key, link) {
					queue = append(queue, link)
				}
			}
		}
	}
	return reached
}

// kept returns the objects in the store.
func (w *world) kept() map[object.Key]bool {
	w.Helper()
	kept := map[object.Key]bool{}
	for key, err := range w.store.Keys(context.Background()) {
		w.check(err)
		kept[key] = true
	}
	return kept
}

// changeRecords switches random records of reachable commits and chunks. Like
// the commands, it never makes missing content live.
func (w *world) changeRecords() {
	w.Helper()
	reached := w.reached()
	var commits, chunks []object.Key
	for key := range reached {
		switch key.Kind {
		case object.KindCommit:
			commits = append(commits, key)
		case object.KindChunk:
			chunks = append(chunks, key)
		}
	}
	slices.SortFunc(commits, object.Key.Compare)
	slices.SortFunc(chunks, object.Key.Compare)
	if len(commits) == 0 {
		return
	}
	for _, kind := range []record.Kind{record.Expire, record.Expire, record.Hold} {
		key := commits[w.rng.IntN(len(commits))]
		old, _ := w.records.Get(kind, key)
		if old.On == (kind == record.Expire) && !w.hasContent(key) {
			continue
		}
		w.records.Switch(record.Record{Kind: kind, Key: key, On: !old.On, Time: w.now})
	}
	if len(chunks) > 0 && w.rng.IntN(2) == 0 {
		w.records.Switch(record.Record{Kind: record.Purge, Key: chunks[w.rng.IntN(len(chunks))], On: true, Time: w.now})
	}
}

// hasContent reports whether the content of a commit is present, also of an
// expired one. Purged content may be missing.
func (w *world) hasContent(key object.Key) bool {
	w.Helper()
	purged := w.records.At(w.now)
	queue := []object.Key{key}
	for len(queue) > 0 {
		key := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		data, err := w.store.Get(context.Background(), key)
		if errors.Is(err, object.ErrNotFound) {
			return false
		}
		w.check(err)
		if !key.Kind.IsNode() {
			continue
		}
		links, err := object.Links(key.Kind, data)
		w.check(err)
		for _, link := range links {
			if link.Kind != object.KindCommit && !purged.Skips(object.Key{}, link) {
				queue = append(queue, link)
			}
		}
	}
	return true
}

// wantIntact checks that all reachable objects are present, and that every
// stored commit is intact.
func (w *world) wantIntact() {
	w.Helper()
	reached, kept := w.reached(), w.kept()
	for key := range reached {
		if !kept[key] {
			w.Fatalf("the reachable %s is missing", key)
		}
	}
	var roots []gc.Root
	for key := range kept {
		if key.Kind == object.KindCommit {
			roots = append(roots, gc.Root{Name: "store", Key: key})
		}
	}
	report, err := gc.Verify(context.Background(), w.store, roots, gc.VerifyOptions{
		Volumes: volume.CheckOptions{ReadData: true}, Records: w.records.At(w.now),
	})
	w.check(err)
	for _, p := range report.Problems {
		if p.Key.Kind != object.KindCommit { // commits of this test have no totals
			w.Errorf("verify: %v", p)
		}
	}
}

// Collections with random options keep all reachable objects. A final one, of all
// garbage, leaves no other objects.
func TestCollect(t *testing.T) {
	w := newWorld(t, 1)
	for round := range 25 {
		for range 1 + w.rng.IntN(4) {
			var parents []object.ID
			if names := slices.Sorted(maps.Keys(w.roots)); len(names) > 0 && w.rng.IntN(2) == 0 {
				parents = append(parents, w.roots[names[w.rng.IntN(len(names))]].ID)
			}
			w.roots[fmt.Sprintf("branch%d", w.rng.IntN(8))] = w.commit(parents...)
		}

		for _, name := range slices.Sorted(maps.Keys(w.roots)) {
			if w.rng.IntN(6) == 0 {
				delete(w.roots, name)
			}
		}

		w.changeRecords()
		w.now = w.now.Add(time.Hour)
		w.collect(gc.PlanOptions{
			MaxWaste:   []float64{0, 0.05, 0.3, 1}[w.rng.IntN(4)],
			PruneOlder: []time.Duration{0, 90 * time.Minute, 5 * time.Hour}[w.rng.IntN(3)],
			Repack:     w.rng.IntN(3) == 0,
			Idle:       w.rng.IntN(3) == 0,
		})

		if w.wantIntact(); t.Failed() {
			t.Fatalf("round %d failed", round)
		}
		if round%8 == 7 {
			w.reopen()
		}
	}

	st := w.collect(gc.PlanOptions{})
	reached, kept := w.reached(), w.kept()
	if !maps.Equal(reached, kept) || st.Live != int64(len(reached)) {
		t.Errorf("%d objects are reachable, %d stored; %+v", len(reached), len(kept), st)
	}

	clear(w.roots)
	if st := w.collect(gc.PlanOptions{}); len(w.kept()) > 0 || st.After != 0 || st.Live != 0 {
		t.Errorf("without roots: %d objects stored, %+v; want none", len(w.kept()), st)
	}
}

// A collection leaves about MaxWaste of garbage at most. It rewrites no volume
// while there is less.
func TestMaxWaste(t *testing.T) {
	w := newWorld(t, 2)
	for i := range 12 {
		w.roots[fmt.Sprint(i)] = w.commit()
	}
	clean := w.collect(gc.PlanOptions{MaxWaste: 0.05})
	if clean.Removed != 0 || clean.Rewritten+clean.Deleted != 0 || clean.Before != clean.After {
		t.Errorf("without garbage: %+v, want no change", clean)
	}
	delete(w.roots, "3")
	if st := w.collect(gc.PlanOptions{PruneOlder: time.Hour}); st.Removed != 0 {
		t.Errorf("young garbage: %+v, want it kept", st)
	}
	w.now = w.now.Add(2 * time.Hour)
	if st := w.collect(gc.PlanOptions{PruneOlder: time.Hour, MaxWaste: 1}); st.Rewritten != 0 || st.Before-st.After > st.Before/2 {
		t.Errorf("with MaxWaste 1: %+v, want no volume rewritten", st)
	}
	w.wantIntact()
	for i := range 9 {
		delete(w.roots, fmt.Sprint(i))
	}
	st := w.collect(gc.PlanOptions{MaxWaste: 0.05})
	exact := w.collect(gc.PlanOptions{})
	if waste := st.After - exact.After; float64(waste) > 0.1*float64(exact.After)+5000 {
		t.Errorf("%+v leaves %d bytes of garbage", st, waste)
	}
	w.wantIntact()
}

// Objects that become reachable after the plan was made are kept.
func TestUsedAgain(t *testing.T) {
	w := newWorld(t, 3)
	w.roots["one"] = w.commit()
	reused := w.commit(w.commit().ID)
	garbage := w.commit()
	p, err := w.plan(gc.PlanOptions{})
	w.check(err)
	w.roots["reused"] = reused
	late := w.commit(reused.ID)
	w.roots["late"] = late
	w.check(p.Apply(context.Background()))
	p.Close()
	w.wantIntact()
	if kept := w.kept(); !kept[reused] || !kept[late] || kept[garbage] {
		t.Errorf("kept reused %t, late %t, garbage %t; want true, true, false", kept[reused], kept[late], kept[garbage])
	}
	w.collect(gc.PlanOptions{})
	w.wantIntact()
}

// A dry run changes nothing, and no other plan can be made meanwhile.
func TestDryRun(t *testing.T) {
	w := newWorld(t, 4)
	w.roots["one"] = w.commit()
	w.commit()
	before := w.kept()
	p, err := w.plan(gc.PlanOptions{DryRun: true})
	w.check(err)
	if st := p.Stats(); st.Removed == 0 || st.After >= st.Before {
		t.Errorf("plan: %+v, want garbage to remove", st)
	}
	if _, err := w.plan(gc.PlanOptions{}); !errors.Is(err, disk.ErrBusy) {
		t.Errorf("second plan: error %v, want ErrBusy", err)
	}
	p.Close()
	if !maps.Equal(before, w.kept()) {
		t.Error("the store has changed")
	}
}

// The volume of a killed command is counted, and removed once it is old enough.
func TestInterruptedWrite(t *testing.T) {
	w := newWorld(t, 12)
	w.roots["one"] = w.commit()
	ctx := context.Background()
	session := w.begin()
	const size = 5 << 20
	for range 10 {
		_, err := session.Put(ctx, object.KindChunk, w.noise(size/10))
		w.check(err)
	}
	// Save the files that a kill would leave now. They are restored below.
	tmp, err := filepath.Glob(filepath.Join(w.inVolumes(), "tmp-*[^k]"))
	if err != nil || len(tmp) != 1 {
		t.Fatalf("temporary folders %q, error %v; want one", tmp, err)
	}
	log, err := os.Open(filepath.Join(tmp[0], "000001.vlog"))
	w.check(err)
	left, err := io.ReadAll(io.LimitReader(log, size)) // the file is sparse, and large
	w.check(errors.Join(err, log.Close(), session.Close()))
	w.collect(gc.PlanOptions{})
	w.check(os.Mkdir(tmp[0], 0o777))
	w.check(os.WriteFile(log.Name(), left, 0o666))

	const least = size * 3 / 4 // the last objects were not written yet
	plan := func(o gc.PlanOptions) gc.Stats {
		t.Helper()
		o.DryRun = true
		p, err := w.plan(o)
		w.check(err)
		p.Close()
		if st := p.Stats(); st.Salvaged != 1 || st.Before < least {
			t.Errorf("dry run: %+v, want the volume counted and salvaged", st)
		}
		return p.Stats()
	}
	if st := plan(gc.PlanOptions{}); st.Before-st.After < least {
		t.Errorf("dry run for any age: %+v, want the volume removed", st)
	}
	if st := plan(gc.PlanOptions{PruneOlder: time.Hour}); st.After < least {
		t.Errorf("dry run for old volumes: %+v, want the volume kept", st)
	}
	if st := w.collect(gc.PlanOptions{PruneOlder: time.Hour}); st.Salvaged != 1 || st.After < least {
		t.Errorf("first collection: %+v, want the volume salvaged and kept", st)
	}
	w.now = w.now.Add(2 * time.Hour)
	if st := w.collect(gc.PlanOptions{PruneOlder: time.Hour}); st.Salvaged != 0 || st.Before-st.After < least {
		t.Errorf("second collection: %+v, want the volume removed", st)
	}
	w.wantIntact()
}

// Nothing is removed if a reachable object, or a file that lists objects, is
// missing or damaged.
func TestDamaged(t *testing.T) {
	w := newWorld(t, 5)
	w.roots["one"] = w.commit()
	w.commit()
	before := w.kept()
	refused := func(name string) {
		t.Helper()
		var damage *gc.NeededError
		p, err := w.plan(gc.PlanOptions{})
		if err == nil {
			err = p.Apply(context.Background())
			p.Close()
		}
		if !errors.As(err, &damage) && !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: error %v, want damage", name, err)
		}
	}
	w.roots["gone"] = object.Key{Kind: object.KindCommit, ID: object.Sum([]byte("none"))}
	refused("missing root")
	delete(w.roots, "gone")
	if !maps.Equal(before, w.kept()) {
		t.Error("the store has changed")
	}

	p, err := w.plan(gc.PlanOptions{})
	w.check(err)
	one := w.roots["one"]
	w.roots["one"] = object.Key{Kind: object.KindCommit, ID: object.Sum([]byte("none"))}
	if err := p.Apply(context.Background()); !errors.Is(err, object.ErrCorrupt) {
		t.Errorf("root is missing at Apply: error %v, want ErrCorrupt", err)
	}
	p.Close()
	w.roots["one"] = one
	if !maps.Equal(before, w.kept()) {
		t.Error("the store has changed")
	}

	spoil := func(pattern string) (undo func()) {
		found, err := filepath.Glob(filepath.Join(w.inVolumes(), "0*", pattern))
		w.check(err)
		old := map[string][]byte{}
		for _, path := range found {
			data, err := os.ReadFile(path)
			w.check(err)
			old[path] = slices.Clone(data)
			for i := range data {
				data[i] ^= 0x10
			}
			w.check(os.Chmod(path, 0o644))
			w.check(os.WriteFile(path, data, 0o644))
		}
		w.reopen()
		return func() {
			for path, data := range old {
				w.check(os.WriteFile(path, data, 0o644))
			}
			w.reopen()
		}
	}
	for _, pattern := range []string{"*.vlog", "KEYS", "SEAL"} {
		undo := spoil(pattern)
		refused(pattern)
		undo()
		if !maps.Equal(before, w.kept()) {
			t.Errorf("%s: the store has changed", pattern)
		}
	}
	os.Remove(filepath.Join(w.inVolumes(), "damaged"))
	w.reopen()
	w.collect(gc.PlanOptions{})
	w.wantIntact()
}

// A dropped object does not count as live, even if its volume is too young to
// be rewritten.
func TestDroppedIsNotLive(t *testing.T) {
	w := newWorld(t, 34)
	text := w.version()
	commit := w.withBeside(text)
	w.roots["chunk"] = object.Key{Kind: object.KindChunk, ID: object.Sum(text)}
	w.commit() // garbage in a volume that gc deletes
	w.collect(gc.PlanOptions{MaxWaste: 1})
	if w.kept()[commit] {
		t.Fatal("the unreachable commit was not dropped")
	}
	for _, repack := range []bool{false, true} {
		st := w.collect(gc.PlanOptions{PruneOlder: time.Hour, MaxWaste: 1, Repack: repack})
		if n := len(w.kept()); st.Live != int64(n) {
			t.Errorf("%d objects are stored: %+v", n, st)
		}
	}
}
