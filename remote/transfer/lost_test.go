package transfer_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// gapped is a side with six commits. Its list lost has a commit, the tree of another one, and
// a chunk of the newest commit, for a test to lose.
type gapped struct {
	*transfertest.Side
	ids  []object.ID
	lost []object.Key
}

func newGapped(t testing.TB, b remote.Backend) *gapped {
	t.Helper()
	g := &gapped{Side: transfertest.NewSide(t, b)}
	for i := range 6 {
		g.ids = append(g.ids, g.CommitFile("main", i, g.ids[max(0, i-1):]...))
	}
	g.lost = []object.Key{objecttest.CommitKeys(g.ids[1])[0], g.TreeOf(g.ids[3]), g.ChunkOf(g.ids[5])}
	slices.SortFunc(g.lost, object.Key.Compare)
	return g
}

// intact returns the objects that the newest commit reaches without passing an object in
// g.lost.
func (g *gapped) intact() (list []object.Key) {
	g.T.Helper()
	seen := map[object.Key]bool{}
	for stack := objecttest.CommitKeys(g.ids[5]); len(stack) > 0; {
		key := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !seen[key] && !slices.Contains(g.lost, key) {
			seen[key] = true
			list = append(list, key)
			stack = append(stack, g.LinksOf(nil, key)...)
		}
	}
	return list
}

// wantLost checks that a remote is intact, except that it lists these objects as lost.
func wantLost(t testing.TB, b remote.Backend, want ...object.Key) {
	t.Helper()
	checked := transfertest.WantIntact(t, b, nil)
	got := slices.SortedFunc(maps.Keys(checked.Lost), object.Key.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("lost: %v, want %v", got, want)
	}
}

// TestPushLost checks that a push leaves out objects whose loss was accepted, and no other
// ones. A fetch reports them.
func TestPushLost(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	a := newGapped(t, b)
	intact := a.intact()
	a.Lose(a.lost...)
	for n := range len(a.lost) {
		a.Store.SetLost(a.lost[:n])
		if _, err := a.PushBranches(true, "main"); !errors.Is(err, object.ErrNotFound) {
			t.Fatalf("push with %d of %d losses accepted: %v, want ErrNotFound", n, len(a.lost), err)
		}
	}
	a.Store.SetLost(a.lost)
	if result := a.MustPush("main"); !slices.Equal(result.Lost, a.lost) {
		t.Errorf("left out %v, want %v", result.Lost, a.lost)
	}
	wantLost(t, b, a.lost...)
	for _, key := range intact {
		if !remoteHas(t, b, key) {
			t.Errorf("%v was not sent", key)
		}
	}
	transfertest.MustCollect(t, b, transfertest.AtOnce)
	wantLost(t, b, a.lost...)

	refusing := transfertest.NewSide(t, b)
	if _, err := refusing.FetchLost(transfer.FetchOptions{RefuseLost: true}); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("fetch with RefuseLost: %v, want ErrNotFound", err)
	}
	c := transfertest.NewSide(t, b)
	result, err := c.FetchLost(transfer.FetchOptions{})
	if err != nil || !slices.Equal(slices.SortedFunc(maps.Keys(result.Lost), object.Key.Compare), a.lost) {
		t.Fatalf("fetch: lost %v, want %v; %v", result.Lost, a.lost, err)
	}
	// Later pushes and fetches do not report the objects again.
	c.CommitFile("main", 20, a.ids[5])
	if result := c.MustPush("main"); len(result.Lost) > 0 {
		t.Errorf("the next push lists %v as lost, want none", result.Lost)
	}
	if result, err := a.FetchLost(transfer.FetchOptions{}); err != nil || len(result.Lost) > 0 {
		t.Errorf("the next fetch: lost %v, want none; %v", result.Lost, err)
	}
	wantLost(t, b, a.lost...)
}

// TestPushFound checks that a push sends the objects that the remote lists as lost, with
// everything below them, if its repository has all of it.
func TestPushFound(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	a, c := newGapped(t, b), newGapped(t, b)
	a.Lose(a.lost...)
	a.Store.SetLost(a.lost)
	a.MustPush("main")
	c.MakeCommitOn("old", func(*objecttest.Maker) object.ID { return c.ids[1] })

	if result := c.MustPush("old"); !slices.Equal(result.Found, a.lost) || len(result.Lost) > 0 {
		t.Errorf("found %v, lost %v", result.Found, result.Lost)
	}
	wantLost(t, b)

	for key := range c.MustReach() {
		if !remoteHas(t, b, key) {
			t.Errorf("%v is missing", key)
		}
	}

	// A fetch brings the objects back to the repository that lost them.
	if result, err := a.FetchLost(transfer.FetchOptions{}); err != nil || len(result.Lost) > 0 {
		t.Fatalf("fetch: lost %v, want none; %v", result.Lost, err)
	}
	if lost, err := a.Store.Lost(context.Background()); err != nil || len(lost) > 0 {
		t.Errorf("%v are still lost: %v", lost, err)
	}

	a.MustReach()
	head := c.Head()
	if len(head.Lost) > 0 || len(head.Write)+len(head.GC) > 0 {
		t.Errorf("the root lists %v as lost, with features %v and %v; want none", head.Lost, head.Write, head.GC)
	}
}

// TestPushFoundInPart checks that an object stays lost if the pusher has it, but not
// everything below it.
func TestPushFoundInPart(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	a, c := newGapped(t, b), newGapped(t, b)
	tree := a.TreeOf(a.ids[3])
	a.Lose(tree)
	a.Store.SetLost([]object.Key{tree})
	a.MustPush("main")
	c.Lose(c.ChunkOf(c.ids[3]))
	c.CommitFile("side", 30)
	if result := c.MustPush("side"); len(result.Found) > 0 {
		t.Errorf("found %v, want none", result.Found)
	}
	wantLost(t, b, tree)
	// The list does not excuse objects that new commits need.
	if _, err := c.PushBranches(true, "main", "side"); err != nil {
		t.Fatal(err) // nothing new to send
	}
	c.MakeCommitOn("copy", func(m *objecttest.Maker) object.ID { return m.MakeCommit(tree.ID, c.ids[3]) })
	if _, err := c.PushBranches(true, "copy"); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("push of an incomplete commit: %v, want ErrNotFound", err)
	}
	wantLost(t, b, tree)
}

// TestPushLostOwn checks that a resumed push does not use its pack with a folder that was
// listed as lost meanwhile. Its repository has lost a chunk of the folder by now.
func TestPushLostOwn(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	faulty := remotetest.NewFaulty(b)
	a, c := newGapped(t, b), newGapped(t, faulty)
	c.MakeCommitOn("empty", func(m *objecttest.Maker) object.ID { return m.MakeCommit(m.MakeTree(map[string]string{"a": "b"}, nil)) })
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", Err: &remote.Error{Op: "create", Kind: remote.ErrPermission}})
	if _, err := c.PushBranches(false, "main", "empty"); !errors.Is(err, remote.ErrPermission) {
		t.Fatal(err)
	}
	a.Lose(a.lost...)
	a.Store.SetLost(a.lost)
	a.MustPush("main")
	c.Lose(c.ChunkOf(c.ids[3]))
	c.MustPush("empty")
	wantLost(t, b, a.lost...)
}

// TestFetchFound checks that a fetch receives objects that are lost here, if the remote has
// everything below them.
func TestFetchFound(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	a := newGapped(t, b)
	a.MustPush("main")
	a.Lose(a.lost...)
	a.Store.SetLost(a.lost)
	if _, err := a.FetchLost(transfer.FetchOptions{}); err != nil {
		t.Fatal(err)
	}
	a.MustReach()
	wantLost(t, b)

	// The remote has a folder without its chunk.
	b = transfertest.NewRemote(t)
	a, c := newGapped(t, b), newGapped(t, b)
	chunk, folder := a.ChunkOf(a.ids[3]), a.TreeOf(a.ids[3])
	a.Lose(chunk)
	a.Store.SetLost([]object.Key{chunk})
	a.MustPush("main")
	c.Lose(chunk, folder)
	c.Store.SetLost([]object.Key{folder})
	if _, err := c.FetchLost(transfer.FetchOptions{RefuseLost: true}); err != nil || c.Has(folder) {
		t.Errorf("with RefuseLost: fetched the folder: %v, want false; %v", c.Has(folder), err)
	}
	result, err := c.FetchLost(transfer.FetchOptions{})
	if _, lost := result.Lost[chunk]; err != nil || !lost || len(result.Lost) > 1 || !c.Has(folder) {
		t.Errorf("fetched the folder: %v, want true; lost: %v, want the chunk; %v", c.Has(folder), result.Lost, err)
	}
}

// TestLostRace checks that the remote lists nothing as lost if one push lists objects as lost
// while another one sends them.
func TestLostRace(t *testing.T) {
	t.Parallel()
	for name, lands := range map[string]func(a, c *gapped, faulty *remotetest.Faulty){
		"sent before the list": func(a, c *gapped, faulty *remotetest.Faulty) {
			meanwhile(faulty, func() { c.MustPush("main") })
			if result := a.MustPush("other"); len(result.Lost) > 0 {
				a.T.Errorf("the push lists %v as lost, want none", result.Lost)
			}
		},
		"listed before the push": func(a, c *gapped, faulty *remotetest.Faulty) {
			meanwhile(faulty, func() { a.MustPush("other") })
			if result := c.MustPush("main"); !slices.Equal(result.Found, a.lost) {
				c.T.Errorf("found %v, want %v", result.Found, a.lost)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := transfertest.NewRemote(t)
			faulty := remotetest.NewFaulty(b)
			var one, two remote.Backend = faulty, b
			if name == "listed before the push" {
				one, two = b, faulty
			}
			a, c := newGapped(t, one), newGapped(t, two)
			a.Lose(a.lost...)
			a.Store.SetLost(a.lost)
			a.MakeCommitOn("other", func(m *objecttest.Maker) object.ID { return a.CommitFile("other", 40, a.ids[5]) })
			lands(a, c, faulty)
			wantLost(t, b)
			transfertest.MustCollect(t, b, transfertest.AtOnce)
			wantLost(t, b)
		})
	}
}

// TestRepairLost checks that a repair lists the missing objects of a remote as lost, if their
// loss was accepted here.
func TestRepairLost(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	a := newGapped(t, b)
	a.Lose(a.lost...)
	a.Store.SetLost(a.lost)
	a.MustPush("main")
	transfertest.NewCollector(t, b).AppendRoot(func(*rootlog.State) rootlog.Change { return rootlog.Change{Found: a.lost} })
	for _, dryRun := range []bool{true, false} {
		result, err := collect.Repair(context.Background(), a.Remote, a.Store, collect.RepairOptions{DryRun: dryRun})
		if err != nil || len(result.Found) != len(a.lost) || len(result.Lost) > 0 {
			t.Fatalf("dry run %v: %+v, want %d found; %v", dryRun, result, len(a.lost), err)
		}
	}
	wantLost(t, b, a.lost...)
}

// TestRepairLostPack checks that a repair drops damaged packs and lists their objects as
// lost, if the loss was accepted here.
func TestRepairLostPack(t *testing.T) {
	t.Parallel()
	b := transfertest.NewRemote(t)
	a := newGapped(t, b)
	a.MustPush("main")
	intact := a.intact()
	a.Lose(a.lost...)
	snap, err := a.Remote.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range a.lost {
		e, _, err := snap.Find(key)
		if err != nil {
			t.Fatal(err)
		}
		b.Damage(e.Pack.Name.Path(), int(e.Offset)+int(e.Stored)/2)
	}
	if result, err := collect.Repair(t.Context(), a.Remote, a.Store, collect.RepairOptions{}); err == nil && len(result.Lost) == 0 {
		t.Fatal("the repair succeeded, though no loss was accepted")
	}

	a.Store.SetLost(a.lost)
	if result, err := collect.Repair(t.Context(), a.Remote, a.Store, collect.RepairOptions{}); err != nil || len(result.Lost) > 0 {
		t.Fatalf("repair: %+v, %v", result, err)
	}
	wantLost(t, b, a.lost...)
	for _, key := range intact {
		if !remoteHas(t, b, key) {
			t.Errorf("%v is missing", key)
		}
	}
	transfertest.MustCollect(t, b, transfertest.AtOnce)
	wantLost(t, b, a.lost...)
	a.CommitFile("main", 20, a.ids[5])
	a.MustPush("main")
	if _, err := transfertest.NewSide(t, b).FetchLost(transfer.FetchOptions{}); err != nil {
		t.Error(err)
	}
	wantLost(t, b, a.lost...)

	// A repository that has the objects sends them again.
	c := newGapped(t, b)
	c.MakeCommitOn("old", func(*objecttest.Maker) object.ID { return c.ids[1] })
	if result := c.MustPush("old"); !slices.Equal(result.Found, a.lost) {
		t.Errorf("found %v, want %v", result.Found, a.lost)
	}
	wantLost(t, b)
}
