package main

import (
	"os"
	"strings"
	"testing"
)

// prints has the commands whose examples in docs/origins.md must print something.
var prints = map[string]bool{"cat": true, "du": true, "find": true, "history": true, "log": true, "ls": true, "refs-of": true, "stats": true, "status": true}

// TestOrigins runs the examples in docs/origins.md. A row without an example gives a reason.
func TestOrigins(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/origins.md")
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00"), "|")
		if len(cells) != 5 || cells[3] == "---" || cells[3] == " example " {
			continue
		}
		example, isCommand := strings.CutPrefix(strings.TrimSpace(cells[3]), "`kist ")
		switch {
		case isCommand:
			command := "kist " + strings.ReplaceAll(strings.TrimSuffix(example, "`"), "\x00", "|")
			if prints[strings.Fields(command)[1]] {
				command = "out=$(" + command + "); test -n \"$out\""
			}
			commands = append(commands, command)
		case !strings.HasPrefix(cells[2], " not in kist: "):
			t.Errorf("the row has neither an example nor a reason: %s", line)
		}
	}
	if len(commands) < 90 {
		t.Fatalf("docs/origins.md has %d examples, want at least 90", len(commands))
	}

	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{
		"film/scene1.mov": strings.Repeat("scene 1 ", 20_000), "film/scene2.mov": strings.Repeat("scene 2 ", 20_000), "film/tiny.txt": "tiny", "gone.txt": "gone",
		"notes.txt": "the first of several lines that are longer than an inline file\n",
	})
	s.commit("first")
	s.kist("tag", "v1")
	s.write(map[string]string{"notes.txt": "the second of several lines that are longer than an inline file\n"})
	s.kist("mv", "film/scene1.mov", "film/opening.mov")
	s.kist("rm", "gone.txt")
	s.kist("attr", "set", "*.mov", "project=dunes", "owner=anna")
	s.commit("second")
	s.in("..").write(map[string]string{"backup-2024-01-01/a": "old", "backup-2024-02-01/a": "new", "remote/keep": ""})
	if err := os.Remove(s.path("../remote/keep")); err != nil {
		t.Fatal(err)
	}
	s.kist("remote", "add", "origin", "../remote")
	s.kist("push", "origin", "main")
	s.script("origins.md", "", commands)
}
