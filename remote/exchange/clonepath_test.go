package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// pushFolders pushes two commits that differ in all folders. Each of n folders below out has a file.
func pushFolders(s *kisttest.Repository, full *kist.Repository, n int) {
	for version := range 2 {
		seed := byte(version)
		s.Write("top", fmt.Sprint(version))
		s.Write("in/file", string(kisttest.Noise(seed, 3000)))
		s.Write("in/sub/file", string(kisttest.Noise(seed+2, 3000)))
		s.Write("in/out/file", string(kisttest.Noise(seed+4, 3000)))
		for i := range n {
			s.Write(fmt.Sprintf("out/%03d/deep/file", i), fmt.Sprint(version, " ", i))
		}
		s.Write(fmt.Sprintf("only%d/file", version), "one")
		s.Add(stage.AddOptions{})
		s.Commit(fmt.Sprint("version ", version))
	}
	s.Push(full, "main")
}

// wantLeftOutAway makes sure that no tree of a folder outside of in/sub is here.
func wantLeftOutAway(t *testing.T, full, r *kist.Repository, after string) {
	t.Helper()
	cone, err := tree.NewCone([]string{"in/sub"})
	kisttest.Check(t, err)
	found := 0
	for _, rev := range []string{"main", "main~1"} {
		v, err := compare.OfCommit(t.Context(), full, rev)
		kisttest.Check(t, err)
		kisttest.Check(t, tree.Walk(t.Context(), v.Objects, v.Tree, func(path string, e object.Entry) error {
			if tree.IsDir(&e) && !cone.Has(path) {
				found++
				if !volume.IsAbsent(r.Objects(), e.Content) {
					t.Errorf("after %s: the tree of %q in %s was fetched", after, path, rev)
				}
			}
			return nil
		}))
	}
	if found < 10 {
		t.Fatalf("%d folders are left out, want more", found)
	}
}

// A clone of some folders never fetches a tree of the others, whatever commands do in it. Its
// requests do not depend on the other folders.
func TestClonePath(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var counts []int
	for _, n := range []int{3, 200} {
		s, faulty, full := giver(t)
		pushFolders(s, full, n)
		before := requests(faulty)
		r, _ := lazyClone(t, faulty, exchange.CloneOptions{Folders: []string{"in/sub"}})
		counts = append(counts, requests(faulty)-before)
		wantFiles(t, r, "top", "in/file", "in/sub/file")
		wantLeftOutAway(t, full, r, "clone")
		wantVerified(t, r)
		goBack := func(rev string) error {
			_, err := checkout.Switch(ctx, r, checkout.SwitchOptions{Rev: rev, Detach: true})
			return err
		}
		commit := func() error {
			if err := os.WriteFile(filepath.Join(r.Root(), "in/sub/new"), []byte("new"), 0o666); err != nil {
				return err
			}
			_, err := stage.Add(ctx, r, stage.AddOptions{})
			if err == nil {
				_, err = commits.Commit(ctx, r, commits.CommitOptions{Message: "new"})
			}
			return err
		}
		reset := func(mode checkout.ResetMode) error {
			_, err := checkout.Reset(ctx, r, "main~1", mode, nil)
			return err
		}

		steps := []struct {
			name  string
			quiet bool // it needs no request, unless the head is older than ten seconds
			do    func() error
		}{
			{"status", true, func() error { _, err := stage.ReadStatus(ctx, r, stage.StatusOptions{}); return err }},
			{"checkout", false, func() error { return goBack("main~1") }},
			{"checkout of the branch", true, func() error { return goBack("main") }},
			{"commit", true, commit},
			{"checkout of a commit of mine", true, func() error { return goBack("main") }},
			{"mixed reset", true, func() error { return reset(checkout.ResetMixed) }},
			{"hard reset", true, func() error { return reset(checkout.ResetHard) }},
			{"forward", true, func() error {
				_, err := commits.Merge(ctx, r, commits.MergeOptions{Rev: "main", FastForwardOnly: true})
				return err
			}},
		}
		for _, step := range steps {
			before := requests(faulty)
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if made := requests(faulty) - before; step.quiet && made > 4 || made > 12 {
				t.Errorf("%s: %d requests", step.name, made)
			}
			wantLeftOutAway(t, full, r, step.name)
			wantClean(t, r, step.name)
		}
		wantVerified(t, r)
		s.Check(collectLocal(t, r))
	}
	t.Logf("%d and %d requests", counts[0], counts[1])
	if counts[1] > counts[0]+6 {
		t.Errorf("%d requests with few folders, %d with many", counts[0], counts[1])
	}
}

// wantClean makes sure that the index has the tree of HEAD, and that the worktree has no changes.
func wantClean(t *testing.T, r *kist.Repository, after string) {
	t.Helper()
	status, err := stage.ReadStatus(t.Context(), r, stage.StatusOptions{})
	kisttest.Check(t, err)
	if after != "mixed reset" && len(status.Staged)+len(status.Changed)+len(status.Untracked) > 0 {
		t.Errorf("after %s: %+v", after, status)
	}
}

// wantFiles makes sure that the worktree has these files and no others.
func wantFiles(t *testing.T, r *kist.Repository, paths ...string) {
	t.Helper()
	idx, err := r.Index()
	kisttest.Check(t, err)
	n := 0
	for path := range idx.All() {
		if _, err := os.Lstat(filepath.Join(r.Root(), path)); err != nil {
			t.Error(err)
		}
		n++
	}
	for _, path := range paths {
		if idx.Entry(path) == nil {
			t.Errorf("%q is not in the worktree", path)
		}
	}
	if n != len(paths) || !index.HasLeftOut(idx) {
		t.Errorf("%d files, want %q", n, paths)
	}
}

// A mistake in the folders can be corrected: the clone goes on.
func TestClonePathMistakes(t *testing.T) {
	t.Parallel()
	s, faulty, full := giver(t)
	pushFolders(s, full, 10)
	dir := t.TempDir()
	clone := func(folders ...string) (*kist.Repository, *exchange.CloneResult, error) {
		return exchange.Clone(t.Context(), dir, kisttest.Opens(faulty), exchange.CloneOptions{URL: "/memory", Lazy: true, Folders: folders})
	}
	for path, isFile := range map[string]bool{"top": true, "nothing": false, "in/nothing": false, "top/below": false} {
		r, _, err := clone("in/sub", path)
		bad := (*exchange.FolderError)(nil)
		if !errors.As(err, &bad) || bad.Path != path || bad.IsFile != isFile {
			t.Errorf("%q: %v", path, err)
		}
		wantLeftOutAway(t, full, r, path)
		s.Check(r.Close())
	}

	r, result, err := clone("in/sub")
	s.Check(err)
	defer r.Close()
	if !result.Resumed {
		t.Error("the clone began again")
	}
	wantFiles(t, r, "top", "in/file", "in/sub/file")
	wantLeftOutAway(t, full, r, "clone")
	wantVerified(t, r)
}

// An interrupted clone of some folders goes on. Once it has begun to write files, its folders are fixed.
func TestClonePathInterrupted(t *testing.T) {
	t.Parallel()
	s, faulty, full := giver(t)
	pushFolders(s, full, 3)
	for name, least := range map[string]int64{"fetch": 0, "checkout": 1} { // size of the mark in bytes when a request ends the clone
		o := exchange.CloneOptions{URL: "/memory", Lazy: true, Folders: []string{"in/sub"}}
		dir := t.TempDir()
		ctx, interrupt := context.WithCancel(t.Context())
		faulty.Fail(remotetest.Fault{Op: remotetest.Get, Stays: true, Do: func() {
			if mark, err := os.Stat(filepath.Join(dir, ".kist/CLONING")); err == nil && mark.Size() >= least {
				interrupt()
			}
		}})
		r, _, err := exchange.Clone(ctx, dir, kisttest.Opens(faulty), o)
		faulty.Heal()
		if r == nil || !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: %v", name, err)
		}
		s.Check(r.Close())

		if least > 0 {
			other := o
			other.Folders = []string{"in"}
			if _, _, err := exchange.Clone(t.Context(), dir, kisttest.Opens(faulty), other); !errors.Is(err, exchange.ErrNotEmpty) {
				t.Errorf("%s: other folders: %v", name, err)
			}
		}
		r, result, err := exchange.Clone(t.Context(), dir, kisttest.Opens(faulty), o)
		s.Check(err)
		if !result.Resumed {
			t.Errorf("%s: the clone began again", name)
		}
		wantFiles(t, r, "top", "in/file", "in/sub/file")
		wantLeftOutAway(t, full, r, name)
		wantClean(t, r, name)
		wantVerified(t, r)
		s.Check(r.Close())
	}
}
