package checkout_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// A user's file in the place of a tracked read-only folder stays, even if an operation changes
// that folder.
func TestFileInPlaceOfReadOnlyFolder(t *testing.T) {
	remove := func(s *kisttest.Repository) error {
		_, err := checkout.Remove(s.Context(), s.Repo, checkout.RemoveOptions{Paths: []string{"folder/gone"}})
		return err
	}
	switchTo := func(s *kisttest.Repository) error {
		_, err := checkout.Switch(s.Context(), s.Repo, checkout.SwitchOptions{Rev: "without"})
		return err
	}

	restore := func(s *kisttest.Repository) error {
		_, err := checkout.Restore(s.Context(), s.Repo, checkout.RestoreOptions{Paths: []string{"folder/gone"}, Worktree: true})
		if err == nil {
			s.Error("restore succeeds below a file")
		}
		return nil
	}

	for name, do := range map[string]func(*kisttest.Repository) error{"remove": remove, "checkout": switchTo, "restore": restore} {
		t.Run(name, func(t *testing.T) {
			s := kisttest.New(t)
			folder := filepath.Join(s.Dir, "folder")
			s.Write("folder/gone", "gone")
			s.Write("folder/stays", "stays")
			s.Check(os.Chmod(folder, 0o555))
			s.Add(stage.AddOptions{})
			s.Commit("with")
			s.Checkout(checkout.SwitchOptions{Create: "without"})
			_, err := checkout.Remove(t.Context(), s.Repo, checkout.RemoveOptions{Paths: []string{"folder/gone"}})
			s.Check(err)
			s.Commit("without")
			s.Checkout(checkout.SwitchOptions{Rev: "main"})
			s.Check(os.Chmod(folder, 0o755))
			s.Check(os.RemoveAll(folder))
			s.Write("folder", "the only copy")
			s.Check(do(s))
			s.Want("folder", "the only copy")
		})
	}
}

// A checkout is refused if it would replace a staged file by a folder. The file is not in the
// worktree, so its content is only staged.
func TestStagedInPlaceOfFolder(t *testing.T) {
	s := kisttest.New(t)
	s.Write("folder/a", "a")
	s.Add(stage.AddOptions{})
	s.Commit("first")
	s.Checkout(checkout.SwitchOptions{Create: "more"})
	s.Write("folder/below/b", "b")
	s.Add(stage.AddOptions{})
	s.Commit("more")
	s.Checkout(checkout.SwitchOptions{Rev: "main"})
	s.Check(os.RemoveAll(filepath.Join(s.Dir, "folder")))
	s.Write("folder", "staged alone")
	s.Add(stage.AddOptions{})
	s.Check(os.Remove(filepath.Join(s.Dir, "folder")))
	_, err := checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Rev: "more"})
	var local *stage.LocalChangesError
	if !errors.As(err, &local) || len(local.Obstacles) != 1 || local.Obstacles[0].Path != "folder" {
		t.Fatalf("checkout: error %v, want an obstacle at folder", err)
	}
	idx, err := s.Repo.Index()
	s.Check(err)
	if idx.Entry("folder") == nil {
		t.Error("the staged file is lost")
	}
}

// A merge that was cancelled while it wrote files succeeds when it is repeated.
func TestMergeInterrupted(t *testing.T) {
	s := kisttest.New(t)
	s.Write("ours", "base")
	s.Add(stage.AddOptions{})
	s.Commit("base")
	s.Checkout(checkout.SwitchOptions{Create: "theirs"})

	for _, path := range []string{"a", "b/c", "b/d", "e"} {
		s.Write(path, "theirs")
	}
	s.Check(os.Remove(filepath.Join(s.Dir, "ours")))
	s.Write("ours/is/a/folder", "theirs")
	s.Add(stage.AddOptions{})
	s.Commit("theirs")
	s.Checkout(checkout.SwitchOptions{Rev: "main"})
	s.Write("new", "ours")
	s.Add(stage.AddOptions{})
	s.Commit("ours")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := commits.Merge(ctx, s.Repo, commits.MergeOptions{Rev: "theirs", Progress: func(done, total kist.Amount) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("merge: error %v, want Canceled", err)
	}

	merged, err := commits.Merge(t.Context(), s.Repo, commits.MergeOptions{Rev: "theirs"})
	s.Check(err)
	if merged.Commit == nil || len(merged.Commit.Commit.Parents) != 2 {
		t.Errorf("merged: %+v, want a commit with two parents", merged)
	}

	status, err := stage.ReadStatus(t.Context(), s.Repo, stage.StatusOptions{})
	s.Check(err)
	if !status.Clean() || len(status.Untracked) > 0 {
		t.Errorf("status is not clean: %+v", status)
	}
}

// A cancelled move leaves no file in the worktree that the index does not know.
func TestMoveInterrupted(t *testing.T) {
	s := kisttest.New(t)
	s.Write("old", "old")
	s.Add(stage.AddOptions{})
	s.Commit("first")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := checkout.Move(ctx, s.Repo, checkout.MoveOptions{Sources: []string{"old"}, Destination: "new"})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("move: error %v, want Canceled", err)
	}
	s.Want("old", "old")
	_, err = checkout.Move(t.Context(), s.Repo, checkout.MoveOptions{Sources: []string{"old"}, Destination: "new"})
	s.Check(err)
	s.Want("new", "old")
}

// A checkout that turns a folder into a file is refused if a user's file replaced one of the
// folder's subfolders.
func TestFileInFolderThatGoes(t *testing.T) {
	s := kisttest.New(t)
	s.Write("a/b/c", "c")
	s.Add(stage.AddOptions{})
	s.Commit("folder")
	s.Checkout(checkout.SwitchOptions{Create: "file"})
	s.Check(os.RemoveAll(filepath.Join(s.Dir, "a")))
	s.Write("a", "a")
	s.Add(stage.AddOptions{})
	s.Commit("file")
	s.Checkout(checkout.SwitchOptions{Rev: "main"})
	s.Check(os.RemoveAll(filepath.Join(s.Dir, "a/b")))
	s.Write("a/b", "the only copy")
	_, err := checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Rev: "file"})
	var local *stage.LocalChangesError
	if !errors.As(err, &local) || len(local.Obstacles) != 1 || local.Obstacles[0].Path != "a/b" {
		t.Errorf("checkout: error %v, want an obstacle at a/b", err)
	}
	s.Want("a/b", "the only copy")
}

// A checkout that makes a folder in the place of a removed file is refused if an untracked file
// is there.
func TestFolderInPlaceOfRemovedFile(t *testing.T) {
	s := kisttest.New(t)
	s.Write("a", "a")
	s.Write("b", "b")
	s.Add(stage.AddOptions{})
	s.Commit("file")
	s.Checkout(checkout.SwitchOptions{Create: "folder"})
	s.Check(os.Remove(filepath.Join(s.Dir, "a")))
	s.Write("a/c", "c")
	s.Add(stage.AddOptions{})
	s.Commit("folder")
	s.Checkout(checkout.SwitchOptions{Rev: "main"})
	s.Check(os.Remove(filepath.Join(s.Dir, "a")))
	s.Add(stage.AddOptions{})

	s.Write("a", "the only copy")
	_, err := checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Rev: "folder"})
	var local *stage.LocalChangesError
	if !errors.As(err, &local) || len(local.Obstacles) != 1 || local.Obstacles[0].Path != "a" {
		t.Errorf("checkout: error %v, want an obstacle at a", err)
	}
	s.Want("a", "the only copy")

	s.Check(os.Remove(filepath.Join(s.Dir, "a")))
	s.Checkout(checkout.SwitchOptions{Rev: "folder"})
	s.Want("a/c", "c")
	s.Want("b", "b")
	status, err := stage.ReadStatus(t.Context(), s.Repo, stage.StatusOptions{})
	s.Check(err)
	if len(status.Staged)+len(status.Changed) > 0 {
		t.Errorf("staged %v, changed %v", status.Staged, status.Changed)
	}
}

// A checkout cannot remove a read-only folder with an untracked file. The folder is read-only
// afterwards.
func TestFolderThatStays(t *testing.T) {
	s := kisttest.New(t)
	s.Write("file", "file")
	s.Add(stage.AddOptions{})
	s.Commit("first")
	s.Checkout(checkout.SwitchOptions{Create: "more"})
	s.Write("a/b/c", "c")
	for _, folder := range []string{"a/b", "a"} {
		s.Check(os.Chmod(filepath.Join(s.Dir, folder), 0o555))
	}
	s.Add(stage.AddOptions{})
	s.Commit("more")
	s.Check(os.Chmod(filepath.Join(s.Dir, "a/b"), 0o755))
	s.Write("a/b/untracked", "untracked")
	s.Check(os.Chmod(filepath.Join(s.Dir, "a/b"), 0o555))
	s.Checkout(checkout.SwitchOptions{Rev: "main"})
	s.Want("a/b/untracked", "untracked")
	for _, folder := range []string{"a/b", "a"} {
		info, err := os.Stat(filepath.Join(s.Dir, folder))
		s.Check(err)
		if got := info.Mode().Perm(); got != 0o555 {
			t.Errorf("%s has mode %o, want 555", folder, got)
		}
		s.Check(os.Chmod(filepath.Join(s.Dir, folder), 0o755))
	}
}

// The status is not clean if a special file is in the place of a tracked file.
func TestStatusOfSpecialFile(t *testing.T) {
	s := kisttest.New(t)
	s.Write("file", "file")
	s.Add(stage.AddOptions{})
	s.Commit("first")
	file := filepath.Join(s.Dir, "file")
	s.Check(os.Remove(file))
	s.Check(syscall.Mkfifo(file, 0o644))
	status, err := stage.ReadStatus(t.Context(), s.Repo, stage.StatusOptions{})
	s.Check(err)
	if status.Clean() {
		t.Errorf("status is clean: %+v", status)
	}
}
