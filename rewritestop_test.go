package kist_test

import (
	"os"
	"path/filepath"
	"strings"
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
			s := newStager(t)
			ids := map[string]object.ID{}
			for _, name := range []string{"first", "expired", "third"} {
				s.write(name, name+", which is too long to be kept inline in a folder's node")
				s.write("secret", secret)
				s.add(stage.AddOptions{})
				ids[name] = s.commit(name).ID
				s.check(os.Remove(filepath.Join(s.dir, name)))
			}
			_, _, err := commits.CreateTag(t.Context(), s.repo, commits.TagOptions{Name: "tag", Rev: ids["first"].String()})
			s.check(err)
			_, err = checkout.Switch(t.Context(), s.repo, checkout.SwitchOptions{Create: "side"})
			s.check(err)
			s.write("side", "side")
			s.add(stage.AddOptions{})
			ids["side"] = s.commit("side").ID
			_, err = retain.Expire(t.Context(), s.repo, retain.ExpireOptions{Revs: []string{ids["expired"].String()}})
			s.check(err)
			s.collect(s.repo, gc.PlanOptions{})
			plan := s.plan(purge.Options{Paths: []purge.Path{{Path: "secret"}}})

			s.stopRewrite(plan, step.file)
			report, err := gc.VerifyRepository(t.Context(), s.repo, gc.VerifyOptions{})
			s.check(err)
			for _, p := range report.Problems {
				t.Errorf("stopped: %v", p)
			}
			if moved := s.head() != ids["side"]; moved != step.moved {
				t.Errorf("HEAD has moved: %t", moved)
			}

			rest, err := rewrite.Run(t.Context(), s.repo, plan, false)
			s.check(err)
			if moved := len(rest.Refs) == 3; moved == step.moved {
				t.Errorf("moved when it was run again: %v", rest.Refs)
			}
			set, err := s.repo.Records().Load()
			s.check(err)
			_, c, err := s.repo.ReadCommit(t.Context(), "side~2")
			s.check(err)
			if rec, _ := set.Get(record.Expire, object.Key{Kind: object.KindCommit, ID: c.Parents[0]}); rec.On {
				t.Errorf("another commit has expired: %+v", rec)
			}
			id, err := s.repo.Resolve(t.Context(), "side~2")
			s.check(err)
			if rec, _ := set.Get(record.Expire, object.Key{Kind: object.KindCommit, ID: id}); !rec.On {
				t.Errorf("expiration of the new commit: %+v", rec)
			}
			if st := s.status(); len(st.Staged) > 0 {
				t.Errorf("staged: %v", st.Staged)
			}
			// Nothing leads to the old commits any more, and the new ones are whole.
			logs, err := s.repo.Refs().Logs()
			s.check(err)
			for _, name := range logs {
				log, err := s.repo.Refs().Log(name)
				s.check(err)
				for _, e := range log {
					for name, id := range ids {
						if e.Old == id || e.New == id {
							t.Errorf("the log of %s tells of %s", name, e.Reason)
						}
					}
				}
			}
			s.collect(s.repo, gc.PlanOptions{})
			for name, id := range ids {
				if has, err := s.repo.Objects().Has(t.Context(), object.Key{Kind: object.KindCommit, ID: id}); err != nil || has {
					t.Errorf("%s is there: %t, %v", name, has, err)
				}
			}
		})
	}
}

// stopRewrite runs a rewrite that cannot do something with a file, below the
// .kist folder; without one, all but the refs is as it has left it.
func (s *stager) stopRewrite(plan *purge.Plan, file string) {
	s.Helper()
	if file == "" {
		done, err := rewrite.Run(s.Context(), s.repo, plan, false)
		s.check(err)
		for i, c := range done.Refs {
			done.Refs[i].Old, done.Refs[i].New = c.New, c.Old
		}
		s.check(s.repo.Refs().Update(s.Context(), done.Refs, refs.Who{}))
		return
	}
	at := filepath.Join(s.dir, ".kist", file)
	s.check(os.RemoveAll(at))
	if strings.HasSuffix(file, ".lock") {
		s.check(os.Mkdir(at, 0o755))
	} else {
		s.check(os.WriteFile(at, []byte("something else\n"), 0o644))
	}
	if _, err := rewrite.Run(s.Context(), s.repo, plan, false); err == nil {
		s.Fatal("nothing has stopped it")
	}
	s.check(os.Remove(at))
}
