package kist_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist"
)

// TestFileInPlaceOfReadOnlyFolder has a file of the user's where a folder is
// tracked as read-only, from which something is removed. The file stays.
func TestFileInPlaceOfReadOnlyFolder(t *testing.T) {
	remove := func(s *stager) error {
		_, err := s.repo.Remove(s.Context(), kist.RemoveOptions{Paths: []string{"folder/gone"}})
		return err
	}
	switchTo := func(s *stager) error {
		_, err := s.repo.Checkout(s.Context(), kist.CheckoutOptions{Rev: "without"})
		return err
	}
	restore := func(s *stager) error {
		_, err := s.repo.Restore(s.Context(), kist.RestoreOptions{Paths: []string{"folder/gone"}, Worktree: true})
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
			s.add(kist.AddOptions{})
			s.commit("with")
			s.checkout(kist.CheckoutOptions{Create: "without"})
			_, err := s.repo.Remove(t.Context(), kist.RemoveOptions{Paths: []string{"folder/gone"}})
			s.check(err)
			s.commit("without")
			s.checkout(kist.CheckoutOptions{Rev: "main"})
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
	s.add(kist.AddOptions{})
	s.commit("first")
	s.checkout(kist.CheckoutOptions{Create: "more"})
	s.write("folder/below/b", "b")
	s.add(kist.AddOptions{})
	s.commit("more")
	s.checkout(kist.CheckoutOptions{Rev: "main"})
	s.check(os.RemoveAll(filepath.Join(s.dir, "folder")))
	s.write("folder", "staged alone")
	s.add(kist.AddOptions{})
	s.check(os.Remove(filepath.Join(s.dir, "folder")))
	_, err := s.repo.Checkout(t.Context(), kist.CheckoutOptions{Rev: "more"})
	var local *kist.LocalChangesError
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
	s.add(kist.AddOptions{})
	s.commit("base")
	s.checkout(kist.CheckoutOptions{Create: "theirs"})
	for _, path := range []string{"a", "b/c", "b/d", "e"} {
		s.write(path, "theirs")
	}
	s.check(os.Remove(filepath.Join(s.dir, "ours")))
	s.write("ours/is/a/folder", "theirs")
	s.add(kist.AddOptions{})
	s.commit("theirs")
	s.checkout(kist.CheckoutOptions{Rev: "main"})
	s.write("new", "ours")
	s.add(kist.AddOptions{})
	s.commit("ours")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := s.repo.Merge(ctx, kist.MergeOptions{Rev: "theirs", Progress: func(done, total kist.Amount) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("merge: %v", err)
	}
	merged, err := s.repo.Merge(t.Context(), kist.MergeOptions{Rev: "theirs"})
	s.check(err)
	if merged.Commit == nil || len(merged.Commit.Commit.Parents) != 2 {
		t.Errorf("merged: %+v", merged)
	}
	status, err := s.repo.Status(t.Context(), kist.StatusOptions{})
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
	s.add(kist.AddOptions{})
	s.commit("first")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.repo.Move(ctx, []string{"old"}, "new", false, false)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("move: %v", err)
	}
	s.want("old", "old")
	_, err = s.repo.Move(t.Context(), []string{"old"}, "new", false, false)
	s.check(err)
	s.want("new", "old")
}

// TestFileInFolderThatGoes has a file of the user's where a folder was, in a folder
// that a checkout makes a file. Nothing is done.
func TestFileInFolderThatGoes(t *testing.T) {
	s := newStager(t)
	s.write("a/b/c", "c")
	s.add(kist.AddOptions{})
	s.commit("folder")
	s.checkout(kist.CheckoutOptions{Create: "file"})
	s.check(os.RemoveAll(filepath.Join(s.dir, "a")))
	s.write("a", "a")
	s.add(kist.AddOptions{})
	s.commit("file")
	s.checkout(kist.CheckoutOptions{Rev: "main"})
	s.check(os.RemoveAll(filepath.Join(s.dir, "a/b")))
	s.write("a/b", "the only copy")
	_, err := s.repo.Checkout(t.Context(), kist.CheckoutOptions{Rev: "file"})
	var local *kist.LocalChangesError
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
	s.add(kist.AddOptions{})
	s.commit("first")
	s.checkout(kist.CheckoutOptions{Create: "more"})
	s.write("a/b/c", "c")
	for _, folder := range []string{"a/b", "a"} {
		s.check(os.Chmod(filepath.Join(s.dir, folder), 0o555))
	}
	s.add(kist.AddOptions{})
	s.commit("more")
	s.check(os.Chmod(filepath.Join(s.dir, "a/b"), 0o755))
	s.write("a/b/untracked", "untracked")
	s.check(os.Chmod(filepath.Join(s.dir, "a/b"), 0o555))
	s.checkout(kist.CheckoutOptions{Rev: "main"})
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
	s.add(kist.AddOptions{})
	s.commit("first")
	file := filepath.Join(s.dir, "file")
	s.check(os.Remove(file))
	s.check(syscall.Mkfifo(file, 0o644))
	status, err := s.repo.Status(t.Context(), kist.StatusOptions{})
	s.check(err)
	if status.Clean() {
		t.Errorf("clean: %+v", status)
	}
}
