package registry_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// A rename completes one that stopped after any of its steps.
func TestRenameAfterStop(t *testing.T) {
	for name, stop := range map[string]func(ctx context.Context, r *kist.Repository) error{
		"before": func(context.Context, *kist.Repository) error { return nil },
		"branches copied": func(ctx context.Context, r *kist.Repository) error {
			return refs.CopyRemote(ctx, r.Refs(), "origin", "new", r.Who())
		},
		"branches copied, then one moved": func(ctx context.Context, r *kist.Repository) error {
			if err := refs.CopyRemote(ctx, r.Refs(), "origin", "new", r.Who()); err != nil {
				return err
			}
			from, err := r.Refs().Get("refs/remotes/origin/main")
			if err != nil {
				return err
			}
			to, err := r.Refs().Get("refs/heads/later")
			if err != nil {
				return err
			}
			return r.Refs().Update(ctx, []refs.Change{{Name: "refs/remotes/origin/main", Old: from, New: to, Reason: "fetch"}}, r.Who())
		},
		"configured": func(ctx context.Context, r *kist.Repository) error {
			if err := refs.CopyRemote(ctx, r.Refs(), "origin", "new", r.Who()); err != nil {
				return err
			}
			return r.EditConfig(ctx, func(c *kist.Config) error {
				c.MoveAt("remote", "origin", "new")
				return c.SetAt("new", "branch", "main", "remote")
			})
		},
		"branches removed": func(ctx context.Context, r *kist.Repository) error {
			if err := registry.Rename(ctx, r, "origin", "new"); err != nil {
				return err
			}
			return os.Rename(registry.Dir(r, "new"), registry.Dir(r, "origin"))
		},
		"branches removed, then fetched": func(ctx context.Context, r *kist.Repository) error {
			if err := registry.Rename(ctx, r, "origin", "new"); err != nil {
				return err
			}
			return os.CopyFS(registry.Dir(r, "origin"), os.DirFS(registry.Dir(r, "new")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			s := kisttest.New(t)
			r := s.WithRemote(remotetest.NewMemory())
			s.Write("file", "text")
			s.Add(stage.AddOptions{})
			s.Commit("first")
			s.Push(r, "main")
			s.Check(kist.SetUpstream(ctx, r, "main", kist.Upstream{Remote: "origin", Ref: "refs/heads/main"}))
			s.Write("file", "another text")
			s.Add(stage.AddOptions{})
			later := s.Commit("second").ID
			s.Check(r.Refs().Update(ctx, []refs.Change{{Name: "refs/heads/later", New: later, Reason: "branch"}}, r.Who()))

			s.Check(stop(ctx, r))
			want, err := r.Refs().Get("refs/remotes/origin/main")
			if err != nil {
				want, err = r.Refs().Get("refs/remotes/new/main")
			}
			s.Check(err)
			s.Check(registry.Rename(ctx, r, "origin", "new"))

			if got, err := r.Refs().Get("refs/remotes/new/main"); err != nil || got != want {
				t.Errorf("new/main is %s, %v; want %s", got, err, want)
			}
			if u, err := kist.UpstreamOf(r, "main"); err != nil || u.Remote != "new" {
				t.Errorf("upstream of main is %+v, %v; want remote new", u, err)
			}
			if _, err := os.Lstat(filepath.Join(registry.Dir(r, "new"), "head")); err != nil {
				t.Error(err)
			}
			list, err := r.Refs().List("refs/remotes/origin/")
			if len(list) > 0 || err != nil {
				t.Errorf("branches of the old name are left: %v, %v", list, err)
			}
			if _, err := os.Lstat(registry.Dir(r, "origin")); err == nil {
				t.Error("the folder of the old name is left")
			}
			if err := registry.Rename(ctx, r, "origin", "new"); !errors.Is(err, kist.ErrNoRemote) {
				t.Errorf("second rename: error %v, want kist.ErrNoRemote", err)
			}
		})
	}
}

// TestRenameKeepsOthers checks that a rename does not replace a branch of the user.
func TestRenameKeepsOthers(t *testing.T) {
	ctx := t.Context()
	s := kisttest.New(t)
	r := s.WithRemote(remotetest.NewMemory())
	s.Write("file", "text")
	s.Add(stage.AddOptions{})
	id := s.Commit("first").ID
	s.Push(r, "main")
	s.Check(r.Refs().Update(ctx, []refs.Change{{Name: "refs/remotes/new/main", New: id, Reason: "by hand"}}, r.Who()))
	if err := registry.Rename(ctx, r, "origin", "new"); !errors.Is(err, refs.ErrMoved) {
		t.Errorf("Rename: error %v, want ErrMoved", err)
	}
	if _, err := registry.Find(r, "origin"); err != nil {
		t.Error(err)
	}
}
