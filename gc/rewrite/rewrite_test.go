package rewrite_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/purge"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/gc/rewrite"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/versions"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// A rewrite removes a folder with an inline password from a history with a merge,
// tags and a hold.
func TestRewrite(t *testing.T) {
	for _, all := range []bool{false, true} {
		s := kisttest.New(t)
		ids := map[string]object.ID{}
		commit := func(name string) {
			s.Add(stage.AddOptions{})
			ids[name] = s.Commit(name).ID
		}
		s.Write("file", "a file that anybody may see, too long to be kept inline")
		commit("first")
		s.Write("keys/password", "swordfish, in 15")
		s.Write("keys/token", kisttest.Secret)
		s.Write("swordfish", "swordfish, in 15") // the same content at another path stays
		commit("second")
		_, err := checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Create: "side"})
		s.Check(err)
		s.Write("side", "side")
		commit("side")
		_, err = checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Rev: "main"})
		s.Check(err)
		s.Write("keys/password", "xyzzy")
		commit("third")
		m, err := commits.Merge(t.Context(), s.Repo, commits.MergeOptions{Rev: "side"})
		s.Check(err)
		ids["merge"] = m.ID
		_, _, err = commits.CreateTag(t.Context(), s.Repo, commits.TagOptions{Name: "plain", Rev: ids["third"].String()})
		s.Check(err)
		_, _, err = commits.CreateTag(t.Context(), s.Repo, commits.TagOptions{Name: "noted", Rev: ids["second"].String(), Message: "noted"})
		s.Check(err)
		_, _, err = commits.CreateTag(t.Context(), s.Repo, commits.TagOptions{Name: "before", Rev: ids["first"].String()})
		s.Check(err)
		_, err = retain.Hold(t.Context(), s.Repo, retain.HoldOptions{Rev: ids["side"].String()})
		s.Check(err)

		plan := s.Plan(purge.Options{Paths: []purge.Path{{Path: "keys", Rev: "noted"}}, AllHistory: all})
		// A hold blocks rewrite and purge, and the error names it.
		var held *retain.HeldError
		for _, dry := range []bool{true, false} {
			if _, err := rewrite.Run(t.Context(), s.Repo, plan, dry); !errors.As(err, &held) || len(held.Holds) != 1 || held.Holds[0].Key.ID != ids["side"] {
				t.Fatalf("rewrite of a held commit: error %v, want HeldError", err)
			}
		}
		if purged, err := purge.Apply(t.Context(), s.Repo, plan, "", true); !errors.As(err, &held) || len(purged) > 0 {
			t.Fatalf("purge with a held commit: error %v, want HeldError", err)
		}
		_, _, err = retain.Release(t.Context(), s.Repo, "side", "")
		s.Check(err)

		s.Write("staged", "staged")
		s.Add(stage.AddOptions{})
		var local *stage.LocalChangesError
		if _, err := rewrite.Run(t.Context(), s.Repo, plan, false); !errors.As(err, &local) {
			t.Fatalf("rewrite with a staged file: error %v, want LocalChangesError", err)
		}
		_, err = checkout.Reset(t.Context(), s.Repo, "HEAD", checkout.ResetMixed, nil)
		s.Check(err)

		dry, err := rewrite.Run(t.Context(), s.Repo, plan, true)
		s.Check(err)
		if s.Head() != ids["merge"] || dry.File != "" {
			t.Fatalf("a dry run moved HEAD or wrote the map %q", dry.File)
		}
		_, err = versions.Open(t.Context(), s.Repo, nil)
		s.Check(err)
		done, err := rewrite.Run(t.Context(), s.Repo, plan, false)
		s.Check(err)
		if _, err := os.Stat(filepath.Join(s.Dir, ".kist", versions.Dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the index of history still exists, with the removed paths: %v", err)
		}
		if !slices.Equal(dry.Commits, done.Commits) || !slices.Equal(dry.Refs, done.Refs) {
			t.Errorf("dry run %+v, real run %+v", dry, done)
		}
		became := map[object.ID]object.ID{}
		var lines strings.Builder
		for _, c := range done.Commits {
			became[c.Old] = c.New
			lines.WriteString(c.Old.String() + " " + c.New.String() + "\n")
		}
		if text, err := os.ReadFile(filepath.Join(s.Dir, ".kist", done.File)); err != nil || string(text) != lines.String() {
			t.Errorf("the map: %q, error %v; want %q", text, err, lines.String())
		}
		if len(became) != 4 || !became[ids["first"]].IsZero() {
			t.Errorf("rewritten: %v, want four commits without the first", became)
		}
		for rev, name := range map[string]string{"main": "merge", "side": "side", "plain": "third", "noted": "second", "before": "first", "main^2": "side", "main~2": "second", "main~3": "first"} {
			want := ids[name]
			if new, ok := became[want]; ok {
				want = new
			}
			id, c, err := s.Repo.ReadCommit(t.Context(), rev)
			s.Check(err)
			if id != want || c.Message != name && name != "merge" {
				t.Errorf("%s is %s %q, want %s", rev, id.Short(), c.Message, name)
			}
			for _, path := range []string{"keys/password", "keys/token", "swordfish", "file"} {
				_, err := tree.Find(t.Context(), s.Repo.Contents(), c.Tree, path)
				found := path == "file" || path == "swordfish" && name != "first" || !all && path == "keys/password" && (name == "third" || name == "merge")
				if (err == nil) != found {
					t.Errorf("%s in %s, AllHistory %t: error %v, want found %t", path, rev, all, err, found)
				}
			}
		}
		tag, err := s.Repo.Refs().Get(refs.Tags + "noted")
		s.Check(err)
		if o, err := object.ReadTag(t.Context(), s.Repo.Objects(), tag); err != nil || o.Message != "noted" || o.Target != became[ids["second"]] {
			t.Errorf("tag object: %+v, error %v", o, err)
		}
		// A rewrite that stopped before it moved all branches can be run again.
		side := refs.Change{Name: refs.Heads + "side", Old: became[ids["side"]], New: ids["side"]}
		s.Check(s.Repo.Refs().Update(t.Context(), []refs.Change{side}, refs.Who{}))
		rest, err := rewrite.Run(t.Context(), s.Repo, plan, false)
		s.Check(err)
		if len(rest.Refs) != 1 || rest.Refs[0].New != became[ids["side"]] || len(rest.Commits) != 2 {
			t.Errorf("second run: %+v, want only side moved", rest)
		}
		// The worktree stays, and the removed files are untracked.
		st := s.Status()
		if !s.Exists("keys/token") || !st.Clean() || len(st.Untracked) != 2 { // "staged" is the other one
			t.Errorf("status: %+v", st)
		}
		// The old commits are unreachable.
		s.Collect(s.Repo, gc.PlanOptions{})
		for name, id := range ids {
			if has, err := s.Repo.Objects().Has(t.Context(), object.Key{Kind: object.KindCommit, ID: id}); err != nil || has != (name == "first") {
				t.Errorf("old commit %s is stored: %t, error %v", name, has, err)
			}
		}
		again, err := rewrite.Run(t.Context(), s.Repo, plan, false)
		s.Check(err)
		if len(again.Commits)+len(again.Refs) > 0 || again.File != "" {
			t.Errorf("third run: %+v, want no change", again)
		}
	}
}
