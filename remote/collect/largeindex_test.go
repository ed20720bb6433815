package collect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestLargeIndexStays checks that a collector leaves a large index file with less than a quarter of dead entries. The deleted packs stay
// condemned until it replaces the file.
func TestLargeIndexStays(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	want := map[string]object.ID{}
	for i := range collect.MaxIndexFiles + 1 { // the last push merges the index files
		branch := fmt.Sprint("b", i)
		want[branch] = p.MakeMany(i, 1300)
		p.MustPush(branch, want[branch])
	}
	gc := transfertest.NewCollector(t, b)
	large := gc.Head().Indexes
	if len(large) != 1 || large[0].Size <= 256<<10 {
		t.Fatalf("index files: %+v, want one of more than 256 KiB", large)
	}
	packs := len(b.Names("packs/"))

	gc.DeleteBranch("b0")
	delete(want, "b0")
	for range 3 {
		transfertest.MustCollect(t, b, transfertest.AtOnce)
		head := gc.Head()
		if !slices.Equal(head.Indexes, large) {
			t.Fatalf("index files: %+v, want %+v", head.Indexes, large)
		}
		if left := len(b.Names("packs/")); left != packs-2 || len(condemnedPacks(head)) != 2 {
			t.Errorf("%d packs are left, %d condemned, want %d and 2", left, len(condemnedPacks(head)), packs-2)
		}
		transfertest.WantIntact(t, b, want)
	}
	last := gc.Head().Seq
	if transfertest.MustCollect(t, b, transfertest.AtOnce); gc.Head().Seq != last {
		t.Error("a collection without garbage appended a root")
	}
	want["more"] = p.MakeGrown(1)
	p.MustPush("more", want["more"])

	gc.DeleteBranch("b1")
	delete(want, "b1")
	for range 2 {
		transfertest.MustCollect(t, b, transfertest.AtOnce)
		transfertest.WantIntact(t, b, want)
	}
	if head := gc.Head(); slices.Contains(head.Indexes, large[0]) || len(condemnedPacks(head)) > 0 {
		t.Errorf("the large index file stays, or packs are still condemned: %v", condemnedPacks(head))
	}
}

// TestJoinsIndexWithDeadPacks checks that a program that joins all index files, and forgets all deleted packs at once, works on a
// remote where a large index file names such packs.
func TestJoinsIndexWithDeadPacks(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	want := map[string]object.ID{}
	for i := range collect.MaxIndexFiles + 1 {
		branch := fmt.Sprint("b", i)
		want[branch] = p.MakeMany(i, 1300)
		p.MustPush(branch, want[branch])
	}
	gc := transfertest.NewCollector(t, b)
	gc.DeleteBranch("b0")
	delete(want, "b0")
	transfertest.MustCollect(t, b, transfertest.AtOnce)
	if len(condemnedPacks(gc.Head())) == 0 {
		t.Fatal("no pack is condemned")
	}
	gc.ForgetMarked()
	transfertest.WantIntact(t, b, want)
	want["b0"] = p.MakeMany(0, 1300)
	p.MustPush("b0", want["b0"])
	transfertest.WantIntact(t, b, want)
}

// condemnedPacks returns the condemned packs of a root.
func condemnedPacks(head *rootlog.State) (packs []string) {
	for name := range head.Condemned {
		if strings.HasPrefix(name, "packs/") {
			packs = append(packs, name)
		}
	}
	return packs
}

// TestIndexLimit checks that a push and a collector write several index files if one would have too many entries. Each pack is in one of
// them.
func TestIndexLimit(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	limited := func(o *transfer.Options) { o.IndexLimit = 500 }
	p := transfertest.NewPusher(t, b)
	p.KeepSmall = true
	r, err := transfertest.OpenTest(t, b, p.Dir, limited)
	if err != nil {
		t.Fatal(err)
	}
	p.Remote = r
	want := map[string]object.ID{"one": p.MakeMany(1, 600), "two": p.MakeMany(2, 600), "dead": p.MakeMany(3, 600)}
	for branch, id := range want {
		p.MustPush(branch, id)
	}
	gc := transfertest.NewCollector(t, b)
	if n := len(gc.Head().Indexes); n != 6 {
		t.Errorf("three pushes wrote %d index files, want 6", n)
	}
	transfertest.WantIntact(t, b, want)

	gc.DeleteBranch("dead")
	delete(want, "dead")
	for range 2 { // the first one replaces the index files of a crowded class
		if err := collectLimited(t, b, limited); err != nil {
			t.Fatal(err)
		}
		transfertest.WantIntact(t, b, want)
	}
	named := map[string]bool{}
	for _, f := range gc.Head().Indexes {
		packs := map[string]bool{}
		for _, e := range gc.EntriesOf(f) {
			packs[e.Pack.Name.String()] = true
		}
		for name := range packs {
			if named[name] {
				t.Errorf("pack %s is in two index files", name)
			}
			named[name] = true
		}
	}
	if n := len(gc.Head().Indexes); n < 2 || len(named) != len(b.Names("packs/")) {
		t.Errorf("%d index files of %d packs, want 2 at least, and %d", n, len(named), len(b.Names("packs/")))
	}
}

// collectLimited collects the garbage of a remote with options.
func collectLimited(t *testing.T, b remote.Backend, change func(*transfer.Options)) error {
	r, err := transfertest.OpenTest(t, b, t.TempDir(), change)
	if err != nil {
		return err
	}
	c, err := collect.PlanGarbage(t.Context(), r, nil, transfertest.AtOnce)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Apply(t.Context())
}
