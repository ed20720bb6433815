package commits_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/operation"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/treetest"
)

// TestAbortKeepsStagedAndChanged checks that an abort does not take away what
// was changed after it was staged: that is nowhere else.
func TestAbortKeepsStagedAndChanged(t *testing.T) {
	s := treetest.New(t)
	s.Conflict()
	s.Write("new", "staged")
	s.Write("other", "staged")
	s.Add(stage.AddOptions{Paths: []string{"new", "other"}})
	s.Write("new", "changed")
	err := commits.Abort(t.Context(), s.Repo, operation.Merging, commits.StepOptions{})
	var local *stage.LocalChangesError
	if !errors.As(err, &local) || len(local.Obstacles) != 1 || local.Obstacles[0].Path != "new" {
		t.Fatalf("abort: %v", err)
	}
	s.Want("new", "changed")
	s.Want("other", "staged")
	if state, err := operation.Current(s.Repo); err != nil || state.Operation != operation.Merging {
		t.Errorf("state: %+v, %v", state, err)
	}
	if got := s.Conflicts(); len(got) != 2 {
		t.Errorf("conflicts: %q", got)
	}
	s.Write("new", "staged")
	s.Check(commits.Abort(t.Context(), s.Repo, operation.Merging, commits.StepOptions{}))
	s.Want("both", "ours")
	s.Want("other", "base")
}

// TestAbortKeepsChangesInFolders checks that an abort leaves local changes in a
// folder of which the merge has changed the permission bits alone.
func TestAbortKeepsChangesInFolders(t *testing.T) {
	s := treetest.New(t)
	s.Write("folder/file", "base")
	s.Write("both", "base")
	s.Add(stage.AddOptions{})
	s.Commit("base")
	_, err := checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Create: "theirs"})
	s.Check(err)
	folder := filepath.Join(s.Dir, "folder")
	s.Check(os.Chmod(folder, 0o700))
	s.Write("both", "theirs")
	s.Add(stage.AddOptions{})
	s.Commit("theirs")
	_, err = checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Rev: "main"})
	s.Check(err)
	s.Write("both", "ours")
	s.Add(stage.AddOptions{})
	s.Commit("ours")
	s.Write("folder/file", "a local change")
	merged, err := commits.Merge(t.Context(), s.Repo, commits.MergeOptions{Rev: "theirs"})
	s.Check(err)
	if len(merged.Conflicts) != 1 {
		t.Fatalf("conflicts: %+v", merged.Conflicts)
	}
	s.Check(commits.Abort(t.Context(), s.Repo, operation.Merging, commits.StepOptions{}))
	s.Want("folder/file", "a local change")
	s.Want("both", "ours")
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("folder: %v, %v", info, err)
	}
}

// TestKilledAfterCommit checks that a merge is over once its commit is made,
// even if nobody was left to remove the notes about it.
func TestKilledAfterCommit(t *testing.T) {
	s := treetest.New(t)
	s.Conflict()
	notes := map[string][]byte{}
	for _, name := range []string{"MERGE_HEAD", "MERGE_MSG"} {
		data, err := os.ReadFile(filepath.Join(s.Dir, ".kist", name))
		s.Check(err)
		notes[name] = data
	}
	s.Write("both", "resolved")
	s.Add(stage.AddOptions{})
	s.Commit("merged")
	for name, data := range notes {
		s.Check(os.WriteFile(filepath.Join(s.Dir, ".kist", name), data, 0o644))
	}
	if state, err := operation.Current(s.Repo); err != nil || state.Operation != "" {
		t.Fatalf("state: %+v, %v", state, err)
	}
	s.Write("both", "changed again")
	s.Add(stage.AddOptions{})
	s.Commit("next")
	_, c, err := s.Repo.ReadCommit(t.Context(), "HEAD")
	s.Check(err)
	if len(c.Parents) != 1 {
		t.Errorf("the next commit has %d parents", len(c.Parents))
	}
}
