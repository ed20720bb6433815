package exchange_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// If the pushed branch is deleted and gc removes its commit during the push, no
// remote-tracking branch names the missing commit. A fetch brings the commit back.
func TestPushWhileCollected(t *testing.T) {
	ctx := t.Context()
	s := kisttest.New(t)
	faulty := remotetest.NewFaulty(remotetest.NewMemory())
	repo := s.WithRemote(faulty)
	s.Write("file", "one")
	s.Add(stage.AddOptions{})
	s.Commit("one")
	s.Checkout(checkout.SwitchOptions{Create: "topic"})
	s.Write("file", "two")
	s.Add(stage.AddOptions{})
	topic := s.Commit("two").ID
	s.Checkout(checkout.SwitchOptions{Rev: "main"})

	p, err := registry.ParsePush(ctx, repo, "topic")
	s.Check(err)
	removed := 0
	faulty.Fail(remotetest.Fault{Op: remotetest.Create, Name: "root/", How: remotetest.After, Do: func() {
		_, err := commits.DeleteBranch(ctx, s.Repo, "refs/heads/topic", true)
		s.Check(err)
		later := s.Clocked(400 * 24 * time.Hour)
		removed = int(s.Collect(later, gc.PlanOptions{}).Removed)
	}})
	_, err = exchange.Push(ctx, repo, exchange.PushOptions{Remote: "origin", Refs: []registry.PushRef{p}})
	s.Check(err)
	if removed == 0 {
		t.Fatal("gc removed no objects during the push")
	}
	_, err = exchange.Fetch(ctx, repo, exchange.FetchOptions{Remote: "origin"})
	s.Check(err)
	_, err = kisttest.ReadFiles(ctx, repo, topic)
	s.Check(err)
	verify(t, repo)
}

// TestPushMergeKey checks that pushes merge small packs of earlier pushes, except if
// push.merge is false.
func TestPushMergeKey(t *testing.T) {
	const pushes = 18
	for _, merge := range []bool{true, false} {
		s := kisttest.New(t)
		memory := remotetest.NewMemory()
		repo := s.WithRemote(memory)
		s.Check(repo.SetConfig(t.Context(), "push.merge", merge))
		for i := range pushes {
			s.Write("file", string(rune('a'+i)))
			s.Add(stage.AddOptions{})
			s.Commit("next")
			s.Push(repo, "main")
		}
		if roots := len(memory.Names("root/")); (roots > pushes) != merge {
			t.Errorf("push.merge %v: %d roots for %d pushes", merge, roots, pushes)
		}
	}
}

// TestPushManyBranches checks that pushes of 30 branches and of 2 branches take equally
// many requests. Each branch has a commit of its own.
func TestPushManyBranches(t *testing.T) {
	ctx := t.Context()
	requests := func(branches int) (list []int) {
		s := kisttest.New(t)
		faulty := remotetest.NewFaulty(remotetest.NewMemory())
		repo := s.WithRemote(faulty)
		s.Write("file", "content")
		s.Add(stage.AddOptions{})
		s.Commit("base")
		s.Push(repo, "main")

		for round := range 3 { // new branches, moved branches, and unchanged branches
			var push []registry.PushRef
			for i := range branches {
				name := fmt.Sprint(refs.Heads, i)
				was, _ := s.Repo.Refs().Get(name) // zero in the first round
				id := putCommit(s, fmt.Sprint(i, min(round, 1)), s.Head())
				s.Check(s.Repo.Refs().Update(ctx, []refs.Change{{Name: name, Old: was, New: id, Reason: "test"}}, refs.Who{}))
				p, err := registry.ParsePush(ctx, repo, "+"+name)
				s.Check(err)
				push = append(push, p)
			}

			before := faulty.Calls(remotetest.Any)
			_, err := exchange.Push(ctx, repo, exchange.PushOptions{Remote: "origin", Refs: push})
			s.Check(err)
			list = append(list, faulty.Calls(remotetest.Any)-before)
		}
		return list
	}

	few, many := requests(2), requests(30)
	if !slices.Equal(few, many) {
		t.Errorf("%v requests for 30 branches, %v for 2", many, few)
	}
}
