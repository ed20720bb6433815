package kist_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// TestNameAfterStoppedFetch checks that a commit gets no name that a fetch has
// brought before it was stopped: the next one would take it to be whole.
func TestNameAfterStoppedFetch(t *testing.T) {
	ctx := t.Context()
	memory := remotetest.NewMemory()
	s := newStager(t)
	giver := s.withRemote(memory)
	s.write("file", "one")
	s.add(kist.AddOptions{})
	s.commit("first")
	s.push(giver, "main")
	faulty := remotetest.NewFaulty(memory)
	dir := t.TempDir()
	taker, _, err := kist.Clone(ctx, dir, opens(faulty), kist.CloneOptions{URL: "/memory"})
	s.check(err)
	defer taker.Close()
	s.write("file", strings.Repeat("a text that is too long to be kept inline ", 100))
	s.add(kist.AddOptions{})
	id := s.commit("second").ID
	s.push(giver, "main")
	faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", N: 2, Stays: true, Err: remote.ErrPermission})
	if _, err := taker.Fetch(ctx, kist.FetchOptions{Remote: "origin"}); !errors.Is(err, remote.ErrPermission) {
		t.Fatalf("fetch: %v", err)
	}
	taker, err = kist.Open(dir, opens(memory))
	s.check(err)
	defer taker.Close()
	if _, err := taker.CreateBranch(ctx, "early", id.String(), false); !errors.Is(err, kist.ErrGone) {
		t.Errorf("branch: %v", err)
	}
	if _, err := taker.Reset(ctx, id.String(), kist.ResetSoft, nil); !errors.Is(err, kist.ErrGone) {
		t.Errorf("reset: %v", err)
	}
	_, _, err = taker.CreateTag(ctx, kist.TagOptions{Name: "early", Rev: id.String(), Message: "early"})
	if !errors.Is(err, kist.ErrGone) {
		t.Errorf("tag: %v", err)
	}
	_, err = taker.Fetch(ctx, kist.FetchOptions{Remote: "origin"})
	s.check(err)
	report, err := taker.Verify(ctx, gc.VerifyOptions{})
	s.check(err)
	for _, p := range report.Problems {
		t.Errorf("after the fetch: %v", p)
	}
	_, err = taker.CreateBranch(ctx, "late", id.String(), false)
	s.check(err)
}
