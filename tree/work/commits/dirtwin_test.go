package commits_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/rebase"
	"github.com/kist-vcs/kist/tree/work/stash"
)

// TestDirectoryRenamesLikeGit renames folders on one branch and adds files to them on another.
// Then it merges, rebases, picks, reverts and applies a stash, in kist and in git, with each value of the
// setting. Worktrees, staged changes and conflicts must be equal.
func TestDirectoryRenamesLikeGit(t *testing.T) {
	for i := range objecttest.Rounds(t, 2) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			x := newTwins(t, rand.New(rand.NewPCG(seed, 17)))
			asked := 0
			for _, setting := range []string{"", "true", "false", "conflict"} {
				if setting != "" {
					x.git("config", "merge.directoryRenames", setting)
					kisttest.Check(t, x.r.SetConfig(t.Context(), kist.KeyDirectoryRenames, setting))
				}
				for _, operation := range []func() []tree.Conflict{x.mergeRenamed, x.rebaseRenamed, x.pickRenamed, x.revertRenamed, x.stashRenamed} {
					asked += x.compareRenamed(operation)
				}
			}
			if asked == 0 {
				t.Error("no operation asks about a file in a renamed folder")
			}
			report, err := gc.VerifyRepository(t.Context(), x.r, verifyAll)
			kisttest.Check(t, err)
			for _, p := range report.Problems {
				t.Error(p)
			}
		})
	}
}

// compareRenamed compares the result of an operation, which returns the conflicts in kist, and
// undoes it. It returns the number of conflicts.
func (x *twins) compareRenamed(operation func() []tree.Conflict) int {
	x.t.Helper()
	conflicts := operation()

	paths, unmerged := commits.ConflictPaths(conflicts), x.unmerged()
	slices.Sort(paths)
	slices.Sort(unmerged)
	if !slices.Equal(paths, unmerged) {
		x.fail("conflicts: kist %q\ngit %q", paths, unmerged)
	}
	if len(conflicts) == 0 {
		x.compare()
		return 0
	}

	x.both(removeEmpty)
	if d := differences(listWorktree(x.t, x.dir), listWorktree(x.t, x.path)); d != "" {
		x.fail("worktrees: %s", d)
	}
	if x.try("rebase", "--abort") == nil {
		_, err := rebase.Abort(x.t.Context(), x.r, nil)
		kisttest.Check(x.t, err)
	}
	kisttest.Check(x.t, x.resetBoth())
	return len(conflicts)
}

// renamedFolders makes a commit with folders, a branch that renames some of them, and a branch
// that adds files to some. It returns the three commits and checks the last one out.
func (x *twins) renamedFolders() (base, renamed, added pairedCommit) {
	folders := []string{"a", "a/m", "b", "b/n/o"}
	x.both(func(dir string) error {
		names, err := filepath.Glob(filepath.Join(dir, "[a-z]*"))
		for _, name := range names {
			err = errors.Join(err, os.RemoveAll(name))
		}
		return err
	})
	for _, folder := range folders {
		for i := range 1 + x.rnd.IntN(3) {
			x.write(fmt.Sprintf("%s/%d", folder, i))
		}
	}
	base = x.commitAll("base")

	for range 1 + x.rnd.IntN(2) {
		from, to := folders[x.rnd.IntN(len(folders))], []string{"c", "c/d", "b/new"}[x.rnd.IntN(3)]
		x.note("mv %s %s", from, to)
		x.both(func(dir string) error {
			from, to := filepath.Join(dir, from), filepath.Join(dir, to)
			if !missing(to) || missing(from) || filepath.Dir(to) == from {
				return nil
			}
			return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Rename(from, to))
		})
	}
	x.write("other")
	renamed = x.commitAll("renamed")

	x.goTo(base)
	for i := range 1 + x.rnd.IntN(2) {
		for folder := folders[x.rnd.IntN(len(folders))]; folder != "."; folder = filepath.Dir(folder) {
			x.write(fmt.Sprintf("%s/new%d", folder, i))
		}
	}
	return base, renamed, x.commitAll("added")
}

func missing(file string) bool {
	_, err := os.Lstat(file)
	return errors.Is(err, os.ErrNotExist)
}

// write writes a new text to a file in both worktrees.
func (x *twins) write(name string) {
	x.number++
	text := edited("", x.number)
	x.note("write %s", name)
	x.both(func(dir string) error {
		file := filepath.Join(dir, name)
		return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644))
	})
}

// commitAll commits all files and returns the commit.
func (x *twins) commitAll(name string) pairedCommit {
	x.t.Helper()
	x.add("")
	x.commit()
	x.note("that was %s", name)
	return x.commits[len(x.commits)-1]
}

// goTo checks a commit out and detaches HEAD.
func (x *twins) goTo(c pairedCommit) {
	x.t.Helper()
	x.note("checkout %s", c.git)
	x.git("checkout", "-q", "-f", c.git)
	_, err := checkout.Switch(x.t.Context(), x.r, checkout.SwitchOptions{Rev: c.kist.String(), Force: true})
	kisttest.Check(x.t, err)
}

// agreeOnConflicts fails the test if only one of kist and git has conflicts, or if kist failed.
func (x *twins) agreeOnConflicts(conflicts []tree.Conflict, err, gitErr error) []tree.Conflict {
	x.t.Helper()
	if err != nil || (len(conflicts) > 0) != (gitErr != nil) {
		x.fail("kist: %v, conflicts %v\ngit: %v", err, conflicts, gitErr)
	}
	return conflicts
}

func (x *twins) mergeRenamed() []tree.Conflict {
	_, renamed, _ := x.renamedFolders()
	x.note("merge %s", renamed.git)
	gitErr := x.try("merge", "-q", "--no-edit", renamed.git)
	result, err := commits.Merge(x.t.Context(), x.r, commits.MergeOptions{Rev: renamed.kist.String()})
	kisttest.Check(x.t, err)
	return x.agreeOnConflicts(result.Conflicts, err, gitErr)
}

func (x *twins) rebaseRenamed() []tree.Conflict {
	_, renamed, _ := x.renamedFolders()
	x.note("rebase %s", renamed.git)
	gitErr := x.try("rebase", "-q", renamed.git)
	result, err := rebase.Rebase(x.t.Context(), x.r, rebase.Options{Upstream: renamed.kist.String()})
	kisttest.Check(x.t, err)
	return x.agreeOnConflicts(result.Conflicts, err, gitErr)
}

func (x *twins) pickRenamed() []tree.Conflict {
	_, renamed, added := x.renamedFolders()
	x.goTo(renamed)
	x.note("cherry-pick %s", added.git)
	gitErr := x.try("cherry-pick", added.git)
	result, err := commits.CherryPick(x.t.Context(), x.r, commits.RevertOptions{Commits: []object.ID{added.kist}})
	kisttest.Check(x.t, err)
	return x.agreeOnConflicts(result.Conflicts, err, gitErr)
}

// revertRenamed reverts the removal of files from folders that were renamed later.
func (x *twins) revertRenamed() []tree.Conflict {
	base, renamed, added := x.renamedFolders()
	x.note("restore %s", base.git)
	x.git("restore", "--source", base.git, ".")
	_, err := checkout.Restore(x.t.Context(), x.r, checkout.RestoreOptions{Worktree: true, Source: base.kist.String(), Paths: []string{""}})
	kisttest.Check(x.t, err)
	removed := x.commitAll("removed")

	x.goTo(renamed)
	x.note("revert %s of %s", removed.git, added.git)
	gitErr := x.try("revert", "--no-edit", removed.git)
	result, err := commits.Revert(x.t.Context(), x.r, commits.RevertOptions{Commits: []object.ID{removed.kist}})
	kisttest.Check(x.t, err)
	return x.agreeOnConflicts(result.Conflicts, err, gitErr)
}

// stashRenamed stashes new files in folders, and applies the stash where the folders are renamed.
func (x *twins) stashRenamed() []tree.Conflict {
	base, renamed, added := x.renamedFolders()
	x.git("reset", "-q", "--soft", base.git)
	_, err := checkout.Reset(x.t.Context(), x.r, base.kist.String(), checkout.ResetSoft, nil)
	kisttest.Check(x.t, err)

	x.git("stash", "push", "-q")
	stashed, err := stash.Push(x.t.Context(), x.r, stash.PushOptions{})
	kisttest.Check(x.t, err)
	x.goTo(renamed)
	x.note("stash apply of %s", added.git)
	gitErr := x.try("stash", "apply", "-q")
	result, err := stash.Apply(x.t.Context(), x.r, stashed.New, stash.ApplyOptions{})
	kisttest.Check(x.t, err)
	return x.agreeOnConflicts(result.Conflicts, err, gitErr)
}
