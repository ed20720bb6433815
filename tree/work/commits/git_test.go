package commits_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// twins is a repository of kist and one of git, on which a test performs the same operations.
type twins struct {
	*gitTwin
	t   *testing.T
	rnd *rand.Rand
	dir string // kist's worktree
	r   *kist.Repository

	commits  []pairedCommit
	branches []string
	steps    []string // the operations so far, for failure messages
	number   int      // number of the last content
}

// pairedCommit is the same commit in kist and in git.
type pairedCommit struct {
	kist object.ID
	git  string
}

// TestLikeGit performs the same random operations in kist and in git, with and without local
// changes in the way. Both must refuse the same ones. After every step, worktrees and staged
// changes must be equal.
//
// kist may succeed where git refuses because of an obstacle, if it loses nothing. Git's merges
// follow no renames here, and the test makes none.
func TestLikeGit(t *testing.T) {
	for i := range objecttest.Rounds(t, 2) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			x := newTwins(t, rand.New(rand.NewPCG(seed, 7)))
			for range 40 {
				x.step()
				x.compare()
			}
			report, err := gc.VerifyRepository(t.Context(), x.r, verifyAll)
			kisttest.Check(t, err)
			for _, p := range report.Problems {
				t.Error(p)
			}
		})
	}
}

// step performs a random operation.
func (x *twins) step() {
	if len(x.commits) > 0 && x.flipped() {
		x.add("")
		x.commit()
	}

	switch n := x.rnd.IntN(100); {
	case n < 25 || len(x.commits) == 0:
		for range 1 + x.rnd.IntN(4) {
			x.change()
		}
		x.note("add -A")
		x.add("")
		x.commit()

	case n < 35:
		x.change()
	case n < 40:
		x.add(x.tracked())
	case n < 50:
		x.branch()
	case n < 68:
		x.checkout()
	case n < 80:
		x.merge()
	case n < 84:
		x.revert()
	case n < 88:
		x.pick()
	case n < 93:
		x.reset()
	default:
		x.restore()
	}
}

func (x *twins) note(format string, args ...any) {
	x.steps = append(x.steps, fmt.Sprintf(format, args...))
}

// twinNames are few, so that changes collide, and files with folders.
var twinNames = []string{"a", "b", "c", "c/x", "d", "d/a", "d/b", "d/e", "d/e/f", "g/h/i"}

// change makes, changes or removes a file in both worktrees.
func (x *twins) change() {
	name := twinNames[x.rnd.IntN(len(twinNames))]
	if x.belowFile(name) {
		return
	}
	info, err := os.Lstat(filepath.Join(x.dir, name))
	if err == nil && info.IsDir() {
		if x.rnd.IntN(4) > 0 {
			return
		}
		x.note("rm -r %s", name)
		x.both(func(dir string) error { return os.RemoveAll(filepath.Join(dir, name)) })
		x.both(removeEmpty)
		return
	}

	kind := x.rnd.IntN(6)
	x.note("change %s %d", name, kind)
	x.number++
	number := x.number
	x.both(func(dir string) error {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		old, _ := os.ReadFile(file)
		mode := os.FileMode(0o644)
		if info != nil {
			mode = info.Mode().Perm()
		}
		switch os.Remove(file); {
		case kind == 0:
			return nil
		case kind == 1:
			return os.Symlink(fmt.Sprintf("to-%d", number), file)
		case kind == 2:
			mode ^= 0o111
		}
		return os.WriteFile(file, edited(string(old), number), mode)
	})
	x.both(removeEmpty)
}

// belowFile reports whether a file or symlink is in the place of a folder above path.
func (x *twins) belowFile(path string) bool {
	for above := filepath.Dir(path); above != "."; above = filepath.Dir(above) {
		if info, err := os.Lstat(filepath.Join(x.dir, above)); err == nil && !info.IsDir() {
			return true
		}
	}
	return false
}

// edited returns a text of ten lines with one line changed. A shorter text is replaced first.
func edited(old string, number int) []byte {
	lines := strings.SplitAfter(old, "\n")
	if len(lines) < 10 {
		lines = nil
		for i := range 10 {
			lines = append(lines, fmt.Sprintf("line %d of %d\n", i, number))
		}
	}
	lines[number*7%10] = fmt.Sprintf("changed %d\n", number)
	return []byte(strings.Join(lines, ""))
}

func (x *twins) add(path string) {
	x.note("add %q", path)
	_, err := stage.Add(x.t.Context(), x.r, stage.AddOptions{Paths: []string{path}})
	kisttest.Check(x.t, err)
	x.git("add", "-A", "--", "./"+path)
}

// tracked returns a tracked path that git can add.
func (x *twins) tracked() string {
	idx, err := x.r.Index()
	kisttest.Check(x.t, err)
	var paths []string
	for path := range idx.All() {
		if !x.belowFile(path) {
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 {
		return ""
	}
	return paths[x.rnd.IntN(len(paths))]
}

func (x *twins) commit() {
	x.tick()
	message := fmt.Sprintf("commit %d", len(x.commits))
	x.note("%s", message)
	result, err := commits.Commit(x.t.Context(), x.r, commits.CommitOptions{Message: message})
	gitErr := x.try("commit", "-q", "-m", message)
	if x.agree(err, gitErr, commits.ErrNothingToCommit) {
		x.committed(result.ID)
	}
}

// committed records that both made a commit.
func (x *twins) committed(id object.ID) {
	x.commits = append(x.commits, pairedCommit{id, x.git("rev-parse", "HEAD")})
	if len(x.branches) == 0 {
		x.branches = []string{"main"}
	}
}

// agree fails the test if only one of kist and git succeeded, or if kist failed for another
// reason than the given ones. It reports whether both succeeded.
func (x *twins) agree(err, gitErr error, reasons ...error) bool {
	x.t.Helper()
	if err != nil && !slices.ContainsFunc(reasons, func(reason error) bool { return errors.Is(err, reason) }) {
		x.fail("kist: %v", err)
	}
	if (err == nil) != (gitErr == nil) {
		x.fail("kist: %v\ngit: %v", err, gitErr)
	}
	return err == nil
}

func (x *twins) branch() {
	name := fmt.Sprintf("b%d", len(x.branches))
	c := x.some()
	x.note("branch %s %s", name, c.git)
	_, err := commits.CreateBranch(x.t.Context(), x.r, name, c.kist.String(), false)
	kisttest.Check(x.t, err)
	x.git("branch", name, c.git)
	x.branches = append(x.branches, name)
}

func (x *twins) some() pairedCommit { return x.commits[x.rnd.IntN(len(x.commits))] }

// target returns a revision to check out or merge, as kist and git name it.
func (x *twins) target() (rev, gitRev string) {
	if x.rnd.IntN(4) == 0 {
		c := x.some()
		return c.kist.String(), c.git
	}
	name := x.branches[x.rnd.IntN(len(x.branches))]
	return name, name
}

func (x *twins) checkout() {
	rev, gitRev := x.target()
	force := x.rnd.IntN(6) == 0
	x.note("checkout %s force=%v", gitRev, force)
	args := []string{"checkout", "-q", gitRev}
	if force {
		args = append(args, "-f")
		x.clearUntracked()
	}
	staged := x.stagedFiles()
	undo := x.backup()
	gitErr := x.try(args...)
	if gitErr != nil {
		x.mayRefuse(func(r *kist.Repository) error {
			_, err := checkout.Switch(x.t.Context(), r, checkout.SwitchOptions{Rev: rev})
			return err
		})
		return
	}
	_, err := checkout.Switch(x.t.Context(), x.r, checkout.SwitchOptions{Rev: rev, Force: force})
	if errors.Is(err, stage.ErrLocalChanges) && !maps.Equal(staged, x.inIndex(staged)) {
		undo() // git lost a staged file, because its folder became a file
		return
	}
	x.agree(err, nil)
}

// stagedFiles returns git's index entries of the staged files that differ from HEAD.
func (x *twins) stagedFiles() map[string]string {
	paths := map[string]string{}
	for _, line := range x.status() {
		if strings.ContainsRune("AMT", rune(line[0])) {
			paths[line[3:]] = ""
		}
	}
	return x.inIndex(paths)
}

// inIndex returns git's index entries of the given paths.
func (x *twins) inIndex(paths map[string]string) map[string]string {
	entries := map[string]string{}
	for line := range strings.Lines(x.git("ls-files", "--stage")) {
		entry, path, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if _, ok := paths[path]; ok {
			entries[path] = entry
		}
	}
	return entries
}

func (x *twins) merge() {
	x.tick()
	x.restoreDeleted()
	rev, gitRev := x.target()
	x.note("merge %s", gitRev)
	undo := x.backup()

	gitErr := x.try("-c", "merge.renames=false", "merge", "--no-edit", "-q", gitRev)
	if gitErr != nil && x.try("rev-parse", "-q", "--verify", "MERGE_HEAD") != nil {
		x.mayRefuse(func(r *kist.Repository) error {
			_, err := commits.Merge(x.t.Context(), r, commits.MergeOptions{Rev: rev})
			return err
		})
		return
	}

	result, err := commits.Merge(x.t.Context(), x.r, commits.MergeOptions{Rev: rev})
	switch {
	case gitErr != nil && errors.Is(err, stage.ErrLocalChanges): // local changes at paths with conflicts
		undo()
	case err != nil:
		x.fail("kist: %v", err)

	case len(result.Conflicts) > 0:
		x.note("conflicts %v", result.Conflicts)
		x.agree(index.ErrConflict, gitErr, index.ErrConflict)
		kisttest.Check(x.t, commits.Abort(x.t.Context(), x.r, operation.Merging, commits.StepOptions{}))
		undo()

	default:
		x.agree(nil, gitErr)
		if result.Commit != nil {
			x.committed(result.ID)
		}
	}
}

func (x *twins) revert() {
	x.revertOrPick("revert", "REVERT_HEAD", operation.Reverting, commits.Revert)
}

func (x *twins) pick() {
	x.revertOrPick("cherry-pick", "CHERRY_PICK_HEAD", operation.Picking, commits.CherryPick)
}

// revertOrPick reverts or picks a commit.
func (x *twins) revertOrPick(command, waits string, op operation.Operation, do func(context.Context, *kist.Repository, commits.RevertOptions) (*commits.StepsResult, error)) {
	x.tick()
	x.restoreDeleted()
	c := x.some()
	commit, err := object.ReadCommit(x.t.Context(), x.r.Objects(), c.kist)
	kisttest.Check(x.t, err)

	o := commits.RevertOptions{Commits: []object.ID{c.kist}}
	args := []string{"-c", "merge.renames=false", command, c.git}
	if command == "revert" {
		args = append(args, "--no-edit")
	}
	if len(commit.Parents) > 1 {
		o.Parent = 1 + x.rnd.IntN(2)
		args = append(args, "-m", fmt.Sprint(o.Parent))
	}

	x.note("%s", strings.Join(args[2:], " "))
	undo := x.backup()
	gitErr := x.try(args...)
	if gitErr != nil && x.try("rev-parse", "-q", "--verify", waits) != nil {
		x.mayRefuse(func(r *kist.Repository) error {
			_, err := do(x.t.Context(), r, o)
			return err
		})
		return
	}

	result, err := do(x.t.Context(), x.r, o)
	switch {
	case gitErr != nil && errors.Is(err, stage.ErrLocalChanges):
		undo()
	case err != nil:
		x.fail("kist: %v", err)

	case len(result.Conflicts) > 0:
		x.note("conflicts %v", result.Conflicts)
		x.agree(index.ErrConflict, gitErr, index.ErrConflict)
		kisttest.Check(x.t, commits.Abort(x.t.Context(), x.r, op, commits.StepOptions{}))
		undo()

	case len(result.Nothing) > 0:
		x.agree(commits.ErrNothingToCommit, gitErr, commits.ErrNothingToCommit)
		undo()

	default:
		if x.agree(nil, gitErr) {
			x.committed(result.Commits[0].ID)
		}
	}
}

// restoreDeleted restores files that are deleted in the worktree. They would not block a merge,
// but its abort would restore them in kist.
func (x *twins) restoreDeleted() {
	for _, line := range x.status() {
		if line[1] == 'D' {
			x.restorePath(line[3:], checkout.RestoreOptions{Worktree: true}, "restore")
		}
	}
}

func (x *twins) reset() {
	c := x.some()
	mode := x.rnd.IntN(3)
	flag := map[checkout.ResetMode]string{checkout.ResetSoft: "--soft", checkout.ResetMixed: "--mixed", checkout.ResetHard: "--hard"}[checkout.ResetMode(mode)]
	x.note("reset %s %s", flag, c.git)
	if flag == "--hard" {
		x.clearUntracked()
	}
	_, err := checkout.Reset(x.t.Context(), x.r, c.kist.String(), checkout.ResetMode(mode), nil)
	kisttest.Check(x.t, err)
	x.git("reset", "-q", flag, c.git)
}

// restore restores a path in a random way.
func (x *twins) restore() {
	path := x.tracked()
	if path == "" {
		return
	}
	c := x.some()
	source := c.kist.String()
	switch x.rnd.IntN(4) {
	case 0:
		x.restorePath(path, checkout.RestoreOptions{Worktree: true}, "restore")
	case 1:
		x.restorePath(path, checkout.RestoreOptions{Staged: true}, "restore", "--staged")
	case 2:
		o := checkout.RestoreOptions{Staged: true, Worktree: true, Overlay: true, Source: source}
		x.restorePath(path, o, "checkout", "-q", c.git)
	default:
		x.restorePath(path, checkout.RestoreOptions{Worktree: true, Source: source}, "restore", "--source", c.git)
	}
}

func (x *twins) restorePath(path string, o checkout.RestoreOptions, args ...string) {
	x.note("%s %s", strings.Join(args, " "), path)
	o.Paths = []string{path}
	_, err := checkout.Restore(x.t.Context(), x.r, o)
	gitErr := x.try(append(args, "--", path)...)
	x.agree(err, gitErr, kist.ErrNoMatch)
}

// flipped reports whether a folder is in the place of HEAD's file, or the reverse. Git 2.39 loses
// its content when it checks out or merges a commit that has neither.
func (x *twins) flipped() bool {
	lines := x.status()
	for _, line := range lines {
		for _, other := range lines {
			if strings.HasPrefix(other[3:], line[3:]+"/") {
				return true
			}
		}
	}
	return false
}

// clearUntracked removes untracked files. With force, git would overwrite them, and kist would
// not.
func (x *twins) clearUntracked() {
	s, err := stage.ReadStatus(x.t.Context(), x.r, stage.StatusOptions{AllUntracked: true})
	kisttest.Check(x.t, err)
	for _, f := range s.Untracked {
		x.both(func(dir string) error { return os.RemoveAll(filepath.Join(dir, f.Path)) })
	}
	x.both(removeEmpty)
}
