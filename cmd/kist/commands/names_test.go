package commands

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/work/convert"
)

// named is a kist repository and a git repository with the same random history.
type named struct {
	*testing.T
	rnd     *rand.Rand
	env     *cli.Env
	git     string
	parents [][]int
	label   map[string]string // by ID: "c3", or "tag v1"
	kist    []object.ID       // kist's IDs, by number of the commit
	theirs  []string          // git's IDs, likewise
	names   []string          // branches and tags
}

// TestNamesLikeGit compares the outputs of kist and git for random histories with merges, branches
// and tags. IDs of the same commit count as equal.
func TestNamesLikeGit(t *testing.T) {
	objecttest.NeedProgram(t, "git")
	for i := range objecttest.Rounds(t, 6) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			x := newNamed(t, rand.New(rand.NewPCG(seed, 11)))
			for range 8 {
				x.same("rev-parse", x.revision())
			}
			x.same("rev-parse", "--abbrev-ref", x.name())
			x.same("rev-parse", "--symbolic-full-name", x.name())
			x.mergeBases()
			for range 6 {
				x.describe()
			}
			x.lists()
			for range 2 {
				x.bisect()
			}
		})
	}
}

// newNamed makes both repositories. Each commit changes one of three files.
func newNamed(t *testing.T, rnd *rand.Rand) *named {
	t.Helper()
	env, _, _ := testEnv(t)
	x := &named{T: t, rnd: rnd, env: env, git: filepath.Join(t.TempDir(), "git"), label: map[string]string{}}
	var stream, updates strings.Builder
	n := 1 + rnd.IntN(16)
	at := func(i int) string { return fmt.Sprintf("a <a@x> %d +0000", 1767225600+60*i) }
	for i := range n {
		var parents []int
		if i > 0 && rnd.IntN(12) > 0 {
			parents = []int{max(0, i-1-rnd.IntN(4))}
		}
		for len(parents) > 0 && len(parents) < 3 && rnd.IntN(3) == 0 {
			if p := rnd.IntN(i); !slices.Contains(parents, p) {
				parents = append(parents, p)
			}
		}
		x.parents = append(x.parents, parents)
		message := fmt.Sprintf("c%d", i)
		fmt.Fprintf(&stream, "commit refs/heads/c%d\nmark :%d\nauthor %s\ncommitter %s\ndata %d\n%s\n", i, i+1, at(i), at(i), len(message), message)
		for j, p := range parents {
			fmt.Fprintf(&stream, "%s :%d\n", []string{"from", "merge", "merge"}[j], p+1)
		}
		content := fmt.Sprintf("%d\n", i)
		fmt.Fprintf(&stream, "M 100644 inline f%d\ndata %d\n%s\n", rnd.IntN(3), len(content), content)
	}
	fmt.Fprintf(&stream, "reset refs/heads/main\nfrom :%d\n\n", n)
	x.names = append(x.names, "main")
	for i := range rnd.IntN(4) {
		x.names = append(x.names, fmt.Sprintf("b%d", i))
		fmt.Fprintf(&stream, "reset refs/heads/b%d\nfrom :%d\n\n", i, 1+rnd.IntN(n))
	}
	for i := range rnd.IntN(8) {
		name := fmt.Sprintf("v%d.%d", rnd.IntN(12), rnd.IntN(3))
		if slices.Contains(x.names, name) {
			continue
		}
		x.names = append(x.names, name)
		if rnd.IntN(2) == 0 {
			fmt.Fprintf(&stream, "reset refs/tags/%s\nfrom :%d\n\n", name, 1+rnd.IntN(n))
			continue
		}
		message := fmt.Sprintf("tag %s\n\nline two\nline three", name)
		fmt.Fprintf(&stream, "tag %s\nfrom :%d\ntagger %s\ndata %d\n%s\n", name, 1+rnd.IntN(n), at(n+rnd.IntN(5)*i), len(message), message)
	}

	x.must(os.Mkdir(x.git, 0o755))
	x.run("init", "-q", "-b", "main")
	x.stdin(stream.String(), "fast-import", "--quiet")
	r, err := kist.Init(t.Context(), env.Dir, kist.Options{}, kist.InitOptions{})
	x.must(err)
	defer r.Close()
	_, err = convert.ImportGit(t.Context(), r, strings.NewReader("feature done\n"+stream.String()+"done\n"), convert.GitOptions{})
	x.must(err)

	var gone []refs.Change
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		id, err := r.Refs().Get(refs.Heads + name)
		x.must(err)
		theirs := strings.TrimSpace(x.run("rev-parse", name))
		x.label[id.String()], x.label[theirs] = name, name
		x.kist, x.theirs = append(x.kist, id), append(x.theirs, theirs)
		gone = append(gone, refs.Change{Name: refs.Heads + name, Old: id})
		fmt.Fprintf(&updates, "delete refs/heads/%s\n", name)
	}
	tags, err := r.Refs().List(refs.Tags)
	x.must(err)
	for _, tag := range tags {
		if theirs := strings.TrimSpace(x.run("rev-parse", tag.Name)); x.label[theirs] == "" {
			x.label[tag.ID.String()], x.label[theirs] = "tag "+tag.Name, "tag "+tag.Name
		}
	}
	x.must(r.Refs().Update(t.Context(), gone, r.Who()))
	x.stdin(updates.String(), "update-ref", "--stdin")
	x.run("reset", "-q", "--hard")
	return x
}

func (x *named) must(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

// try runs git.
func (x *named) try(input string, args ...string) (string, error) {
	return objecttest.Git(x.git, input, []string{"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x", "GIT_COMMITTER_DATE=2026-01-31T12:00:00Z"}, args...)
}

func (x *named) run(args ...string) string { return x.stdin("", args...) }

func (x *named) stdin(input string, args ...string) string {
	x.Helper()
	out, err := x.try(input, args...)
	x.must(err)
	return out
}

// ours runs kist.
func (x *named) ours(args ...string) (string, error) {
	var out, messages bytes.Buffer
	env := *x.env
	env.Stdout, env.Stderr = &out, &messages
	if status := cli.Run(x.Context(), &env, args); status != cli.ExitOK {
		return out.String(), fmt.Errorf("kist %q: status %d: %s", args, status, &messages)
	}
	return out.String(), nil
}

var idWord = regexp.MustCompile(`\bg?([0-9a-f]{7,64})\b`)

// labelled replaces IDs by the labels of their commits.
func (x *named) labelled(text string) string {
	return idWord.ReplaceAllStringFunc(text, func(word string) string {
		for id, label := range x.label {
			if strings.HasPrefix(id, strings.TrimPrefix(word, "g")) {
				return "<" + label + ">"
			}
		}
		return word
	})
}

// same runs a command with both programs and compares the outputs. An argument "#3" stands for the
// ID of commit 3. The command may fail if it fails in both.
func (x *named) same(args ...string) string {
	x.Helper()
	with := func(id func(i int) string) []string {
		list := slices.Clone(args)
		for j, arg := range list {
			list[j] = regexp.MustCompile(`#\d+`).ReplaceAllStringFunc(arg, func(word string) string {
				var i int
				fmt.Sscanf(word, "#%d", &i)
				return id(i)
			})
		}
		return list
	}
	want, gitErr := x.try("", with(func(i int) string { return x.theirs[i] })...)
	got, err := x.ours(with(func(i int) string { return x.kist[i].String() })...)
	if (err == nil) != (gitErr == nil) {
		x.Fatalf("%q:\nkist: %v\ngit:  %v\n%v", args, err, gitErr, x.parents)
	}
	if err != nil {
		return ""
	}
	if want, got = x.labelled(want), x.labelled(got); got != want {
		x.Fatalf("%q:\nkist:\n%s\ngit:\n%s\n%v", args, got, want, x.parents)
	}
	return got
}

func (x *named) name() string { return x.names[x.rnd.IntN(len(x.names))] }

// id returns a random commit in the form that same replaces.
func (x *named) id() string { return fmt.Sprintf("#%d", x.rnd.IntN(len(x.parents))) }

// commit returns a revision of one commit.
func (x *named) commit() string {
	rev := []string{"HEAD", "@", x.name(), x.name(), x.id()}[x.rnd.IntN(5)]
	for range x.rnd.IntN(4) {
		steps := []string{"^", "~", "^2", "^3", "~2", "^0", "^{}", "^{commit}", fmt.Sprintf("^{/c%d}", x.rnd.IntN(12)), "~0"}
		rev += steps[x.rnd.IntN(len(steps))]
	}
	return rev
}

// revision returns any argument of rev-parse.
func (x *named) revision() string {
	a, b := x.commit(), x.commit()
	forms := []string{a, a, a, "^" + a, a + ".." + b, a + "..." + b, a + "^@", a + "^!", a + "^-", a + "^-2", a + "..", fmt.Sprintf(":/c%d", x.rnd.IntN(14))}
	return forms[x.rnd.IntN(len(forms))]
}

func (x *named) mergeBases() {
	for range 4 {
		x.same("merge-base", "--is-ancestor", x.id(), x.id())
		args := []string{"merge-base", "--all"}
		for range 2 + x.rnd.IntN(2) {
			args = append(args, x.id())
		}
		x.same(args...)
	}
}

func (x *named) describe() {
	args := []string{"describe"}
	for _, option := range []string{"--tags", "--all", "--always", "--long", "--abbrev=0", "--abbrev=10", "--match=v1*", "--exclude=v2*", "--candidates=1", "--candidates=2", "--exact-match"} {
		if x.rnd.IntN(6) == 0 {
			args = append(args, option)
		}
	}
	if x.rnd.IntN(2) == 0 {
		args = slices.Insert(args, 1, "--tags")
	}
	if slices.Contains(args, "--always") && slices.Contains(args, "--abbrev=0") {
		return // the programs print IDs of different lengths
	}
	x.same(append(args, x.id())...)
}

// bisect searches for a random commit with both programs and the same answers. If commits are
// skipped, it compares only the results.
func (x *named) bisect() {
	culprit := x.rnd.IntN(len(x.parents))
	bad := x.descendants(culprit)
	start := []string{}
	skips := map[int]bool{}
	paths := []string{}

	for i := range x.parents {
		switch {
		case len(start) == 0 && bad[i] && (x.rnd.IntN(2) == 0 || i == len(x.parents)-1):
			start = append(start, fmt.Sprintf("#%d", i))
		case x.rnd.IntN(12) == 0:
			skips[i] = true
		}
	}

	if x.rnd.IntN(2) == 0 {
		clear(skips)
	}
	for i := range x.parents {
		if !bad[i] && x.rnd.IntN(3) == 0 && len(start) > 0 && len(start) < 4 {
			start = append(start, fmt.Sprintf("#%d", i))
		}
	}

	if len(start) < 2 {
		return
	}
	if x.rnd.IntN(3) == 0 {
		paths = []string{"--", fmt.Sprintf("f%d", x.rnd.IntN(3))}
	}
	args := append(append([]string{"start"}, start...), paths...)
	want, got := x.answers(args, bad, skips)
	if !slices.Equal(got, want) {
		x.Fatalf("bisect %q, culprit %d, skips %v:\nkist: %v\ngit:  %v\n%v", args, culprit, skips, got, want, x.parents)
	}
}

// descendants returns a commit and all commits that reach it.
func (x *named) descendants(of int) map[int]bool {
	set := map[int]bool{of: true}
	for i, parents := range x.parents {
		for _, p := range parents {
			set[i] = set[i] || set[p]
		}
	}
	return set
}

// answers bisects with both programs and returns the tested commits and the result of each. With
// skips, it returns only the results.
func (x *named) answers(start []string, bad, skips map[int]bool) (theirs, ours []string) {
	for _, side := range []struct {
		run  func(args ...string) (string, error)
		head func() string
		id   func(i int) string
		out  *[]string
	}{
		{func(args ...string) (string, error) { return x.try("", args...) }, func() string { return strings.TrimSpace(x.run("rev-parse", "HEAD")) },
			func(i int) string { return x.theirs[i] }, &theirs},
		{x.ours, func() string {
			id, err := x.ours("rev-parse", "HEAD")
			x.must(err)
			return strings.TrimSpace(id)
		}, func(i int) string { return x.kist[i].String() }, &ours},
	} {
		args := []string{"bisect"}
		for _, arg := range start {
			var i int
			if _, err := fmt.Sscanf(arg, "#%d", &i); err == nil {
				arg = side.id(i)
			}
			args = append(args, arg)
		}

		out, _ := side.run(args...) // fails if no commit is left
		tested := []string{}
		for range 3 * len(x.parents) {
			if !strings.HasPrefix(out, "Bisecting") {
				break
			}
			first, _, _ := strings.Cut(strings.Replace(out, ": -1 ", ": 0 ", 1), "\n")
			at := x.label[side.head()]
			tested = append(tested, at+": "+first)
			var i int
			fmt.Sscanf(at, "c%d", &i)
			answer := "good"
			switch {
			case skips[i]:
				answer = "skip"
			case bad[i]:
				answer = "bad"
			}
			out, _ = side.run("bisect", answer)
		}

		if len(skips) > 0 {
			tested = nil
		}
		*side.out = append(tested, x.result(out)...)
		_, err := side.run("bisect", "reset")
		x.must(err)

		if status, err := side.run("status", "--porcelain"); status != "" || err != nil {
			x.Fatalf("after the bisect: %v\n%s", err, status)
		}
	}
	return theirs, ours
}

// result returns the result in the output of a bisect, in the same form for both programs.
func (x *named) result(out string) []string {
	var left []string
	for line := range strings.Lines(x.labelled(out)) {
		line = strings.TrimSpace(line)
		if strings.HasSuffix(line, "is the first bad commit") {
			return []string{line}
		}
		if strings.HasPrefix(line, "<c") && !strings.Contains(line, " ") {
			left = append(left, line)
		}
	}
	slices.Sort(left)
	if len(left) == 0 { // the error messages differ
		return []string{"failed"}
	}
	return left
}

// lists compares lists of branches and tags.
func (x *named) lists() {
	x.same("tag", "-n")
	x.same("tag", fmt.Sprintf("-n%d", 1+x.rnd.IntN(5)))
	x.same("branch", "-v")
	for _, kind := range []string{"tag", "branch"} {
		x.same(kind)
		for _, key := range []string{"refname", "version:refname", "creatordate", "taggerdate", "committerdate"} {
			if x.rnd.IntN(3) == 0 {
				x.same(kind, "--sort="+[]string{"", "-"}[x.rnd.IntN(2)]+key)
			}
		}
		x.same(kind, "--sort=-refname", "--sort=-creatordate")
		x.same(kind, "--points-at", x.id())
		x.same(kind, "--points-at", x.name())
		for _, option := range []string{"--contains", "--no-contains", "--merged", "--no-merged"} {
			if x.rnd.IntN(2) == 0 {
				x.same(kind, option, x.commit())
			}
		}
	}
}
