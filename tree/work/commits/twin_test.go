package commits_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

var verifyAll = gc.VerifyOptions{}

// gitTwin is a repository of git.
type gitTwin struct {
	t    *testing.T
	path string
	now  time.Time // the time of the next commit, in git and kist
}

// newTwins makes two empty repositories. It skips the test without git.
func newTwins(t *testing.T, rnd *rand.Rand) *twins {
	t.Helper()
	objecttest.NeedProgram(t, "git")
	g := &gitTwin{t: t, path: filepath.Join(t.TempDir(), "git"), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	kisttest.Check(t, os.Mkdir(g.path, 0o755))
	g.git("init", "-q", "-b", "main")
	x := &twins{gitTwin: g, t: t, rnd: rnd, dir: t.TempDir()}
	r, err := kist.Init(t.Context(), x.dir, kist.Options{Date: func() time.Time { return g.now }, Jobs: 2}, kist.InitOptions{})
	kisttest.Check(t, err)
	t.Cleanup(func() { r.Close() })
	x.r = r
	return x
}

// tick lets a minute pass, so that the order of commits is clear.
func (g *gitTwin) tick() { g.now = g.now.Add(time.Minute) }

// git runs git and returns its output.
func (g *gitTwin) git(args ...string) string {
	g.t.Helper()
	out, err := g.run(args...)
	if err != nil {
		g.t.Fatal(err)
	}
	return strings.TrimSuffix(out, "\n")
}

// try runs git and returns its error.
func (g *gitTwin) try(args ...string) error {
	_, err := g.run(args...)
	return err
}

func (g *gitTwin) run(args ...string) (string, error) {
	date := g.now.Format(time.RFC3339)
	return objecttest.Git(g.path, "", []string{
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x",
		"GIT_AUTHOR_DATE=" + date, "GIT_COMMITTER_DATE=" + date,
	}, args...)
}

// both calls f for each of the two worktrees.
func (x *twins) both(f func(dir string) error) {
	x.t.Helper()
	kisttest.Check(x.t, errors.Join(f(x.dir), f(x.path)))
}

// backup copies git's repository and returns a function that restores the copy. Git's own --abort
// loses some local changes.
func (x *twins) backup() (undo func()) {
	x.t.Helper()
	saved := x.path + ".saved"
	kisttest.Check(x.t, os.RemoveAll(saved))
	x.copyAll(x.path, saved)
	return func() { kisttest.Check(x.t, errors.Join(os.RemoveAll(x.path), os.Rename(saved, x.path))) }
}

func (x *twins) copyAll(from, to string) {
	x.t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		x.fail("%v: %s", err, out)
	}
}

// mayRefuse repeats in a copy, with kist, an operation that git refused because of local changes.
// kist must refuse it too, or keep all local changes. It may merge into files whose status is in
// merged.
func (x *twins) mayRefuse(f func(r *kist.Repository) error, merged ...string) {
	x.t.Helper()
	dir := filepath.Join(x.t.TempDir(), "copy")
	x.copyAll(x.dir, dir)
	local := map[string]bool{}
	for _, line := range x.status() {
		local[line[3:]] = line[:2] != " D" && line[:2] != "D " && !slices.Contains(merged, line[:2])
	}
	r, err := kist.Open(dir, kist.Options{Jobs: 2})
	kisttest.Check(x.t, err)
	defer r.Close()
	if err := f(r); errors.Is(err, stage.ErrLocalChanges) {
		return
	} else if err != nil {
		x.fail("kist: %v", err)
	}
	before, after := listWorktree(x.t, x.dir), listWorktree(x.t, dir)
	for path, content := range before {
		if local[path] && after[path] != content {
			x.fail("%s is lost: %q became %q", path, content, after[path])
		}
	}
}

// fail ends the test with a message and the operations so far.
func (x *twins) fail(format string, args ...any) {
	x.t.Helper()
	x.t.Fatalf("%s\nafter:\n  %s", fmt.Sprintf(format, args...), strings.Join(x.steps, "\n  "))
}

// compare compares worktrees and staged changes.
func (x *twins) compare() {
	x.t.Helper()
	x.both(removeEmpty) // git has no empty folders
	ours, theirs := listWorktree(x.t, x.dir), listWorktree(x.t, x.path)
	if !maps.Equal(ours, theirs) {
		x.fail("worktrees: %s", differences(ours, theirs))
	}
	out, err := x.run("status", "--porcelain", "--no-renames", "-uall")
	kisttest.Check(x.t, err)
	want := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if out == "" {
		want = nil
	}
	got := x.status()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		x.fail("status: kist %q\ngit %q", got, want)
	}
}

// status returns kist's status in the format of git status --porcelain, sorted.
func (x *twins) status() []string {
	s, err := stage.ReadStatus(x.t.Context(), x.r, stage.StatusOptions{AllUntracked: true})
	kisttest.Check(x.t, err)

	letters := map[string]*[2]byte{}
	at := func(path string) *[2]byte {
		if letters[path] == nil {
			letters[path] = &[2]byte{' ', ' '}
		}
		return letters[path]
	}

	for _, c := range s.Staged {
		if e := c.New; e != nil && e.Type == object.TypeDir || e == nil && c.Old.Type == object.TypeDir {
			continue
		}
		switch {
		case c.From != "":
			at(c.Path)[0], at(c.From)[0] = 'A', 'D'
		case c.Old == nil || c.Old.Type == object.TypeDir:
			at(c.Path)[0] = 'A'
		case c.New == nil:
			at(c.Path)[0] = 'D'
		case c.Old.Type != c.New.Type:
			at(c.Path)[0] = 'T'
		default:
			at(c.Path)[0] = 'M'
		}
	}

	for _, f := range s.Changed {
		switch {
		case f.Old == nil && f.State == worktree.TypeChanged: // git shows a folder
			*at(f.Path) = [2]byte{'?', '?'}
		case f.Old == nil: // git shows no folders
		case f.State == worktree.Deleted || f.Dir:
			at(f.Path)[1] = 'D'
		case f.State == worktree.TypeChanged:
			at(f.Path)[1] = 'T'
		default:
			at(f.Path)[1] = 'M'
		}
	}

	var lines []string
	for path, l := range letters {
		lines = append(lines, string(l[:])+" "+path)
	}

	for _, f := range s.Untracked {
		if !f.Dir {
			lines = append(lines, "?? "+f.Path)
		}
	}

	slices.Sort(lines)
	return lines
}

// listWorktree returns the mode and content of each file and symlink.
func listWorktree(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := map[string]string{}
	kisttest.Check(t, filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, file)
		if name == ".git" || name == kist.Dir {
			return filepath.SkipDir
		}
		if d.IsDir() {
			return nil
		}

		info, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		if info.Mode()&fs.ModeSymlink != 0 {
			var target string
			target, err = os.Readlink(file)
			content = []byte(target)
		} else {
			content, err = os.ReadFile(file)
		}

		list[name] = info.Mode().String() + " " + string(content)
		return err
	}))
	return list
}

func differences(a, b map[string]string) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			fmt.Fprintf(&text, "\n%s: kist %q\n%s: git  %q", name, a[name], name, b[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			fmt.Fprintf(&text, "\n%s: kist nothing\n%s: git  %q", name, name, b[name])
		}
	}
	return text.String()
}

// removeEmpty removes the empty folders below dir.
func removeEmpty(dir string) error {
	var folders []string
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if name := d.Name(); err == nil && d.IsDir() {
			if name == ".git" || name == kist.Dir {
				return filepath.SkipDir
			}
			if file != dir {
				folders = append(folders, file)
			}
		}
		return err
	})
	for _, folder := range slices.Backward(folders) {
		os.Remove(folder) // fails if it is not empty
	}
	return err
}
