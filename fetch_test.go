package kist_test

import (
	"context"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// TestFetchWhileExpiring has the content of a commit expire, and be removed,
// while something is fetched that shares most of it.
func TestFetchWhileExpiring(t *testing.T) {
	ctx := t.Context()
	memory := remotetest.NewMemory()
	open := func(b remote.Backend) func(context.Context, string) (remote.Backend, error) {
		return func(context.Context, string) (remote.Backend, error) { return b, nil }
	}
	s := newStager(t)
	giver, err := kist.Open(s.dir, kist.Options{Backend: open(memory)})
	s.check(err)
	defer giver.Close()
	err = giver.AddRemote(ctx, kist.Remote{Name: "origin", URL: "/memory"})
	s.check(err)
	push := func(ref string) {
		t.Helper()
		p, err := giver.ParsePush(ctx, ref)
		s.check(err)
		_, err = giver.Push(ctx, kist.PushOptions{Remote: "origin", Refs: []kist.PushRef{p}})
		s.check(err)
	}
	s.write("folder/file", "a text that both have, and that is too long to be kept inline")
	s.write("other", "a text that only the first has, too long to be kept inline")
	s.add(kist.AddOptions{})
	first := s.commit("first").ID
	s.write("folder/file", "something else, which is too long to be kept inline, too")
	s.write("other", "")
	s.add(kist.AddOptions{})
	s.commit("second")
	push("main")

	dir := t.TempDir()
	faulty := remotetest.NewFaulty(memory)
	taker, _, err := kist.Clone(ctx, dir, kist.Options{Backend: open(faulty)}, kist.CloneOptions{URL: "/memory"})
	s.check(err)
	defer taker.Close()

	_, err = s.repo.Reset(ctx, first.String(), kist.ResetHard, nil)
	s.check(err)
	s.write("other", "a text that is new, and too long to be kept inline")
	s.add(kist.AddOptions{})
	third := s.commit("third").ID
	push("HEAD:refs/heads/topic")

	again, err := kist.Open(dir, kist.Options{Now: func() time.Time { return time.Now().AddDate(0, 0, 1) }})
	s.check(err)
	defer again.Close()
	removed := 0
	faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", Do: func() {
		_, err := again.Expire(ctx, kist.ExpireOptions{Revs: []string{first.String()}})
		s.check(err)
		removed = int(s.collect(again, gc.PlanOptions{}).Removed)
	}})
	_, err = taker.Fetch(ctx, kist.FetchOptions{Remote: "origin"})
	s.check(err)
	if removed == 0 {
		t.Fatal("nothing was removed meanwhile")
	}
	fsys, err := taker.FS(ctx, third)
	s.check(err)
	if _, err := fsys.Open("folder/file"); err != nil {
		t.Error(err)
	}
	report, err := taker.Verify(ctx, gc.VerifyOptions{})
	s.check(err)
	for _, p := range report.Problems {
		t.Errorf("after the fetch: %v", p)
	}
}
