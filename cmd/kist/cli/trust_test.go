package cli

import "testing"

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{
		"/srv/photos":      "/srv/photos",
		"/srv/two words":   "'/srv/two words'",
		"/srv/$(id>p)":     "'/srv/$(id>p)'",
		"/srv/it's":        `$'/srv/it\'s'`,
		"/srv/\x1b[2J\"a'": `$'/srv/\x1b[2J"a\''`,
		`/srv/back\slash`:  `$'/srv/back\\slash'`,
		"":                 "",
	} {
		if got := ShellWord(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
