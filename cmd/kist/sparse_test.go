package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// TestSparseLikeFull carries out the same random commands in a full worktree and in a sparse
// one, whose folders change all the time. Commits, staged trees and conflicts must be equal, and
// so must the files that the sparse worktree has.
func TestSparseLikeFull(t *testing.T) {
	for i := range objecttest.Rounds(t, 3) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			x := newSparseTwins(t, seed)
			x.sparse("sparse", "set", sparseFolders[1+x.rnd.IntN(len(sparseFolders)-1)])
			x.compare() // so each round leaves out folders
			for step := 0; step < 40 && !x.otherTimes; step++ {
				x.step()
				x.compare()
			}
			x.compareViews()
			x.unstageHunks()
			x.sparse("sparse", "off")
			x.resetBoth()
			x.compare()
			for _, dir := range x.dirs {
				x.mustRun(dir, "verify")
			}
			if !x.otherTimes && (x.merged == 0 || x.left == 0) {
				t.Errorf("%d commands changed something, %d states had folders that are left out; want some of each", x.merged, x.left)
			}
		})
	}
}

// sparseTwins are two worktrees of the same history.
type sparseTwins struct {
	*testing.T
	rnd    *rand.Rand
	dirs   [2]string // full, sparse
	now    time.Time
	log    []string
	input  string // of the next command
	runs   byte   // commands so far: the names of volumes differ
	merged int    // number of commands that changed names or the index
	left   int    // number of compared states with folders that are left out

	otherTimes bool // the staged trees differ, but only in times of files: commits would differ from now on, so the round ends
}

var sparseFolders = []string{"", "a", "a/b", "a/b/c", "a/d", "e", "e/f", "g"}

func newSparseTwins(t *testing.T, seed uint64) *sparseTwins {
	x := &sparseTwins{T: t, rnd: rand.New(rand.NewPCG(seed, 38)), now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
	top := t.TempDir()
	x.dirs = [2]string{filepath.Join(top, "full"), filepath.Join(top, "sparse")}
	x.must(os.Mkdir(x.dirs[0], 0o755))
	x.mustRun(x.dirs[0], "init")
	for _, folder := range sparseFolders {
		for _, name := range []string{"x", "y"} {
			x.write(x.dirs[0], tree.Join(folder, name), strings.Repeat(folder+"\n", 3))
		}
	}
	x.mustRun(x.dirs[0], "add", ".")
	x.mustRun(x.dirs[0], "commit", "-m", "base")
	x.mustRun(x.dirs[0], "branch", "one")
	x.mustRun(x.dirs[0], "branch", "two")
	x.must(os.CopyFS(x.dirs[1], os.DirFS(x.dirs[0])))
	return x
}

func (x *sparseTwins) must(err error) {
	x.Helper()
	if err != nil {
		x.Fatalf("%v\n%s", err, strings.Join(x.log, "\n"))
	}
}

// run runs kist in a worktree.
func (x *sparseTwins) run(dir string, args ...string) (status int, output string) {
	var out bytes.Buffer
	x.runs++
	env := &cli.Env{
		Stdin: strings.NewReader(x.input), Stdout: &out, Stderr: &out,
		Getenv: func(string) string { return "" }, Dir: dir, Clock: cli.Clock{Now: func() time.Time { return x.now }},
		Hostname: "chest.example", Username: func() string { return "anna" }, Random: rand.NewChaCha8([32]byte{x.runs}),
		Terminal: cli.Terminal{Width: func() int { return 80 }},
		Owners:   []int{os.Geteuid()}, Umask: testProcess.Umask, Commands: testProcess.Commands,
	}
	return cli.Run(context.Background(), env, args), out.String()
}

func (x *sparseTwins) mustRun(dir string, args ...string) {
	x.Helper()
	if status, out := x.run(dir, args...); status != 0 {
		x.Fatalf("%s: kist %q ends with %d:\n%s\n%s", filepath.Base(dir), args, status, out, strings.Join(x.log, "\n"))
	}
}

// both runs a command in both worktrees. It must end with the same status.
func (x *sparseTwins) both(args ...string) int {
	x.Helper()
	before := x.state(x.dirs[0])
	full, fullOut := x.run(x.dirs[0], args...)
	sparse, sparseOut := x.run(x.dirs[1], args...)
	x.log = append(x.log, fmt.Sprintf("both: %q ends with %d", args, full))
	if full != sparse {
		x.Fatalf("kist %q ends with %d and %d\nfull: %s\nsparse: %s\n%s", args, full, sparse, fullOut, sparseOut, strings.Join(x.log, "\n"))
	}
	if x.state(x.dirs[0]) != before {
		x.merged++
	}
	return full
}

// sparse runs a command in the sparse worktree.
func (x *sparseTwins) sparse(args ...string) {
	x.Helper()
	status, out := x.run(x.dirs[1], args...)
	x.log = append(x.log, fmt.Sprintf("sparse: %q ends with %d", args, status))
	if status != 0 && status != 3 {
		x.Fatalf("kist %q ends with %d:\n%s\n%s", args, status, out, strings.Join(x.log, "\n"))
	}
}

func (x *sparseTwins) write(dir, path, text string) {
	file := filepath.Join(dir, path)
	x.must(os.MkdirAll(filepath.Dir(file), 0o755))
	x.must(os.WriteFile(file, []byte(text), 0o644))
	x.must(os.Chtimes(file, x.now, x.now)) // commits record it
}

// open opens the repository in a worktree for f.
func (x *sparseTwins) open(dir string, f func(r *kist.Repository, idx *index.Index)) {
	x.Helper()
	r, err := kist.Open(dir, kist.Options{})
	x.must(err)
	defer r.Close()
	idx, err := r.Index()
	x.must(err)
	f(r, idx)
}

// state describes HEAD, the staged tree, conflicts and stashes.
func (x *sparseTwins) state(dir string) (text string) {
	x.Helper()
	x.open(dir, func(r *kist.Repository, idx *index.Index) {
		head, err := r.Refs().Head()
		x.must(err)
		info, err := idx.PreviewTree(context.Background(), object.NewOverlay(r.Objects()))
		x.must(err)
		text = fmt.Sprintf("%s %s, staged %s, %d files of %d bytes", head.Branch, head.ID, info.ID, info.Files, info.Bytes)
		for _, c := range idx.Conflicts() {
			text += "\nconflict " + c.Path
		}
		list, err := r.Refs().List("refs/")
		x.must(err)
		for _, ref := range list {
			text += fmt.Sprintf("\n%s %s", ref.Name, ref.ID)
		}
	})
	return text
}

// stagedID finds the ID of the staged tree in a state.
var stagedID = regexp.MustCompile(`staged [0-9a-f]+`)

// haveOtherTimes reports whether different states differ only in the times of staged files. A command that makes the index equal to a
// commit keeps the time of an unchanged file in an open folder. It gives a folder that is left out the tree of the commit as it is.
func (x *sparseTwins) haveOtherTimes(full, sparse string) bool {
	if stagedID.ReplaceAllString(full, "") != stagedID.ReplaceAllString(sparse, "") {
		return false
	}
	_, fullDiff := x.run(x.dirs[0], "diff", "--staged")
	_, sparseDiff := x.run(x.dirs[1], "diff", "--staged")
	return fullDiff == sparseDiff
}

// compare compares the worktrees.
func (x *sparseTwins) compare() {
	x.Helper()
	full, sparse := x.state(x.dirs[0]), x.state(x.dirs[1])
	if full != sparse && x.haveOtherTimes(full, sparse) {
		x.otherTimes = true
	} else if full != sparse {
		x.Fatalf("states differ\nfull: %s\nsparse: %s\n%s", full, sparse, strings.Join(x.log, "\n"))
	}

	want, got := x.files(x.dirs[0]), x.files(x.dirs[1])
	x.open(x.dirs[1], func(r *kist.Repository, idx *index.Index) {
		if index.HasLeftOut(idx) {
			x.left++
		}
		for path := range want {
			if index.LeftOutAt(idx, path) == nil {
				continue
			}
			e, err := stage.IndexedIn(context.Background(), r.Objects(), idx, path)
			x.must(err)
			if e != nil { // an untracked file stays
				delete(want, path)
			}
		}
	})
	for path, text := range want {
		if have, ok := got[path]; !ok || have != text {
			x.Fatalf("%q: full has %q, sparse has %q, %v\n%s", path, text, have, ok, strings.Join(x.log, "\n"))
		}
		delete(got, path)
	}

	if len(got) > 0 {
		x.Fatalf("only the sparse worktree has %q\n%s", got, strings.Join(x.log, "\n"))
	}
	fullStatus, fullOut := x.run(x.dirs[0], "status", "-s", "--untracked-files=all")
	sparseStatus, sparseOut := x.run(x.dirs[1], "status", "-s", "--untracked-files=all")
	if fullStatus != sparseStatus || fullOut != sparseOut {
		x.Fatalf("status differs\nfull: %s\nsparse: %s\n%s", fullOut, sparseOut, strings.Join(x.log, "\n"))
	}
}

// files returns the content of all files in a worktree.
func (x *sparseTwins) files(dir string) map[string]string {
	files := map[string]string{}
	x.must(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Name() == ".kist" {
			return fs.SkipDir
		}
		if e.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[rel] = string(data)
		return err
	}))
	return files
}

// path returns the path of a random name, below one that the sparse worktree does not leave out. A new folder is a chosen one: in another,
// untracked files are skipped by add, and never in the way of a branch.
func (x *sparseTwins) path(names ...string) (path string) {
	x.open(x.dirs[1], func(r *kist.Repository, idx *index.Index) {
		for {
			folder := sparseFolders[x.rnd.IntN(len(sparseFolders))]
			path = tree.Join(folder, names[x.rnd.IntN(len(names))])
			dir, _ := tree.Split(path)
			isChosen := r.Config().Cone() == nil || r.Config().Cone().Has(dir)
			if index.LeftOutAt(idx, path) == nil && idx.Dir(folder) != nil && (isChosen || idx.Dir(dir) != nil) {
				return
			}
		}
	})
	return path
}

// change changes a random file in both worktrees.
func (x *sparseTwins) change() {
	path := x.path("x", "y", "z", "n/z")
	line, text := x.rnd.IntN(3), fmt.Sprintln(x.rnd.IntN(1000))
	remove := x.rnd.IntN(5) == 0
	x.log = append(x.log, fmt.Sprintf("change %s, line %d, remove %v", path, line, remove))
	for _, dir := range x.dirs {
		file := filepath.Join(dir, path)
		data, err := os.ReadFile(file)
		if remove {
			if err == nil {
				x.must(os.Remove(file))
			}
			continue
		}
		lines := strings.SplitAfter(string(data)+"1\n2\n3\n", "\n")[:3]
		lines[line] = text
		x.write(dir, path, strings.Join(lines, ""))
	}
}

// touch gives all files the same times in both worktrees.
func (x *sparseTwins) touch() {
	for _, dir := range x.dirs {
		for path := range x.files(dir) {
			x.must(os.Chtimes(filepath.Join(dir, path), x.now, x.now))
		}
	}
}

// step carries out a random step.
func (x *sparseTwins) step() {
	x.Helper()
	x.now = x.now.Add(time.Minute)
	x.touch()
	branch := []string{"main", "one", "two"}[x.rnd.IntN(3)]

	switch n := x.rnd.IntN(28); {
	case n >= 20:
		x.stage(n)
	case n < 5:
		x.chooseFolders()
	case n < 9:
		for range 1 + x.rnd.IntN(3) {
			x.change()
		}
		if x.rnd.IntN(3) > 0 {
			x.both("add", ".")
			x.both("commit", "-m", "changes")
		}
	case n == 9:
		x.both("switch", "-C", branch)
	case n < 12:
		x.both("switch", branch)
	case n == 12 && x.rnd.IntN(3) == 0:
		x.both("merge", "--no-ff", "--no-commit", branch)
		x.compare()
		x.both("merge", "--abort")
	case n == 12:
		x.settle(x.both("merge", branch))
	case n == 13:
		x.settle(x.both("cherry-pick", branch))
	case n == 14:
		x.settle(x.both("revert", "HEAD"))
	case n == 15:
		x.settle(x.both("rebase", branch))
	case n == 16:
		x.both("stash", "-u")
		x.both("switch", branch)
		x.settle(x.both("stash", "pop"))
	case n == 17:
		x.both("reset", "--soft", "HEAD~1")
		if x.rnd.IntN(2) == 0 {
			x.both("commit", "-m", "squashed")
		} else {
			x.both("stash", "push")
			x.settle(x.both("stash", "pop", "--index"))
			x.both("commit", "-m", "from the stash")
		}
	case n == 18:
		x.both("mv", x.path("x"), x.path("moved"))
	default:
		x.resetBoth()
	}
}

// stage changes the index by commands that leave files as they are, and imports a branch.
func (x *sparseTwins) stage(n int) {
	x.Helper()
	switch n {
	case 20, 21:
		x.both("reset", "HEAD~1")
		x.settleFiles()
		x.both("add", ".")
	case 22:
		path := x.path("x", "y")
		x.both("restore", "--source", "HEAD~1", path)
		x.both("restore", "--staged", "--source", "HEAD~1", ".")
		x.settleFiles()
		x.both("restore", ".")

	case 23, 24:
		for range 3 {
			x.change()
		}
		x.input = strings.Repeat([]string{"y\nn\n", "n\ny\n", "y\n"}[x.rnd.IntN(3)], 5)
		x.both("add", "-p")
		x.input = ""
		x.compare()
		x.both("commit", "-m", "hunks")

	case 25:
		folder := filepath.Join(filepath.Dir(x.dirs[0]), fmt.Sprint("import", x.rnd.IntN(1000)))
		for _, path := range []string{"x", "a/b/x", "n/deep/z"} {
			x.write(folder, path, fmt.Sprintln(x.rnd.IntN(1000)))
		}
		x.both("switch", "main")
		x.both("import", folder, "--as", "commits")
		x.both("switch", "imported")

	case 26:
		x.both("reset", "--soft", "HEAD~1")
		x.both("restore", "-SW", ".")
	case 27:
		x.both("checkout", "HEAD~1", "--", ".")
		x.compare()
		x.both("commit", "-m", "checked out")
	}
	x.compare()
}

// unstageHunks unstages random hunks, at the end of a round. Later commands may give the worktrees trees with other
// times: an entry with HEAD's content can have another time now. "reset --hard" keeps that time in an open folder, and gives a
// folder that is left out HEAD's tree as it is.
func (x *sparseTwins) unstageHunks() {
	x.Helper()
	x.both("reset", "--soft", "HEAD~1")
	x.input = strings.Repeat([]string{"y\nn\n", "n\ny\n", "y\n"}[x.rnd.IntN(3)], 20)
	x.both("reset", "-p")
	x.input = ""
	x.settleFiles()
	x.compare()
}

// settleFiles makes the files of the full worktree equal to the index in folders that the sparse one
// leaves out. It follows commands that change only the index. After them, the worktrees may differ in this
// alone: a folder that is left out has no files that could differ from the index.
func (x *sparseTwins) settleFiles() {
	x.Helper()
	var leftOut []string
	x.open(x.dirs[1], func(_ *kist.Repository, idx *index.Index) {
		for path := range index.LeftOutDirs(idx) {
			leftOut = append(leftOut, path)
		}
	})
	for _, path := range leftOut {
		x.run(x.dirs[0], "restore", path)
	}
	x.both("clean", "-fd")
}

// compareViews compares the views of the same name.
func (x *sparseTwins) compareViews() {
	x.Helper()
	x.both("view", "add", "types", "{ext}/{path}")
	var links [2]map[string]string
	for i, dir := range x.dirs {
		links[i] = map[string]string{}
		view := filepath.Join(dir, ".kist/views/types")
		x.must(filepath.WalkDir(view, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type() == fs.ModeSymlink {
				links[i][strings.TrimPrefix(path, view)], err = os.Readlink(path)
			}
			return err
		}))
	}
	if len(links[0]) == 0 || !maps.Equal(links[0], links[1]) {
		x.Fatalf("the views have %q and %q", links[0], links[1])
	}
}

func (x *sparseTwins) resetBoth() {
	x.both("reset", "--hard", []string{"HEAD", "HEAD~1"}[x.rnd.IntN(2)])
	x.both("clean", "-fd")
}

// chooseFolders changes the folders of the sparse worktree.
func (x *sparseTwins) chooseFolders() {
	folder := sparseFolders[1+x.rnd.IntN(len(sparseFolders)-1)]
	sparse := false
	x.open(x.dirs[1], func(r *kist.Repository, _ *index.Index) { sparse = r.Config().Cone() != nil })
	switch n := x.rnd.IntN(8); {
	case n == 0:
		x.sparse("sparse", "off")
	case n < 4 && sparse:
		x.sparse("sparse", "add", folder)
	default:
		x.sparse("sparse", "set", folder)
	}
	x.compare()
	x.both("clean", "-fd") // add skips untracked files in folders that are left out
}

// settle resolves the conflicts of a command that ended with status, or gives up.
func (x *sparseTwins) settle(status int) {
	x.Helper()
	if status == 0 {
		return
	}
	x.compare()
	var paths []string
	operation := ""
	x.open(x.dirs[0], func(_ *kist.Repository, idx *index.Index) {
		for _, c := range idx.Conflicts() {
			paths = append(paths, c.Path)
		}
	})
	for _, name := range []string{"merge", "cherry-pick", "revert", "rebase"} {
		if strings.Contains(x.log[len(x.log)-1], `["`+name+`"`) {
			operation = name
		}
	}

	if len(paths) == 0 || operation != "" && x.rnd.IntN(2) == 0 {
		if operation != "" {
			x.both(operation, "--abort")
		}
		x.resetBoth()
		return
	}
	for _, path := range paths {
		for _, dir := range x.dirs {
			if _, err := os.Lstat(filepath.Join(dir, path)); err == nil {
				x.write(dir, path, "resolved\n")
			}
		}
	}

	x.both(slices.Concat([]string{"add", "--"}, paths)...)
	x.compare()
	x.both("commit", "-m", "resolved")
	if operation == "rebase" {
		x.both("rebase", "--abort")
	}
	x.resetBoth()
}
