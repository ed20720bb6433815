package main

import (
	"strings"
	"testing"
)

// TestBlameHowto runs the commands of docs/howto/who-changed-what.md.
func TestBlameHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"notes.txt": "Buy bread\nBuy milk\n", "disk.img": strings.Repeat("disk", 1<<20)})
	s.commit("first")
	s.write(map[string]string{"notes.txt": "Buy bread\nBuy milk and butter\n"})
	s.commit("second")
	s.page("who-changed-what.md", "")
	if got := s.kist("grep", "--all", "milk$"); !strings.HasSuffix(got, ":notes.txt:Buy milk\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("grep --all = %q, want one line of notes.txt", got)
	}
}
