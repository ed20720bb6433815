package ignore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// gitCase is a folder with ignore files, and the paths in it to compare.
type gitCase struct {
	name  string
	files map[string]string // ignore files: folder ("" or "a/b") to content
	paths []string          // a folder ends in a slash
}

// gitRule is a rule in git's output: the folder of its file, its line and pattern.
type gitRule struct{ dir, line, pattern string }

// TestGitTable compares the table of match_test.go with git.
func TestGitTable(t *testing.T) {
	var cases []gitCase
	for _, test := range table {
		cases = append(cases, gitCase{test.name, map[string]string{"": test.patterns}, withFolders(strings.Fields(test.paths))})
	}
	compareWithGit(t, cases)
}

// The named sets have the same bytes as in git.
func TestGitSets(t *testing.T) {
	var paths []string
	for b := 1; b < 256; b++ {
		if b != '/' {
			paths = append(paths, "x"+string([]byte{byte(b)}))
		}
	}
	var cases []gitCase
	for name := range classes {
		cases = append(cases, gitCase{name, map[string]string{"": "x[[:" + name + ":]]"}, paths})
	}
	cases = append(cases, gitCase{"all", map[string]string{"": "x[^[:alpha:]\x90-\xa0!-.]"}, paths})
	compareWithGit(t, cases)
}

// TestGitRandom compares random patterns in up to three ignore files with git.
func TestGitRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 11))
	var paths []string
	names := []string{"a", "b", "ab", "ba", "abc", "aab", "*", ".a", "a b", "]", "-"}
	for range 50 {
		path := ""
		for range 1 + rnd.IntN(4) {
			path += names[min(rnd.IntN(len(names)), rnd.IntN(len(names)))] + "/"
		}
		paths = append(paths, path)
	}

	paths = withFolders(paths)
	for i, path := range paths { // some empty folders become files
		inside := func(other string) bool { return other != path && strings.HasPrefix(other, path) }
		if i%3 > 0 && !slices.ContainsFunc(paths, inside) {
			paths[i] = strings.TrimSuffix(path, "/")
		}
	}

	var cases []gitCase
	for i := range 120 {
		files := map[string]string{"": randomPatterns(rnd)}
		if i%2 == 0 {
			files["a"] = randomPatterns(rnd)
		}
		if i%4 == 0 {
			files["a/b"] = randomPatterns(rnd)
		}
		cases = append(cases, gitCase{fmt.Sprint("random ", i), files, withFolders(append([]string{"a/b/"}, paths...))})
	}

	compareWithGit(t, cases)
}

func randomPatterns(rnd *rand.Rand) string {
	tokens := []string{"a", "b", "ab", "c", "a", "b", "/", "/", "/", "*", "*", "*", "?", "**", "**/", "/**", "/**/", "***", ".",
		"[ab]", "[!a]", "[^b]", "[a-c]", "[]a]", "[a-", "[[:alpha:]]", "[[:alpha:]", "[[:x:]]", "[", "]", "-", `[\]-b]`,
		`\a`, `\*`, `\/`, `\`, " ", `\ `, "!", "#"}
	var b strings.Builder
	for range 1 + rnd.IntN(5) {
		if rnd.IntN(5) == 0 {
			b.WriteString("!")
		}
		for range 1 + rnd.IntN(6) {
			b.WriteString(tokens[rnd.IntN(len(tokens))])
		}
		if rnd.IntN(4) == 0 {
			b.WriteString("/")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// compareWithGit checks that a Matcher and git decide on all paths by the same rules.
func compareWithGit(t *testing.T, cases []gitCase) {
	git := newGit(t)
	old := git.isOld(t)
	var ask []string
	for i, c := range cases {
		for _, path := range c.paths {
			git.create(t, fmt.Sprintf("%d/%s", i, path))
			ask = append(ask, fmt.Sprintf("%d/%s", i, strings.TrimSuffix(path, "/")))
		}
		for dir, content := range c.files {
			git.write(t, filepath.Join(fmt.Sprint(i), dir, ".gitignore"), content)
		}
	}

	answers := git.checkIgnore(t, ask)
	compared, matched := 0, 0
	for i, c := range cases {
		if old && c.usesOldStars() {
			continue
		}

		root := fmt.Sprint(i)
		matcher := func(dir string) *Matcher { // for the folder root/dir
			m := new(Matcher)
			at := root
			for _, part := range append([]string{""}, strings.Split(strings.TrimPrefix(dir+"/", root), "/")...) {
				at = strings.TrimSuffix(at+"/"+part, "/")
				if content, ok := c.files[strings.TrimPrefix(strings.TrimPrefix(at, root), "/")]; ok {
					m = pushOnce(m, mustParse(t, content, at))
				}
			}
			return m
		}

		for _, path := range c.paths {
			_, by := matchBelow(matcher, root+"/"+path)
			got := gitRule{by.Dir, fmt.Sprint(by.Line), by.Pattern}
			if by.Line == 0 {
				got = gitRule{}
			}

			want := answers[root+"/"+strings.TrimSuffix(path, "/")]
			if got != want {
				t.Errorf("%s: %q: rule %q, git has %q; patterns %q", c.name, path, got, want, c.files)
			}

			compared++
			if want != (gitRule{}) {
				matched++
			}
		}
	}

	t.Logf("compared %d paths; %d match a rule", compared, matched)
}

// pushOnce is Push, unless the file is already on top.
func pushOnce(m *Matcher, p *Patterns) *Matcher {
	if m.patterns != nil && m.patterns.dir == p.dir {
		return m
	}
	return m.Push(p)
}

// usesOldStars reports whether a pattern has ** inside a name, before a slash or the end. If no
// other wildcard precedes them, git before 2.52 lets these stars match slashes, against its
// manual.
func (c gitCase) usesOldStars() bool {
	for _, content := range c.files {
		for line := range strings.SplitSeq(content, "\n") {
			line = strings.TrimPrefix(strings.TrimSuffix(line, "/"), "!")
			wild := strings.IndexAny(line, wildcards)
			if wild < 1 || line[wild-1] == '/' || !strings.HasPrefix(line[wild:], "**") {
				continue
			}
			after := strings.TrimLeft(line[wild:], "*")
			if strings.TrimLeft(after, " ") == "" || strings.HasPrefix(after, "/") || strings.HasPrefix(after, `\/`) {
				return true
			}
		}
	}
	return false
}

// git is a repository of git.
type git struct{ dir string }

func newGit(t *testing.T) git {
	t.Helper()
	objecttest.NeedProgram(t, "git")
	g := git{t.TempDir()}
	g.run(t, "", "init", "-q", ".")
	g.run(t, "", "config", "core.ignoreCase", "false")
	return g
}

func (g git) run(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := objecttest.Git(g.dir, stdin, []string{"HOME=" + g.dir, "XDG_CONFIG_HOME=" + g.dir}, args...)
	if status := objecttest.GitStatus(err); status != 0 && status != 1 { // status 1: no path is ignored
		t.Fatal(err)
	}
	return out
}

func (g git) write(t *testing.T, path, content string) {
	t.Helper()
	path = filepath.Join(g.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func (g git) create(t *testing.T, path string) {
	t.Helper()
	if !strings.HasSuffix(path, "/") {
		g.write(t, path, "")
	} else if err := os.MkdirAll(filepath.Join(g.dir, path), 0o777); err != nil {
		t.Fatal(err)
	}
}

// checkIgnore returns the rule that decides on each path, zero for none.
func (g git) checkIgnore(t *testing.T, paths []string) map[string]gitRule {
	t.Helper()
	out := g.run(t, strings.Join(paths, "\x00")+"\x00", "check-ignore", "--no-index", "--verbose", "--non-matching", "-z", "--stdin")
	fields := strings.Split(out, "\x00")
	rules := map[string]gitRule{}
	for ; len(fields) >= 4; fields = fields[4:] {
		r := gitRule{strings.TrimSuffix(strings.TrimSuffix(fields[0], ".gitignore"), "/"), fields[1], fields[2]}
		rules[fields[3]] = r
	}
	for _, path := range paths {
		if _, ok := rules[path]; !ok {
			t.Fatalf("git gave no answer for %q", path)
		}
	}
	return rules
}

// isOld reports whether this git lets ** inside a name match slashes.
func (g git) isOld(t *testing.T) bool {
	g.write(t, "old/.gitignore", "a**/b\n")
	g.create(t, "old/a/c/b")
	return g.checkIgnore(t, []string{"old/a/c/b"})["old/a/c/b"] != gitRule{}
}
