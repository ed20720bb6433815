package collect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfertest"
)

func TestCheckFindsDamage(t *testing.T) {
	start := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, start)
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	two := p.MakeGrown(2, one)
	p.MustPush("main", two)

	files := map[string]string{}
	for i := range 600 {
		files[fmt.Sprint("f", i)] = objecttest.Noise(20000+i, 100)
	}
	p.MustPush("large", p.MakeCommit(p.MakeTree(files, nil)))

	head := transfertest.NewCollector(t, start).Head()
	if len(head.Indexes) != 1 || len(head.Packs) != 4 {
		t.Fatalf("%d index files and %d packs, want 1 and 4", len(head.Indexes), len(head.Packs))
	}

	of := func(node bool) pack.Entry {
		for _, p := range head.Packs {
			if p.Entries[0].Key.Kind.IsNode() == node {
				return p.Entries[len(p.Entries)/2]
			}
		}
		return pack.Entry{}
	}

	node, chunk := of(true), of(false)
	inNode := node.Key.ID.String()
	if transfertest.IsOverCrypt(t) {
		inNode = node.Pack.Name.String() // no object of the segment can be read, and the tip is found first
	}
	before := start.Snapshot()
	for name, test := range map[string]struct {
		damage func(b *remotetest.Memory)
		quick  string // part of the problems of a check without ReadData; empty: none
		full   string
	}{
		"nothing":         {func(*remotetest.Memory) {}, "", ""},
		"node flipped":    {func(b *remotetest.Memory) { b.Damage(node.Pack.Name.Path(), int(node.Offset)+5) }, inNode, inNode},
		"chunk flipped":   {func(b *remotetest.Memory) { b.Damage(chunk.Pack.Name.Path(), int(chunk.Offset)+5) }, "", chunk.Key.ID.String()},
		"pack index":      {func(b *remotetest.Memory) { b.Damage(chunk.Pack.Name.Path(), -100) }, "", chunk.Pack.Name.Path()},
		"pack gone":       {func(b *remotetest.Memory) { b.Remove(chunk.Pack.Name.Path()) }, chunk.Pack.Name.Path(), chunk.Pack.Name.Path()},
		"node pack gone":  {func(b *remotetest.Memory) { b.Remove(node.Pack.Name.Path()) }, node.Pack.Name.Path(), node.Pack.Name.Path()},
		"pack cut":        {func(b *remotetest.Memory) { b.Truncate(chunk.Pack.Name.Path(), 200) }, chunk.Pack.Name.Path(), chunk.Pack.Name.Path()},
		"packs swapped":   {func(b *remotetest.Memory) { b.Swap(node.Pack.Name.Path(), chunk.Pack.Name.Path()) }, node.Pack.Name.Path(), node.Pack.Name.Path()},
		"index flipped":   {func(b *remotetest.Memory) { b.Damage(head.Indexes[0].Name.IndexPath(), 500) }, head.Indexes[0].Name.IndexPath(), head.Indexes[0].Name.IndexPath()},
		"index gone":      {func(b *remotetest.Memory) { b.Remove(head.Indexes[0].Name.IndexPath()) }, head.Indexes[0].Name.IndexPath(), head.Indexes[0].Name.IndexPath()},
		"first root gone": {func(b *remotetest.Memory) { b.Set(rootlog.RootName(2), b.Data(rootlog.RootName(1))) }, "root", "root"},
		"collected too much": {func(b *remotetest.Memory) {
			transfertest.NewCollector(t, b).MarkFiles(chunk.Pack.Name.Path())
		}, chunk.Key.ID.String(), chunk.Key.ID.String()},
	} {
		t.Run(name, func(t *testing.T) {
			for _, readData := range []bool{false, true} {
				b := remotetest.NewMemory()
				b.Restore(before)
				test.damage(b)
				want := test.quick
				if readData {
					want = test.full
				}
				got := strings.Join(transfertest.CheckProblems(t, b, readData), "\n")
				if (want == "") != (got == "") || !strings.Contains(got, want) {
					t.Errorf("ReadData %v: problems %q, want %q", readData, got, want)
				}
			}
		})
	}
}

// TestCheckRequests checks that reading all data takes one more request than a quick check
// for each small pack, and three for the large pack.
func TestCheckRequests(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	p.MustPush("small", p.MakeGrown(1))

	files := map[string]string{}
	for i := range 3 {
		files[fmt.Sprint("f", i)] = objecttest.Noise(i, 700<<10)
	}
	p.MustPush("large", p.MakeCommit(p.MakeTree(files, nil)))

	sizes := map[bool]int{} // number of packs, by whether they are small
	nodes := 0
	for _, pack := range transfertest.NewCollector(t, b).Head().Packs {
		sizes[pack.Info.Size <= collect.MaxWholeRead]++
		if pack.Entries[0].Key.Kind.IsNode() {
			nodes++
		}
	}
	if sizes[true] != 3 || sizes[false] != 1 || nodes != 2 {
		t.Fatalf("small and large packs: %v, %d with nodes; want 3 and 1, 2 with nodes", sizes, nodes)
	}

	r, err := transfertest.OpenTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	requests := func(readData bool) int {
		b.ResetCounts()
		if _, err := collect.Check(t.Context(), r, collect.CheckOptions{ReadData: readData}, func(p collect.Problem) { t.Error(p) }); err != nil {
			t.Fatal(err)
		}
		return b.Calls(remotetest.Get)
	}

	requests(false) // caches the roots
	quick := requests(false)

	// The requests for the large pack: header, trailer with the index, values.
	if got := requests(true) - quick; got != 3+3 {
		t.Errorf("reading 4 packs takes %d more requests, want 6", got)
	}
}

// TestCheckWhileCollected checks that a check retries at the new head if packs are deleted
// meanwhile.
func TestCheckWhileCollected(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	one := p.MakeGrown(1)
	p.MustPush("main", one)
	p.MustPush("other", p.MakeCommit(p.MakeTree(map[string]string{"f": objecttest.Noise(1, 500)}, nil)))
	gc := transfertest.NewCollector(t, b)
	faulty := remotetest.NewFaulty(b)
	faulty.Fail(remotetest.Fault{Op: remotetest.Stat, Do: func() {
		gc.DeleteBranch("other")
		gc.MarkUnreached()
		gc.ForgetMarked()
	}})
	r, err := transfertest.OpenTest(t, faulty, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	checked, err := collect.Check(t.Context(), r, collect.CheckOptions{ReadData: true}, func(p collect.Problem) { t.Error(p) })
	if err != nil || checked.Packs != 2 {
		t.Errorf("check: %+v, want 2 packs; %v", checked, err)
	}
}

func TestCheckWithoutAnswer(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	p.MustPush("main", p.MakeGrown(1))
	faulty := remotetest.NewFaulty(b)
	faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", Stays: true, Err: transfertest.ErrDown})
	r, err := transfertest.OpenTest(t, faulty, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := collect.Check(t.Context(), r, collect.CheckOptions{ReadData: true}, func(p collect.Problem) { t.Error(p) }); !errors.Is(err, transfertest.ErrDown.Kind) {
		t.Errorf("check: %v, want %v", err, transfertest.ErrDown.Kind)
	}
	if p := (collect.Problem{Key: object.Key{Kind: object.KindTree}, Err: errors.New("x")}); !strings.HasPrefix(p.Error(), "tree 0") {
		t.Errorf("the problem is %q, want a prefix tree 0", p.Error())
	}
}

// TestCheckSubset checks that the subsets divide the packs: exactly one finds the damage.
func TestCheckSubset(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	at := p.MakeGrown(1)
	p.MustPush("main", at)

	for i := range 5 {
		at = p.MakeGrown(i+2, at)
		p.MustPush("main", at)
	}

	head := transfertest.NewCollector(t, b).Head()
	bad := head.Packs[len(head.Packs)-1].Entries[0]
	for _, packed := range head.Packs {
		if !packed.Entries[0].Key.Kind.IsNode() {
			bad = packed.Entries[0]
		}
	}

	b.Damage(bad.Pack.Name.Path(), int(bad.Offset)+3)
	const parts = 4
	finders := 0
	var read int64

	for part := range parts {
		r, err := transfertest.OpenTest(t, b, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		found, reported := 0, int64(0)
		done, err := collect.Check(t.Context(), r, collect.CheckOptions{
			ReadData: true, Subset: func(i, n int) bool { return i*parts/n == part }, Progress: func(bytes int64) { reported = bytes },
		}, func(problem collect.Problem) {
			if found++; !isIn(t, problem, bad) {
				t.Errorf("part %d: unexpected problem: %v", part, problem)
			}
		})
		if err != nil || reported != done.Bytes {
			t.Errorf("part %d: progress of %d bytes, want %d; %v", part, reported, done.Bytes, err)
		}

		read += done.Bytes
		finders += found
		if found > 0 && transfertest.IsOverCrypt(t) {
			finders += 1 - found // several objects are in the damaged segment
		}
	}
	if finders != 1 || read == 0 {
		t.Errorf("the damage was found %d times in %d bytes, want once", finders, read)
	}
}

// isIn reports whether a problem is about an object; on an encrypted remote, whether it is about the pack of the object.
func isIn(t *testing.T, problem collect.Problem, e pack.Entry) bool {
	return problem.Key == e.Key || transfertest.IsOverCrypt(t) && strings.Contains(problem.Error(), e.Pack.Name.String())
}

// Samples that continue each other read every pack. Small samples read each pack once.
func TestCheckSample(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	at := p.MakeGrown(1)
	p.MustPush("main", at)

	for i := range 5 {
		at = p.MakeGrown(i+2, at)
		p.MustPush("main", at)
	}

	head := transfertest.NewCollector(t, b).Head()
	bad := head.Packs[3].Entries[0]
	b.Damage(bad.Pack.Name.Path(), int(bad.Offset)+3)

	for _, share := range []float64{1e-9, 0.3, 1} {
		var last pack.Name
		packs, found, checks := 0, 0, 0
		for packs < len(head.Packs) && checks < 100 {
			r, err := transfertest.OpenTest(t, b, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			done, err := collect.Check(t.Context(), r, collect.CheckOptions{Sample: share, After: last}, func(problem collect.Problem) {
				if found++; !isIn(t, problem, bad) {
					t.Errorf("unexpected problem: %v", problem)
				}
			})
			if err != nil || done.Packs == 0 {
				t.Fatalf("sample of %d packs: %v", done.Packs, err)
			}

			if packs, last, checks = packs+done.Packs, done.Last, checks+1; found > 0 && transfertest.IsOverCrypt(t) {
				found = 1 // several objects are in the damaged segment
			}
			r.Close()
		}
		if found == 0 || share == 1 && checks != 1 || share == 0.3 && (checks < 2 || checks > 4) || share < 0.1 && (found != 1 || checks != len(head.Packs)) {
			t.Errorf("share %g: the damage was found %d times in %d checks of %d packs", share, found, checks, packs)
		}
	}
}
