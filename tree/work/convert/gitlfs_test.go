package convert

import (
	"testing"
)

// The patterns are exact: see gitattributes(5).
func TestAttributePattern(t *testing.T) {
	for name, want := range map[string]string{
		"film.mov": "/film.mov",
		"#x":       "/#x",
		"!x":       "/!x",
		`"x`:       `/"x`,
		"a*b":      `/a\*b`,
		"[a]?":     `/\[a]\?`,
		`a\b`:      `/a\\b`,
		"a b":      `"/a b"`,
		"a\\ \"b":  `"/a\\\\ \"b"`,
		"a\nb":     `"/a\012b"`,
		"* \t":     `"/\\* \011"`,
		"\xff":     "/\xff",
	} {
		if got := attributePattern(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// An import removes the lines of an export, and nothing else.
func TestWithoutLFS(t *testing.T) {
	block := lfsBegin + "/a filter=lfs\n" + lfsEnd
	for _, test := range []struct {
		text, want string
		made       bool
	}{
		{block, "", true},
		{"\n" + block, "", false},
		{"x\n\n" + block, "x\n", false},
		{"x\n" + block, "x", false},
		{block + "*.psd filter=lfs\n", "*.psd filter=lfs\n", false},
		{"x\n" + block + "y\n", "x\ny\n", false},
		{"x" + block, "x" + block, false},
		{lfsBegin + "/a filter=lfs\n", lfsBegin + "/a filter=lfs\n", false},
		{"x\n" + block + "\n" + block, "x\n" + block, false},
		{"", "", false},
	} {
		if got, made := withoutLFS([]byte(test.text)); string(got) != test.want || made != test.made {
			t.Errorf("%q became %q, %v, want %q, %v", test.text, got, made, test.want, test.made)
		}
	}
}

func FuzzWithoutLFS(f *testing.F) {
	f.Add([]byte("x\n"), "a b")
	f.Add([]byte("x\n"+lfsBegin+lfsEnd), "\n")
	f.Fuzz(func(t *testing.T, own []byte, name string) {
		text := string(own) + "\n" + lfsBegin + attributePattern(name) + " filter=lfs\n" + lfsEnd
		if got, made := withoutLFS([]byte(text)); string(got) != string(own) || made {
			t.Errorf("%q became %q", own, got)
		}
	})
}
