package exchange_test

import (
	"context"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
)

// wantNoiseOf reads a file of pushNoise in a repository that is opened for it.
func wantNoiseOf(t *testing.T, s *kisttest.Repository, b remote.Backend, seed byte) {
	t.Helper()
	r, err := kist.Open(s.Dir, kisttest.Opens(b))
	s.Check(err)
	defer r.Close()
	exchange.Connect(t.Context(), r)
	wantNoise(t, r, s.Head(), seed)
	report, err := gc.VerifyRepository(t.Context(), r, gc.VerifyOptions{})
	if err != nil || len(report.Problems) > 0 {
		t.Fatalf("verify: %+v, %v", report, err)
	}
}

// dropAndCollect deletes the branch main of a remote and collects all garbage, as another clone would.
func dropAndCollect(t *testing.T, b remote.Backend) {
	t.Helper()
	other := kisttest.New(t).WithRemote(b)
	_, _ = exchange.Push(t.Context(), other, exchange.PushOptions{Remote: "origin", Refs: []registry.PushRef{{Name: "refs/heads/main"}}}) // it may be deleted
	collectRemote(t, other)
}

// TestEvictBesideCollector deletes the branch and collects all garbage of the remote between two requests of an eviction. The content
// that is given away can be read.
func TestEvictBesideCollector(t *testing.T) {
	rng := objecttest.Rand(31)
	calls, given := 40, 0
	for range objecttest.Rounds(t, 3) {
		s := kisttest.New(t)
		faulty := remotetest.NewFaulty(remotetest.NewMemory())
		r := s.WithRemote(faulty)
		exchange.Connect(t.Context(), r)
		pushNoise(s, r, 1)

		before := faulty.Calls(remotetest.Any)
		faulty.Fail(remotetest.Fault{N: 1 + rng.IntN(calls), Do: func() { dropAndCollect(t, faulty.Unwrap()) }})
		if result, err := exchange.Evict(t.Context(), r, exchange.EvictOptions{Small: true}); err != nil {
			t.Logf("evict: %v", err)
		} else if result.Chunks > 0 {
			given++
		}
		calls = faulty.Calls(remotetest.Any) - before
		faulty.Heal()
		dropAndCollect(t, faulty)
		wantNoiseOf(t, s, faulty, 1)
	}
	t.Logf("%d evictions gave content away", given)
}

// TestEvictTogether gives the same content away in two clones at once. Each has its own keep ref, and both can read it.
func TestEvictTogether(t *testing.T) {
	b := remotetest.NewMemory()
	s := kisttest.New(t)
	first := s.WithRemote(b)
	exchange.Connect(t.Context(), first)
	commit := pushNoise(s, first, 1)
	second, _, err := exchange.Clone(t.Context(), t.TempDir(), kisttest.Opens(b), exchange.CloneOptions{URL: "/memory"})
	s.Check(err)
	defer second.Close()
	exchange.Connect(t.Context(), second)

	var together sync.WaitGroup
	for _, r := range []*kist.Repository{first, second} {
		together.Go(func() {
			result, err := exchange.Evict(t.Context(), r, exchange.EvictOptions{Small: true})
			if err != nil || result.Chunks == 0 {
				t.Errorf("evict: %+v, %v", result, err)
			}
		})
	}
	together.Wait()
	if n := len(keepRefs(t, first)); n != 2 {
		t.Errorf("%d keep refs, want 2", n)
	}
	dropAndCollect(t, b)
	wantNoise(t, first, commit, 1)
	wantNoise(t, second, commit, 1)
}

// lyingPacks is a store that lists packs with another size than they have, or not at all.
type lyingPacks struct {
	remote.Backend
	more int64
	hide bool
}

func (l *lyingPacks) lie(info remote.Info) remote.Info {
	if strings.HasPrefix(info.Name, "packs/") {
		info.Size += l.more
	}
	return info
}

// Stat implements [remote.Blobs].
func (l *lyingPacks) Stat(ctx context.Context, name string) (remote.Info, error) {
	info, err := l.Backend.Stat(ctx, name)
	if err == nil && l.hide && strings.HasPrefix(name, "packs/") {
		return remote.Info{}, &remote.Error{Op: "stat", Name: name, Kind: remote.ErrNotFound}
	}
	return l.lie(info), err
}

// List implements [remote.Blobs].
func (l *lyingPacks) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		for info, err := range l.Backend.List(ctx, prefix) {
			if l.hide && strings.HasPrefix(info.Name, "packs/") {
				continue
			}
			if !yield(l.lie(info), err) {
				return
			}
		}
	}
}

// TestEvictFromLiars checks that nothing is given away to a remote whose packs are missing or have another size.
func TestEvictFromLiars(t *testing.T) {
	for name, liar := range map[string]*lyingPacks{"longer": {more: 1}, "shorter": {more: -1}, "missing": {hide: true}, "honest": {}} {
		liar.Backend = remotetest.NewMemory()
		s := kisttest.New(t)
		pushNoise(s, s.WithRemote(liar.Backend), 1)
		r, err := kist.Open(s.Dir, kisttest.Opens(liar))
		s.Check(err)
		exchange.Connect(t.Context(), r)
		result, err := exchange.Evict(t.Context(), r, exchange.EvictOptions{Small: true})
		if given := err == nil && result.Chunks > 0; given != (name == "honest") {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
		s.Check(r.Close())
		wantNoiseOf(t, s, liar.Backend, 1)
	}
}

// TestPurgeOfAway purges content that was given away together with other content. Afterwards it counts no longer as away: no keep ref
// needs it, and nothing warns that the remote has lost it.
func TestPurgeOfAway(t *testing.T) {
	ctx := t.Context()
	s := kisttest.New(t)
	b := remotetest.NewMemory()
	open := func() *kist.Repository {
		o := kisttest.Opens(b)
		o.Warn = func(text string) { t.Errorf("a warning: %s", text) }
		r, err := kist.Open(s.Dir, o)
		s.Check(err)
		t.Cleanup(func() { r.Close() })
		exchange.Connect(ctx, r)
		return r
	}
	s.WithRemote(b)
	r := open()
	s.Write("file2", string(kisttest.Noise(2, 100_000)))
	commit := pushNoise(s, r, 1)
	_, err := exchange.Evict(ctx, r, exchange.EvictOptions{Small: true})
	s.Check(err)
	before, err := volume.EvictedKeys(ctx, r.Objects())
	s.Check(err)

	s.Purge("file1")
	s.Collect(s.Clocked(0), gc.PlanOptions{})
	r = open()
	after, err := volume.EvictedKeys(ctx, r.Objects())
	if err != nil || len(after) == 0 || len(after) >= len(before) {
		t.Errorf("%d chunks are away after the purge, %d before; %v", len(after), len(before), err)
	}
	s.Push(r, "main")
	collectRemote(t, r)
	s.Check(exchange.RenewKeep(ctx, open(), "origin", nil))
	r = open()
	wantNoise(t, r, commit, 2)
	opened, err := registry.OpenNamed(ctx, r, "origin")
	s.Check(err)
	reader, err := transfer.NewReader(ctx, opened)
	s.Check(err)
	defer reader.Close()
	gone, err := reader.Missing(ctx, before)
	if err != nil || len(gone) != len(before)-len(after) {
		t.Errorf("the remote has lost %d chunks, want those %d of the purged file; %v", len(gone), len(before)-len(after), err)
	}
}
