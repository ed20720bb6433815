package kist_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/operation"
	"github.com/kist-vcs/kist/tree/stage"
)

func (s *stager) want(path, text string) {
	s.Helper()
	got, err := os.ReadFile(filepath.Join(s.dir, path))
	s.check(err)
	if string(got) != text {
		s.Errorf("%s holds %q, want %q", path, got, text)
	}
}

// TestAbortKeepsStagedAndChanged checks that an abort does not take away what
// was changed after it was staged: that is nowhere else.
func TestAbortKeepsStagedAndChanged(t *testing.T) {
	s := newStager(t)
	s.conflict()
	s.write("new", "staged")
	s.write("other", "staged")
	s.add(stage.AddOptions{Paths: []string{"new", "other"}})
	s.write("new", "changed")
	err := commits.Abort(t.Context(), s.repo, operation.Merging, nil)
	var local *stage.LocalChangesError
	if !errors.As(err, &local) || len(local.Obstacles) != 1 || local.Obstacles[0].Path != "new" {
		t.Fatalf("abort: %v", err)
	}
	s.want("new", "changed")
	s.want("other", "staged")
	if state, err := operation.Current(s.repo); err != nil || state.Operation != operation.Merging {
		t.Errorf("state: %+v, %v", state, err)
	}
	if got := s.conflicts(); len(got) != 2 {
		t.Errorf("conflicts: %q", got)
	}
	s.write("new", "staged")
	s.check(commits.Abort(t.Context(), s.repo, operation.Merging, nil))
	s.want("both", "ours")
	s.want("other", "base")
}

// TestAbortKeepsChangesInFolders checks that an abort leaves local changes in a
// folder of which the merge has changed the permission bits alone.
func TestAbortKeepsChangesInFolders(t *testing.T) {
	s := newStager(t)
	s.write("folder/file", "base")
	s.write("both", "base")
	s.add(stage.AddOptions{})
	s.commit("base")
	_, err := checkout.Switch(t.Context(), s.repo, checkout.SwitchOptions{Create: "theirs"})
	s.check(err)
	folder := filepath.Join(s.dir, "folder")
	s.check(os.Chmod(folder, 0o700))
	s.write("both", "theirs")
	s.add(stage.AddOptions{})
	s.commit("theirs")
	_, err = checkout.Switch(t.Context(), s.repo, checkout.SwitchOptions{Rev: "main"})
	s.check(err)
	s.write("both", "ours")
	s.add(stage.AddOptions{})
	s.commit("ours")
	s.write("folder/file", "a local change")
	merged, err := commits.Merge(t.Context(), s.repo, commits.MergeOptions{Rev: "theirs"})
	s.check(err)
	if len(merged.Conflicts) != 1 {
		t.Fatalf("conflicts: %+v", merged.Conflicts)
	}
	s.check(commits.Abort(t.Context(), s.repo, operation.Merging, nil))
	s.want("folder/file", "a local change")
	s.want("both", "ours")
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("folder: %v, %v", info, err)
	}
}

// TestKilledAfterCommit checks that a merge is over once its commit is made,
// even if nobody was left to remove the notes about it.
func TestKilledAfterCommit(t *testing.T) {
	s := newStager(t)
	s.conflict()
	notes := map[string][]byte{}
	for _, name := range []string{"MERGE_HEAD", "MERGE_MSG"} {
		data, err := os.ReadFile(filepath.Join(s.dir, ".kist", name))
		s.check(err)
		notes[name] = data
	}
	s.write("both", "resolved")
	s.add(stage.AddOptions{})
	s.commit("merged")
	for name, data := range notes {
		s.check(os.WriteFile(filepath.Join(s.dir, ".kist", name), data, 0o644))
	}
	if state, err := operation.Current(s.repo); err != nil || state.Operation != "" {
		t.Fatalf("state: %+v, %v", state, err)
	}
	s.write("both", "changed again")
	s.add(stage.AddOptions{})
	s.commit("next")
	_, c, err := s.repo.ReadCommit(t.Context(), "HEAD")
	s.check(err)
	if len(c.Parents) != 1 {
		t.Errorf("the next commit has %d parents", len(c.Parents))
	}
}
