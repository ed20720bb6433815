package tree

import (
	"crypto/sha1"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// texts is a directory of text files, by path.
type texts map[string]string

func (x texts) set(path, content string) {
	for p := range x {
		if Below(p, path) || Below(path, p) {
			delete(x, p)
		}
	}
	x[path] = content
}

var gitPaths = []string{"a", "b", "c", "d", "e", "d/a", "d/b", "d/c", "e/a", "e/b/a", "e/b/b", "f/x", "f/y"}

// randomDirectory returns a directory and two changed copies, with edited, added, removed and
// moved files.
func randomDirectory(seed uint64) (base, ours, theirs texts) {
	r := rand.New(rand.NewPCG(seed, 3))
	content := func() string { return strings.Join(randomLines(r, 12, 1<<40), "") }
	base = texts{}
	for _, path := range gitPaths {
		if r.IntN(2) == 0 {
			base.set(path, content())
		}
	}

	side := func() texts {
		x := maps.Clone(base)
		for range 1 + r.IntN(7) {
			path := gitPaths[r.IntN(len(gitPaths))]
			if have := slices.Sorted(maps.Keys(x)); len(have) > 0 && r.IntN(3) > 0 {
				path = have[r.IntN(len(have))]
			}
			old, ok := x[path]
			switch what := r.IntN(5); {
			case what == 0:
				delete(x, path)
			case what == 1:
				x.set(path, content())
			case ok && what == 2:
				delete(x, path)
				x.set(gitPaths[r.IntN(len(gitPaths))], old)
			case ok:
				lines := strings.SplitAfter(old, "\n")
				lines[r.IntN(len(lines)-1)] = randomLines(r, 1, 1<<40)[0]
				x[path] = strings.Join(lines, "")
			}
		}
		return x
	}
	return base, side(), side()
}

// needGit skips a test if git is missing or too old.
func needGit(t *testing.T) {
	t.Helper()
	version, err := exec.Command("git", "version").Output()
	var major, minor int
	if _, scanErr := fmt.Sscanf(string(version), "git version %d.%d", &major, &minor); err == nil && scanErr == nil && (major > 2 || major == 2 && minor >= 38) {
		return
	}
	objecttest.Skip(t, fmt.Sprintf("git 2.38 or later is needed: %s %v", version, err))
}

// git runs git and returns its output. An exit status of 1 is no error.
func git(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	out, err := objecttest.Git(dir, stdin, nil, args...)
	if status := objecttest.GitStatus(err); status != 0 && status != 1 {
		t.Fatal(err)
	}
	return out
}

// Merges of random directories have conflicts exactly where git's have, and equal results
// otherwise.
func TestMergeAgreesWithGit(t *testing.T) {
	compareMerges(t, 0, 60, randomDirectory, "false", MergeOptions{})
}

// The same holds where one side adds files to directories that the other side renames. A merge
// that only asks about such files has git's files, too.
func TestDirectoryRenamesAgreeWithGit(t *testing.T) {
	const each = 60
	from := int(objecttest.Seed() % 1e9)
	rounds := each * objecttest.Rounds(t, 1)
	compareMerges(t, from, from+rounds, randomRenames, "true", MergeOptions{Directories: FollowDirectoryRenames})
	compareMerges(t, from+rounds, from+2*rounds, randomRenames, "conflict", MergeOptions{Directories: AskDirectoryRenames})
}

// randomRenames returns directories and two changed copies. Each copy has moved and renamed
// directories, new files, and a few other changes.
func randomRenames(seed uint64) (base, ours, theirs texts) {
	r := rand.New(rand.NewPCG(seed, 5))
	dirs := []string{"a", "a/m", "a/n", "b", "b/m", "c/o/p"}
	content := func() string { return strings.Join(randomLines(r, 12, 1<<40), "") }

	base = texts{}
	for _, dir := range dirs {
		for i := range 1 + r.IntN(3) {
			base[fmt.Sprintf("%s/%c%d", dir, dir[len(dir)-1], i)] = content()
		}
	}

	side := func(name string) texts {
		x := maps.Clone(base)
		add := func(dir string, i int) { // git looks only at directories with a new file of their own
			for ; dir != ""; dir, _ = Split(dir) {
				x.set(fmt.Sprintf("%s/%s%d", dir, name, i), content())
			}
		}
		for i := range 1 + r.IntN(2) {
			switch dir := dirs[r.IntN(len(dirs))]; r.IntN(3) {
			case 0:
				to := []string{"new", "new/q", "a/new", "b", "c", "c/o"}[r.IntN(6)]
				above, _ := Split(to)
				add(above, 3)
				for path := range maps.Clone(x) {
					if Below(path, dir) && !Below(to, dir) {
						text := x[path]
						delete(x, path)
						x.set(Join(to, path[len(dir)+1:]), text)
					}
				}
			default:
				add(dir, i)
			}
		}

		have := slices.Sorted(maps.Keys(base))
		path := have[r.IntN(len(have))]
		if text, ok := x[path]; ok && r.IntN(3) == 0 {
			delete(x, path)
			if to := dirs[r.IntN(len(dirs))]; r.IntN(2) == 0 {
				add(to, 2)
				x.set(to+"/moved"+name, text)
			}
		}
		return x
	}
	return base, side("ours"), side("theirs")
}

// compareMerges merges random directories with kist and git, and compares the results.
func compareMerges(t *testing.T, from, to int, random func(seed uint64) (base, ours, theirs texts), directoryRenames string, o MergeOptions) {
	t.Helper()
	needGit(t)
	dir := t.TempDir()
	git(t, dir, "", "init", "-q", "--bare")
	git(t, dir, "", "config", "merge.directoryRenames", directoryRenames)

	var stream strings.Builder
	commit := func(name, parent string, x texts) {
		fmt.Fprintf(&stream, "commit refs/heads/%s\ncommitter a <a@example.org> 0 +0000\ndata 0\n", name)
		if parent != "" {
			fmt.Fprintf(&stream, "from refs/heads/%s\n", parent)
		}
		fmt.Fprintf(&stream, "deleteall\n")
		for path, content := range x {
			fmt.Fprintf(&stream, "M 100644 inline %s\ndata %d\n%s\n", path, len(content), content)
		}
	}
	for seed := from; seed < to; seed++ {
		base, ours, theirs := random(uint64(seed))
		commit(fmt.Sprint("base", seed), "", base)
		commit(fmt.Sprint("ours", seed), fmt.Sprint("base", seed), ours)
		commit(fmt.Sprint("theirs", seed), fmt.Sprint("base", seed), theirs)
	}
	git(t, dir, stream.String(), "fast-import", "--quiet")

	o.Split = splitEven
	located := 0
	for seed := from; seed < to; seed++ {
		m := memory()
		build := func(x texts) object.ID {
			f := files{}
			for path, content := range x {
				f[path] = text(t, m, content)
			}
			return f.build(t, m).ID
		}
		base, ours, theirs := random(uint64(seed))
		got, err := Merge(ctx, m, Versions{build(base), build(ours), build(theirs)}, o)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}

		out := git(t, dir, "", "merge-tree", "--write-tree", fmt.Sprint("ours", seed), fmt.Sprint("theirs", seed))
		tree, conflicts, _ := strings.Cut(out, "\n")
		clean := !strings.Contains(conflicts, "CONFLICT")
		var lines []string
		others := 0
		for _, c := range got.Conflicts {
			lines = append(lines, conflictLine(c))
			if c.Kind != ConflictLocation {
				others++
			}
		}
		if clean != (len(got.Conflicts) == 0) {
			t.Errorf("seed %d: conflicts %q, git has\n%s", seed, lines, out)
			continue
		} else if others > 0 {
			continue
		}
		located += len(lines)

		want := strings.Fields(git(t, dir, "", "ls-tree", "-r", "--format=%(objectname)/%(path)", tree))
		for i := range want {
			want[i] = strings.Replace(want[i], "/", " ", 1)
		}
		slices.Sort(want)
		if d := cmp.Diff(want, blobNames(t, m, got.Tree.ID)); d != "" {
			t.Errorf("seed %d: %s\n%q\n%s", seed, d, lines, out)
		}
	}
	if o.Directories == AskDirectoryRenames && located == 0 {
		t.Error("no merge asks about a file in a renamed directory")
	}
}

// blobNames returns the files of a tree, each with git's ID of its content, sorted.
func blobNames(t *testing.T, r object.Reader, root object.ID) []string {
	t.Helper()
	blobs := []string{}
	err := Walk(ctx, r, root, func(path string, e object.Entry) error {
		if IsDir(&e) {
			return nil
		}
		data, err := readContent(ctx, r, &e)
		blobs = append(blobs, fmt.Sprintf("%x %s", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(data), data)), path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(blobs)
	return blobs
}
