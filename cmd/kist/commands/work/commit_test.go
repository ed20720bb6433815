package work

import "testing"

func TestCleanMessage(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		" \n\t\n":                    "",
		"one":                        "one",
		"\n\n  one  \n\n":            "  one",
		"one\r\ntwo\r\n":             "one\ntwo",
		"one\n\n\n \ntwo\n":          "one\n\ntwo",
		"# kept\none":                "# kept\none",
		"one\n\n- a\n- b\n\n\n\nend": "one\n\n- a\n- b\n\nend",
	} {
		if got := CleanMessage(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got, want := CleanMessage(withoutComments("one\n# two\n #three\n#\n\nfour\n")), "one\n #three\n\nfour"; got != want {
		t.Errorf("without comments: %q, want %q", got, want)
	}
}
