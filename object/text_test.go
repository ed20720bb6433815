package object

import "testing"

func TestTexts(t *testing.T) {
	for _, c := range []struct {
		text             string
		cut, clean, line string
	}{
		{"", "", "", ""},
		{"abc", "abc", "abc", "abc"},
		{"abcde", "abcd", "abcde", "abcd"},
		{"abcä", "abc", "abcä", "abc"},
		{"ä€", "ä", "ä€", "ä"},
		{"a\x1b[m", "a\x1b[m", "a?[m", "a [m"},
		{" a \r\n\tb", " a \r", " a ???b", "a b"},
		{"a  \u0085 ", "a  ", "a  ? ", "a"},
		{"a\xffb", "a\xffb", "a\ufffdb", "a\ufffd"},
		{"abc d", "abc ", "abc d", "abc"},
	} {
		if cut, clean, line := CutText(c.text, 4), CleanText(c.text, '?'), OneLine(c.text, 4); cut != c.cut || clean != c.clean || line != c.line {
			t.Errorf("%q: cut %q, clean %q, line %q; want %q, %q, %q", c.text, cut, clean, line, c.cut, c.clean, c.line)
		}
	}
	if got := CleanText("a\x00b", -1); got != "ab" {
		t.Errorf("control characters dropped: %q", got)
	}
}
