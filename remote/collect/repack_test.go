package collect_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// repacked is atOnce with repacking.
var repacked = collect.Options{Repack: true}

// writer pushes versions of texts.
type writer struct {
	*transfertest.Pusher
	rng   *rand.Rand
	texts map[string]string
	tip   []object.ID

	branch string
}

func newWriter(t testing.TB, b remote.Backend, seed uint64) *writer {
	w := &writer{Pusher: transfertest.NewPusher(t, b), rng: rand.New(rand.NewPCG(seed, 7)), texts: map[string]string{}, branch: "main"}
	for i := range 8 {
		w.texts[fmt.Sprint("text", i)] = w.words(1000)
	}
	return w
}

func (w *writer) words(n int) string {
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "%d%c", w.rng.IntN(100_000), "\n  ,"[w.rng.IntN(4)])
	}
	return b.String()
}

// version pushes a commit with small changes in some of the texts.
func (w *writer) version() {
	w.T.Helper()
	for name, text := range w.texts {
		if w.rng.IntN(2) == 0 {
			at := w.rng.IntN(len(text))
			w.texts[name] = text[:at] + w.words(5) + text[at:]
		}
	}
	w.tip = []object.ID{w.MakeCommit(w.MakeTree(w.texts, nil), w.tip...)}
	w.MustPush(w.branch, w.tip[0])
}

// wantTip checks that the remote is intact and that main, its only branch, is at the last
// commit.
func (w *writer) wantTip(b *remotetest.Memory) {
	w.T.Helper()
	transfertest.WantIntact(w.T, b, map[string]object.ID{"main": w.tip[0]})
}

// packsOf returns the sizes of the repacked packs in a store, and of the other ones, by
// name.
func packsOf(t testing.TB, b *remotetest.Memory) (repacked, others map[string]int64) {
	t.Helper()
	r, err := transfertest.OpenTest(t, b, "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Head(t.Context()); err != nil {
		t.Fatal(err)
	}

	repacked, others = map[string]int64{}, map[string]int64{}
	for _, name := range b.Names("packs/") {
		info, err := b.Stat(t.Context(), name)
		if err == nil {
			info.Size, err = remote.PlainSize(t.Context(), r.Backend(), info)
		}
		if err != nil {
			t.Fatal(err)
		}
		id, err := pack.ParseName(name[len(name)-32:])
		if err != nil {
			t.Fatal(err)
		}
		is, err := pack.IsRepacked(pack.Info{Name: id, Size: uint32(info.Size)}, func(p []byte, off int64) (int, error) {
			return r.Backend().Get(t.Context(), name, p, off)
		})
		if err != nil {
			t.Fatal(err)
		}
		if is {
			repacked[name] = info.Size
		} else {
			others[name] = info.Size
		}
	}
	return repacked, others
}

// TestRepack checks that repacked versions take little space and are not repacked twice.
// Later versions become patches, too.
func TestRepack(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	w := newWriter(t, b, 1)
	w.KeepSmall = true

	for range 20 {
		w.version()
	}
	w.MustPush("film", w.MakeMany(1, 500)) // not compressible
	_, before := packsOf(t, b)
	r, err := transfertest.OpenTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	b.ResetCounts()
	c, err := collect.PlanGarbage(t.Context(), r, w.Local, collect.Options{Repack: true, DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	plan := c.Stats()
	c.Close()

	if n := b.Calls(remotetest.Put) + b.Calls(remotetest.Create) + b.Calls(remotetest.Delete); n > 0 {
		t.Errorf("the plan made %d calls that write", n)
	}
	st := transfertest.MustCollect(t, b, repacked)
	if st.Repacked != 41 || st.Repacked != plan.Repacked || st.RepackedBytes != plan.RepackedBytes || st.Rewritten != 0 ||
		st.Patches < 80 {
		t.Errorf("planned %+v\n   done %+v", plan, st)
	}

	transfertest.WantIntact(t, b, nil)
	after, others := packsOf(t, b)
	if len(after) != 2 || len(others) != 1 || st.Written != 2 {
		t.Errorf("%d packs are repacked, %d are not, want 2 and 1; %d before", len(after), len(others), len(before))
	}

	size := int64(0)
	for _, n := range after {
		size += n
	}
	if size > st.RepackedBytes/3 {
		t.Errorf("%d bytes became %d", st.RepackedBytes, size)
	}

	for range 2 {
		transfertest.MustCollect(t, b, repacked)
	}
	b.ResetCounts()

	for _, o := range []collect.Options{repacked, transfertest.AtOnce} {
		if st := transfertest.MustCollect(t, b, o); st.Repacked+st.Rewritten+st.Condemned > 0 || b.Calls(remotetest.Create)+b.Calls(remotetest.Put) > 0 {
			t.Errorf("collection without garbage: %+v", st)
		}
	}

	size = st.After
	for range 5 {
		w.version()
	}
	st = transfertest.MustCollect(t, b, repacked)
	if st.Repacked != 12 || st.After > size+30_000 {
		t.Errorf("after five more versions: %+v, %d bytes before them", st, size)
	}

	transfertest.WantIntact(t, b, nil)
	if st = transfertest.MustCollect(t, b, repacked); st.Repacked != 0 {
		t.Errorf("the next collection: %+v", st)
	}
}

// TestCollectRepacked collects garbage in repacked packs. The new packs are repacked, too.
// A patch with an unreachable base becomes a patch of another object.
func TestCollectRepacked(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	w := newWriter(t, b, 2)
	for range 5 {
		w.version()
	}
	fork := w.tip
	w.branch = "side"

	for range 10 {
		w.version()
	}
	w.tip, w.branch = fork, "main"
	w.texts["new"] = w.words(200)

	for range 3 {
		w.version()
	}
	first := transfertest.MustCollect(t, b, repacked)
	transfertest.WantIntact(t, b, nil)
	transfertest.NewCollector(t, b).DeleteBranch("side")

	st := transfertest.MustCollect(t, b, transfertest.AtOnce)
	if st.Repacked != 0 || st.Rewritten != 2 || st.Removed < 20 || st.After >= first.After || st.Patches < 30 {
		t.Errorf("collection: %+v, the one before: %+v", st, first)
	}
	if is, others := packsOf(t, b); len(is) != 2 || len(others) != 0 {
		t.Errorf("%d packs are repacked, %d are not, want 2 and 0", len(is), len(others))
	}

	w.wantTip(b)
	w.version()
	w.wantTip(b)
}

// TestRepackMany repacks more data than fits into one pack.
func TestRepackMany(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow")
	}
	b := transfertest.NewRemote(t)
	w := newWriter(t, b, 3)
	for i := range 44 {
		w.texts[fmt.Sprint("long", i)] = objecttest.Noise(i, 800<<10) + strings.Repeat(" ", 300<<10)
	}
	for range 3 {
		w.version()
	}
	st := transfertest.MustCollect(t, b, repacked)
	if st.Written < 3 || st.Patches < 50 || st.After > st.Before*2/3 {
		t.Errorf("collection: %+v", st)
	}
	w.wantTip(b)
	if st := transfertest.MustCollect(t, b, repacked); st.Repacked != 0 {
		t.Errorf("the next collection: %+v", st)
	}
}

// TestRepackBesidePush checks that a planned repacking still holds after a push by another
// process, but not after another collection.
func TestRepackBesidePush(t *testing.T) {
	t.Parallel()
	for _, deletes := range []bool{false, true} {
		b := transfertest.NewRemote(t)
		w := newWriter(t, b, 4)
		for range 10 {
			w.version()
		}
		w.MustPush("side", w.MakeGrown(1))
		r, err := transfertest.OpenTest(t, b, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}

		c, err := collect.PlanGarbage(t.Context(), r, nil, repacked)
		if err != nil {
			t.Fatal(err)
		}
		w.version()
		if deletes { // another collection is first
			transfertest.NewCollector(t, b).DeleteBranch("side")
			transfertest.MustCollect(t, b, repacked)
		}

		if err := c.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		st := c.Stats()
		c.Close()
		if want := map[bool]int{false: 21, true: 0}[deletes]; st.Repacked != want {
			t.Errorf("deletes %v: %+v, want %d repacked", deletes, st, want)
		}
		transfertest.WantIntact(t, b, nil)
	}
}

// TestRepackDamaged checks that nothing is condemned if a reachable object is damaged, in a
// pack to repack or in a repacked one.
func TestRepackDamaged(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	w := newWriter(t, b, 5)
	for round := range 2 {
		for range 3 {
			w.version()
		}
		before := b.Snapshot()
		for _, name := range b.Names("packs/") {
			b.Damage(name, 200)
		}
		head := transfertest.NewCollector(t, b).Head().Seq
		_, err := transfertest.CollectIn(t, b, w.Local, repacked)
		var needed *collect.NeededError
		if !errors.As(err, &needed) || !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("round %d: %v, want a NeededError", round, err)
		}
		if now := transfertest.NewCollector(t, b).Head().Seq; now != head {
			t.Errorf("round %d: the collection appended a root", round)
		}
		b.Restore(before)
		transfertest.MustCollect(t, b, repacked)
	}
	w.wantTip(b)
}

// TestRepackInterrupted kills a repacking at each of its calls, before or after the call
// takes effect. The remote stays intact, and the next collections complete the work.
func TestRepackInterrupted(t *testing.T) {
	t.Parallel()
	start := transfertest.NewRemote(t)
	w := newWriter(t, start, 6)
	for range 3 {
		w.version()
	}
	transfertest.MustCollect(t, start, repacked)
	for range 2 {
		w.version()
	}
	before := start.Snapshot()
	step := 1
	if testing.Short() {
		step = 10
	}
	interruptEach(t, before, repacked, func(n int) int { return n + step }, func(b *remotetest.Memory, ended bool) {
		w.wantTip(b)
		if _, others := packsOf(t, b); ended && len(others) > 0 {
			t.Errorf("%d packs are not repacked", len(others))
		}
	})
}

// TestRepairRepacked damages repacked packs. A repair takes the damaged objects, and
// patches of them, from the local repository. The new packs are repacked, too.
func TestRepairRepacked(t *testing.T) {
	t.Parallel()
	start := transfertest.NewRemote(t)
	w := newWriter(t, start, 7)
	for range 8 {
		w.version()
	}

	st := transfertest.MustCollect(t, start, repacked)
	before := start.Snapshot()
	for what, damage := range map[string]func(b *remotetest.Memory, name string){
		"the first value": func(b *remotetest.Memory, name string) { b.Damage(name, remote.HeaderSize+5) },
		"the header":      func(b *remotetest.Memory, name string) { b.Damage(name, 0) },
		"the version":     func(b *remotetest.Memory, name string) { b.Damage(name, 9) },
		"the end":         func(b *remotetest.Memory, name string) { b.Truncate(name, 1000) },
		"all of it":       func(b *remotetest.Memory, name string) { b.Remove(name) },
	} {
		b := remotetest.NewMemory()
		b.Restore(before)
		names := b.Names("packs/")
		for _, name := range names {
			damage(b, name)
		}
		r, err := transfertest.OpenTest(t, b, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}

		result, err := collect.Repair(t.Context(), r, w.Local, collect.RepairOptions{})
		if err != nil || len(result.Found) == 0 || len(result.Repaired) < len(names) || len(result.Lost) > 0 {
			t.Errorf("damage of %s: %+v, %v", what, result, err)
			continue
		}

		w.wantTip(b)
		transfertest.MustCollect(t, b, transfertest.AtOnce)
		w.wantTip(b)
		is, others := packsOf(t, b)
		if len(is) != 2 || len(others) > 0 {
			t.Errorf("damage of %s: %d packs are repacked, %d are not, want 2 and 0", what, len(is), len(others))
		}

		size := int64(0)
		for _, n := range is {
			size += n
		}
		if size > 2*st.After {
			t.Errorf("damage of %s: repacked packs of %d bytes after the repair, %d before", what, size, st.After)
		}
	}
}
