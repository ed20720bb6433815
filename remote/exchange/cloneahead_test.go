package exchange_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// pushed returns a repository with a file, pushed to "/memory", and the options to
// clone it. "/memory" is a store in memory.
func pushed(t *testing.T, name, content string) (*kisttest.Repository, kist.Options) {
	t.Helper()
	ctx := t.Context()
	memory := remotetest.NewMemory()
	opt := kist.Options{Backend: func(context.Context, string) (remote.Backend, error) { return memory, nil }}
	s := kisttest.New(t)
	giver, err := kist.Open(s.Dir, opt)
	s.Check(err)
	defer giver.Close()
	s.Check(registry.Add(ctx, giver, registry.Remote{Name: "origin", URL: "/memory"}))
	s.Write(name, content)
	s.Add(stage.AddOptions{})
	s.Commit("first")
	p, err := registry.ParsePush(ctx, giver, "main")
	s.Check(err)
	_, err = exchange.Push(ctx, giver, exchange.PushOptions{Remote: "origin", Refs: []registry.PushRef{p}})
	s.Check(err)
	return s, opt
}

// A clone writes a large file while it receives its chunks. The checkout then has the
// complete file at once.
func TestCloneWritesAhead(t *testing.T) {
	ctx := t.Context()
	large := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{1}).Read(large)
	s, opt := pushed(t, "folder/large", string(large))

	clone := func(o exchange.CloneOptions) (first kist.Amount) {
		t.Helper()
		o.URL = "/memory"
		o.Writing = func(done, _ kist.Amount) {
			if first.Bytes == 0 {
				first = done
			}
		}
		dir := t.TempDir()
		taker, _, err := exchange.Clone(ctx, dir, opt, o)
		s.Check(err)
		defer taker.Close()
		if data, err := os.ReadFile(filepath.Join(dir, "folder/large")); !o.NoCheckout && (err != nil || object.Sum(data) != object.Sum(large)) {
			t.Errorf("the large file has other content, or error %v", err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, ".kist/tmp")); len(left) > 0 {
			t.Errorf("temporary files left: %v, %v", left, err)
		}
		verify(t, taker)
		return first
	}
	if first := clone(exchange.CloneOptions{}); first.Bytes != int64(len(large)) {
		t.Errorf("the first progress of the checkout is %+v, want all %d bytes", first, len(large))
	}
	clone(exchange.CloneOptions{NoCheckout: true})
}

// verify checks that a repository has no damage.
func verify(t *testing.T, r *kist.Repository) {
	t.Helper()
	report, err := gc.VerifyRepository(t.Context(), r, gc.VerifyOptions{})
	kisttest.Check(t, err)
	for _, p := range report.Problems {
		t.Errorf("verify: %v", p)
	}
}

// A resumed clone first removes the unfinished files of a killed clone. They may be as
// large as all data that is still missing.
func TestCloneSweeps(t *testing.T) {
	ctx := t.Context()
	s, opt := pushed(t, "file", "content")

	dir := t.TempDir()
	interrupted, _, err := exchange.Clone(ctx, dir, opt, exchange.CloneOptions{URL: "/memory", Branch: "absent"})
	if !errors.Is(err, refs.ErrNotFound) {
		t.Fatal(err)
	}
	s.Check(interrupted.Close())
	left := filepath.Join(dir, ".kist/tmp/write-0123456789abcdef")
	s.Check(os.MkdirAll(left, 0o700))
	s.Check(os.WriteFile(filepath.Join(left, "00000001"), make([]byte, 1000), 0o600))
	taker, result, err := exchange.Clone(ctx, dir, opt, exchange.CloneOptions{URL: "/memory", NoCheckout: true})
	s.Check(err)
	defer taker.Close()
	if _, err := os.Lstat(left); !result.Resumed || err == nil {
		t.Errorf("resumed: %t, files of the killed clone left: %t", result.Resumed, err == nil)
	}
	verify(t, taker)
}

// A clone that was cancelled while it wrote files completes, even if the branch has
// moved on the remote meanwhile.
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
		_, err = exchange.Push(t.Context(), giver, exchange.PushOptions{Remote: "origin", Refs: []registry.PushRef{p}})
		s.Check(err)
	}

	push("second")
	dir := t.TempDir()
	for range 3 { // the last two after the branch has moved
		ctx, cancel := context.WithCancel(t.Context())
		r, _, err := exchange.Clone(ctx, dir, opt, exchange.CloneOptions{URL: "/memory", Writing: func(_, _ kist.Amount) { cancel() }})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted clone: error %v, want Canceled", err)
		}
		s.Check(r.Close())
		cancel()
		push("another " + s.Head().String())
	}

	r, result, err := exchange.Clone(t.Context(), dir, opt, exchange.CloneOptions{URL: "/memory"})
	s.Check(err)
	defer r.Close()
	status, err := stage.ReadStatus(t.Context(), r, stage.StatusOptions{})
	s.Check(err)
	if !status.Clean() || len(status.Untracked) > 0 || result.Head.ID != s.Head() {
		t.Errorf("HEAD is %v, want %v; status %+v", result.Head, s.Head(), status)
	}
}

// TestCloneContactsOnce checks that a clone opens the store once, and lists its roots
// once.
func TestCloneContactsOnce(t *testing.T) {
	s, opt := pushed(t, "file", "content")
	opened := 0
	var faulty *remotetest.Faulty
	_, _, err := exchange.Clone(t.Context(), t.TempDir(), kist.Options{Backend: func(ctx context.Context, url string) (remote.Backend, error) {
		opened++
		b, err := opt.Backend(ctx, url)
		faulty = remotetest.NewFaulty(b)
		return faulty, err
	}}, exchange.CloneOptions{URL: "/memory"})
	s.Check(err)
	if lists := faulty.Calls(remotetest.List); opened != 1 || lists != 1 {
		t.Errorf("store opened %d times, %d lists; want 1 and 1", opened, lists)
	}
}
