package commits_test

import (
	"bytes"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
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
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/ignore"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/work/stash"
)

// TestStashLikeGit makes and applies random stashes in kist and in git, between changes, commits
// and checkouts. It also merges with a favoured side, and squashes. Worktrees, staged changes,
// the trees of stashes and conflicts must be equal.
func TestStashLikeGit(t *testing.T) {
	for i := range objecttest.Rounds(t, 2) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			x := newTwins(t, rand.New(rand.NewPCG(seed, 11)))
			for range 10 {
				x.step()
				x.compare()
			}

			stashes, applied := 0, 0
			for range 40 {
				if x.flipped() { // git loses the content of the folder
					x.add("")
					x.commit()
				}
				switch n := x.rnd.IntN(100); {
				case n < 10:
					x.step()
				case n < 25:
					x.change()
				case n < 30:
					x.add(x.tracked())
				case n < 60:
					for range 3 {
						x.change()
					}
					if x.coin() {
						x.add(x.tracked())
						x.change()
					}
					if !x.flipped() && x.stash() {
						stashes++
					}
				case n < 90:
					if x.unstash() {
						applied++
					}
				case n < 95:
					x.mergeFor()
				default:
					x.drop()
				}

				x.compare()
				x.compareStashes()
			}

			t.Logf("%d stashes, %d applied", stashes, applied)
			report, err := gc.VerifyRepository(t.Context(), x.r, verifyAll)
			kisttest.Check(t, err)
			for _, p := range report.Problems {
				t.Error(p)
			}
		})
	}
}

func (x *twins) coin() bool { return x.rnd.IntN(2) == 0 }

// stash makes a stash in both, and reports whether there was something to stash.
func (x *twins) stash() bool {
	x.tick()
	o := stash.PushOptions{Untracked: x.coin(), KeepIndex: x.rnd.IntN(4) == 0}
	args := []string{"stash", "push", "-q", "-m", "work"}
	if o.Untracked {
		args = append(args, "-u")
	}
	if o.KeepIndex {
		args = append(args, "-k")
	}
	if path := x.tracked(); x.rnd.IntN(4) == 0 && path != "" {
		o.Paths = []string{path}
		args = append(args, "--", path)
	}
	o.Message = "work"
	x.note("%s", strings.Join(args, " "))
	undo := x.backup()
	before := x.git("stash", "list")
	var returned map[string]string
	if (o.KeepIndex || o.Untracked) && o.Paths == nil {
		returned = x.returned()
	}

	// git restores a new staged file that is deleted in the worktree.
	emptyDir := x.hasEmptyDir()
	revived := slices.ContainsFunc(x.status(), func(line string) bool { return strings.HasPrefix(line, "AD ") })
	gitErr := x.try(args...)
	_, err := stash.Push(x.t.Context(), x.r, o)
	switch {
	case err == nil && len(returned) > 0 && o.Untracked: // git stashes these untracked files twice
		kisttest.Check(x.t, x.dropBoth(undo))
		return false
	case err == nil && len(returned) > 0: // git stashes these untracked files even without -u
		for path, content := range returned {
			if after := listWorktree(x.t, x.dir)[path]; after != content {
				x.fail("%s is lost: %q became %q", path, content, after)
			}
		}
		kisttest.Check(x.t, x.dropBoth(undo))
		return false
	case err == nil && gitErr != nil && o.KeepIndex && strings.Contains(gitErr.Error(), "pathspec ':/' did not match"): // git's index is empty
		kisttest.Check(x.t, x.dropBoth(undo))
		return false
	case err == nil && emptyDir && x.git("stash", "list") == before: // kist stashed only the empty folder
		kisttest.Check(x.t, x.dropBoth(undo))
		return false
	case err == nil && revived:
		kisttest.Check(x.t, x.dropBoth(undo))
		return false
	case errors.Is(err, stage.ErrLocalChanges): // git removes untracked files in the way
		undo()
		return false
	case errors.Is(err, kist.ErrNoMatch) && gitErr != nil:
		return false
	case errors.Is(err, stash.ErrNothing):
		if after := x.git("stash", "list"); gitErr != nil || after != before {
			x.fail("kist: %v, git: %v %s", err, gitErr, after)
		}
		return false
	case gitErr != nil && o.Paths != nil: // git's apply of the reverse patch fails for some changes of types
		kisttest.Check(x.t, x.dropBoth(undo))
		return false
	}
	return x.agree(err, gitErr)
}

// returned returns the untracked files at paths whose removal is staged.
func (x *twins) returned() map[string]string {
	status, files := x.status(), listWorktree(x.t, x.dir)
	maps.DeleteFunc(files, func(path, _ string) bool {
		return !slices.Contains(status, "D  "+path) || !slices.Contains(status, "?? "+path)
	})
	return files
}

// dropBoth undoes a stash that git makes differently, and resets both repositories.
func (x *twins) dropBoth(undo func()) error {
	undo()
	list, err := stash.List(x.r)
	if err != nil {
		return err
	}
	if err := x.resetBoth(); err != nil {
		return err
	}
	return stash.Drop(x.t.Context(), x.r, list[0])
}

// resetBoth makes the worktrees and indexes of both equal to HEAD.
func (x *twins) resetBoth() error {
	x.git("reset", "-q", "--hard")
	x.git("clean", "-q", "-ffdx")
	clean := checkout.CleanOptions{Folders: true, Ignored: checkout.WithIgnored}
	if _, err := checkout.Clean(x.t.Context(), x.r, clean); err != nil { // unlike git, reset keeps untracked files in its way
		return err
	}
	if _, err := checkout.Reset(x.t.Context(), x.r, "HEAD", checkout.ResetHard, nil); err != nil {
		return err
	}
	_, err := checkout.Clean(x.t.Context(), x.r, clean)
	return err
}

// unstash applies a stash in both, and drops it if there are no conflicts. It reports whether it
// dropped it.
func (x *twins) unstash() bool {
	list, err := stash.List(x.r)
	kisttest.Check(x.t, err)
	if len(list) == 0 {
		return false
	}
	e := list[x.rnd.IntN(len(list))]
	o := stash.ApplyOptions{Index: x.coin()}
	args := []string{"-c", "merge.renames=false", "stash", "pop", "-q", e.Name()}
	if o.Index {
		args = slices.Insert(args, 4, "--index")
	}
	x.note("%s", strings.Join(args[2:], " "))
	if x.hasEmptyDir() { // git has no empty folders, and may write a file in its place
		x.add("")
	}
	undo := x.backup()
	removed := x.removed()
	gitErr := x.try(args...)
	unmerged := x.unmerged()
	if gitErr != nil && len(unmerged) == 0 {
		undo()
		var merged []string
		if o.Index { // here git applies a patch to the index, and kist merges
			merged = []string{"M ", "A "}
		}
		x.mayRefuse(func(r *kist.Repository) error {
			_, err := stash.Apply(x.t.Context(), r, e.New, o)
			if errors.Is(err, stash.ErrStaged) {
				err = stage.ErrLocalChanges
			}
			return err
		}, merged...)
		return false
	}

	result, err := stash.Apply(x.t.Context(), x.r, e.New, o)
	switch {
	case errors.Is(err, stage.ErrLocalChanges) && gitErr != nil: // local changes at paths with conflicts
		undo()
		return false
	case errors.Is(err, stage.ErrLocalChanges) && removed: // git restores an untracked file over a deleted tracked one
		undo()
		return false
	case errors.Is(err, stash.ErrStaged) && gitErr != nil:
		undo()
		return false
	case err != nil:
		x.fail("kist: %v, git: %v", err, gitErr)
	case gitErr != nil:
		x.sameConflicts(result.Conflicts, unmerged)
		kisttest.Check(x.t, x.resetBoth())
		return false
	case len(result.Conflicts) > 0:
		x.fail("only kist has conflicts: %v", result.Conflicts)
	}
	kisttest.Check(x.t, stash.Drop(x.t.Context(), x.r, e))
	return true
}

// removed reports whether a tracked file is missing in the worktree.
func (x *twins) removed() bool {
	return slices.ContainsFunc(x.status(), func(line string) bool { return strings.HasPrefix(line, " D ") })
}

// hasEmptyDir reports whether kist's index has a folder without files.
func (x *twins) hasEmptyDir() bool {
	idx, err := x.r.Index()
	kisttest.Check(x.t, err)
	for path, d := range idx.Dirs() {
		empty := path != ""
		for range d.All() {
			empty = false
			break
		}
		if empty {
			return true
		}
	}
	return false
}

// unmerged returns the paths with conflicts in git.
func (x *twins) unmerged() []string {
	out := x.git("diff", "--name-only", "--diff-filter=U")
	if out == "" {
		return nil
	}
	return strings.Split(out, "\n")
}

// sameConflicts compares the paths of conflicts and the texts with conflict markers.
func (x *twins) sameConflicts(conflicts []tree.Conflict, unmerged []string) {
	x.t.Helper()
	paths := map[string]bool{}
	for _, path := range commits.ConflictPaths(conflicts) {
		paths[path] = true
	}
	for _, path := range unmerged {
		path, _, _ = strings.Cut(path, "~") // the path of a version put aside
		if !paths[path] && !slices.ContainsFunc(slices.Collect(maps.Keys(paths)), func(p string) bool { return strings.HasPrefix(p, path+"~") }) {
			x.fail("only git has a conflict at %s: %v", path, conflicts)
		}
	}
	for _, c := range conflicts {
		if !c.Markers {
			continue
		}
		got, err := os.ReadFile(filepath.Join(x.dir, c.Path))
		kisttest.Check(x.t, err)
		want, err := os.ReadFile(filepath.Join(x.path, c.Path))
		kisttest.Check(x.t, err)
		for _, c := range x.commits { // the labels may name the commit
			want = bytes.ReplaceAll(want, []byte(c.git), []byte(c.kist.String()))
		}
		if string(got) != string(want) {
			x.fail("%s: kist\n%s\ngit\n%s", c.Path, got, want)
		}
	}
}

// mergeFor merges with a favoured side, or squashes.
func (x *twins) mergeFor() {
	x.tick()
	x.restoreDeleted()
	rev, gitRev := x.target()
	o := commits.MergeOptions{Rev: rev}
	args := []string{"-c", "merge.renames=false", "merge", "-q", gitRev}
	switch x.rnd.IntN(4) {
	case 0:
		o.Favor, args = tree.Ours, append(args, "--no-edit", "-Xours")
	case 1:
		o.Favor, args = tree.Theirs, append(args, "--no-edit", "-Xtheirs")
	case 2:
		o.Discard, args = true, append(args, "--no-edit", "-sours")
	default:
		o.Squash, args = true, append(args, "--squash")
	}
	x.note("%s", strings.Join(args[2:], " "))
	undo := x.backup()
	gitErr := x.try(args...)
	unmerged := x.unmerged()
	if gitErr != nil && len(unmerged) == 0 {
		undo()
		x.mayRefuse(func(r *kist.Repository) error {
			_, err := commits.Merge(x.t.Context(), r, o)
			return err
		})
		return
	}

	result, err := commits.Merge(x.t.Context(), x.r, o)
	switch {
	case errors.Is(err, stage.ErrLocalChanges): // staged changes, or changes at paths with conflicts
		undo()
	case err != nil:
		x.fail("kist: %v, git: %v", err, gitErr)
	case len(result.Conflicts) > 0 && o.Squash:
		x.sameConflicts(result.Conflicts, unmerged)
		kisttest.Check(x.t, x.resetBoth())
	case len(result.Conflicts) > 0:
		x.sameConflicts(result.Conflicts, unmerged)
		kisttest.Check(x.t, commits.Abort(x.t.Context(), x.r, operation.Merging, commits.StepOptions{}))
		undo()
	default:
		x.agree(nil, gitErr)
		if result.Commit != nil {
			x.committed(result.ID)
		}
	}
}

// drop drops a stash.
func (x *twins) drop() {
	list, err := stash.List(x.r)
	kisttest.Check(x.t, err)
	if len(list) == 0 {
		return
	}
	e := list[x.rnd.IntN(len(list))]
	x.note("stash drop %d", e.N)
	x.git("stash", "drop", "-q", e.Name())
	kisttest.Check(x.t, stash.Drop(x.t.Context(), x.r, e))
}

// compareStashes compares the lists of stashes, and the newest ones.
func (x *twins) compareStashes() {
	x.t.Helper()
	list, err := stash.List(x.r)
	kisttest.Check(x.t, err)

	var got []string
	for _, e := range list {
		got = append(got, e.Name()+": "+e.Reason)
	}
	if want := x.git("stash", "list"); strings.Join(got, "\n") != want {
		x.fail("stashes: kist %q\ngit %q", got, want)
	}

	for _, rev := range []string{"stash@{0}", "stash@{0}^2", "stash@{0}^3"} {
		_, c, err := x.r.ReadCommit(x.t.Context(), rev)
		if gitErr := x.try("rev-parse", "-q", "--verify", rev); err != nil || gitErr != nil {
			if (err == nil) != (gitErr == nil) {
				x.fail("%s: kist %v, git %v", rev, err, gitErr)
			}
			continue
		}
		got, want := x.kistTree(c.Tree), x.gitTree(rev)
		if rev == "stash@{0}" && x.try("rev-parse", "-q", "--verify", rev+"^3") == nil {
			// git stashes an untracked file twice if it is in HEAD, and then cannot pop it.
			for path := range x.gitTree(rev + "^3") {
				delete(want, path)
			}
		}
		if !maps.Equal(got, want) {
			x.fail("%s: %s", rev, differences(got, want))
		}
	}
}

// kistTree returns the mode and the hash of each file of a tree, as gitTree does.
func (x *twins) kistTree(root object.ID) map[string]string {
	x.t.Helper()
	list := map[string]string{}
	kisttest.Check(x.t, tree.Walk(x.t.Context(), x.r.Objects(), root, func(path string, e object.Entry) error {
		if e.Type == object.TypeDir {
			return nil
		}
		content, mode := []byte(e.Target), "120000"
		if e.Type == object.TypeFile {
			if mode = "100644"; e.Mode&0o100 != 0 {
				mode = "100755"
			}
			var err error
			if content, err = io.ReadAll(object.NewContentReader(x.t.Context(), x.r.Objects(), e)); err != nil {
				return err
			}
		}
		list[path] = fmt.Sprintf("%s blob %x", mode, sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(content)), content...)))
		return nil
	}))
	return list
}

// gitTree returns the mode and the hash of each file in git's tree of a revision.
func (x *twins) gitTree(rev string) map[string]string {
	x.t.Helper()
	list := map[string]string{}
	for line := range strings.Lines(x.git("ls-tree", "-r", rev)) {
		entry, path, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		list[path] = entry
	}
	return list
}

// cleanNames are ignored and other paths, so that folders have both.
var cleanNames = []string{"a", "a.o", "d/a", "d/a.o", "d/e/b", "d/e/b.o", "ign/x", "ign/y/z", "u/a", "u/v/b", "u/v/b.o", "w/only.o", "w/x/only.o"}

// clean lists and removes the same paths as git.
func TestCleanLikeGit(t *testing.T) {
	for i := range objecttest.Rounds(t, 4) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			x := newTwins(t, rand.New(rand.NewPCG(seed, 13)))

			write := func(name, text string) {
				x.note("write %s", name)
				x.both(func(dir string) error {
					file := filepath.Join(dir, name)
					return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644))
				})
			}

			write(".gitignore", "*.o\nign/\n")
			write(".kistignore", "*.o\nign/\n")
			for range x.rnd.IntN(4) { // no ignored files: kist would track their folders
				write([]string{"a", "d/a", "d/e/b", "u/a"}[x.rnd.IntN(4)], "tracked")
			}
			x.add("")
			x.commit()

			for range 3 + x.rnd.IntN(10) {
				write(cleanNames[x.rnd.IntN(len(cleanNames))], "junk")
			}
			for range x.rnd.IntN(3) {
				x.both(func(dir string) error { return os.MkdirAll(filepath.Join(dir, "d/empty/in"), 0o755) })
			}

			for _, dryRun := range []bool{true, true, true, true, true, true, false} {
				x.clean(dryRun)
			}
			if got, want := listWorktree(t, x.dir), listWorktree(t, x.path); !maps.Equal(got, want) {
				x.fail("worktrees: %s", differences(got, want))
			}
		})
	}
}

// clean cleans both worktrees and compares the printed lists.
func (x *twins) clean(dryRun bool) {
	o := checkout.CleanOptions{DryRun: dryRun}
	args, removing := []string{"clean", "-f"}, "Removing "
	if dryRun {
		args, removing = []string{"clean", "-n"}, "Would remove "
	}
	if x.coin() {
		o.Folders, args = true, append(args, "-d")
	}
	switch x.rnd.IntN(3) {
	case 0:
		o.Ignored, args = checkout.WithIgnored, append(args, "-x")
	case 1:
		o.Ignored, args = checkout.OnlyIgnored, append(args, "-X")
	}
	if pattern := []string{"a", "*.o", "v/", "u", "e", "!a.o"}[x.rnd.IntN(6)]; x.rnd.IntN(3) == 0 {
		parsed, err := ignore.Parse([]byte(pattern), "")
		kisttest.Check(x.t, err)
		o.Exclude, args = new(ignore.Matcher).Push(parsed), append(args, "-e", pattern)
	}
	if x.rnd.IntN(3) == 0 {
		path := []string{"d", "u", "u/v", "w", "d/e", "a"}[x.rnd.IntN(6)]
		o.Paths, o.Folders, args = []string{path}, true, append(args, "--", path)
	}
	if strings.HasSuffix(strings.Join(args, " "), "-X -e u -- u/v") {
		return // git removes all of u, although only u/v was given
	}
	x.note("%s", strings.Join(args, " "))
	list, err := checkout.Clean(x.t.Context(), x.r, o)
	kisttest.Check(x.t, err)

	var got []string
	for _, c := range list {
		got = append(got, removing+c.Path)
	}
	if want := x.git(args...); strings.Join(got, "\n") != want {
		x.fail("kist\n%s\ngit\n%s", strings.Join(got, "\n"), want)
	}
}
