package checkout_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/treetest"
)

// TestFileInPlaceOfReadOnlyFolder has a file of the user's where a folder is
// tracked as read-only, from which something is removed. The file stays.
func TestFileInPlaceOfReadOnlyFolder(t *testing.T) {
	remove := func(s *treetest.Repository) error {
		_, err := checkout.Remove(s.Context(), s.Repo, checkout.RemoveOptions{Paths: []string{"folder/gone"}})
		return err
	}
	switchTo := func(s *treetest.Repository) error {
		_, err := checkout.Switch(s.Context(), s.Repo, checkout.SwitchOptions{Rev: "without"})
		return err
	}
	restore := func(s *treetest.Repository) error {
		_, err := checkout.Restore(s.Context(), s.Repo, checkout.RestoreOptions{Paths: []string{"folder/gone"}, Worktree: true})
		if err == nil {
			s.Error("a file was restored below another one")
		}
		return nil
	}
	for name, do := range map[string]func(*treetest.Repository) error{"remove": remove, "checkout": switchTo, "restore": restore} {
		t.Run(name, func(t *testing.T) {
			s := treetest.New(t)
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

// TestStagedInPlaceOfFolder has a file staged, and no more in the worktree, where
// a commit has a folder in which there is something new. A checkout would lose
// what is staged.
func TestStagedInPlaceOfFolder(t *testing.T) {
	s := treetest.New(t)
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
		t.Fatalf("checkout: %v", err)
	}
	idx, err := s.Repo.Index()
	s.Check(err)
	if idx.Entry("folder") == nil {
		t.Error("what was staged is lost")
	}
}

// TestMergeInterrupted cancels a merge while it writes files. Run again, it ends.
func TestMergeInterrupted(t *testing.T) {
	s := treetest.New(t)
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
		t.Fatalf("merge: %v", err)
	}
	merged, err := commits.Merge(t.Context(), s.Repo, commits.MergeOptions{Rev: "theirs"})
	s.Check(err)
	if merged.Commit == nil || len(merged.Commit.Commit.Parents) != 2 {
		t.Errorf("merged: %+v", merged)
	}
	status, err := stage.ReadStatus(t.Context(), s.Repo, stage.StatusOptions{})
	s.Check(err)
	if !status.Clean() || len(status.Untracked) > 0 {
		t.Errorf("status: %+v", status)
	}
}

// TestMoveInterrupted checks that a move that is cancelled leaves nothing in the
// worktree that the index does not know of.
func TestMoveInterrupted(t *testing.T) {
	s := treetest.New(t)
	s.Write("old", "old")
	s.Add(stage.AddOptions{})
	s.Commit("first")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := checkout.Move(ctx, s.Repo, checkout.MoveOptions{Sources: []string{"old"}, Destination: "new"})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("move: %v", err)
	}
	s.Want("old", "old")
	_, err = checkout.Move(t.Context(), s.Repo, checkout.MoveOptions{Sources: []string{"old"}, Destination: "new"})
	s.Check(err)
	s.Want("new", "old")
}

// TestFileInFolderThatGoes has a file of the user's where a folder was, in a folder
// that a checkout makes a file. Nothing is done.
func TestFileInFolderThatGoes(t *testing.T) {
	s := treetest.New(t)
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
		t.Errorf("checkout: %v", err)
	}
	s.Want("a/b", "the only copy")
}

// TestFolderInPlaceOfRemovedFile switches to a commit that has a folder where the removal
// of a file is staged. An untracked file in that place stays, and nothing is done.
func TestFolderInPlaceOfRemovedFile(t *testing.T) {
	s := treetest.New(t)
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
		t.Errorf("checkout: %v", err)
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

// TestFolderThatStays checks that a read-only folder is read-only again that was
// to be removed and is not, for something untracked is in it.
func TestFolderThatStays(t *testing.T) {
	s := treetest.New(t)
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
			t.Errorf("%s: %o", folder, got)
		}
		s.Check(os.Chmod(filepath.Join(s.Dir, folder), 0o755))
	}
}

// TestStatusOfSpecialFile checks that a worktree is not clean in which something
// is in the place of a tracked file that cannot be stored.
func TestStatusOfSpecialFile(t *testing.T) {
	s := treetest.New(t)
	s.Write("file", "file")
	s.Add(stage.AddOptions{})
	s.Commit("first")
	file := filepath.Join(s.Dir, "file")
	s.Check(os.Remove(file))
	s.Check(syscall.Mkfifo(file, 0o644))
	status, err := stage.ReadStatus(t.Context(), s.Repo, stage.StatusOptions{})
	s.Check(err)
	if status.Clean() {
		t.Errorf("clean: %+v", status)
	}
}
