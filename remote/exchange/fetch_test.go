package exchange_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/purge"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// A fetch receives all objects of a commit, even if gc removes an expired commit that
// shares most of them during the fetch.
func TestFetchWhileExpiring(t *testing.T) {
	ctx := t.Context()
	memory := remotetest.NewMemory()
	s := kisttest.New(t)
	giver := s.WithRemote(memory)
	s.Write("folder/file", "a text that both have, and that is too long to be kept inline")
	s.Write("other", "a text that only the first has, too long to be kept inline")
	s.Add(stage.AddOptions{})
	first := s.Commit("first").ID
	s.Write("folder/file", "something else, which is too long to be kept inline, too")
	s.Write("other", "")
	s.Add(stage.AddOptions{})
	s.Commit("second")
	s.Push(giver, "main")

	dir := t.TempDir()
	faulty := remotetest.NewFaulty(memory)
	taker, _, err := exchange.Clone(ctx, dir, kisttest.Opens(faulty), exchange.CloneOptions{URL: "/memory"})
	s.Check(err)
	defer taker.Close()

	_, err = checkout.Reset(ctx, s.Repo, first.String(), checkout.ResetHard, nil)
	s.Check(err)
	s.Write("other", "a text that is new, and too long to be kept inline")
	s.Add(stage.AddOptions{})
	third := s.Commit("third").ID
	s.Push(giver, "HEAD:refs/heads/topic")

	later, err := kist.Open(dir, kist.Options{Now: func() time.Time { return time.Now().AddDate(0, 0, 1) }})
	s.Check(err)
	defer later.Close()
	removed := 0
	faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", Do: func() {
		_, err := retain.Expire(ctx, later, retain.ExpireOptions{Revs: []string{first.String()}})
		s.Check(err)
		removed = int(s.Collect(later, gc.PlanOptions{}).Removed)
	}})
	_, err = exchange.Fetch(ctx, taker, exchange.FetchOptions{Remote: "origin"})
	s.Check(err)
	if removed == 0 {
		t.Fatal("gc removed no objects during the fetch")
	}
	if _, err := kisttest.ReadFile(ctx, taker, third, "folder/file"); err != nil {
		t.Error(err)
	}
	verify(t, taker)
}

// A forged purge of the highest generation has no effect in a clone that needs the
// content. If one clone refuses it, the purge is undone for all.
func TestFetchForgedRecord(t *testing.T) {
	ctx := t.Context()
	memory := remotetest.NewMemory()
	s := kisttest.New(t)
	giver := s.WithRemote(memory)
	s.Write("file", "a text that both have, and that is too long to be kept inline")
	s.Add(stage.AddOptions{})
	s.Commit("first")
	s.Push(giver, "main")
	dir := t.TempDir()
	taker, _, err := exchange.Clone(ctx, dir, kisttest.Opens(memory), exchange.CloneOptions{URL: "/memory"})
	s.Check(err)
	defer taker.Close()

	plan := s.Plan(purge.Options{Paths: []purge.Path{{Path: "file"}}})
	forged := record.Record{Kind: record.Purge, Key: plan.Contents[0].Key, Generation: record.MaxPlausible, On: true, Time: time.Unix(1, 0).UTC()}
	s.Check(giver.Records().Update(ctx, func(set *record.Set) error {
		set.Merge(forged)
		return nil
	}))
	s.Push(giver, "main")

	fetch := func(r *kist.Repository, d exchange.Decision) *exchange.FetchResult {
		t.Helper()
		result, err := exchange.Fetch(ctx, r, exchange.FetchOptions{Remote: "origin", Waiting: d})
		s.Check(err)
		return result
	}
	for range 2 {
		got := fetch(taker, exchange.Ask)
		if len(got.Received) != 1 || !got.Received[0].Waits || !slices.Equal(got.Received[0].Needed, []string{"branch main", "the index"}) || got.Records != 0 {
			t.Fatalf("received: %+v", got)
		}
	}
	s.Collect(taker, gc.PlanOptions{})
	if list, err := purge.All(taker); err != nil || len(list) > 0 {
		t.Errorf("purged: %v, %v", list, err)
	}
	fetch(taker, exchange.Refuse)
	s.Push(taker, "main")
	if got := fetch(giver, exchange.Ask); got.Records != 1 || got.Received[0].On {
		t.Errorf("fetch after the refusal: %+v, want one undone purge", got)
	}
	if err := giver.Records().Update(ctx, func(set *record.Set) error { return set.Switch(forged) }); !errors.Is(err, record.ErrFinal) {
		t.Errorf("the forged purge again: error %v, want ErrFinal", err)
	}
	if purged, err := purge.Apply(ctx, giver, plan, "", true); !errors.Is(err, record.ErrFinal) {
		t.Errorf("purge of the same content: %v, error %v, want ErrFinal", purged, err)
	}
}

// putCommit stores a commit with the files of HEAD. No ref names it yet.
func putCommit(s *kisttest.Repository, message string, parents ...object.ID) object.ID {
	s.Helper()
	ctx := s.Context()
	c, err := object.ReadCommit(ctx, s.Repo.Objects(), s.Head())
	s.Check(err)
	c.Message, c.Parents = message, parents
	data, err := c.Encode()
	s.Check(err)
	session := s.Repo.Objects().Begin(volume.SessionOptions{})
	defer session.Close()
	id, err := session.Put(ctx, object.KindCommit, data)
	s.Check(err)
	s.Check(session.Publish(ctx, func(context.Context) error { return nil }))
	return id
}

// A fetch that is repeated because a branch moved meanwhile still reports the lost parent
// of a commit, and accepts its loss.
func TestFetchLostAgain(t *testing.T) {
	ctx := t.Context()
	s, opt := pushed(t, "file", "content")
	taker, _, err := exchange.Clone(ctx, t.TempDir(), opt, exchange.CloneOptions{URL: "/memory"})
	s.Check(err)
	s.Check(taker.Close())

	lost := object.Key{Kind: object.KindCommit, ID: object.Sum([]byte("lost"))}
	s.Check(os.WriteFile(filepath.Join(s.Repo.Dir(), kist.LostFile), kist.EncodeLost([]object.Key{lost}), 0o644))
	s.Repo.Objects().SetLost([]object.Key{lost})
	broken := putCommit(s, "after a lost commit", lost.ID)
	s.Check(s.Repo.Refs().Update(ctx, []refs.Change{{Name: refs.Heads + "broken", New: broken, Reason: "test"}}, refs.Who{}))
	giver, err := kist.Open(s.Dir, opt)
	s.Check(err)
	defer giver.Close()
	s.Push(giver, "broken")

	memory, err := opt.Backend(ctx, "")
	s.Check(err)
	faulty := remotetest.NewFaulty(memory)
	taker, err = kist.Open(taker.Root(), kisttest.Opens(faulty))
	s.Check(err)
	defer taker.Close()
	moved := false
	faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", Do: func() {
		moved = true
		s.Check(taker.Refs().Update(ctx, []refs.Change{{Name: refs.Remotes + "origin/broken", New: s.Head(), Reason: "test"}}, refs.Who{}))
	}})
	result, err := exchange.Fetch(ctx, taker, exchange.FetchOptions{Remote: "origin"})
	s.Check(err)
	if !moved || len(result.Lost) != 1 || result.Lost[0].Key != lost {
		t.Errorf("branch moved: %v; lost: %v, want %v", moved, result.Lost, lost)
	}
	data, err := os.ReadFile(filepath.Join(taker.Dir(), kist.LostFile))
	s.Check(err)
	if keys, err := kist.DecodeLost(data); err != nil || !slices.Equal(keys, []object.Key{lost}) {
		t.Errorf("accepted losses: %v, %v; want %v", keys, err, lost)
	}
}
