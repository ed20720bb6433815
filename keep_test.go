package kist_test

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
)

// TestFileInPlaceOfReadOnlyFolder has a file of the user's where a folder is
// tracked as read-only, from which something is removed. The file stays.
func TestFileInPlaceOfReadOnlyFolder(t *testing.T) {
	remove := func(s *stager) error {
		_, err := checkout.Remove(s.Context(), s.repo, checkout.RemoveOptions{Paths: []string{"folder/gone"}})
		return err
	}
	switchTo := func(s *stager) error {
		_, err := checkout.Switch(s.Context(), s.repo, checkout.SwitchOptions{Rev: "without"})
		return err
	}
	restore := func(s *stager) error {
		_, err := checkout.Restore(s.Context(), s.repo, checkout.RestoreOptions{Paths: []string{"folder/gone"}, Worktree: true})
		if err == nil {
			s.Error("a file was restored below another one")
		}
		return nil
	}
	for name, do := range map[string]func(*stager) error{"remove": remove, "checkout": switchTo, "restore": restore} {
		t.Run(name, func(t *testing.T) {
			s := newStager(t)
			folder := filepath.Join(s.dir, "folder")
			s.write("folder/gone", "gone")
			s.write("folder/stays", "stays")
			s.check(os.Chmod(folder, 0o555))
			s.add(stage.AddOptions{})
			s.commit("with")
			s.checkout(checkout.SwitchOptions{Create: "without"})
			_, err := checkout.Remove(t.Context(), s.repo, checkout.RemoveOptions{Paths: []string{"folder/gone"}})
			s.check(err)
			s.commit("without")
			s.checkout(checkout.SwitchOptions{Rev: "main"})
			s.check(os.Chmod(folder, 0o755))
			s.check(os.RemoveAll(folder))
			s.write("folder", "the only copy")
			s.check(do(s))
			s.want("folder", "the only copy")
		})
	}
}

// TestStagedInPlaceOfFolder has a file staged, and no more in the worktree, where
// a commit has a folder in which there is something new. A checkout would lose
// what is staged.
func TestStagedInPlaceOfFolder(t *testing.T) {
	s := newStager(t)
	s.write("folder/a", "a")
	s.add(stage.AddOptions{})
	s.commit("first")
	s.checkout(checkout.SwitchOptions{Create: "more"})
	s.write("folder/below/b", "b")
	s.add(stage.AddOptions{})
	s.commit("more")
	s.checkout(checkout.SwitchOptions{Rev: "main"})
	s.check(os.RemoveAll(filepath.Join(s.dir, "folder")))
	s.write("folder", "staged alone")
	s.add(stage.AddOptions{})
	s.check(os.Remove(filepath.Join(s.dir, "folder")))
	_, err := checkout.Switch(t.Context(), s.repo, checkout.SwitchOptions{Rev: "more"})
	var local *stage.LocalChangesError
	if !errors.As(err, &local) || len(local.Obstacles) != 1 || local.Obstacles[0].Path != "folder" {
		t.Fatalf("checkout: %v", err)
	}
	idx, err := s.repo.Index()
	s.check(err)
	if idx.Entry("folder") == nil {
		t.Error("what was staged is lost")
	}
}

// TestMergeInterrupted cancels a merge while it writes files. Run again, it ends.
func TestMergeInterrupted(t *testing.T) {
	s := newStager(t)
	s.write("ours", "base")
	s.add(stage.AddOptions{})
	s.commit("base")
	s.checkout(checkout.SwitchOptions{Create: "theirs"})
	for _, path := range []string{"a", "b/c", "b/d", "e"} {
		s.write(path, "theirs")
	}
	s.check(os.Remove(filepath.Join(s.dir, "ours")))
	s.write("ours/is/a/folder", "theirs")
	s.add(stage.AddOptions{})
	s.commit("theirs")
	s.checkout(checkout.SwitchOptions{Rev: "main"})
	s.write("new", "ours")
	s.add(stage.AddOptions{})
	s.commit("ours")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := commits.Merge(ctx, s.repo, commits.MergeOptions{Rev: "theirs", Progress: func(done, total kist.Amount) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("merge: %v", err)
	}
	merged, err := commits.Merge(t.Context(), s.repo, commits.MergeOptions{Rev: "theirs"})
	s.check(err)
	if merged.Commit == nil || len(merged.Commit.Commit.Parents) != 2 {
		t.Errorf("merged: %+v", merged)
	}
	status, err := stage.ReadStatus(t.Context(), s.repo, stage.StatusOptions{})
	s.check(err)
	if !status.Clean() || len(status.Untracked) > 0 {
		t.Errorf("status: %+v", status)
	}
}

// TestMoveInterrupted checks that a move that is cancelled leaves nothing in the
// worktree that the index does not know of.
func TestMoveInterrupted(t *testing.T) {
	s := newStager(t)
	s.write("old", "old")
	s.add(stage.AddOptions{})
	s.commit("first")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := checkout.Move(ctx, s.repo, []string{"old"}, "new", false, false)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("move: %v", err)
	}
	s.want("old", "old")
	_, err = checkout.Move(t.Context(), s.repo, []string{"old"}, "new", false, false)
	s.check(err)
	s.want("new", "old")
}

// TestFileInFolderThatGoes has a file of the user's where a folder was, in a folder
// that a checkout makes a file. Nothing is done.
func TestFileInFolderThatGoes(t *testing.T) {
	s := newStager(t)
	s.write("a/b/c", "c")
	s.add(stage.AddOptions{})
	s.commit("folder")
	s.checkout(checkout.SwitchOptions{Create: "file"})
	s.check(os.RemoveAll(filepath.Join(s.dir, "a")))
	s.write("a", "a")
	s.add(stage.AddOptions{})
	s.commit("file")
	s.checkout(checkout.SwitchOptions{Rev: "main"})
	s.check(os.RemoveAll(filepath.Join(s.dir, "a/b")))
	s.write("a/b", "the only copy")
	_, err := checkout.Switch(t.Context(), s.repo, checkout.SwitchOptions{Rev: "file"})
	var local *stage.LocalChangesError
	if !errors.As(err, &local) || len(local.Obstacles) != 1 || local.Obstacles[0].Path != "a/b" {
		t.Errorf("checkout: %v", err)
	}
	s.want("a/b", "the only copy")
}

// TestFolderThatStays checks that a read-only folder is read-only again that was
// to be removed and is not, for something untracked is in it.
func TestFolderThatStays(t *testing.T) {
	s := newStager(t)
	s.write("file", "file")
	s.add(stage.AddOptions{})
	s.commit("first")
	s.checkout(checkout.SwitchOptions{Create: "more"})
	s.write("a/b/c", "c")
	for _, folder := range []string{"a/b", "a"} {
		s.check(os.Chmod(filepath.Join(s.dir, folder), 0o555))
	}
	s.add(stage.AddOptions{})
	s.commit("more")
	s.check(os.Chmod(filepath.Join(s.dir, "a/b"), 0o755))
	s.write("a/b/untracked", "untracked")
	s.check(os.Chmod(filepath.Join(s.dir, "a/b"), 0o555))
	s.checkout(checkout.SwitchOptions{Rev: "main"})
	s.want("a/b/untracked", "untracked")
	for _, folder := range []string{"a/b", "a"} {
		info, err := os.Stat(filepath.Join(s.dir, folder))
		s.check(err)
		if got := info.Mode().Perm(); got != 0o555 {
			t.Errorf("%s: %o", folder, got)
		}
		s.check(os.Chmod(filepath.Join(s.dir, folder), 0o755))
	}
}

// TestStatusOfSpecialFile checks that a worktree is not clean in which something
// is in the place of a tracked file that cannot be stored.
func TestStatusOfSpecialFile(t *testing.T) {
	s := newStager(t)
	s.write("file", "file")
	s.add(stage.AddOptions{})
	s.commit("first")
	file := filepath.Join(s.dir, "file")
	s.check(os.Remove(file))
	s.check(syscall.Mkfifo(file, 0o644))
	status, err := stage.ReadStatus(t.Context(), s.repo, stage.StatusOptions{})
	s.check(err)
	if status.Clean() {
		t.Errorf("clean: %+v", status)
	}
}
