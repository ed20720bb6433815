package commands

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/tree/work/commits"
)

// place is a repository in which tests run commands.
type place struct {
	t      *testing.T
	env    *cli.Env
	stdout *bytes.Buffer
	stderr *bytes.Buffer
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t}
	p.env, p.stdout, p.stderr = testEnv(t)
	p.env.Random = rand.Reader
	p.run("init")
	return p
}

// run runs a command that must succeed, and returns its output.
func (p *place) run(args ...string) string {
	p.t.Helper()
	p.stdout.Reset()
	p.stderr.Reset()
	if status := cli.Run(p.t.Context(), p.env, args); status != cli.ExitOK {
		p.t.Fatalf("kist %s: exit status %d: %s", strings.Join(args, " "), status, p.stderr)
	}
	return p.stdout.String()
}

// write writes a file, or removes it if content is empty.
func (p *place) write(name, content string) {
	p.t.Helper()
	path := filepath.Join(p.env.Dir, name)
	err := os.WriteFile(path, []byte(content), 0o644)
	if content == "" {
		err = os.Remove(path)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) commit(message string) {
	p.t.Helper()
	p.run("add", "-A")
	p.run("commit", "-m", message)
}

// merge merges a branch and returns the number of conflicts.
func (p *place) merge(rev string) int {
	p.t.Helper()
	r, err := p.env.Open()
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Close()
	result, err := commits.Merge(p.t.Context(), r, commits.MergeOptions{Rev: rev})
	if err != nil {
		p.t.Fatal(err)
	}
	return len(result.Conflicts)
}

// newConflict returns a repository during a merge of branch side into main. Both changed a and b,
// a with a conflict. Side also removed c, which main changed, and added d.
func newConflict(t *testing.T) *place {
	p := newPlace(t)
	p.write("a", "1\n2\n3\n")
	p.write("b", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	p.write("c", "c\n")
	p.commit("base")
	p.run("checkout", "-b", "side")
	p.write("a", "1\nzwei\n3\n")
	p.write("b", "eins\n2\n3\n4\n5\n6\n7\n8\n9\n")
	p.write("c", "")
	p.write("d", "d\n")
	p.commit("side")
	p.run("checkout", "main")
	p.write("a", "1\ntwo\n3\n")
	p.write("b", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n")
	p.write("c", "see\n")
	p.commit("main")
	if n := p.merge("side"); n != 2 {
		t.Fatalf("%d conflicts, want 2", n)
	}
	return p
}

var ids = regexp.MustCompile(`\b[0-9a-f]{8}([0-9a-f]{56})?\b`)

// same compares an output with want, which has ID in place of each ID.
func same(t *testing.T, got, want string) {
	t.Helper()
	got, want = ids.ReplaceAllString(got, "ID"), strings.TrimPrefix(want, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDiffOfConflicts(t *testing.T) {
	p := newConflict(t)
	const a = `* Unmerged path a
diff --git a/a b/a
index ID..ID 100644
--- a/a
+++ b/a
@@ -1,3 +1,7 @@
 1
+<<<<<<< HEAD
 two
+=======
+zwei
+>>>>>>> side
 3
`
	same(t, p.run("diff"), a+"* Unmerged path c\n")
	same(t, p.run("diff", "c"), "* Unmerged path c\n")
	same(t, p.run("diff", "b"), "")
	same(t, p.run("diff", "HEAD", "--", "a"), a)
	same(t, p.run("diff", "--staged", "--name-status"), "U\ta\nM\tb\nU\tc\nA\td\n")
	same(t, p.run("diff", "--staged", "--", "a", "c"), "* Unmerged path a\n* Unmerged path c\n")
	same(t, p.run("diff", "--stat"), " a | Unmerged\n c | Unmerged\n 0 files changed\n")

	if got := p.run("diff", "--json", "--", "c"); !strings.Contains(got, `"path":"c","status":"U"`) {
		t.Error(got)
	}
	p.write("c", "")
	same(t, p.run("diff", "--", "c"), `
* Unmerged path c
diff --git a/c b/c
deleted file mode 100644
index ID..ID
--- a/c
+++ /dev/null
@@ -1 +0,0 @@
-see
`)
}

func TestMergesInLogs(t *testing.T) {
	p := newConflict(t)
	p.write("a", "1\n2 or zwei\n3\n")
	p.commit("merged")
	const graph = `*   ID merged
|\
| * ID side
* | ID main
|/
* ID base
`
	same(t, p.run("log", "--oneline", "--graph"), graph)
	same(t, p.run("log", "--oneline", "--merges"), "ID merged\n")
	same(t, p.run("log", "--oneline", "--no-merges", "side..main"), "ID main\n")
	same(t, p.run("log", "--oneline", "--first-parent"), "ID merged\nID main\nID base\n")
	same(t, p.run("log", "--oneline", "--", "d"), "ID side\n")
	same(t, p.run("log", "--oneline", "--", "b"), "ID merged\nID main\nID side\nID base\n")
	same(t, p.run("log", "--oneline", "--graph", "--", "d"), "* ID side\n")
	same(t, p.run("log", "-1", "--oneline", "--name-status"), "ID merged\n")
	same(t, p.run("log", "-1", "--oneline", "--name-status", "--first-parent"), "ID merged\nM\ta\nM\tb\nA\td\n")
	same(t, p.run("log", "-1"), `
commit ID
Merge: ID ID
Author: anna <anna@chest.example>
Date:   Sat Jan 31 12:00:00 2026 +0000

    merged
`)
	// A merge shows only files that differ from both parents, so d of side is not shown.
	same(t, p.run("show", "--oneline"), `
ID merged
diff --git a/a b/a
index ID..ID 100644
--- a/a
+++ b/a
@@ -1,3 +1,3 @@
 1
-two
+2 or zwei
 3
diff --git a/b b/b
index ID..ID 100644
--- a/b
+++ b/b
@@ -1,4 +1,4 @@
-1
+eins
 2
 3
 4
`)
	same(t, p.run("show", "--oneline", "--name-status"), "ID merged\nM\ta\nM\tb\nA\td\n")
	same(t, p.run("diff", "main^...side", "--name-status"), "M\ta\nM\tb\nD\tc\nA\td\n")
}

func TestTagsShown(t *testing.T) {
	p := newPlace(t)
	p.write("a", "a\n")
	p.commit("first")
	r, err := p.env.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, tag := range []commits.TagOptions{{Name: "light", Rev: "HEAD"}, {Name: "v1", Rev: "HEAD", Message: "version 1\n\nwith \x1b[31mred\n"}} {
		if _, _, err := commits.CreateTag(t.Context(), r, tag); err != nil {
			t.Fatal(err)
		}
	}
	commit := `
commit ID
Author: anna <anna@chest.example>
Date:   Sat Jan 31 12:00:00 2026 +0000

    first
`
	tag := `
tag v1
Tagger: anna <anna@chest.example>
Date:   Sat Jan 31 12:00:00 2026 +0000

version 1

with ␛[31mred

`
	same(t, p.run("show", "-s", "light"), commit)
	same(t, p.run("show", "-s", "v1"), tag+strings.TrimPrefix(commit, "\n"))
	same(t, p.run("show", "-s", "v1^{commit}"), commit)
	same(t, p.run("log", "--oneline", "--decorate"), "ID (HEAD -> main, tag: v1, tag: light) first\n")
	p.write("a", "b\n")
	p.commit("second")
	same(t, p.run("log", "--oneline", "--all", "--decorate"), "ID (HEAD -> main) second\nID (tag: v1, tag: light) first\n")
	same(t, p.run("log", "--oneline", "--tags"), "ID first\n")
	same(t, p.run("log", "--oneline", "--branches"), "ID second\nID first\n")
	same(t, p.run("log", "--oneline", "v1.."), "ID second\n")
	same(t, p.run("cat", "v1:a"), "a\n")
	p.run("show", "--json", "-s", "v1")
	if lines := strings.Split(p.stdout.String(), "\n"); len(lines) != 3 ||
		!strings.HasPrefix(lines[0], `{"name":"v1","id":"`) || !strings.HasPrefix(lines[1], `{"id":"`) {
		t.Errorf("show --json prints %q, want a tag and a commit", lines)
	}
}
