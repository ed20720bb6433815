package exchange_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/versions"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// giver returns a repository whose remote origin is in memory.
func giver(t *testing.T) (*kisttest.Repository, *remotetest.Faulty, *kist.Repository) {
	t.Helper()
	s := kisttest.New(t)
	faulty := remotetest.NewFaulty(remotetest.NewMemory())
	return s, faulty, s.WithRemote(faulty)
}

// pushVersions pushes commits, each with another file below old and another version of top.
func pushVersions(s *kisttest.Repository, r *kist.Repository, n int) {
	for i := range n {
		s.Write(fmt.Sprintf("old/%d/file", i), string(kisttest.Noise(byte(i), 3000)))
		s.Write("top", fmt.Sprint("version ", i))
		s.Add(stage.AddOptions{})
		s.Commit(fmt.Sprint("version ", i))
	}
	s.Push(r, "main")
}

// lazyClone makes a lazy clone of the remote.
func lazyClone(t *testing.T, b remote.Backend, o exchange.CloneOptions) (*kist.Repository, *exchange.CloneResult) {
	t.Helper()
	o.URL, o.Lazy = "/memory", true
	r, result, err := exchange.Clone(t.Context(), t.TempDir(), kisttest.Opens(b), o)
	kisttest.Check(t, err)
	t.Cleanup(func() { r.Close() })
	return r, result
}

// wantVerified verifies a repository, and returns the report.
func wantVerified(t *testing.T, r *kist.Repository) *gc.Report {
	t.Helper()
	report, err := gc.VerifyRepository(t.Context(), r, gc.VerifyOptions{})
	kisttest.Check(t, err)
	for _, p := range report.Problems {
		t.Errorf("verify: %v", p)
	}
	return report
}

// collectLocal removes all garbage of a repository at once.
func collectLocal(t *testing.T, r *kist.Repository) error {
	t.Helper()
	p, err := gc.PlanFor(t.Context(), r, gc.PlanOptions{})
	if err != nil {
		return err
	}
	defer p.Close()
	return p.Apply(t.Context())
}

// contentsOf returns the files of each commit that a branch reaches.
func contentsOf(t *testing.T, r *kist.Repository, rev string) map[object.ID]map[string]string {
	t.Helper()
	tip, err := r.Resolve(t.Context(), rev)
	kisttest.Check(t, err)
	all := map[object.ID]map[string]string{}
	for c, err := range history.Walk(t.Context(), r.Objects(), []object.ID{tip}, history.Options{}) {
		kisttest.Check(t, err)
		all[c.ID], err = kisttest.ReadFiles(t.Context(), r, c.ID)
		kisttest.Check(t, err)
	}
	return all
}

// requests returns the number of requests so far.
func requests(f *remotetest.Faulty) (n int) {
	for _, op := range []remotetest.Op{remotetest.Get, remotetest.Stat, remotetest.List, remotetest.Put, remotetest.Create} {
		n += f.Calls(op)
	}
	return n
}

// goOffline makes all requests fail.
func goOffline(f *remotetest.Faulty) {
	for _, op := range []remotetest.Op{remotetest.Get, remotetest.Stat, remotetest.List, remotetest.Put, remotetest.Create} {
		f.Fail(remotetest.Fault{Op: op, Stays: true, Err: remote.ErrTemporary})
	}
}

// A lazy clone lacks content that its keep ref keeps: others may delete the branch, and collect.
func TestLazyClone(t *testing.T) {
	t.Parallel()
	s, faulty, full := giver(t)
	pushVersions(s, full, 5)
	r, result := lazyClone(t, faulty, exchange.CloneOptions{NoCheckout: true})
	if result.Unkept != nil || len(keepRefs(t, full)) != 1 {
		t.Errorf("keep refs %v, %v", keepRefs(t, full), result.Unkept)
	}
	if result.Objects != 5 || !r.Config().IsLazy() {
		t.Errorf("%d objects were received, want 5 commits", result.Objects)
	}
	wantVerified(t, r)
	kisttest.Check(t, collectLocal(t, r))

	deleteOnRemote(t, full, "refs/heads/main")
	collectRemote(t, full)
	if report := wantVerified(t, r); report.Unkept > 0 || report.Unchecked > 0 {
		t.Errorf("%d objects unkept, %d unchecked", report.Unkept, report.Unchecked)
	}
	if got, want := contentsOf(t, r, "origin/main"), contentsOf(t, full, "main"); !maps.EqualFunc(got, want, maps.Equal) {
		t.Error("the content of the lazy clone differs")
	}
	kisttest.Check(t, collectLocal(t, r))
	wantVerified(t, r)
}

// An object that only a local commit needs is missing, and not away: gc stops, and verify names it.
func TestLazyDamage(t *testing.T) {
	t.Parallel()
	s, faulty, full := giver(t)
	pushVersions(s, full, 3)
	r, _ := lazyClone(t, faulty, exchange.CloneOptions{})
	s.Check(r.Close())
	r, err := kist.Open(r.Root(), kisttest.Opens(faulty))
	s.Check(err)
	defer r.Close()
	before, err := r.Objects().Volumes(t.Context())
	s.Check(err)
	s.Check(os.WriteFile(filepath.Join(r.Root(), "new"), kisttest.Noise(99, 5000), 0o666))
	_, err = stage.Add(t.Context(), r, stage.AddOptions{})
	s.Check(err)
	after, err := r.Objects().Volumes(t.Context())
	s.Check(err)
	_, err = commits.Commit(t.Context(), r, commits.CommitOptions{Message: "local"})
	s.Check(err)
	wantVerified(t, r)
	for _, v := range after {
		if !slices.ContainsFunc(before, func(b volume.Info) bool { return b.Name == v.Name }) {
			s.Check(os.RemoveAll(filepath.Join(r.Dir(), "volumes", v.Name)))
		}
	}

	again, err := kist.Open(r.Root(), kisttest.Opens(faulty))
	s.Check(err)
	defer again.Close()
	exchange.Connect(t.Context(), again)
	report, err := gc.VerifyRepository(t.Context(), again, gc.VerifyOptions{})
	s.Check(err)
	if len(report.Problems) != 1 || !errors.Is(report.Problems[0].Err, object.ErrNotFound) {
		t.Errorf("problems %v, want the lost chunk", report.Problems)
	}
	if err := collectLocal(t, again); !errors.As(err, new(*gc.NeededError)) {
		t.Errorf("gc: %v, want it to stop", err)
	}
}

// Offline, nothing away counts as damage or garbage, and a checkout changes nothing.
func TestLazyOffline(t *testing.T) {
	t.Parallel()
	s, faulty, full := giver(t)
	pushVersions(s, full, 4)
	r, _ := lazyClone(t, faulty, exchange.CloneOptions{})
	r.Close()
	goOffline(faulty)
	r, err := kist.Open(r.Root(), kisttest.Opens(faulty))
	s.Check(err)
	defer r.Close()
	exchange.Connect(t.Context(), r)

	report := wantVerified(t, r)
	if report.Unchecked == 0 || !errors.Is(report.Why, remote.ErrTemporary) {
		t.Errorf("%d objects unchecked, %v", report.Unchecked, report.Why)
	}
	s.Check(collectLocal(t, r))
	_, err = checkout.Switch(t.Context(), r, checkout.SwitchOptions{Rev: "HEAD~2", Detach: true})
	if !object.IsAway(err) {
		t.Errorf("checkout: %v", err)
	}
	status, err := stage.ReadStatus(t.Context(), r, stage.StatusOptions{})
	if err != nil || len(status.Staged)+len(status.Changed)+len(status.Untracked) > 0 {
		t.Errorf("after the checkout: %+v, %v", status, err)
	}
}

// A push of a commit with a tree that is away reads none of it.
func TestLazyPush(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, faulty, full := giver(t)
	pushVersions(s, full, 4)
	r, _ := lazyClone(t, faulty, exchange.CloneOptions{NoCheckout: true})
	tip, old, err := r.ReadCommit(ctx, "origin/main~2")
	s.Check(err)
	away := object.Key{Kind: object.KindTree, ID: old.Tree}
	err = r.Update(ctx, func(tx *kist.Tx) error {
		info := tree.Info{ID: old.Tree, Files: old.Files, Bytes: old.Bytes}
		id, err := tx.PutCommit(ctx, kist.NewCommit(r, info, "as it was", tip))
		tx.Move(refs.Change{Name: refs.Heads + "topic", New: id, Reason: "test"})
		return err
	})
	s.Check(err)
	s.Push(r, "topic")
	if !volume.IsAbsent(r.Objects(), away) {
		t.Error("the push fetched a tree that is away")
	}
	wantVerified(t, r)
	s.Check(collectLocal(t, r))

	other, _, err := exchange.Clone(ctx, t.TempDir(), kisttest.Opens(faulty), exchange.CloneOptions{URL: "/memory"})
	s.Check(err)
	defer other.Close()
	wantVerified(t, other)
	if got := contentsOf(t, other, "origin/topic"); len(got) != 3 {
		t.Errorf("%d commits, want 3", len(got))
	}
}

// The requests of a lazy clone have bounds.
func TestLazyRequests(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, faulty, full := giver(t)
	for i := range 300 {
		s.Write(fmt.Sprintf("many/%03d", i), string(kisttest.Noise(byte(i), 100+i)))
	}
	pushVersions(s, full, 30)
	want := func(what string, most int, do func()) {
		t.Helper()
		before := requests(faulty)
		do()
		n := requests(faulty) - before
		t.Logf("%s: %d requests", what, n)
		if n > most {
			t.Errorf("%s: %d requests, want at most %d", what, n, most)
		}
	}

	var r *kist.Repository
	want("clone --lazy -n", 30, func() { r, _ = lazyClone(t, faulty, exchange.CloneOptions{NoCheckout: true}) })
	tip, err := r.Resolve(ctx, "origin/main")
	s.Check(err)
	want("one file", 16, func() {
		_, err := kisttest.ReadFile(ctx, r, tip, "old/3/file")
		s.Check(err)
	})
	want("a checkout", 12, func() {
		_, err := checkout.Switch(ctx, r, checkout.SwitchOptions{Rev: "origin/main", Detach: true})
		s.Check(err)
	})
	want("the same again", 2, func() {
		_, err := kisttest.ReadFiles(ctx, r, tip)
		s.Check(err)
	})
}

// A command that nobody asked to fetch much stops, or asks once.
func TestLazyBudget(t *testing.T) {
	t.Parallel()
	s, faulty, full := giver(t)
	pushVersions(s, full, 5)
	for name, test := range map[string]struct {
		ask  bool
		fail bool
	}{"no": {false, true}, "yes": {true, false}} {
		r, _ := lazyClone(t, faulty, exchange.CloneOptions{NoCheckout: true})
		asked := 0
		registry.LimitFetches(r, 5000, func(*object.BudgetError) bool { asked++; return test.ask })
		tip, err := r.Resolve(t.Context(), "origin/main")
		s.Check(err)
		_, err = kisttest.ReadFiles(t.Context(), r, tip)
		if errors.As(err, new(*object.BudgetError)) != test.fail || !test.fail && err != nil || asked != 1 {
			t.Errorf("%s: %v, asked %d times", name, err, asked)
		}
		wantVerified(t, r)
	}
}

// A fetch whose keep ref does not follow, because it is killed or the remote fails, is repaired by the next one, though that fetches nothing.
func TestLazyFetchUnkept(t *testing.T) {
	t.Parallel()
	s, faulty, full := giver(t)
	pushVersions(s, full, 2)
	r, _ := lazyClone(t, faulty, exchange.CloneOptions{NoCheckout: true})
	s.Write("more", string(kisttest.Noise(77, 4000)))
	s.Add(stage.AddOptions{})
	s.Commit("more")
	s.Push(full, "main")

	before := keepTips(t, full)
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Stays: true, Err: remote.ErrPermission}) // no keep ref moves
	_, err := exchange.Fetch(t.Context(), r, exchange.FetchOptions{Remote: "origin"})
	s.Check(err)
	faulty.Heal()
	if now := keepTips(t, full); !maps.Equal(before, now) {
		t.Fatal("the keep ref moved")
	}
	if report := wantVerified(t, r); report.Unkept > 0 {
		t.Errorf("%d objects are unkept: the branch of the remote keeps them", report.Unkept)
	}

	result, err := exchange.Fetch(t.Context(), r, exchange.FetchOptions{Remote: "origin"})
	s.Check(err)
	if result.Objects != 0 || maps.Equal(before, keepTips(t, full)) {
		t.Errorf("%d objects came; the keep ref must follow", result.Objects)
	}
	deleteOnRemote(t, full, "refs/heads/main")
	collectRemote(t, full)
	wantVerified(t, r)
	if got, want := contentsOf(t, r, "origin/main"), contentsOf(t, full, "main"); !maps.EqualFunc(got, want, maps.Equal) {
		t.Error("the content of the lazy clone differs")
	}
}

// Random histories look the same in a full and in a lazy clone, whatever was fetched, collected and deleted.
func TestLazyOracle(t *testing.T) {
	t.Parallel()
	rng := objecttest.Rand(38)
	for round := range objecttest.Rounds(t, 3) {
		if !t.Run(strconv.Itoa(round), func(t *testing.T) { compareLazy(t, rng) }) {
			return
		}
	}
}

// compareLazy is one round of TestLazyOracle.
func compareLazy(t *testing.T, rng *rand.Rand) {
	s, faulty, full := giver(t)
	pushVersions(s, full, 1+rng.IntN(3))
	r, _ := lazyClone(t, faulty, exchange.CloneOptions{NoCheckout: rng.IntN(2) == 0})
	for range 6 {
		lazyStep(t, rng, s, full, r, faulty)
	}
	if got, want := contentsOf(t, r, "origin/main"), contentsOf(t, full, "main"); !maps.EqualFunc(got, want, maps.Equal) {
		t.Error("the content of the lazy clone differs")
	}
	wantVerified(t, r)

	_, err := exchange.BringAll(t.Context(), r)
	s.Check(err)
	goOffline(faulty)
	again, err := kist.Open(r.Root(), kisttest.Opens(faulty))
	s.Check(err)
	if report := wantVerified(t, again); report.Unchecked > 0 || again.Config().IsLazy() {
		t.Errorf("after fetch --full, %d objects are away", report.Unchecked)
	}
	s.Check(again.Close())
}

// versionsOf returns the contents of the paths that each commit changed.
func versionsOf(t *testing.T, r *kist.Repository) map[object.ID]map[string]object.ID {
	t.Helper()
	x, err := versions.Open(t.Context(), r, nil)
	kisttest.Check(t, err)
	all := map[object.ID]map[string]object.ID{}
	for v := range x.All() {
		if all[v.Commit] == nil {
			all[v.Commit] = map[string]object.ID{}
		}
		all[v.Commit][v.Path] = v.ID
	}
	return all
}

// stepOffline collects and verifies, as another process, while the remote does not answer.
func stepOffline(t *testing.T, r *kist.Repository, faulty *remotetest.Faulty) {
	t.Helper()
	goOffline(faulty)
	defer faulty.Heal()
	again, err := kist.Open(r.Root(), kisttest.Opens(faulty))
	kisttest.Check(t, err)
	defer again.Close()
	exchange.Connect(t.Context(), again)
	kisttest.Check(t, collectLocal(t, again))
	wantVerified(t, again)
}

// pushOldTree pushes a commit with the tree of a random ancestor to a branch of its own.
func pushOldTree(t *testing.T, rng *rand.Rand, r *kist.Repository) {
	t.Helper()
	ctx := t.Context()
	tip, err := r.Resolve(ctx, "origin/main")
	kisttest.Check(t, err)
	var all []history.Commit
	for c, err := range history.Walk(ctx, r.Objects(), []object.ID{tip}, history.Options{}) {
		kisttest.Check(t, err)
		all = append(all, c)
	}
	old := all[rng.IntN(len(all))]
	name := fmt.Sprintf("topic%x", rng.Uint64())
	err = r.Update(ctx, func(tx *kist.Tx) error {
		info := tree.Info{ID: old.Tree, Files: old.Files, Bytes: old.Bytes}
		id, err := tx.PutCommit(ctx, kist.NewCommit(r, info, "as it was", tip))
		tx.Move(refs.Change{Name: refs.Heads + name, New: id, Reason: "test"})
		if err != nil {
			return err
		}
		return tx.Publish(ctx)
	})
	kisttest.Check(t, err)
	_, err = exchange.Push(ctx, r, exchange.PushOptions{Remote: "origin", Refs: []registry.PushRef{{Name: refs.Heads + name, Source: name}}})
	kisttest.Check(t, err)
}

// lazyStep does something in one of the clones.
func lazyStep(t *testing.T, rng *rand.Rand, s *kisttest.Repository, full, r *kist.Repository, faulty *remotetest.Faulty) {
	t.Helper()
	ctx := t.Context()
	switch rng.IntN(9) {
	case 0:
		s.Write(fmt.Sprintf("dir%d/file%d", rng.IntN(3), rng.IntN(3)), string(kisttest.Noise(byte(rng.IntN(250)), 1+rng.IntN(5000))))
		s.Add(stage.AddOptions{})
		s.Commit("more")
		s.Push(full, "main")
	case 1:
		kisttest.Check(t, collectLocal(t, r))
	case 2:
		wantVerified(t, r)
	case 3:
		tip, err := r.Resolve(ctx, "origin/main")
		kisttest.Check(t, err)
		_, err = kisttest.ReadFiles(ctx, r, tip)
		kisttest.Check(t, err)
	case 4:
		collectRemote(t, full)
	case 5: // the trees of all history come together
		got := versionsOf(t, r)
		for commit, want := range versionsOf(t, full) {
			if !maps.Equal(got[commit], want) {
				t.Errorf("commit %s has the versions %v, want %v", commit, got[commit], want)
			}
		}
	case 6:
		tip, _, err := r.ReadCommit(ctx, "origin/main")
		kisttest.Check(t, err)
		_, err = exchange.BringContent(ctx, r, []object.Key{{Kind: object.KindCommit, ID: tip}})
		kisttest.Check(t, err)
	case 7:
		stepOffline(t, r, faulty)
	case 8: // a commit with a tree that may be away
		pushOldTree(t, rng, r)
	}

	_, err := exchange.Fetch(ctx, r, exchange.FetchOptions{Remote: "origin"})
	kisttest.Check(t, err)
}
