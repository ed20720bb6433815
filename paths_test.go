package kist_test

import (
	"go/ast"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPathsOfCommands checks that each function named in the section "The path
// of a command" of docs/architecture.md exists.
func TestPathsOfCommands(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### The path of a command\n")
	section, _, _ = strings.Cut(section, "\n## ")
	names := regexp.MustCompile("`[a-z0-9]+(\\.[A-Za-z]+){1,2}`").FindAllString(section, -1)
	if len(names) < 50 {
		t.Fatalf("the section names only %d functions", len(names))
	}

	exists := functions(t)
	for _, name := range names {
		name = strings.Trim(name, "`")
		if !strings.HasSuffix(name, ".go") && !exists[name] {
			t.Errorf("docs/architecture.md names the function %s, which does not exist", name)
		}
	}
}

// functions returns all functions of the product, as "package.Function" or
// "package.Type.Method".
func functions(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, file := range goFiles(t) {
		if file.test {
			continue
		}
		_, parsed := file.parse(t)
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				name = receiverType(f.Recv.List[0].Type) + "." + name
			}
			found[parsed.Name.Name+"."+name] = true
		}
	}
	return found
}
