package kist_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// No name may point to a commit that an interrupted fetch stored without its content. The next
// fetch would take a named commit for intact and not fetch the rest.
func TestNameAfterStoppedFetch(t *testing.T) {
	ctx := t.Context()
	memory := remotetest.NewMemory()
	s := kisttest.New(t)
	giver := s.WithRemote(memory)
	s.Write("file", "one")
	s.Add(stage.AddOptions{})
	s.Commit("first")
	s.Push(giver, "main")
	faulty := remotetest.NewFaulty(memory)
	dir := t.TempDir()
	taker, _, err := exchange.Clone(ctx, dir, kisttest.Opens(faulty), exchange.CloneOptions{URL: "/memory"})
	s.Check(err)
	defer taker.Close()
	s.Write("file", strings.Repeat("a text that is too long to be kept inline ", 100))
	s.Add(stage.AddOptions{})
	id := s.Commit("second").ID
	s.Push(giver, "main")
	faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", N: 2, Stays: true, Err: remote.ErrPermission})

	if _, err := exchange.Fetch(ctx, taker, exchange.FetchOptions{Remote: "origin"}); !errors.Is(err, remote.ErrPermission) {
		t.Fatalf("interrupted fetch: %v, want ErrPermission", err)
	}
	taker, err = kist.Open(dir, kisttest.Opens(memory))
	s.Check(err)
	defer taker.Close()
	if _, err := commits.CreateBranch(ctx, taker, "early", id.String(), false); !errors.Is(err, kist.ErrGone) {
		t.Errorf("branch on the incomplete commit: %v, want ErrGone", err)
	}
	if _, err := checkout.Reset(ctx, taker, id.String(), checkout.ResetSoft, nil); !errors.Is(err, kist.ErrGone) {
		t.Errorf("reset to the incomplete commit: %v, want ErrGone", err)
	}

	_, _, err = commits.CreateTag(ctx, taker, commits.TagOptions{Name: "early", Rev: id.String(), Message: "early"})
	if !errors.Is(err, kist.ErrGone) {
		t.Errorf("tag on the incomplete commit: %v, want ErrGone", err)
	}
	_, err = exchange.Fetch(ctx, taker, exchange.FetchOptions{Remote: "origin"})
	s.Check(err)
	report, err := gc.VerifyRepository(ctx, taker, gc.VerifyOptions{})
	s.Check(err)

	for _, p := range report.Problems {
		t.Errorf("problem after the complete fetch: %v", p)
	}
	_, err = commits.CreateBranch(ctx, taker, "late", id.String(), false)
	s.Check(err)
}
