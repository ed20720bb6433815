package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocsAreFresh checks that the generated pages in docs/ match the commands.
func TestDocsAreFresh(t *testing.T) {
	env, _, _ := testEnv(t)
	dir := filepath.FromSlash("../../../docs")
	pages := docPages(New(env))
	for _, name := range docFiles(dir) {
		if _, ok := pages[name]; !ok {
			t.Errorf("docs/%s belongs to no command: run 'make docs'", name)
		}
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("docs/%s is stale: run 'make docs' (%v)", name, err)
		}
	}
}

func TestDocsRemovesOldPages(t *testing.T) {
	env, _, _ := testEnv(t)
	mustMkdir(t, env.Dir, "man")
	mustMkdir(t, env.Dir, "reference")
	old := filepath.Join(env.Dir, "man", "kist-gone.1")
	kept := filepath.Join(env.Dir, "man", "README")
	for _, file := range []string{old, kept} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if status := Run(t.Context(), env, []string{"docs", "."}); status != exitOK {
		t.Fatalf("exit status %d", status)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the page of a removed command is still there")
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error("a file that is not a page was removed")
	}
}

func TestRoff(t *testing.T) {
	m := manual{
		Name: "kist x-y", Short: "do it", Usage: "kist x-y", Example: "  kist x-y",
		Long:     ".first\n'second\nback\\slash",
		Sections: []manualSection{{Title: "OPTIONS", Items: []manualItem{{"-n, --dry-run", "only say"}}}},
		Exits:    manualSection{Title: "EXIT STATUS", Items: []manualItem{{"0", "done"}}},
		Parent:   "kist",
	}
	got := m.roff()
	for _, want := range []string{
		".TH \"KIST-X-Y\" 1",
		"kist\\-x\\-y \\- do it\n",
		"\n\\&.first\n\\&'second\nback\\eslash\n",
		".TP\n\\fB\\-n, \\-\\-dry\\-run\\fR\nonly say\n",
		".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\ndone\n",
		"\\fBkist\\fR(1)\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
}

func mustMkdir(t *testing.T, elem ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(elem...), 0o755); err != nil {
		t.Fatal(err)
	}
}
