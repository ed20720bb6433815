package commits_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/rebase"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/work/stash"
)

// An abort is refused if it would overwrite a file that changed after it was staged. No other
// copy of that content exists.
func TestAbortKeepsStagedAndChanged(t *testing.T) {
	s := kisttest.New(t)
	s.Conflict()
	s.Write("new", "staged")
	s.Write("other", "staged")
	s.Add(stage.AddOptions{Paths: []string{"new", "other"}})
	s.Write("new", "changed")
	err := commits.Abort(t.Context(), s.Repo, operation.Merging, commits.StepOptions{})
	var local *stage.LocalChangesError
	if !errors.As(err, &local) || len(local.Obstacles) != 1 || local.Obstacles[0].Path != "new" {
		t.Fatalf("abort: %v, want an obstacle at new", err)
	}
	s.Want("new", "changed")
	s.Want("other", "staged")
	if state, err := operation.Current(s.Repo); err != nil || state.Operation != operation.Merging {
		t.Errorf("state %+v, error %v, want a merge", state, err)
	}
	if got := s.Conflicts(); len(got) != 2 {
		t.Errorf("conflicts %q, want 2", got)
	}
	s.Write("new", "staged")
	s.Check(commits.Abort(t.Context(), s.Repo, operation.Merging, commits.StepOptions{}))
	s.Want("both", "ours")
	s.Want("other", "base")
}

// An abort keeps local changes in a folder whose permission bits the merge changed.
func TestAbortKeepsChangesInFolders(t *testing.T) {
	s := kisttest.New(t)
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
		t.Fatalf("conflicts %+v, want 1", merged.Conflicts)
	}

	s.Check(commits.Abort(t.Context(), s.Repo, operation.Merging, commits.StepOptions{}))
	s.Want("folder/file", "a local change")
	s.Want("both", "ours")
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("folder: %v, error %v, want mode 755", info, err)
	}
}

// A merge is over once its commit exists, even if a kill left MERGE_HEAD and MERGE_MSG behind.
func TestKilledAfterCommit(t *testing.T) {
	s := kisttest.New(t)
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
		t.Fatalf("state %+v, error %v, want no operation", state, err)
	}
	s.Write("both", "changed again")
	s.Add(stage.AddOptions{})
	s.Commit("next")
	_, c, err := s.Repo.ReadCommit(t.Context(), "HEAD")
	s.Check(err)
	if len(c.Parents) != 1 {
		t.Errorf("the next commit has %d parents, want 1", len(c.Parents))
	}
}

// An abort restores the stashed local changes after a kill during the rebase's unstash, or in an
// earlier abort. The new base changes the same file.
func TestAbortBringsBackLocalChanges(t *testing.T) {
	for _, inAbort := range []bool{false, true} {
		s := kisttest.New(t)
		s.Write("file", "1\n2\n3\n4\n")
		s.Add(stage.AddOptions{})
		s.Commit("base")
		s.Checkout(checkout.SwitchOptions{Create: "topic"})
		s.Write("topic", "topic")
		s.Add(stage.AddOptions{})
		topic := s.Commit("topic").ID
		s.Checkout(checkout.SwitchOptions{Rev: "main"})
		s.Write("file", "one\n2\n3\n4\n")
		s.Add(stage.AddOptions{})
		onto := s.Commit("onto").ID
		s.Checkout(checkout.SwitchOptions{Rev: "topic"})
		s.Write("file", "1\n2\n3\nlocal\n")
		s.Write("new", "new")
		s.Add(stage.AddOptions{Paths: []string{"new"}})

		state := operation.State{
			Operation: operation.Rebasing, Branch: "refs/heads/topic", Start: topic, Onto: onto,
			Rest: operation.StepsOf(operation.Pick, []object.ID{topic}),
		}
		record := func(tx *kist.Tx, id object.ID) {
			state.Stash = id
			operation.SetState(tx, state)
		}
		_, err := stash.Push(t.Context(), s.Repo, stash.PushOptions{Message: rebase.StashMessage, Recording: record})
		s.Check(err)
		killed := errors.New("killed")
		o := commits.StepOptions{Unstash: func(context.Context, *kist.Repository, func(tx *kist.Tx)) error {
			s.Write("file", "one\n2\n3\nlocal\n")
			return killed
		}}
		if _, err := commits.RunSteps(t.Context(), s.Repo, state, "main", o); !errors.Is(err, killed) {
			t.Fatalf("rebase: error %v, want killed", err)
		}
		if inAbort {
			o.Unstash = func(context.Context, *kist.Repository, func(tx *kist.Tx)) error { return killed }
			if err := commits.Abort(t.Context(), s.Repo, operation.Rebasing, o); !errors.Is(err, killed) {
				t.Fatalf("abort: error %v, want killed", err)
			}
			s.Want("file", "1\n2\n3\n4\n")
		}

		result, err := rebase.Abort(t.Context(), s.Repo, nil)
		s.Check(err)
		if result.Kept != nil {
			t.Errorf("the abort kept the stash: %v", result.Kept)
		}
		s.Want("file", "1\n2\n3\nlocal\n")
		s.Want("new", "new")
		head, err := s.Repo.Refs().Head()
		s.Check(err)
		status, err := stage.ReadStatus(t.Context(), s.Repo, stage.StatusOptions{})
		s.Check(err)
		if head.Branch != "topic" || head.ID != topic || status.State.Operation != "" || len(status.Staged) != 1 || len(status.Changed) != 1 {
			t.Errorf("HEAD %v, state %+v, staged %v, changed %v; want topic, none, one, one", head, status.State, status.Staged, status.Changed)
		}
		if list, err := stash.List(s.Repo); err != nil || len(list) > 0 {
			t.Errorf("stashes %v, error %v, want none", list, err)
		}
	}
}

// A rebase is over, for good or by an abort, even if the change that would end it was only noted:
// another process removed objects, and then there were local changes in the way of the stash.
func TestEndIsNotedInVain(t *testing.T) {
	for _, abort := range []bool{false, true} {
		ctx := t.Context()
		s := kisttest.New(t)
		s.Write("file", "one")
		s.Add(stage.AddOptions{})
		first := s.Commit("first").ID
		s.Write("file", "two")
		state := operation.State{Operation: operation.Rebasing, Branch: "refs/heads/main", Start: first, Onto: first}
		record := func(tx *kist.Tx, id object.ID) {
			state.Stash = id
			operation.SetState(tx, state)
		}
		_, err := stash.Push(ctx, s.Repo, stash.PushOptions{Message: rebase.StashMessage, Recording: record})
		s.Check(err)

		noted := 0
		o := commits.StepOptions{Unstash: func(_ context.Context, r *kist.Repository, end func(tx *kist.Tx)) error {
			noted++
			tx := r.Begin(volume.SessionOptions{})
			end(tx)
			return tx.Close()
		}}
		if abort {
			err = commits.Abort(ctx, s.Repo, operation.Rebasing, o)
		} else {
			_, err = commits.RunSteps(ctx, s.Repo, state, "main", o)
		}
		s.Check(err)
		recorded, err := operation.Recorded(s.Repo)
		s.Check(err)
		head, err := s.Repo.Refs().Head()
		s.Check(err)
		if noted != 1 || recorded.Operation != "" || head.Branch != "main" {
			t.Errorf("abort %v: the end was noted %d times, recorded is %+v, HEAD %v; want once, nothing, main", abort, noted, recorded, head)
		}
	}
}

// A commit that another process made while the user edited a message stays.
func TestRewordKeepsOtherCommit(t *testing.T) {
	s := kisttest.New(t)
	s.Write("file", "one")
	s.Add(stage.AddOptions{})
	first := s.Commit("first").ID
	s.Checkout(checkout.SwitchOptions{Detach: true})

	var other object.ID
	o := commits.StepOptions{Edit: func(context.Context, string) (string, error) {
		s.Write("file", "two")
		s.Add(stage.AddOptions{})
		other = s.Commit("other").ID
		return "reworded", nil
	}}
	state := operation.State{
		Operation: operation.Rebasing, Branch: "refs/heads/main", Start: first, Onto: first, Left: first,
		Rest: []operation.Step{{Do: operation.Reword}},
	}
	if _, err := commits.RunSteps(t.Context(), s.Repo, state, "main", o); !errors.Is(err, refs.ErrMoved) {
		t.Errorf("error %v, want ErrMoved", err)
	}
	if head, err := s.Repo.Refs().Head(); err != nil || head.Branch != "" || head.ID != other {
		t.Errorf("HEAD %v, error %v; want %v", head, err, other)
	}
}
