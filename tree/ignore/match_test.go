package ignore

import (
	"fmt"
	"strings"
	"testing"
)

// table has ignore files of the root and the paths that they ignore. A path that ends in a slash
// is a folder. git_test.go compares the table with git.
var table = []struct {
	name     string
	patterns string
	paths    string // all paths; their parent folders are implied
	ignored  string // the ignored paths, by a rule for them or for a folder above
}{
	{"nothing", "", "a b/ b/c", ""},
	{"comments and empty lines", "# a\n\n#b\n", "a b # #b", ""},
	{"name", "a", "a b/a b/c/a/ b/c/a/d ab b/ab", "a b/a b/c/a/ b/c/a/d"},
	{"folder", "a/", "a b/a/ b/a/x c/a", "b/a/ b/a/x"},
	{"rooted", "/a", "a b/a c/a/", "a"},
	{"rooted folder", "/a/", "b/a/ a/ a/x", "a/ a/x"},
	{"path", "b/a", "a b/a c/b/a b/ab", "b/a"},
	{"path with a slash in front", "/b/a", "a b/a c/b/a", "b/a"},
	{"path to a folder", "b/a/", "b/a/ b/a/c c/b/a/", "b/a/ b/a/c"},
	{"suffix", "*.o", "a.o .o a.o.c b/c.o b/c.oo", "a.o .o b/c.o"},
	{"star", "a*c", "ac abc abbc abd b/ac xac", "ac abc abbc b/ac"},
	{"star is within a name", "b/*", "b/c/ b/c/d b/e c/b/e", "b/c/ b/c/d b/e"},
	{"star within a path", "b/*/d", "b/c/d b/d b/c/x/d", "b/c/d"},
	{"star in a name of a path", "b/x*y/d", "b/xy/d b/xaay/d b/xa/y/d b/xyz/d", "b/xy/d b/xaay/d"},
	{"only star", "*", "a b/c", "a b/ b/c"},
	{"two stars", "**", "a b/c", "a b/ b/c"},
	{"rooted star", "/*", "a b/c", "a b/ b/c"},
	{"question mark", "a?c", "abc ac abbc a.c b/axc", "abc a.c b/axc"},
	{"question mark is no slash", "b?a", "b/a bxa", "bxa"},
	{"question mark in a path", "x/b?a", "x/b/a x/bxa", "x/bxa"},
	{"stars in front", "**/a", "a b/a b/c/a ba", "a b/a b/c/a"},
	{"stars in front of a path", "**/b/a", "b/a c/b/a c/d/b/a b/c/a xb/a", "b/a c/b/a c/d/b/a"},
	{"stars at the end", "b/**", "b/a b/c/d a/b c/b/x", "b/a b/c/ b/c/d"},
	{"stars in the middle", "a/**/b", "a/b a/x/b a/x/y/b ab a/xb a/x/bb", "a/b a/x/b a/x/y/b"},
	{"stars twice", "a/**/b/**/c", "a/b/c a/x/b/y/z/c a/b/x a/c x/a/b/c", "a/b/c a/x/b/y/z/c"},
	{"stars next to each other", "a/**/**/b", "a/b a/x/b a/x/y/b", "a/b a/x/b a/x/y/b"},
	{"three stars", "a/***/b", "a/b a/x/b a/x/y/b", "a/b a/x/b a/x/y/b"},
	{"stars beside a name", "x/a**b", "x/ab x/aab x/a/b x/a/c/b", "x/ab x/aab"},
	{"stars after a name", "x/a**/b", "x/a/b x/ac/b x/a/c/b x/ac/d/b", "x/a/b x/ac/b"},
	{"stars after a name at the root", "a**/b", "ab a/b ac/b a/c/b", "a/b ac/b"},
	{"stars before a name", "x/**b", "x/b x/ab x/a/b", "x/b x/ab"},
	{"stars and a suffix", "a/**/*.o", "a/b.o a/c/b.o a/c/d/b.o b.o a/c/b.c", "a/b.o a/c/b.o a/c/d/b.o"},
	{"stars, folders only", "**/a/", "a/ b/a/ c/a d/a/x", "a/ b/a/ d/a/ d/a/x"},
	{"stars at the end, folders only", "a/**/", "a/b/c a/d", "a/b/ a/b/c"},
	{"escaped slash after stars", `a/**\/b`, "a/b a/c/b a/c/d/b", "a/c/b a/c/d/b"},
	{"set", "[ab]c", "ac bc cc abc", "ac bc"},
	{"set with a range", "[a-c1]x", "ax bx cx dx 1x -x", "ax bx cx 1x"},
	{"negated sets", "[!a]x\n[^a-c]y", "ax bx ay dy", "bx dy"},
	{"set with a bracket", "[]a]x\n[!]]y", "ax ]x bx ]y ay", "ax ]x ay"},
	{"set with a minus", "[-a]x\n[a-]y\n[a-c-e]z", "ax -x ay -y az bz -z ez dz", "ax -x ay -y az bz -z ez"},
	{"set with an escape", `[\]a]x` + "\n" + `[a\-c]y` + "\n" + `[\a-\c]z`, "]x ax ay -y by az bz dz", "]x ax ay -y az bz"},
	{"set with a range that is none", "[c-a]x", "ax bx cx", "cx"},
	{"set does not hold a slash", "x/[!a]b\nx[/]b", "x/a/b x/cb x/b", "x/cb"},
	{"named sets", "[[:digit:]]x\n[[:upper:][:space:]]y\n[![:alpha:]]z", "1x ax Ay ay az 1z", "1x Ay 1z"},
	{"unknown named set", "[[:nope:]a]x\n[[:digit]y", "ax nx :y dy [y xy", ":y dy [y"},
	{"set without an end", "[ab\n[\na[", "a b [ab [ a[", ""},
	{"escaped wildcard", `\*` + "\n" + `a\?` + "\n" + `\[b`, "* a a? ab [b b", "* a? [b"},
	{"escaped comment", `\#a`, "#a a", "#a"},
	{"escaped exclamation mark", `\!a`, "!a a", "!a"},
	{"escaped letter", `\a\bc`, "abc", "abc"},
	{"backslash at the end", "a\\", "a a\\", ""},
	{"escaped backslash", `a\\`, `a\ a`, `a\`},
	{"backslash in front of a folder's slash", `a\/`, "a/ b/a/", ""},
	{"negated", "*.o\n!a.o", "a.o b.o c/a.o", "b.o"},
	{"last one wins", "a\n!a\na", "a", "a"},
	{"last one wins again", "!a\na\n!a", "a b/a", ""},
	{"not in an ignored folder", "b/\n!b/a", "b/a b/c", "b/ b/a b/c"},
	{"all but one", "/*\n!/a\n/a/*\n!/a/b", "a/b/x a/c d", "a/c d"},
	{"two exclamation marks", "*\n!!a", "a !a b", "a b"},
	{"only an exclamation mark", "!\n!/", "a", ""},
	{"only slashes", "/\n//\n///", "a b/c", ""},
	{"slash twice", "a//b\nc//", "a/b c/", ""},
	{"dots", "./a\n../b\na/../c\n.", "a b c", ""},
	{"hidden", ".*", ".a b/.c d.e", ".a b/.c"},
	{"carriage returns", "a\r\nb/\r\n\r\nc\r", "a b/ c d", "a b/ c"},
	{"two carriage returns", "a\r\r\nb\rc\n", "a b c", ""},
	{"byte order mark", "\xef\xbb\xbfa\n\xef\xbb\xbfb\n", "a b", "a"},
	{"no newline at the end", "a\nb", "a b", "a b"},
	{"zero byte", "a\x00b\n\x00c\n", "a b c", "a"},
	{"case", "A", "a A", "A"},
	{"bytes that are no text", "\xff*\n[\x80-\x90]", "\xffa \x85 \x95", "\xffa \x85"},
	{"letters beyond ASCII", "ü?\nх*", "üa хай a", "üa хай"},
	{"long literal tail", "*abcabd", "abcabcabd abcabd abcab", "abcabcabd abcabd"},
	{"stars that go back", "*a*b*c", "abc axbxc xaxbxcxx aabbcc ac abcabc", "abc axbxc aabbcc abcabc"},
	{"stars that go back in a path", "x/*a*b/c*d", "x/ab/cd x/aab/ccd x/ab/c/d x/a/b/cd x/bab/cdd", "x/ab/cd x/aab/ccd x/bab/cdd"},
	{"stars and a star that cannot go on", "**/a*/b", "a/b x/ac/b ax/c/a/b a/c/b", "a/b x/ac/b ax/c/a/b"},
}

func TestMatchTable(t *testing.T) {
	for _, test := range table {
		m := new(Matcher).Push(mustParse(t, test.patterns, ""))
		want := map[string]bool{}
		for _, path := range strings.Fields(test.ignored) {
			want[path] = true
		}
		for _, path := range withFolders(strings.Fields(test.paths)) {
			got, _ := matchBelow(func(string) *Matcher { return m }, path)
			if got != want[path] {
				t.Errorf("%s: %q: ignored is %v", test.name, path, got)
			}
			delete(want, path)
		}
		for path := range want {
			t.Errorf("%s: ignored path %q is not in paths", test.name, path)
		}
	}
}

func mustParse(t testing.TB, patterns, dir string) *Patterns {
	t.Helper()
	p, err := Parse([]byte(patterns), dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// withFolders adds the parent folders of paths, each before its content.
func withFolders(paths []string) (all []string) {
	seen := map[string]bool{}
	add := func(path string) {
		if !seen[path] {
			seen[path] = true
			all = append(all, path)
		}
	}
	for _, path := range paths {
		for i := range path {
			if path[i] == '/' {
				add(path[:i+1])
			}
		}
		add(path)
	}
	return all
}

// matchBelow matches the folders above a path first, as a walk does. matcher returns the Matcher
// of a folder.
func matchBelow(matcher func(dir string) *Matcher, path string) (bool, Rule) {
	clean := strings.TrimSuffix(path, "/")
	dir := ""
	for i := range clean {
		if clean[i] != '/' {
			continue
		}
		if ignored, by := matcher(dir).Match(clean[:i], true); ignored {
			return true, by
		}
		dir = clean[:i]
	}
	return matcher(dir).Match(clean, clean != path)
}

func TestRule(t *testing.T) {
	m := new(Matcher).Push(mustParse(t, "# comment\n*.o  \n\n!keep.o\n", "")).Push(mustParse(t, "x/\n/*.c\n", "a/b"))
	tests := []struct {
		path    string
		isDir   bool
		ignored bool
		by      Rule
	}{
		{"", true, false, Rule{}},
		{"f.o", false, true, Rule{"", 2, "*.o", false}},
		{"a/keep.o", false, false, Rule{"", 4, "!keep.o", true}},
		{"a/b/f.o", false, true, Rule{"", 2, "*.o", false}},
		{"a/b/x", true, true, Rule{"a/b", 1, "x/", false}},
		{"a/b/x", false, false, Rule{}},
		{"a/b/c.c", false, true, Rule{"a/b", 2, "/*.c", false}},
		{"a/b/c/c.c", false, false, Rule{}},
		{"a/c.c", false, false, Rule{}},    // not below a/b
		{"a/bx/c.c", false, false, Rule{}}, // neither
		{"a/bx", true, false, Rule{}},
		{"a/b", true, false, Rule{}},
		{"c.c", false, false, Rule{}},
	}
	for _, test := range tests {
		ignored, by := m.Match(test.path, test.isDir)
		if ignored != test.ignored || by != test.by {
			t.Errorf("%q: %v, %+v; want %v, %+v", test.path, ignored, by, test.ignored, test.by)
		}
	}
}

// Rules of a deeper file override the rules of files above it.
func TestDeeperFirst(t *testing.T) {
	root := new(Matcher).Push(mustParse(t, "*.o\n!a.o", ""))
	sub := root.Push(mustParse(t, "a.o\n!b.o", "s"))
	for path, want := range map[string]bool{"s/a.o": true, "s/b.o": false, "s/c.o": true, "s/t/b.o": false} {
		if got, _ := sub.Match(path, false); got != want {
			t.Errorf("%q: ignored is %v, want %v", path, got, want)
		}
	}
	if got, _ := root.Match("s/a.o", false); got {
		t.Error("Push changed the Matcher")
	}
}

func TestEmptyMatchers(t *testing.T) {
	var none *Matcher
	empty := new(Matcher)
	for _, m := range []*Matcher{none, empty, empty.Push(nil), empty.Push(mustParse(t, "# nothing\n", "a"))} {
		if ignored, by := m.Match("a/b", false); ignored || by != (Rule{}) {
			t.Errorf("an empty Matcher returns %v by %+v", ignored, by)
		}
	}
	if empty.Push(mustParse(t, "\n/\n", "a")) != empty {
		t.Error("a file without rules made another Matcher")
	}
	if ignored, _ := none.Push(mustParse(t, "a", "")).Match("a", false); !ignored {
		t.Error("a Matcher pushed on nil does not match")
	}
}

func TestTrimSpaces(t *testing.T) {
	for in, want := range map[string]string{
		"": "", " ": "", "a": "a", "a  ": "a", " a b ": " a b", `a\ `: `a\ `, `a\  `: `a\ `, `a \`: `a \`,
		`a\\ `: `a\\`, "a\t": "a\t", "a \t ": "a \t", `\ `: `\ `, ` \  `: ` \ `,
	} {
		if got := trimSpaces(in); got != want {
			t.Errorf("trimSpaces(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	long := strings.Repeat("x", MaxLineSize)
	tests := []struct {
		name string
		data string
		want *LimitError
	}{
		{"longest line", "a\n" + long + "\nb", nil},
		{"line too long", "a\n" + long + "x\nb", &LimitError{"d", 2, MaxLineSize + 1, MaxLineSize}},
		{"last line too long", long + "xx", &LimitError{"d", 1, MaxLineSize + 2, MaxLineSize}},
		{"long comment", "#" + long + "\na", nil},
		{"longest file", strings.Repeat("abc\n", MaxFileSize/4), nil},
		{"file too long", strings.Repeat("abc\n", MaxFileSize/4) + "\n", &LimitError{"d", 0, MaxFileSize + 1, MaxFileSize}},
	}

	for _, test := range tests {
		p, err := Parse([]byte(test.data), "d")
		if test.want == nil {
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}

		got, ok := err.(*LimitError)
		if !ok || *got != *test.want || p != nil {
			t.Errorf("%s: error %v, want %v", test.name, err, test.want)
		}
		if !strings.Contains(err.Error(), fmt.Sprint(test.want.Size)) || !strings.Contains(err.Error(), `"/d"`) {
			t.Errorf("%s: message %q", test.name, err)
		}
	}
}
