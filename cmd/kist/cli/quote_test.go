package cli

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kist-vcs/kist/cmd/kist/readable"
)

func TestQuotePath(t *testing.T) {
	for in, want := range map[string]string{
		"plain":             "plain",
		"with space":        "with space",
		"größe/日本":          "größe/日本",
		"":                  "",
		"a\nb":              `"a\nb"`,
		"tab\there":         `"tab\there"`,
		`quo"te`:            `"quo\"te"`,
		`back\slash`:        `"back\\slash"`,
		"\x1b[31mred":       `"\033[31mred"`,
		"\x7f":              `"\177"`,
		"\u009b2J":          `"\302\2332J"`,
		"bad\xff\xfeend":    `"bad\377\376end"`,
		"real\ufffdrune":    "real\ufffdrune",
		"txt.\u202eexe":     `"txt.\342\200\256exe"`,
		"a\u2028b":          `"a\342\200\250b"`,
		"\a\b\v\f\r":        `"\a\b\v\f\r"`,
		"both \"ü\" \xc3\n": `"both \"ü\" \303\n"`,
	} {
		if got := QuotePath(in); got != want {
			t.Errorf("quotePath(%q) = %s, want %s", in, got, want)
		}
	}
	if got := QuoteArg("plain"); got != `"plain"` {
		t.Errorf("quoteArg(plain) = %s", got)
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"two\nlines\tand a tab": "two\nlines\tand a tab",
		"\x1b]0;title\a":        "␛]0;title␇",
		"cr\rlf\x7f":            "cr␍lf␡",
		"\u009bm":               "\ufffdm",
		"\u202egnirts":          "\ufffdgnirts",
		"\xff":                  "\ufffd",
		"日本 ✓":                  "日本 ✓",
	} {
		if got := Printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzQuote checks that unquoting a quoted path gives the same bytes, and that no output can
// control a terminal.
func FuzzQuote(f *testing.F) {
	for _, seed := range []string{"plain", "a\nb", "\xff\"\\\x1b", "\u202e\u009b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q := QuotePath(s)
		back := q
		if strings.HasPrefix(q, `"`) {
			var err error
			if back, err = strconv.Unquote(q); err != nil {
				t.Fatalf("%q is quoted as %s: %v", s, q, err)
			}
		}
		if back != s {
			t.Fatalf("%q is quoted as %s, which means %q", s, q, back)
		}
		p := Printable(s)
		if !utf8.ValidString(q) || !utf8.ValidString(p) {
			t.Fatalf("%q is printed as invalid UTF-8: %q, %q", s, q, p)
		}
		for _, r := range q + strings.NewReplacer("\n", "", "\t", "").Replace(p) {
			if readable.IsDeceptive(r) {
				t.Fatalf("%q: %U is printed", s, r)
			}
		}
	})
}

// A long subject is cut to one line, and a name with an invisible character is shown with an
// escape.
func TestSubjectAndInvisibleNames(t *testing.T) {
	for message, want := range map[string]string{
		"": "", "one\ntwo": "one",
		strings.Repeat("é", 200) + "\n":   strings.Repeat("é", 200),
		strings.Repeat("é", 300000):       strings.Repeat("é", 200) + "…",
		strings.Repeat("\U0001f600", 201): strings.Repeat("\U0001f600", 200) + "…",
	} {
		if got := Subject(message); got != want {
			t.Errorf("the subject of a message of %d bytes is %q, want %q", len(message), got, want)
		}
	}
	for _, name := range []string{"a\u200bb", "a\u200db", "\ufeffa", "a\u00adb", "a\U000e0041"} {
		if got := QuotePath(name); got == name || strings.Contains(got, name) {
			t.Errorf("%+q is shown without an escape", name)
		}
	}
}
