package ignore

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// matchAll tries all ways in which a glob can match. reach marks the places in text where the
// elements so far can end.
func matchAll(g glob, text string) bool {
	reach := make([]bool, len(text)+1)
	reach[0] = true
	for _, e := range g.elems {
		next := make([]bool, len(text)+1)
		for from, ok := range reach {
			if !ok {
				continue
			}
			switch e.op {
			case star, all, dirs:
				next[from] = true
				for to := from; to < len(text) && (e.op != star || text[to] != '/'); to++ {
					next[to+1] = next[to+1] || e.op != dirs || text[to] == '/'
				}
			default:
				if from < len(text) && g.matchesByte(e, text[from]) {
					next[from+1] = true
				}
			}
		}
		reach = next
	}
	return reach[len(text)]
}

// compareWithAll compares match and literalTail with matchAll.
func compareWithAll(t *testing.T, pattern, text string, atStart, inPath bool) {
	t.Helper()
	g, ok := compileGlob(pattern, atStart, inPath)
	if !ok {
		return
	}
	want := matchAll(g, text)
	if got := g.match(text); got != want {
		t.Fatalf("pattern %q, text %q: %v, want %v", pattern, text, got, want)
	}
	if want && !strings.HasSuffix(text, g.literalTail()) {
		t.Fatalf("pattern %q matches %q, which does not end in %q", pattern, text, g.literalTail())
	}
}

// match takes the shortest match of each star, and still misses no match.
func TestMatchFindsAll(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(tokens []string, n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(tokens[rnd.IntN(len(tokens))])
		}
		return b.String()
	}
	for range 50_000 {
		pattern := pick([]string{"a", "b", "a", "/", "*", "*", "?", "**/", "/**/", "**", "[ab]", `\/`}, 1+rnd.IntN(9))
		text := pick([]string{"a", "b", "a", "/"}, rnd.IntN(14))
		compareWithAll(t, pattern, text, rnd.IntN(2) == 0, rnd.IntN(4) > 0)
	}
}

// hostile are patterns and paths for which a matcher that tries all ways never ends.
var hostile = []struct{ name, pattern, path string }{
	{"folders", strings.Repeat("**/a/", 30) + "[b]", strings.Repeat("a/", 1500) + "a"},
	{"folders and stars", strings.Repeat("**/*a*/", 200) + "[b]", strings.Repeat("aaa/", 1000) + "a"},
	{"stars", strings.Repeat("*a", 120) + "*[b]", strings.Repeat("a", 255)},
	{"stars in a path", "x/" + strings.Repeat("*a", 1000) + "[b]", "x/" + strings.Repeat("a", 4000)},
	{"only stars", strings.Repeat("*", 2000) + "[X]", strings.Repeat("a", 255)},
	{"stars and slashes", strings.Repeat("**/", 680) + "[X]", strings.Repeat("a/", 2000) + "a"},
	{"question marks", strings.Repeat("*?", 1000), strings.Repeat("a", 255)},
	{"sets", strings.Repeat("*[a-b]", 300) + "[c]", strings.Repeat("ab", 127)},
	{"names that go back", strings.Repeat("**/*aaaa/", 200) + "[X]", strings.Repeat("aaaaaaaa/", 450) + "a"},
	{"folders that go back", "**/" + strings.Repeat("*aaaa/", 225) + "[X]", strings.Repeat("aaaaaaaa/", 450) + "a"},
	{"long names", strings.Repeat("**/*aab/", 250) + "[X]", strings.Repeat("aaaaaaab/", 450) + "a"},
}

func TestHostilePatternsEnd(t *testing.T) {
	for _, test := range hostile {
		m := new(Matcher).Push(mustParse(t, test.pattern, ""))
		if ignored, by := m.Match(test.path, false); ignored {
			t.Errorf("%s: the pattern matches by %.20q", test.name, by.Pattern)
		}
		for _, slashes := range []bool{false, true} {
			if g, ok := CompileGlob(test.pattern, slashes, true); ok && g.Match(test.path) {
				t.Errorf("%s: the pathspec matches, with slashes: %t", test.name, slashes)
			}
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("a*b/**/[a-c]?", "axb/y/b1", true, true)
	f.Add("**/a*/b", "x/ac/b", true, true)
	f.Add(`*[!\]-]**`, "a]b", false, false)
	f.Fuzz(func(t *testing.T, pattern, text string, atStart, inPath bool) {
		if len(pattern)*len(text) > 1<<16 {
			return
		}
		compareWithAll(t, pattern, text, atStart, inPath)
	})
}

func FuzzParse(f *testing.F) {
	for _, test := range table {
		f.Add([]byte(test.patterns), "", "a/b")
	}
	f.Add([]byte("a\n!b/\n**/c"), "d/e", "d/e/c")
	f.Fuzz(func(t *testing.T, data []byte, dir, path string) {
		p, err := Parse(data, dir)
		if err != nil {
			if len(data) <= MaxLineSize {
				t.Fatal(err)
			}
			return
		}

		lines := strings.Split(string(data), "\n")
		m := new(Matcher).Push(p)
		for _, isDir := range []bool{false, true} {
			ignored, by := m.Match(path, isDir)
			if by.Line == 0 {
				if ignored || by != (Rule{}) {
					t.Fatalf("ignored is %v without a rule: %+v", ignored, by)
				}
				continue
			}
			if by.Line > len(lines) || !strings.Contains(lines[by.Line-1], by.Pattern) || by.Dir != dir {
				t.Fatalf("rule %+v is not in the file", by)
			}
			if by.Negated != strings.HasPrefix(by.Pattern, "!") || by.Negated == ignored {
				t.Fatalf("ignored is %v by rule %+v", ignored, by)
			}
			if !isDir && strings.HasSuffix(by.Pattern, "/") {
				t.Fatalf("%+v matches a file", by)
			}
		}
	})
}
