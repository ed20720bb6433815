package transfer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// lose removes objects from a side that is intact. Their loss is not accepted yet.
func (s *side) lose(keys ...object.Key) {
	s.t.Helper()
	kept := s.mustReach()
	for _, key := range keys {
		delete(kept, key)
	}
	s.keepOnly(kept)
}

// gapped is a side with six commits. Its list lost has a commit, the tree of another one, and
// a chunk of the newest commit, for a test to lose.
type gapped struct {
	*side
	ids  []object.ID
	lost []object.Key
}

func newGapped(t testing.TB, b remote.Backend) *gapped {
	t.Helper()
	g := &gapped{side: newSide(t, b)}
	for i := range 6 {
		g.ids = append(g.ids, g.commit("main", i, g.ids[max(0, i-1):]...))
	}
	g.lost = []object.Key{commitKeys(g.ids[1])[0], g.treeOf(g.ids[3]), g.chunkOf(g.ids[5])}
	slices.SortFunc(g.lost, object.Key.Compare)
	return g
}

// intact returns the objects that the newest commit reaches without passing an object in
// g.lost.
func (g *gapped) intact() (list []object.Key) {
	g.t.Helper()
	seen := map[object.Key]bool{}
	for stack := commitKeys(g.ids[5]); len(stack) > 0; {
		key := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !seen[key] && !slices.Contains(g.lost, key) {
			seen[key] = true
			list = append(list, key)
			stack = append(stack, g.links(nil, key)...)
		}
	}
	return list
}

// chunkOf returns a chunk that the tree of a commit links to.
func (s *side) chunkOf(id object.ID) object.Key {
	s.t.Helper()
	links := s.links(nil, s.treeOf(id))
	return links[slices.IndexFunc(links, func(key object.Key) bool { return key.Kind == object.KindChunk })]
}

// wantLost checks that a remote is intact, except that it lists these objects as lost.
func wantLost(t testing.TB, b remote.Backend, want ...object.Key) {
	t.Helper()
	checked := wantIntact(t, b, nil)
	got := slices.SortedFunc(maps.Keys(checked.Lost), object.Key.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("lost: %v, want %v", got, want)
	}
}

// fetchLost fetches all branches, and accepts the loss of the objects that the remote lists.
func (s *side) fetchLost(o FetchOptions) (*FetchResult, error) {
	s.t.Helper()
	ctx := context.Background()
	head := s.head()
	o.Want, o.Have, o.Records = slices.Collect(maps.Values(head.Refs)), slices.Collect(maps.Values(s.refs)), s.records
	var err error
	if o.Lost, err = s.store.Lost(ctx); err != nil {
		s.t.Fatal(err)
	}
	session := s.store.Begin(volume.SessionOptions{})
	result, err := s.remote.Fetch(ctx, session, head, o)
	if err == nil {
		err = session.Publish(ctx, func(context.Context) error {
			s.store.SetLost(slices.AppendSeq(o.Lost, maps.Keys(result.Lost)))
			for name, key := range head.Refs {
				s.track(name, key.ID)
			}
			return nil
		})
	}
	return result, errors.Join(err, session.Close())
}

// TestPushLost checks that a push leaves out objects whose loss was accepted, and no other
// ones. A fetch reports them.
func TestPushLost(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	a := newGapped(t, b)
	intact := a.intact()
	a.lose(a.lost...)
	for n := range len(a.lost) {
		a.store.SetLost(a.lost[:n])
		if _, err := a.push(true, "main"); !errors.Is(err, object.ErrNotFound) {
			t.Fatalf("push with %d of %d losses accepted: %v, want ErrNotFound", n, len(a.lost), err)
		}
	}
	a.store.SetLost(a.lost)
	if result := a.mustPush("main"); !slices.Equal(result.Lost, a.lost) {
		t.Errorf("left out %v, want %v", result.Lost, a.lost)
	}
	wantLost(t, b, a.lost...)
	for _, key := range intact {
		if !remoteHas(t, b, key) {
			t.Errorf("%v was not sent", key)
		}
	}
	mustCollect(t, b, atOnce)
	wantLost(t, b, a.lost...)

	refusing := newSide(t, b)
	if _, err := refusing.fetchLost(FetchOptions{RefuseLost: true}); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("fetch with RefuseLost: %v, want ErrNotFound", err)
	}
	c := newSide(t, b)
	result, err := c.fetchLost(FetchOptions{})
	if err != nil || !slices.Equal(slices.SortedFunc(maps.Keys(result.Lost), object.Key.Compare), a.lost) {
		t.Fatalf("fetch: lost %v, want %v; %v", result.Lost, a.lost, err)
	}
	// Later pushes and fetches do not report the objects again.
	c.commit("main", 20, a.ids[5])
	if result := c.mustPush("main"); len(result.Lost) > 0 {
		t.Errorf("the next push lists %v as lost, want none", result.Lost)
	}
	if result, err := a.fetchLost(FetchOptions{}); err != nil || len(result.Lost) > 0 {
		t.Errorf("the next fetch: lost %v, want none; %v", result.Lost, err)
	}
	wantLost(t, b, a.lost...)
}

// TestPushFound checks that a push sends the objects that the remote lists as lost, with
// everything below them, if its repository has all of it.
func TestPushFound(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	a, c := newGapped(t, b), newGapped(t, b)
	a.lose(a.lost...)
	a.store.SetLost(a.lost)
	a.mustPush("main")
	c.make("old", func(*maker) object.ID { return c.ids[1] })

	if result := c.mustPush("old"); !slices.Equal(result.Found, a.lost) || len(result.Lost) > 0 {
		t.Errorf("found %v, lost %v", result.Found, result.Lost)
	}
	wantLost(t, b)

	for key := range c.mustReach() {
		if !remoteHas(t, b, key) {
			t.Errorf("%v is missing", key)
		}
	}

	// A fetch brings the objects back to the repository that lost them.
	if result, err := a.fetchLost(FetchOptions{}); err != nil || len(result.Lost) > 0 {
		t.Fatalf("fetch: lost %v, want none; %v", result.Lost, err)
	}
	if lost, err := a.store.Lost(context.Background()); err != nil || len(lost) > 0 {
		t.Errorf("%v are still lost: %v", lost, err)
	}

	a.mustReach()
	head := c.head()
	if len(head.Lost) > 0 || len(head.Write)+len(head.GC) > 0 {
		t.Errorf("the root lists %v as lost, with features %v and %v; want none", head.Lost, head.Write, head.GC)
	}
}

// TestPushFoundInPart checks that an object stays lost if the pusher has it, but not
// everything below it.
func TestPushFoundInPart(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	a, c := newGapped(t, b), newGapped(t, b)
	tree := a.treeOf(a.ids[3])
	a.lose(tree)
	a.store.SetLost([]object.Key{tree})
	a.mustPush("main")
	c.lose(c.chunkOf(c.ids[3]))
	c.commit("side", 30)
	if result := c.mustPush("side"); len(result.Found) > 0 {
		t.Errorf("found %v, want none", result.Found)
	}
	wantLost(t, b, tree)
	// The list does not excuse objects that new commits need.
	if _, err := c.push(true, "main", "side"); err != nil {
		t.Fatal(err) // nothing new to send
	}
	c.make("copy", func(m *maker) object.ID { return m.commit(tree.ID, c.ids[3]) })
	if _, err := c.push(true, "copy"); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("push of an incomplete commit: %v, want ErrNotFound", err)
	}
	wantLost(t, b, tree)
}

// TestPushLostOwn checks that a resumed push does not use its pack with a folder that was
// listed as lost meanwhile. Its repository has lost a chunk of the folder by now.
func TestPushLostOwn(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	faulty := remotetest.NewFaulty(b)
	a, c := newGapped(t, b), newGapped(t, faulty)
	c.make("empty", func(m *maker) object.ID { return m.commit(m.tree(map[string]string{"a": "b"}, nil)) })
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", Err: &remote.Error{Op: "create", Kind: remote.ErrPermission}})
	if _, err := c.push(false, "main", "empty"); !errors.Is(err, remote.ErrPermission) {
		t.Fatal(err)
	}
	a.lose(a.lost...)
	a.store.SetLost(a.lost)
	a.mustPush("main")
	c.lose(c.chunkOf(c.ids[3]))
	c.mustPush("empty")
	wantLost(t, b, a.lost...)
}

// TestFetchFound checks that a fetch receives objects that are lost here, if the remote has
// everything below them.
func TestFetchFound(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	a := newGapped(t, b)
	a.mustPush("main")
	a.lose(a.lost...)
	a.store.SetLost(a.lost)
	if _, err := a.fetchLost(FetchOptions{}); err != nil {
		t.Fatal(err)
	}
	a.mustReach()
	wantLost(t, b)

	// The remote has a folder without its chunk.
	b = newRemote(t)
	a, c := newGapped(t, b), newGapped(t, b)
	chunk, folder := a.chunkOf(a.ids[3]), a.treeOf(a.ids[3])
	a.lose(chunk)
	a.store.SetLost([]object.Key{chunk})
	a.mustPush("main")
	c.lose(chunk, folder)
	c.store.SetLost([]object.Key{folder})
	if _, err := c.fetchLost(FetchOptions{RefuseLost: true}); err != nil || c.has(folder) {
		t.Errorf("with RefuseLost: fetched the folder: %v, want false; %v", c.has(folder), err)
	}
	result, err := c.fetchLost(FetchOptions{})
	if _, lost := result.Lost[chunk]; err != nil || !lost || len(result.Lost) > 1 || !c.has(folder) {
		t.Errorf("fetched the folder: %v, want true; lost: %v, want the chunk; %v", c.has(folder), result.Lost, err)
	}
}

// TestLostRace checks that the remote lists nothing as lost if one push lists objects as lost
// while another one sends them.
func TestLostRace(t *testing.T) {
	t.Parallel()
	for name, lands := range map[string]func(a, c *gapped, faulty *remotetest.Faulty){
		"sent before the list": func(a, c *gapped, faulty *remotetest.Faulty) {
			meanwhile(faulty, func() { c.mustPush("main") })
			if result := a.mustPush("other"); len(result.Lost) > 0 {
				a.t.Errorf("the push lists %v as lost, want none", result.Lost)
			}
		},
		"listed before the push": func(a, c *gapped, faulty *remotetest.Faulty) {
			meanwhile(faulty, func() { a.mustPush("other") })
			if result := c.mustPush("main"); !slices.Equal(result.Found, a.lost) {
				c.t.Errorf("found %v, want %v", result.Found, a.lost)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRemote(t)
			faulty := remotetest.NewFaulty(b)
			var one, two remote.Backend = faulty, b
			if name == "listed before the push" {
				one, two = b, faulty
			}
			a, c := newGapped(t, one), newGapped(t, two)
			a.lose(a.lost...)
			a.store.SetLost(a.lost)
			a.make("other", func(m *maker) object.ID { return a.commit("other", 40, a.ids[5]) })
			lands(a, c, faulty)
			wantLost(t, b)
			mustCollect(t, b, atOnce)
			wantLost(t, b)
		})
	}
}

// TestRepairLost checks that a repair lists the missing objects of a remote as lost, if their
// loss was accepted here.
func TestRepairLost(t *testing.T) {
	t.Parallel()
	b := newRemote(t)
	a := newGapped(t, b)
	a.lose(a.lost...)
	a.store.SetLost(a.lost)
	a.mustPush("main")
	newCollector(t, b).append(func(*rootlog.State) rootlog.Change { return rootlog.Change{Found: a.lost} })
	for _, dryRun := range []bool{true, false} {
		result, err := a.remote.Repair(context.Background(), a.store, RepairOptions{DryRun: dryRun})
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
	b := newRemote(t)
	a := newGapped(t, b)
	a.mustPush("main")
	intact := a.intact()
	a.lose(a.lost...)
	snap, err := a.remote.snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range a.lost {
		e, _, err := snap.find(key)
		if err != nil {
			t.Fatal(err)
		}
		b.Damage(e.Pack.Name.Path(), int(e.Offset)+int(e.Stored)/2)
	}
	if result, err := a.remote.Repair(t.Context(), a.store, RepairOptions{}); err == nil && len(result.Lost) == 0 {
		t.Fatal("the repair succeeded, though no loss was accepted")
	}

	a.store.SetLost(a.lost)
	if result, err := a.remote.Repair(t.Context(), a.store, RepairOptions{}); err != nil || len(result.Lost) > 0 {
		t.Fatalf("repair: %+v, %v", result, err)
	}
	wantLost(t, b, a.lost...)
	for _, key := range intact {
		if !remoteHas(t, b, key) {
			t.Errorf("%v is missing", key)
		}
	}
	mustCollect(t, b, atOnce)
	wantLost(t, b, a.lost...)
	a.commit("main", 20, a.ids[5])
	a.mustPush("main")
	if _, err := newSide(t, b).fetchLost(FetchOptions{}); err != nil {
		t.Error(err)
	}
	wantLost(t, b, a.lost...)

	// A repository that has the objects sends them again.
	c := newGapped(t, b)
	c.make("old", func(*maker) object.ID { return c.ids[1] })
	if result := c.mustPush("old"); !slices.Equal(result.Found, a.lost) {
		t.Errorf("found %v, want %v", result.Found, a.lost)
	}
	wantLost(t, b)
}
