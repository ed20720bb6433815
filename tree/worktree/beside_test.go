package worktree

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
)

const leftover = ".kist-tmp-0123456789abcdef"

// Apply removes the temporary files that a killed process left beside their final places, in the
// folders that it writes into. Everything that is not one of them stays.
func TestApplySweepsBeside(t *testing.T) {
	f := newReal(t)
	f.w.opt.TempDir = ""
	outside := t.TempDir()
	f.check(os.WriteFile(filepath.Join(outside, "file"), []byte("x"), 0o600))
	f.write("d/"+leftover, "partial")
	f.symlink(filepath.Join(outside, "file"), "d/.kist-tmp-0000000000000001")
	f.symlink(outside, "d/.kist-tmp-0000000000000002")
	kept := []string{
		"d/.kist-tmp-", "d/.kist-tmp-0123456789abcde", "d/.kist-tmp-0123456789abcdef0", "d/.kist-tmp-0123456789ABCDEF", "d/.kist-tmp-0123456789abcdeg",
		"d/x.kist-tmp-0123456789abcdef", "d/.kist-tmp-00000000000000aa/file", "other/" + leftover,
	}
	for _, path := range kept {
		f.write(path, "of the user")
	}
	made := "d/.kist-tmp-00000000000000ff" // from a commit

	f.apply(Op{Path: "d/new", New: f.file("1")}, Op{Path: made, New: f.file("2")})
	for _, path := range append(slices.Clone(kept), "d/new", made) {
		if !f.w.Exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
	for _, path := range []string{"d/" + leftover, "d/.kist-tmp-0000000000000001", "d/.kist-tmp-0000000000000002"} {
		if f.w.Exists(path) {
			t.Errorf("%s is left", path)
		}
	}
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Errorf("the target of a symlink: %v", err)
	}
}

// The temporary files of a process that is still at work stay.
func TestApplyLeavesOthersBeside(t *testing.T) {
	f := newReal(t)
	f.w.opt.TempDir = ""
	f.write("d/"+leftover, "of another process")
	other, err := f.w.openFolder("d")
	f.check(err)
	other.(locker).shareLock()
	f.apply(Op{Path: "d/new", New: f.file("1")})
	if !f.w.Exists("d/" + leftover) {
		t.Error("Apply removed a file of another process")
	}

	f.check(other.Close())
	f.apply(Op{Path: "d/new2", New: f.file("2")})
	if f.w.Exists("d/" + leftover) {
		t.Error("Apply left a file when the other process had ended")
	}
}

// Existing folders above the wanted paths keep their permission bits, also if Apply has to widen
// them for its work. New ones get the recorded bits.
func TestApplyAbove(t *testing.T) {
	f := newReal(t)
	f.mkdir("kept")
	f.mkdir("narrow/sub")
	for path, mode := range map[string]os.FileMode{"kept": 0o711, "narrow/sub": 0o500, "narrow": 0o500} {
		f.check(os.Chmod(filepath.Join(f.root, path), mode))
	}
	defer os.Chmod(filepath.Join(f.root, "narrow"), 0o700)
	defer os.Chmod(filepath.Join(f.root, "narrow/sub"), 0o700)

	above := func(path string) Op { return Op{Path: path, New: dir(0o750), Above: true} }
	ops := []Op{
		above("kept"), above("kept/made"), {Path: "kept/made/file", New: f.file("1")},
		above("narrow"), above("narrow/sub"), {Path: "narrow/sub/file", New: f.file("2")},
		{Path: "narrow/wanted", New: dir(0o710)},
	}
	for range 2 {
		f.apply(ops...)
		for path, want := range map[string]uint16{"kept": 0o711, "kept/made": 0o750, "narrow": 0o500, "narrow/sub": 0o500, "narrow/wanted": 0o710} {
			info, err := f.w.Lstat(path)
			f.check(err)
			if info.Type != object.TypeDir || info.Mode != want {
				t.Errorf("%s has mode %o, want %o", path, info.Mode, want)
			}
		}
	}
}
