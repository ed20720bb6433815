package kist_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// TestCloneWritesAhead checks that large files of a clone are there whole when
// the checkout comes to them.
func TestCloneWritesAhead(t *testing.T) {
	ctx := t.Context()
	memory := remotetest.NewMemory()
	opt := kist.Options{Backend: func(context.Context, string) (remote.Backend, error) { return memory, nil }}
	s := newStager(t)
	giver, err := kist.Open(s.dir, opt)
	s.check(err)
	defer giver.Close()
	s.check(giver.AddRemote(ctx, kist.Remote{Name: "origin", URL: "/memory"}))
	large := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{1}).Read(large)
	s.write("folder/large", string(large))
	s.add(kist.AddOptions{})
	s.commit("first")
	p, err := giver.ParsePush(ctx, "main")
	s.check(err)
	_, err = giver.Push(ctx, kist.PushOptions{Remote: "origin", Refs: []kist.PushRef{p}})
	s.check(err)

	clone := func(o kist.CloneOptions) (first kist.Amount) {
		t.Helper()
		o.URL = "/memory"
		o.Writing = func(done, _ kist.Amount) {
			if first.Bytes == 0 {
				first = done
			}
		}
		dir := t.TempDir()
		taker, _, err := kist.Clone(ctx, dir, opt, o)
		s.check(err)
		defer taker.Close()
		if data, err := os.ReadFile(filepath.Join(dir, "folder/large")); !o.NoCheckout && (err != nil || object.Sum(data) != object.Sum(large)) {
			t.Errorf("the large file is another one, or %v", err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, ".kist/tmp")); len(left) > 0 {
			t.Errorf("temporary files are left: %v, %v", left, err)
		}
		report, err := taker.Verify(ctx, gc.VerifyOptions{})
		s.check(err)
		for _, p := range report.Problems {
			t.Errorf("verify: %v", p)
		}
		return first
	}
	if first := clone(kist.CloneOptions{}); first.Bytes != int64(len(large)) {
		t.Errorf("the first to be written were %+v, not the whole file", first)
	}
	clone(kist.CloneOptions{NoCheckout: true})
}
