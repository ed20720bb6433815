package commits_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// branches is a repository with helpers that make branches.
type branches struct {
	t   *testing.T
	dir string
	r   *kist.Repository
	now time.Time
}

func newBranches(t *testing.T) *branches {
	b := &branches{t: t, dir: t.TempDir(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	r, err := kist.Init(t.Context(), b.dir, kist.Options{Date: func() time.Time { return b.now }}, kist.InitOptions{})
	kisttest.Check(t, err)
	t.Cleanup(func() {
		report, err := gc.VerifyRepository(context.Background(), r, verifyAll)
		kisttest.Check(t, err)
		for _, p := range report.Problems {
			t.Error(p)
		}
		r.Close()
	})
	b.r = r
	return b
}

// commit writes and commits files, given as pairs of name and content. Empty content removes the
// file.
func (b *branches) commit(files ...string) {
	b.t.Helper()
	for i := 0; i < len(files); i += 2 {
		file := filepath.Join(b.dir, files[i])
		if files[i+1] == "" {
			kisttest.Check(b.t, os.Remove(file))
			continue
		}
		kisttest.Check(b.t, os.MkdirAll(filepath.Dir(file), 0o755))
		kisttest.Check(b.t, os.WriteFile(file, []byte(files[i+1]), 0o644))
	}
	_, err := stage.Add(b.t.Context(), b.r, stage.AddOptions{})
	kisttest.Check(b.t, err)
	b.now = b.now.Add(time.Minute)
	_, err = commits.Commit(b.t.Context(), b.r, commits.CommitOptions{Message: "change " + files[0]})
	kisttest.Check(b.t, err)
}

func (b *branches) checkout(o checkout.SwitchOptions) {
	b.t.Helper()
	_, err := checkout.Switch(b.t.Context(), b.r, o)
	kisttest.Check(b.t, err)
}

// merge merges, and returns the conflicts.
func (b *branches) merge(rev string) []tree.Conflict {
	b.t.Helper()
	b.now = b.now.Add(time.Minute)
	result, err := commits.Merge(b.t.Context(), b.r, commits.MergeOptions{Rev: rev})
	kisttest.Check(b.t, err)
	return result.Conflicts
}

func (b *branches) read(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	kisttest.Check(b.t, err)
	return string(data)
}

// crissCross makes branches one and two, which change file and are then merged into each other.
// The functions one and two resolve the conflicts of these merges. Branch one stays checked out.
func crissCross(b *branches, file string, contents [3]string, one, two func()) {
	b.commit(file, contents[0], "other", "o")
	b.checkout(checkout.SwitchOptions{Create: "one"})
	b.commit(file, contents[1])
	b.checkout(checkout.SwitchOptions{Create: "two", Rev: "main"})
	b.commit(file, contents[2])
	b.checkout(checkout.SwitchOptions{Rev: "one"})
	b.merge("two")
	one()
	b.checkout(checkout.SwitchOptions{Rev: "two"})
	b.merge("one^1")
	two()
	b.checkout(checkout.SwitchOptions{Rev: "one"})
}

// A criss-cross merge keeps the reverts of both branches. With only one of the merge bases, a
// reverted change would come back or conflict.
func TestMergeCrissCross(t *testing.T) {
	lines := func(changed ...int) string {
		var text strings.Builder
		for i := range 9 {
			word := "line"
			for _, c := range changed {
				if c == i {
					word = "changed"
				}
			}
			fmt.Fprintf(&text, "%s %d\n", word, i)
		}
		return text.String()
	}

	b := newBranches(t)
	nothing := func() {}
	crissCross(b, "text", [3]string{lines(), lines(1), lines(7)}, nothing, nothing)
	if got := b.read("text"); got != lines(1, 7) {
		t.Fatalf("merged text is\n%s\nwant both changes", got)
	}

	b.commit("text", lines(7)) // one reverts line 1
	b.checkout(checkout.SwitchOptions{Rev: "two"})
	b.commit("text", lines(1)) // two reverts line 7
	if conflicts := b.merge("one"); len(conflicts) > 0 {
		t.Errorf("conflicts %v, want none", conflicts)
	}
	if got := b.read("text"); got != lines() {
		t.Errorf("a reverted change came back:\n%s", got)
	}
}

// If two branches resolved a conflict between a file and a folder differently, merging them is
// a conflict again. A base with the folder would let the branch with the file win.
func TestMergeCrissCrossFolder(t *testing.T) {
	b := newBranches(t)
	b.commit("other", "o")
	b.checkout(checkout.SwitchOptions{Create: "file"})
	b.commit("name", "a file\n")
	b.checkout(checkout.SwitchOptions{Create: "folder", Rev: "main"})
	b.commit("name/below", "a file in a folder\n")

	b.merge("file")
	kisttest.Check(t, os.Remove(filepath.Join(b.dir, "name~file")))
	b.commit("name/below", "a file in a folder\n")
	b.checkout(checkout.SwitchOptions{Rev: "file"})
	b.merge("folder^1")
	kisttest.Check(t, os.RemoveAll(filepath.Join(b.dir, "name")))
	kisttest.Check(t, os.Remove(filepath.Join(b.dir, "name~HEAD")))
	b.commit("name", "a file\n")

	for _, name := range []string{"folder", "file"} {
		b.checkout(checkout.SwitchOptions{Rev: name})
		conflicts := b.merge(map[string]string{"folder": "file", "file": "folder"}[name])
		if len(conflicts) != 1 || conflicts[0].Path != "name" {
			t.Errorf("on %s: conflicts %+v, want one at name", name, conflicts)
		}
		kisttest.Check(t, commits.Abort(t.Context(), b.r, operation.Merging, commits.StepOptions{}))
	}
}

// If two branches resolved the same conflict differently, merging them is a conflict again,
// whatever its kind.
func TestMergeCrissCrossConflicts(t *testing.T) {
	raw := func(s string) string { return s + "\x00" + strings.Repeat(s, 100) }
	for _, test := range []struct {
		name     string
		contents [3]string
		decided  [2]string
	}{
		{"text", [3]string{"a\n", "b\n", "c\n"}, [2]string{"b\n", "c\n"}},
		{"raw", [3]string{raw("a"), raw("b"), raw("c")}, [2]string{raw("b"), raw("c")}},
		{"removed", [3]string{raw("a"), raw("b"), ""}, [2]string{raw("b"), ""}},
		{"removed by the other", [3]string{raw("a"), "", raw("c")}, [2]string{"", raw("c")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBranches(t)
			decide := func(content string) func() {
				return func() {
					os.Remove(filepath.Join(b.dir, "file~two"))
					os.Remove(filepath.Join(b.dir, "file~one^1"))
					os.WriteFile(filepath.Join(b.dir, "file"), nil, 0o644)
					b.commit("file", content)
				}
			}

			crissCross(b, "file", test.contents, decide(test.decided[0]), decide(test.decided[1]))
			if conflicts := b.merge("two"); len(conflicts) != 1 || conflicts[0].Path != "file" {
				t.Errorf("conflicts: %+v, want one at file", conflicts)
			}
			kisttest.Check(t, commits.Abort(t.Context(), b.r, operation.Merging, commits.StepOptions{}))
		})
	}
}

// TestMergeManyCrissCrosses merges two of three branches with 40 criss-cross merges. Each pair of
// bases must be merged once. Merging it once for each path to it would take exponential time.
func TestMergeManyCrissCrosses(t *testing.T) {
	history := []kisttest.Version{{Files: map[string]string{"a": "0\n"}}}
	for i := range 3 {
		files := map[string]string{"a": "0\n", fmt.Sprint(i): "0\n"}
		history = append(history, kisttest.Version{Parents: []int{0}, Files: files})
	}

	all := map[string]string{"a": "0\n", "0": "0\n", "1": "0\n", "2": "0\n"}
	for range 40 {
		n := len(history)
		for i := range 3 {
			parents := []int{n - 3 + i, n - 3 + (i+1)%3, n - 3 + (i+2)%3}
			history = append(history, kisttest.Version{Parents: parents, Files: all})
		}
	}

	n := len(history)
	for i := range 2 {
		files := maps.Clone(all)
		files[fmt.Sprint(i)] = "changed\n"
		history = append(history, kisttest.Version{Parents: []int{n - 3 + i}, Files: files})
	}

	b := &branches{t: t, dir: t.TempDir()}
	b.r = kisttest.Mirror(t, b.dir, history)
	b.checkout(checkout.SwitchOptions{Rev: fmt.Sprintf("t%d", n), Force: true})
	if conflicts := b.merge(fmt.Sprintf("t%d", n+1)); len(conflicts) > 0 {
		t.Errorf("conflicts %+v, want none", conflicts)
	}

	for _, name := range []string{"0", "1"} {
		if b.read(name) != "changed\n" {
			t.Errorf("%s is %q, want the change", name, b.read(name))
		}
	}
}
