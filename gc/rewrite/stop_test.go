package rewrite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/purge"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/gc/rewrite"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// A rewrite that fails at any step leaves an intact repository. The next run
// completes it.
func TestRewriteStopped(t *testing.T) {
	for _, step := range []struct {
		file  string // blocks the step that writes it; "": the rewrite ends, but its refs are moved back
		moved bool   // the refs are moved before the failure
	}{
		{file: "rewritten"},
		{file: record.FileName + ".lock"},
		{file: "index.lock"},
		{file: ""},
		{file: refs.OrigHead, moved: true},
	} {
		t.Run(step.file, func(t *testing.T) {
			s := kisttest.New(t)
			ids := map[string]object.ID{}
			for _, name := range []string{"first", "expired", "third"} {
				s.Write(name, name+", which is too long to be kept inline in a folder's node")
				s.Write("secret", kisttest.Secret)
				s.Add(stage.AddOptions{})
				ids[name] = s.Commit(name).ID
				s.Check(os.Remove(filepath.Join(s.Dir, name)))
			}
			_, _, err := commits.CreateTag(t.Context(), s.Repo, commits.TagOptions{Name: "tag", Rev: ids["first"].String()})
			s.Check(err)
			_, err = checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Create: "side"})
			s.Check(err)
			s.Write("side", "side")
			s.Add(stage.AddOptions{})
			ids["side"] = s.Commit("side").ID
			_, err = retain.Expire(t.Context(), s.Repo, retain.ExpireOptions{Revs: []string{ids["expired"].String()}})
			s.Check(err)
			s.Collect(s.Repo, gc.PlanOptions{})
			plan := s.Plan(purge.Options{Paths: []purge.Path{{Path: "secret"}}})

			s.StopRewrite(plan, step.file)
			report, err := gc.VerifyRepository(t.Context(), s.Repo, gc.VerifyOptions{})
			s.Check(err)
			for _, p := range report.Problems {
				t.Errorf("after the failure: %v", p)
			}
			if moved := s.Head() != ids["side"]; moved != step.moved {
				t.Errorf("HEAD was moved: %t, want %t", moved, step.moved)
			}

			rest, err := rewrite.Run(t.Context(), s.Repo, plan, false)
			s.Check(err)
			if moved := len(rest.Refs) == 3; moved == step.moved {
				t.Errorf("second run moved %v", rest.Refs)
			}
			set, err := s.Repo.Records().Load()
			s.Check(err)
			_, c, err := s.Repo.ReadCommit(t.Context(), "side~2")
			s.Check(err)
			if rec, _ := set.Get(record.Expire, object.Key{Kind: object.KindCommit, ID: c.Parents[0]}); rec.On {
				t.Errorf("the new first commit has expired: %+v", rec)
			}
			id, err := s.Repo.Resolve(t.Context(), "side~2")
			s.Check(err)
			if rec, _ := set.Get(record.Expire, object.Key{Kind: object.KindCommit, ID: id}); !rec.On {
				t.Errorf("the new second commit has not expired: %+v", rec)
			}
			if st := s.Status(); len(st.Staged) > 0 {
				t.Errorf("staged: %v, want nothing", st.Staged)
			}
			// The old commits are unreachable.
			logs, err := s.Repo.Refs().Logs()
			s.Check(err)
			for _, name := range logs {
				log, err := s.Repo.Refs().Log(name)
				s.Check(err)
				for _, e := range log {
					for name, id := range ids {
						if e.Old == id || e.New == id {
							t.Errorf("the log of %s names an old commit: %s", name, e.Reason)
						}
					}
				}
			}
			s.Collect(s.Repo, gc.PlanOptions{})
			for name, id := range ids {
				if has, err := s.Repo.Objects().Has(t.Context(), object.Key{Kind: object.KindCommit, ID: id}); err != nil || has {
					t.Errorf("old commit %s is stored: %t, error %v", name, has, err)
				}
			}
		})
	}
}
