package commits_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/rebase"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/work/stash"
	"github.com/kist-vcs/kist/tree/worktree"
)

// stepsTwins compares operations of several steps with git's.
type stepsTwins struct {
	*twins
	stops, ends int
	stashed     bool // the rebase stashed local changes
}

// TestStepsLikeGit makes random histories in kist and in git, and picks and rebases the same
// commits. The same steps must stop at the same conflicts, which are resolved, skipped or
// aborted. The new commits must have equal subjects, author times and changed files. HEAD,
// branches and files must be equal.
//
// Git stops at a picked commit without an effect. kist leaves it out, as git's rebase does.
func TestStepsLikeGit(t *testing.T) {
	for i := range objecttest.Rounds(t, 3) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			x := &stepsTwins{twins: newTwins(t, rand.New(rand.NewPCG(seed, 11)))}
			for range 10 {
				x.change()
			}
			for range 40 {
				x.step()
				x.compare()
				x.compareHead()
			}
			report, err := gc.VerifyRepository(t.Context(), x.r, verifyAll)
			kisttest.Check(t, err)
			for _, p := range report.Problems {
				t.Error(p)
			}
			t.Logf("%d operations, %d stops", x.ends, x.stops)
		})
	}
}

func (x *stepsTwins) step() {
	switch n := x.rnd.IntN(100); {
	case n < 35 || len(x.commits) < 3:
		x.change()
	case n < 50:
		x.branch()
	case n < 65:
		x.checkout()
	case n < 70:
		x.merge()
	case n < 85:
		x.pickSome()
	default:
		x.rebase()
	}
}

// change changes a file and commits. Files never replace folders, because git names versions put
// aside differently.
func (x *stepsTwins) change() {
	x.number++
	number := x.number
	name := []string{"a", "b", "c", "d/a", "d/b", "e/f/g"}[x.rnd.IntN(6)]
	remove := x.rnd.IntN(8) == 0
	x.both(func(dir string) error {
		file := filepath.Join(dir, name)
		if remove {
			os.Remove(file)
			return nil
		}
		old, _ := os.ReadFile(file)
		return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, edited(string(old), number), 0o644))
	})
	x.both(removeEmpty)
	x.add("")
	x.commit()
}

// plain returns a commit that is no merge.
func (x *stepsTwins) plain() pairedCommit {
	for {
		c := x.some()
		commit, err := object.ReadCommit(x.t.Context(), x.r.Objects(), c.kist)
		kisttest.Check(x.t, err)
		if len(commit.Parents) < 2 {
			return c
		}
	}
}

func (x *stepsTwins) pickSome() {
	x.tick()
	var o commits.RevertOptions
	args := []string{"-c", "merge.renames=false", "cherry-pick"}
	for range 1 + x.rnd.IntN(3) {
		c := x.plain()
		if slices.Contains(o.Commits, c.kist) {
			continue // git picks a repeated commit once
		}
		o.Commits = append(o.Commits, c.kist)
		args = append(args, c.git)
	}
	x.note("%s", strings.Join(args[2:], " "))
	gitErr := x.try(args...)
	result, err := commits.CherryPick(x.t.Context(), x.r, o)
	x.settle(operation.Picking, result, err, gitErr)
}

func (x *stepsTwins) rebase() {
	x.tick()
	var o rebase.Options
	args := []string{"-c", "merge.renames=false", "rebase"}
	upstream, onto := x.some(), x.some()
	if x.rnd.IntN(3) == 0 {
		args, o.Onto = append(args, "--onto", onto.git), onto.kist.String()
	}
	if x.stashed = x.coin() && x.changeLocally(); x.stashed {
		args, o.Autostash = append(args, "--autostash"), true
	}
	args, o.Upstream = append(args, upstream.git), upstream.kist.String()
	if x.rnd.IntN(3) == 0 {
		o.Branch = x.branches[x.rnd.IntN(len(x.branches))]
		args = append(args, o.Branch)
	}
	x.note("%s", strings.Join(args[2:], " "))
	x.folders()
	gitErr := x.try(args...)
	result, err := rebase.Rebase(x.t.Context(), x.r, o)
	x.settle(operation.Rebasing, x.steps(result, err), err, gitErr)
	if x.stashed {
		x.dropStash()
	}
}

// changeLocally changes a tracked file. It reports false if there is none.
func (x *stepsTwins) changeLocally() bool {
	path := x.tracked()
	if path == "" {
		return false
	}
	x.number++
	number := x.number
	x.both(func(dir string) error {
		old, err := os.ReadFile(filepath.Join(dir, path))
		return errors.Join(err, os.WriteFile(filepath.Join(dir, path), edited(string(old), number), 0o644))
	})
	x.note("change %s locally", path)
	return true
}

// dropStash compares the local changes that a rebase restored, and then discards them. If they
// conflict, they must still be in a stash.
func (x *stepsTwins) dropStash() {
	idx, err := x.r.Index()
	kisttest.Check(x.t, err)
	list, err := stash.List(x.r)
	kisttest.Check(x.t, err)
	theirs := x.git("stash", "list")
	if conflicts := len(idx.Conflicts()) > 0; conflicts != (len(x.unmerged()) > 0) || conflicts != (len(list) > 0) || conflicts != (theirs != "") {
		x.fail("conflicts: kist %v, git %q; stashes: kist %v, git %q", idx.Conflicts(), x.unmerged(), list, theirs)
	} else if conflicts {
		x.stops++
		_, err = stash.Clear(x.t.Context(), x.r)
		kisttest.Check(x.t, err)
		x.git("stash", "clear")
	} else {
		x.compare()
	}
	kisttest.Check(x.t, x.resetBoth())
}

// folders recreates the empty folders of kist's index, which compare removes.
func (x *stepsTwins) folders() {
	s, err := stage.ReadStatus(x.t.Context(), x.r, stage.StatusOptions{})
	kisttest.Check(x.t, err)
	for _, f := range s.Changed {
		if f.Old == nil && f.State == worktree.Deleted {
			kisttest.Check(x.t, os.MkdirAll(filepath.Join(x.dir, f.Path), 0o755))
		}
	}
}

func (x *stepsTwins) steps(result *rebase.Result, err error) *commits.StepsResult {
	if result == nil {
		x.fail("kist: %v", err)
	}
	return &result.StepsResult
}

// settle continues an operation until it ends.
func (x *stepsTwins) settle(op operation.Operation, result *commits.StepsResult, err, gitErr error) {
	command := string(op)
	for {
		if err != nil {
			x.fail("kist: %v", err)
		}
		waits := x.waits(op)
		unmerged := strings.Fields(x.git("diff", "--name-only", "--diff-filter=U"))
		if gitErr != nil && !waits {
			x.fail("git: %v", gitErr)
		}
		if waits && len(unmerged) == 0 { // git stopped at a commit without effect
			gitErr = x.try("-c", "merge.renames=false", command, "--skip")
			continue
		}
		slices.Sort(unmerged)
		paths := commits.ConflictPaths(result.Conflicts)
		slices.Sort(paths)
		if !slices.Equal(paths, unmerged) && (waits || !x.stashed) {
			x.fail("conflicts: kist %q\ngit %q: %v", paths, unmerged, gitErr)
		}
		if !waits {
			break
		}
		x.stops++
		result, err, gitErr = x.decide(op, unmerged)
	}

	x.ends++
	state, err := operation.Current(x.r)
	if err != nil || state.Operation != "" {
		x.fail("state %+v, error %v, want no operation", state, err)
	}
	x.pairNew()
}

// waits reports whether git waits for the user.
func (x *stepsTwins) waits(op operation.Operation) bool {
	if op == operation.Picking {
		return x.try("rev-parse", "-q", "--verify", "CHERRY_PICK_HEAD") == nil
	}
	_, err := os.Stat(filepath.Join(x.path, ".git", "rebase-merge"))
	return err == nil
}

// decide randomly continues, skips or aborts after conflicts.
func (x *stepsTwins) decide(op operation.Operation, conflicts []string) (result *commits.StepsResult, err, gitErr error) {
	x.tick()
	how := []string{"--continue", "--continue", "--skip", "--abort"}[x.rnd.IntN(4)]
	x.note("%s %s", how, conflicts)
	ctx, command := x.t.Context(), string(op)
	if how == "--continue" {
		x.number++
		number := x.number
		x.both(func(dir string) error {
			for _, name := range conflicts {
				file := filepath.Join(dir, name)
				err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, edited("", number), 0o644))
				if err != nil {
					return err
				}
			}
			return nil
		})
		x.add("")
	}

	gitErr = x.try("-c", "merge.renames=false", "-c", "core.editor=true", command, how)
	var rebased *rebase.Result
	switch {
	case how == "--abort":
		result = &commits.StepsResult{}
		if op == operation.Picking {
			err = commits.Abort(ctx, x.r, op, commits.StepOptions{})
		} else {
			_, err = rebase.Abort(ctx, x.r, nil)
		}
		return result, err, gitErr
	case op == operation.Picking && how == "--skip":
		result, err = commits.Skip(ctx, x.r, op, commits.StepOptions{})
		return result, err, gitErr
	case op == operation.Picking:
		result, err = commits.Continue(ctx, x.r, op, commits.StepOptions{})
		return result, err, gitErr
	case how == "--skip":
		rebased, err = rebase.Skip(ctx, x.r, commits.StepOptions{})
	default:
		rebased, err = rebase.Continue(ctx, x.r, commits.StepOptions{})
	}
	return x.steps(rebased, err), err, gitErr
}

// pairNew pairs and compares the new commits up to HEAD.
func (x *stepsTwins) pairNew() {
	head, err := x.r.Refs().Head()
	kisttest.Check(x.t, err)
	id, theirs := head.ID, x.git("rev-parse", "HEAD")
	var list []pairedCommit
	for !slices.ContainsFunc(x.commits, func(c pairedCommit) bool { return c.kist == id }) {
		c, err := object.ReadCommit(x.t.Context(), x.r.Objects(), id)
		kisttest.Check(x.t, err)
		got := fmt.Sprintf("%s %d %s", strings.TrimSpace(c.Message), c.Author.Time.Sec, x.changed(c))
		want := x.git("show", "-s", "--format=%s %at", theirs)
		want += " " + strings.Join(strings.Fields(x.git("diff-tree", "--root", "-r", "--no-commit-id", "--name-only", theirs)), " ")
		if got != want {
			x.fail("commit: kist %q\ngit %q", got, want)
		}
		list = append(list, pairedCommit{id, theirs})
		if len(c.Parents) == 0 {
			break
		}
		id, theirs = c.Parents[0], x.git("rev-parse", theirs+"^")
	}
	slices.Reverse(list)
	x.commits = append(x.commits, list...)
}

// changed lists the files that a commit changed.
func (x *stepsTwins) changed(c *object.Commit) string {
	base, err := x.r.RecordedTree(x.t.Context(), c.FirstParent())
	kisttest.Check(x.t, err)
	var paths []string
	for change, err := range tree.Diff(x.t.Context(), x.r.Objects(), base, c.Tree, tree.DiffOptions{Recursive: true, Paired: true}) {
		kisttest.Check(x.t, err)
		if !tree.IsDir(change.Old) && !tree.IsDir(change.New) {
			paths = append(paths, change.Path)
		}
	}
	slices.Sort(paths)
	return strings.Join(paths, " ")
}

// compareHead compares HEAD and all branches.
func (x *stepsTwins) compareHead() {
	x.t.Helper()
	paired := func(id object.ID, theirs string) {
		x.t.Helper()
		if !slices.Contains(x.commits, pairedCommit{id, theirs}) {
			x.fail("kist is at %s, git at %s", id.Short(), theirs)
		}
	}
	head, err := x.r.Refs().Head()
	kisttest.Check(x.t, err)
	paired(head.ID, x.git("rev-parse", "HEAD"))
	branch := "HEAD"
	if head.Branch != "" {
		branch = head.Branch
	}
	if got := x.git("rev-parse", "--abbrev-ref", "HEAD"); got != branch {
		x.fail("kist is on %s, git on %s", branch, got)
	}
	for _, name := range x.branches {
		id, err := x.r.Refs().Get("refs/heads/" + name)
		kisttest.Check(x.t, err)
		paired(id, x.git("rev-parse", "refs/heads/"+name))
	}
}
