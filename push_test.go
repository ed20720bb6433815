package kist_test

import (
	"testing"
	"time"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/tracking"
	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/view"
)

// TestPushWhileCollected has a branch deleted, and its commit removed, while it is
// pushed: no remote-tracking branch names what is gone, and a fetch brings it back.
func TestPushWhileCollected(t *testing.T) {
	ctx := t.Context()
	s := newStager(t)
	faulty := remotetest.NewFaulty(remotetest.NewMemory())
	repo := s.withRemote(faulty)
	s.write("file", "one")
	s.add(stage.AddOptions{})
	s.commit("one")
	s.checkout(checkout.SwitchOptions{Create: "topic"})
	s.write("file", "two")
	s.add(stage.AddOptions{})
	topic := s.commit("two").ID
	s.checkout(checkout.SwitchOptions{Rev: "main"})

	p, err := registry.ParsePush(ctx, repo, "topic")
	s.check(err)
	removed := 0
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", How: remotetest.After, Do: func() {
		_, err := commits.DeleteBranch(ctx, s.repo, "refs/heads/topic", true)
		s.check(err)
		later := s.clocked(400 * 24 * time.Hour)
		removed = int(s.collect(later, gc.PlanOptions{}).Removed)
	}})
	_, err = tracking.Push(ctx, repo, tracking.PushOptions{Remote: "origin", Refs: []registry.PushRef{p}})
	s.check(err)
	if removed == 0 {
		t.Fatal("nothing was removed meanwhile")
	}
	_, err = tracking.Fetch(ctx, repo, tracking.FetchOptions{Remote: "origin"})
	s.check(err)
	_, err = view.FS(ctx, repo, topic)
	s.check(err)
	report, err := gc.VerifyRepository(ctx, repo, gc.VerifyOptions{})
	s.check(err)
	for _, p := range report.Problems {
		t.Errorf("after the fetch: %v", p)
	}
}

// TestPushMergeKey checks that the key push.merge keeps pushes from merging the
// small packs of earlier ones.
func TestPushMergeKey(t *testing.T) {
	const pushes = 18
	for _, merge := range []bool{true, false} {
		s := newStager(t)
		memory := remotetest.NewMemory()
		repo := s.withRemote(memory)
		s.check(repo.SetConfig(t.Context(), "push.merge", merge))
		for i := range pushes {
			s.write("file", string(rune('a'+i)))
			s.add(stage.AddOptions{})
			s.commit("next")
			s.push(repo, "main")
		}
		if roots := len(memory.Names("root/")); (roots > pushes) != merge {
			t.Errorf("push.merge %v: %d roots for %d pushes", merge, roots, pushes)
		}
	}
}
