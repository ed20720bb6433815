package remote

import (
	"os/exec"
	"strings"
	"testing"
)

func TestSplitWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		" log  --oneline\t":  "log|--oneline",
		`a 'b c' "d e"f`:     "a|b c|d ef",
		`'' ""`:              "|",
		`a\ b \' "\"" '\'`:   `a b|'|"|\`,
		"$x `id` $(id) * ~a": "$x|`id`|$(id)|*|~a",
	} {
		words, err := SplitWords(text)
		if got := strings.Join(words, "|"); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"'", `a "b`, `a\`} {
		if words, err := SplitWords(text); err == nil {
			t.Errorf("SplitWords(%q) = %q, want an error", text, words)
		}
	}
}

// SplitWords splits a text of letters, quotes and spaces like the shell.
func FuzzSplitWords(f *testing.F) {
	f.Add(`a 'b c' "d\"e" f\ g`)
	f.Fuzz(func(t *testing.T, text string) {
		words, err := SplitWords(text)
		if err != nil || strings.Trim(text, `abc'" `) != "" {
			return
		}
		out, err := exec.Command("sh", "-c", `printf '%s\n' `+text+` end`).Output()
		if got := strings.Join(append(words, "end"), "\n") + "\n"; err != nil || got != string(out) {
			t.Errorf("%q: got %q, the shell has %q, %v", text, got, out, err)
		}
	})
}
