package rewrite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/purge"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/gc/rewrite"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/treetest"
)

// TestRewriteStopped has a rewrite fail at each of its steps. What is left is
// whole, and the rewrite can be run again and ends what was begun.
func TestRewriteStopped(t *testing.T) {
	for _, step := range []struct {
		file  string // in whose place there is something else; "": it has ended, but refs were moved back
		moved bool   // the refs, before it stops
	}{
		{file: "rewritten"},
		{file: record.File + ".lock"},
		{file: "index.lock"},
		{file: ""},
		{file: refs.OrigHead, moved: true},
	} {
		t.Run(step.file, func(t *testing.T) {
			s := treetest.New(t)
			ids := map[string]object.ID{}
			for _, name := range []string{"first", "expired", "third"} {
				s.Write(name, name+", which is too long to be kept inline in a folder's node")
				s.Write("secret", treetest.Secret)
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
				t.Errorf("stopped: %v", p)
			}
			if moved := s.Head() != ids["side"]; moved != step.moved {
				t.Errorf("HEAD has moved: %t", moved)
			}

			rest, err := rewrite.Run(t.Context(), s.Repo, plan, false)
			s.Check(err)
			if moved := len(rest.Refs) == 3; moved == step.moved {
				t.Errorf("moved when it was run again: %v", rest.Refs)
			}
			set, err := s.Repo.Records().Load()
			s.Check(err)
			_, c, err := s.Repo.ReadCommit(t.Context(), "side~2")
			s.Check(err)
			if rec, _ := set.Get(record.Expire, object.Key{Kind: object.KindCommit, ID: c.Parents[0]}); rec.On {
				t.Errorf("another commit has expired: %+v", rec)
			}
			id, err := s.Repo.Resolve(t.Context(), "side~2")
			s.Check(err)
			if rec, _ := set.Get(record.Expire, object.Key{Kind: object.KindCommit, ID: id}); !rec.On {
				t.Errorf("expiration of the new commit: %+v", rec)
			}
			if st := s.Status(); len(st.Staged) > 0 {
				t.Errorf("staged: %v", st.Staged)
			}
			// Nothing leads to the old commits any more, and the new ones are whole.
			logs, err := s.Repo.Refs().Logs()
			s.Check(err)
			for _, name := range logs {
				log, err := s.Repo.Refs().Log(name)
				s.Check(err)
				for _, e := range log {
					for name, id := range ids {
						if e.Old == id || e.New == id {
							t.Errorf("the log of %s tells of %s", name, e.Reason)
						}
					}
				}
			}
			s.Collect(s.Repo, gc.PlanOptions{})
			for name, id := range ids {
				if has, err := s.Repo.Objects().Has(t.Context(), object.Key{Kind: object.KindCommit, ID: id}); err != nil || has {
					t.Errorf("%s is there: %t, %v", name, has, err)
				}
			}
		})
	}
}
