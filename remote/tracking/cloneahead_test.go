package tracking_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/tracking"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/treetest"
)

// pushed returns a repository with a file, which was pushed to "/memory", and
// the options with which that can be cloned.
func pushed(t *testing.T, name, content string) (*treetest.Repository, kist.Options) {
	t.Helper()
	ctx := t.Context()
	memory := remotetest.NewMemory()
	opt := kist.Options{Backend: func(context.Context, string) (remote.Backend, error) { return memory, nil }}
	s := treetest.New(t)
	giver, err := kist.Open(s.Dir, opt)
	s.Check(err)
	defer giver.Close()
	s.Check(registry.Add(ctx, giver, registry.Remote{Name: "origin", URL: "/memory"}))
	s.Write(name, content)
	s.Add(stage.AddOptions{})
	s.Commit("first")
	p, err := registry.ParsePush(ctx, giver, "main")
	s.Check(err)
	_, err = tracking.Push(ctx, giver, tracking.PushOptions{Remote: "origin", Refs: []registry.PushRef{p}})
	s.Check(err)
	return s, opt
}

// TestCloneWritesAhead checks that large files of a clone are there whole when
// the checkout comes to them.
func TestCloneWritesAhead(t *testing.T) {
	ctx := t.Context()
	large := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{1}).Read(large)
	s, opt := pushed(t, "folder/large", string(large))

	clone := func(o tracking.CloneOptions) (first kist.Amount) {
		t.Helper()
		o.URL = "/memory"
		o.Writing = func(done, _ kist.Amount) {
			if first.Bytes == 0 {
				first = done
			}
		}
		dir := t.TempDir()
		taker, _, err := tracking.Clone(ctx, dir, opt, o)
		s.Check(err)
		defer taker.Close()
		if data, err := os.ReadFile(filepath.Join(dir, "folder/large")); !o.NoCheckout && (err != nil || object.Sum(data) != object.Sum(large)) {
			t.Errorf("the large file is another one, or %v", err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, ".kist/tmp")); len(left) > 0 {
			t.Errorf("temporary files are left: %v, %v", left, err)
		}
		report, err := gc.VerifyRepository(ctx, taker, gc.VerifyOptions{})
		s.Check(err)
		for _, p := range report.Problems {
			t.Errorf("verify: %v", p)
		}
		return first
	}
	if first := clone(tracking.CloneOptions{}); first.Bytes != int64(len(large)) {
		t.Errorf("the first to be written were %+v, not the whole file", first)
	}
	clone(tracking.CloneOptions{NoCheckout: true})
}

// TestCloneSweeps checks that going on with a clone that was killed first
// removes the files that it was writing: they may be as large as all that is
// still to be received.
func TestCloneSweeps(t *testing.T) {
	ctx := t.Context()
	s, opt := pushed(t, "file", "content")

	dir := t.TempDir()
	interrupted, _, err := tracking.Clone(ctx, dir, opt, tracking.CloneOptions{URL: "/memory", Branch: "absent"})
	if !errors.Is(err, refs.ErrNotFound) {
		t.Fatal(err)
	}
	s.Check(interrupted.Close())
	left := filepath.Join(dir, ".kist/tmp/write-0123456789abcdef")
	s.Check(os.MkdirAll(left, 0o700))
	s.Check(os.WriteFile(filepath.Join(left, "00000001"), make([]byte, 1000), 0o600))
	there := func() bool { _, err := os.Lstat(left); return err == nil }
	taker, result, err := tracking.Clone(ctx, dir, opt, tracking.CloneOptions{URL: "/memory", NoCheckout: true})
	s.Check(err)
	defer taker.Close()
	if !result.Resumed || there() {
		t.Errorf("resumed: %t, the killed clone's files are there: %t", result.Resumed, there())
	}
	report, err := gc.VerifyRepository(ctx, taker, gc.VerifyOptions{})
	s.Check(err)
	for _, p := range report.Problems {
		t.Errorf("verify: %v", p)
	}
}

// TestCloneInterruptedWhileRemoteMoves cancels a clone while it writes files, and
// goes on with it after something else was pushed.
func TestCloneInterruptedWhileRemoteMoves(t *testing.T) {
	s, opt := pushed(t, "a", "first")
	giver, err := kist.Open(s.Dir, opt)
	s.Check(err)
	defer giver.Close()
	push := func(content string) {
		for _, path := range []string{"a", "b", "c/d", "c/e"} {
			s.Write(path, content)
		}
		s.Add(stage.AddOptions{})
		s.Commit(content)
		p, err := registry.ParsePush(t.Context(), giver, "main")
		s.Check(err)
		_, err = tracking.Push(t.Context(), giver, tracking.PushOptions{Remote: "origin", Refs: []registry.PushRef{p}})
		s.Check(err)
	}
	push("second")
	dir := t.TempDir()
	for range 3 { // the last two while the branch is moved on
		ctx, cancel := context.WithCancel(t.Context())
		r, _, err := tracking.Clone(ctx, dir, opt, tracking.CloneOptions{URL: "/memory", Writing: func(_, _ kist.Amount) { cancel() }})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted clone: %v", err)
		}
		s.Check(r.Close())
		cancel()
		push("another " + s.Head().String())
	}
	r, result, err := tracking.Clone(t.Context(), dir, opt, tracking.CloneOptions{URL: "/memory"})
	s.Check(err)
	defer r.Close()
	status, err := stage.ReadStatus(t.Context(), r, stage.StatusOptions{})
	s.Check(err)
	if !status.Clean() || len(status.Untracked) > 0 || result.Head.ID != s.Head() {
		t.Errorf("head: %v, want %v; status: %+v", result.Head, s.Head(), status)
	}
}

// TestCloneContactsOnce checks that a clone opens the store once, and looks for
// the head as at first contact once.
func TestCloneContactsOnce(t *testing.T) {
	s, opt := pushed(t, "file", "content")
	opened := 0
	var faulty *remotetest.Faulty
	_, _, err := tracking.Clone(t.Context(), t.TempDir(), kist.Options{Backend: func(ctx context.Context, url string) (remote.Backend, error) {
		opened++
		b, err := opt.Backend(ctx, url)
		faulty = remotetest.NewFaulty(b)
		return faulty, err
	}}, tracking.CloneOptions{URL: "/memory"})
	s.Check(err)
	if lists := faulty.Calls(remotetest.List); opened != 1 || lists != 1 {
		t.Errorf("the store was opened %d times, and %d lists were read; want 1 and 1", opened, lists)
	}
}
