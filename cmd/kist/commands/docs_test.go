package commands

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/about"
)

// TestDocsAreFresh checks that the generated pages in docs/ match the commands.
func TestDocsAreFresh(t *testing.T) {
	env, _, _ := testEnv(t)
	dir := filepath.FromSlash("../../../docs")
	pages := about.ReferencePages(env, cli.New(env))
	for _, name := range about.DocFiles(dir, about.ReferenceFiles) {
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

// TestManualPages checks that each command and topic has a manual page, and that only the page of
// kist lists the options that every command has.
func TestManualPages(t *testing.T) {
	env, _, _ := testEnv(t)
	root := cli.New(env)
	if status := cli.Run(t.Context(), env, []string{"docs", "--man", "."}); status != cli.ExitOK {
		t.Fatalf("exit status %d", status)
	}

	pages := about.DocFiles(env.Dir, about.ManualFiles)
	if got, want := len(pages), len(about.ReferencePages(env, root))-3+len(cli.Topics); got != want { // without its index, errors.md and json.md
		t.Errorf("%d manual pages, want %d", got, want)
	}
	for _, name := range pages {
		page, err := os.ReadFile(filepath.Join(env.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Contains(string(page), "GLOBAL OPTIONS"), name == "man/kist.1"; got != want {
			t.Errorf("%s lists the global options: %t, want %t", name, got, want)
		}
		if !strings.HasSuffix(name, "7") && name != "man/kist.1" && !strings.HasSuffix(string(page), "\\fBkist\\fR(1)\n") {
			t.Errorf("%s does not end with a reference to kist(1)", name)
		}
	}
}

func TestDocsRemovesOldPages(t *testing.T) {
	env, _, _ := testEnv(t)
	mustMkdir(t, env.Dir, "man")
	old := filepath.Join(env.Dir, "man", "kist-gone.1")
	kept := filepath.Join(env.Dir, "man", "README")
	for _, file := range []string{old, kept} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if status := cli.Run(t.Context(), env, []string{"docs", "--man", "."}); status != cli.ExitOK {
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
	m := cli.Manual{
		Name: "kist x-y", Short: "do it", Usage: "kist x-y", Example: "  kist x-y",
		Long:     ".first\n'second\nback\\slash",
		Sections: []cli.ManualSection{{Title: "OPTIONS", Items: []cli.ManualItem{{Term: "-n, --dry-run", Text: "only say"}}}},
		Exits:    cli.ManualSection{Title: "EXIT STATUS", Items: []cli.ManualItem{{Term: "0", Text: "done"}}},
		Parent:   "kist",
	}
	got := about.Roff(m)
	for _, want := range []string{
		".TH \"KIST-X-Y\" 1 " + cli.Released + " \"kist " + cli.Version + "\" \"kist manual\"\n",
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

// lastName returns the name of a function or type, without that of its package.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// TestErrorsPage compares the kinds of error in the sources with the page about them.
func TestErrorsPage(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.go", "*/*.go", "../cli/*.go", "../input/*.go", "../show/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, error %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}

	inCode := map[string]bool{}
	note := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING && lit.Value != `""` {
			inCode[strings.Trim(lit.Value, `"`)] = true
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if name := lastName(n.Fun); name == "Failf" || name == "LinesError" {
					note(n.Args[1])
				}
			case *ast.CompositeLit:
				if lastName(n.Type) == "Failure" {
					noteKind(n, note)
				}
			}
			return true
		})
	}
	if len(inCode) < 40 {
		t.Fatalf("found only %d kinds: does another function make errors now?", len(inCode))
	}

	page := about.ErrorsPage()
	for kind := range inCode {
		if n := strings.Count(page, "\n| "+kind+" |"); n != 1 {
			t.Errorf("the page has kind %s %d times, want once", kind, n)
		}
	}
	for _, own := range cli.OwnKinds {
		if !inCode[own.Kind] {
			t.Errorf("no command makes errors of kind %s", own.Kind)
		}
	}
}

// noteKind calls note with the field kind of a literal.
func noteKind(lit *ast.CompositeLit, note func(ast.Expr)) {
	for _, e := range lit.Elts {
		if field, ok := e.(*ast.KeyValueExpr); ok && field.Key.(*ast.Ident).Name == "Kind" {
			note(field.Value)
		}
	}
}
