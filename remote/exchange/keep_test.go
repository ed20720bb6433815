package exchange_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// keepTips returns the keep refs of origin.
func keepTips(t *testing.T, r *kist.Repository) map[string]object.Key {
	t.Helper()
	opened, err := registry.OpenNamed(t.Context(), r, "origin")
	kisttest.Check(t, err)
	defer opened.Close()
	head, err := opened.Head(t.Context())
	kisttest.Check(t, err)
	tips := maps.Clone(head.Refs)
	maps.DeleteFunc(tips, func(name string, _ object.Key) bool { return !strings.HasPrefix(name, refs.Keep) })
	return tips
}

// keepRefs returns the names of the keep refs of origin.
func keepRefs(t *testing.T, r *kist.Repository) []string {
	t.Helper()
	return slices.Collect(maps.Keys(keepTips(t, r)))
}

// deleteOnRemote deletes a ref of origin, as another clone would.
func deleteOnRemote(t *testing.T, r *kist.Repository, name string) {
	t.Helper()
	b, err := r.Options().Backend(t.Context(), "")
	kisttest.Check(t, err)
	other := kisttest.New(t).WithRemote(b)
	_, err = exchange.Push(t.Context(), other, exchange.PushOptions{Remote: "origin", Refs: []registry.PushRef{{Name: name}}})
	kisttest.Check(t, err)
}

// collectRemote deletes all garbage of origin at once.
func collectRemote(t *testing.T, r *kist.Repository) {
	t.Helper()
	for range 2 {
		_, err := gc.CollectRemote(t.Context(), r, "origin", gc.DefaultKeepAge, collect.Options{})
		kisttest.Check(t, err)
	}
}

// evictedRepository returns a repository with a pushed commit, whose content is away.
func evictedRepository(t *testing.T) (s *kisttest.Repository, faulty *remotetest.Faulty, r *kist.Repository, first object.ID) {
	t.Helper()
	s = kisttest.New(t)
	faulty = remotetest.NewFaulty(remotetest.NewMemory())
	r = s.WithRemote(faulty)
	exchange.Connect(t.Context(), r)
	s.Write("base", "base")
	s.Add(stage.AddOptions{})
	s.Commit("base")
	first = pushNoise(s, r, 1)
	result, err := exchange.Evict(t.Context(), r, exchange.EvictOptions{Small: true})
	s.Check(err)
	if result.Chunks == 0 || result.Freed < 50_000 {
		t.Fatalf("evicted %+v, want chunks of 100,000 bytes", result)
	}
	return s, faulty, r, first
}

// pushNoise commits and pushes a file of 100,000 bytes.
func pushNoise(s *kisttest.Repository, r *kist.Repository, seed byte) object.ID {
	s.Write(fmt.Sprint("file", seed), string(kisttest.Noise(seed, 100_000)))
	s.Add(stage.AddOptions{})
	id := s.Commit(fmt.Sprint("commit ", seed)).ID
	s.Push(r, "main")
	return id
}

// wantNoise reads a file of pushNoise.
func wantNoise(t *testing.T, r *kist.Repository, commit object.ID, seed byte) {
	t.Helper()
	data, err := kisttest.ReadFile(t.Context(), r, commit, fmt.Sprint("file", seed))
	if err != nil || string(data) != string(kisttest.Noise(seed, 100_000)) {
		t.Fatalf("read file %d: %d bytes, %v", seed, len(data), err)
	}
}

// TestKeepCoversDropped checks that a keep ref still reaches all content that is away when no name here needs it, no
// branch there has it, and the keep ref is renewed: the same bytes may be added again.
func TestKeepCoversDropped(t *testing.T) {
	ctx := t.Context()
	s, _, r, first := evictedRepository(t)
	s.Checkout(checkout.SwitchOptions{Rev: "HEAD~1", Detach: true})
	_, err := commits.DeleteBranch(ctx, s.Repo, "refs/heads/main", true)
	s.Check(err)
	deleteOnRemote(t, r, "refs/heads/main")
	s.Collect(s.Clocked(400*24*time.Hour), gc.PlanOptions{PruneOlder: 800 * 24 * time.Hour}) // the logs end
	_, err = exchange.Evict(ctx, r, exchange.EvictOptions{Small: true})                      // renews the keep ref
	s.Check(err)
	collectRemote(t, r)
	wantNoise(t, r, first, 1)
	if n := len(keepRefs(t, r)); n != 1 {
		t.Errorf("%d keep refs, want 1", n)
	}
}

// TestKeepOfCopy checks that a copy of a repository takes a keep ref of its own.
func TestKeepOfCopy(t *testing.T) {
	s, faulty, r, first := evictedRepository(t)
	dir := t.TempDir()
	s.Check(os.CopyFS(dir, os.DirFS(s.Dir)))
	pushNoise(s, r, 2)
	_, err := exchange.Evict(t.Context(), r, exchange.EvictOptions{Small: true}) // moves the keep ref
	s.Check(err)

	other, err := kist.Open(dir, kisttest.Opens(faulty))
	s.Check(err)
	defer other.Close()
	exchange.Connect(t.Context(), other)
	_, err = exchange.Evict(t.Context(), other, exchange.EvictOptions{Small: true})
	s.Check(err)
	if n := len(keepRefs(t, r)); n != 2 {
		t.Errorf("%d keep refs, want 2", n)
	}
	wantNoise(t, other, first, 1)
}

// TestKeepRenewed checks that a push renews a keep ref only if it is a month old, and that a collection
// deletes it when it was not renewed for a year.
func TestKeepRenewed(t *testing.T) {
	ctx := t.Context()
	s, faulty, r, _ := evictedRepository(t)
	at := func(ahead time.Duration) *kist.Repository {
		o := kisttest.Opens(faulty)
		o.Now = func() time.Time { return time.Now().Add(ahead) }
		later, err := kist.Open(s.Dir, o)
		s.Check(err)
		t.Cleanup(func() { later.Close() })
		return later
	}
	calls := func(ahead time.Duration) int {
		before := faulty.Calls(remotetest.Create)
		s.Check(exchange.RenewKeep(ctx, at(ahead), "origin", nil))
		return faulty.Calls(remotetest.Create) - before
	}
	if n := calls(20 * 24 * time.Hour); n != 0 {
		t.Errorf("%d roots after 20 days, want 0", n)
	}
	if n := calls(40 * 24 * time.Hour); n != 1 {
		t.Errorf("%d roots after 40 days, want 1", n)
	}

	_, err := gc.CollectRemote(ctx, at(300*24*time.Hour), "origin", gc.DefaultKeepAge, gc.DefaultRemoteOptions)
	s.Check(err)
	if n := len(keepRefs(t, r)); n != 1 {
		t.Errorf("%d keep refs after 300 days, want 1", n)
	}
	_, err = gc.CollectRemote(ctx, at(500*24*time.Hour), "origin", gc.DefaultKeepAge, gc.DefaultRemoteOptions)
	s.Check(err)
	if n := len(keepRefs(t, r)); n != 0 {
		t.Errorf("%d keep refs after 500 days, want 0", n)
	}
}

// TestKeepTime checks that a collection of the remote keeps a keep ref that was made with a slow clock, or while the user gave commits an old date.
func TestKeepTime(t *testing.T) {
	ctx := t.Context()
	long := func() time.Time { return time.Now().Add(-3 * 365 * 24 * time.Hour) }
	for name, change := range map[string]func(o *kist.Options){
		"clock": func(o *kist.Options) { o.Now = long }, "date": func(o *kist.Options) { o.Date = long },
	} {
		s := kisttest.New(t)
		b := remotetest.NewMemory()
		pushNoise(s, s.WithRemote(b), 1)
		o := kisttest.Opens(b)
		change(&o)
		r, err := kist.Open(s.Dir, o)
		s.Check(err)
		exchange.Connect(ctx, r)
		_, err = exchange.Evict(ctx, r, exchange.EvictOptions{Small: true})
		s.Check(err)
		s.Check(r.Close())
		r, err = kist.Open(s.Dir, kisttest.Opens(b))
		s.Check(err)
		defer r.Close()
		collectRemote(t, r)
		if n := len(keepRefs(t, r)); n != 1 {
			t.Errorf("%s: %d keep refs, want 1", name, n)
		}
	}
}

// TestKeepMadeAgain checks that a push makes a keep ref again that somebody deleted, also if it moves nothing.
func TestKeepMadeAgain(t *testing.T) {
	s, _, r, first := evictedRepository(t)
	deleteOnRemote(t, r, keepRefs(t, r)[0])
	s.Push(r, "main")
	if n := len(keepRefs(t, r)); n != 1 {
		t.Fatalf("%d keep refs after a push, want 1", n)
	}
	deleteOnRemote(t, r, "refs/heads/main")
	collectRemote(t, r)
	wantNoise(t, r, first, 1)
}

// TestMaintainAway checks that maintenance is due when the store exceeds local.limit, not again within the hour, and when the keep ref is a month
// old.
func TestMaintainAway(t *testing.T) {
	ctx := t.Context()
	s := kisttest.New(t)
	faulty := remotetest.NewFaulty(remotetest.NewMemory())
	r := s.WithRemote(faulty)
	film := string(kisttest.Noise(1, 2_000_000)) // the content of small files stays
	s.Write("film", film)
	s.Add(stage.AddOptions{})
	first := s.Commit("film").ID
	s.Push(r, "main")
	s.Check(r.EditConfig(ctx, func(c *kist.Config) error { return c.SetAt("20KB", "local", "limit") }))

	at := func(ahead time.Duration) *kist.Repository {
		o := kisttest.Opens(faulty)
		o.Now = func() time.Time { return time.Now().Add(ahead) }
		later, err := kist.Open(s.Dir, o)
		s.Check(err)
		t.Cleanup(func() { later.Close() })
		exchange.Connect(ctx, later)
		return later
	}
	for _, test := range []struct {
		after time.Duration
		due   bool
	}{{0, true}, {10 * time.Minute, false}, {2 * time.Hour, false}, {40 * 24 * time.Hour, true}, {41 * 24 * time.Hour, false}} {
		r := at(test.after)
		if due := exchange.IsAwayDue(ctx, r); due != test.due {
			t.Errorf("after %v: due %v, want %v", test.after, due, test.due)
		}
		s.Check(exchange.MaintainAway(ctx, r))
	}
	if size, err := r.Objects().Size(ctx); err != nil || size > 20_000 {
		t.Errorf("%d bytes, %v; want at most 20,000", size, err)
	}
	pushed := transfer.ReadKeep(registry.Dir(r, "origin"))
	if n := len(pushed.Commits); n != 1 || time.Until(pushed.Commits[0].Time) < 30*24*time.Hour {
		t.Errorf("the keep ref was not renewed: %+v", pushed)
	}

	// Content that was not pushed cannot be given away: that is not due at each command.
	s.Write("new", string(kisttest.Noise(9, 100_000)))
	s.Add(stage.AddOptions{})
	r = at(42 * 24 * time.Hour)
	for _, due := range []bool{true, false} {
		if is := exchange.IsAwayDue(ctx, r); is != due {
			t.Errorf("with unpushed content: due %v, want %v", is, due)
		}
		s.Check(exchange.MaintainAway(ctx, r))
	}
	if data, err := kisttest.ReadFile(ctx, at(0), first, "film"); err != nil || string(data) != film {
		t.Errorf("read the film: %d bytes, %v", len(data), err)
	}
}

// TestRelyOnKept checks that a session stores bytes again that are only on a remote whose keep ref somebody deleted.
func TestRelyOnKept(t *testing.T) {
	ctx := t.Context()
	s, _, r, _ := evictedRepository(t)
	stored := func() int64 {
		_, stats, err := commits.StoreStream(ctx, r, strings.NewReader(string(kisttest.Noise(1, 100_000))), volume.SessionOptions{}, nil)
		s.Check(err)
		return stats.StoredBytes
	}
	if n := stored(); n != 0 {
		t.Errorf("stored %d bytes that the keep ref reaches, want 0", n)
	}
	deleteOnRemote(t, r, keepRefs(t, r)[0])
	again, err := kist.Open(s.Dir, r.Options())
	s.Check(err)
	defer again.Close()
	exchange.Connect(ctx, again)
	r = again
	if n := stored(); n < 100_000 {
		t.Errorf("stored %d bytes without a keep ref, want 100,000", n)
	}
}

// TestEvictFaults makes each request of an eviction fail. Whatever happens, everything can be read, also after others
// have deleted the branch and collected the remote.
func TestEvictFaults(t *testing.T) {
	ctx := t.Context()
	for _, how := range []remotetest.How{remotetest.Before, remotetest.After} {
		for n := 1; ; n++ {
			s := kisttest.New(t)
			faulty := remotetest.NewFaulty(remotetest.NewMemory())
			r := s.WithRemote(faulty)
			exchange.Connect(ctx, r)
			first := pushNoise(s, r, 1)

			var failed atomic.Bool
			faulty.Fail(remotetest.Fault{N: n, How: how, Stays: true, Err: remote.ErrPermission, Do: func() { failed.Store(true) }})
			_, err := exchange.Evict(ctx, r, exchange.EvictOptions{Small: true})
			faulty.Heal()
			deleteOnRemote(t, r, "refs/heads/main")
			collectRemote(t, r)
			wantNoise(t, r, first, 1)
			if !failed.Load() {
				if err != nil {
					t.Errorf("evict without a fault: %v", err)
				}
				break
			}
		}
	}
}

// TestEvictWithoutPermission checks that nothing is given away without permission to write a keep ref.
func TestEvictWithoutPermission(t *testing.T) {
	s := kisttest.New(t)
	faulty := remotetest.NewFaulty(remotetest.NewMemory())
	r := s.WithRemote(faulty)
	pushNoise(s, r, 1)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Stays: true, Err: remote.ErrPermission})
	faulty.Fail(remotetest.Fault{Op: remotetest.Put, Stays: true, Err: remote.ErrPermission})
	_, err := exchange.Evict(t.Context(), r, exchange.EvictOptions{Small: true})
	if !errors.Is(err, exchange.ErrNoKeep) {
		t.Errorf("evict: error %v, want ErrNoKeep", err)
	}
	if away, err := volume.HasEvicted(t.Context(), r.Objects()); away || err != nil {
		t.Errorf("content is away: %v, %v", away, err)
	}
}

// dropContent deletes the branch and the keep refs of origin, as another clone would.
func dropContent(t *testing.T, r *kist.Repository) {
	t.Helper()
	for _, name := range append(keepRefs(t, r), "refs/heads/main") {
		deleteOnRemote(t, r, name)
	}
}

// TestFetchSecures checks that a fetch which finds the keep ref deleted makes it again or, without permission, brings the
// content here that names need. After that, a collection of the remote loses nothing.
func TestFetchSecures(t *testing.T) {
	ctx := t.Context()
	for _, permitted := range []bool{true, false} {
		s, faulty, r, first := evictedRepository(t)
		dropContent(t, r)
		if !permitted {
			faulty.Fail(remotetest.Fault{Op: remotetest.Create, Stays: true, Err: remote.ErrPermission})
			faulty.Fail(remotetest.Fault{Op: remotetest.Put, Stays: true, Err: remote.ErrPermission})
		}
		_, err := exchange.Fetch(ctx, r, exchange.FetchOptions{Remote: "origin"})
		s.Check(err)
		faulty.Heal()
		if n := len(keepRefs(t, r)); n == 1 != permitted {
			t.Errorf("permitted %v: %d keep refs after a fetch", permitted, n)
		}
		s.Check(r.Close())

		again, err := kist.Open(s.Dir, r.Options())
		s.Check(err)
		defer again.Close()
		exchange.Connect(ctx, again)
		collectRemote(t, again)
		wantNoise(t, again, first, 1)
	}
}

// TestPushFindsLost checks that a push notes evicted content that the remote has lost, so that add stores it from the
// worktree.
func TestPushFindsLost(t *testing.T) {
	ctx := t.Context()
	s, _, r, _ := evictedRepository(t)
	dropContent(t, r)
	b, err := r.Options().Backend(ctx, "")
	s.Check(err)
	collectRemote(t, kisttest.New(t).WithRemote(b))
	p, err := registry.ParsePush(ctx, r, "main:other")
	s.Check(err)
	if _, err := exchange.Push(ctx, r, exchange.PushOptions{Remote: "origin", Refs: []registry.PushRef{p}}); err == nil {
		t.Error("a push of content that is lost succeeded")
	}
	s.Check(exchange.RenewKeep(ctx, r, "origin", nil))
	if damaged, err := volume.HasDamage(r.Objects()); !damaged || err != nil {
		t.Errorf("the loss is not noted: %v, %v", damaged, err)
	}
	_, err = stage.Add(ctx, r, stage.AddOptions{})
	s.Check(err)
	wantNoise(t, r, s.Head(), 1)
	s.Check(exchange.RenewKeep(ctx, r, "origin", nil))
}
