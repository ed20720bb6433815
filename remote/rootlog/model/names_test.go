package model

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mutationName matches what looks like the name of a mutation.
var mutationName = regexp.MustCompile(`\b(ANCHOR|[A-Z][A-Z0-9]*(_[A-Z0-9]+)+)\b`)

// TestNames holds the code, its documentation and the model together: each name
// of a mutation in comments of the packages that keep to the rules is one of the
// model's, and the rules that they are there for are named.
func TestNames(t *testing.T) {
	known := map[string]bool{} // whether somebody named it
	for _, run := range Mutations {
		known[run.Name] = false
	}
	use := func(where, text string) {
		for _, name := range mutationName.FindAllString(text, -1) {
			if strings.HasPrefix(name, "KIST_") {
				continue // of the environment
			}
			if _, ok := known[name]; !ok {
				t.Errorf("%s: no mutation of the model is named %s", where, name)
				continue
			}
			known[name] = true
		}
	}
	set := token.NewFileSet()
	for _, pattern := range []string{"../*.go", "../../transfer/*.go"} {
		for _, file := range glob(t, pattern) {
			parsed, err := parser.ParseFile(set, file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, comment := range parsed.Comments {
				use(set.Position(comment.Pos()).String(), comment.Text())
			}
		}
	}
	inCode := maps.Clone(known)
	for _, page := range []string{"remote.md", "rootlog.md"} {
		file := filepath.Join("../../../docs/format", page)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		use(file, string(data))
	}
	for _, name := range []Mutation{ANCHOR, NO_FLOOR, NO_RECHECK, NO_TXID, RESUME_NEWBASE, ROLLBACK_BLIND, STOP_AT_PRESENT} {
		if !inCode[string(name)] {
			t.Errorf("%s: no comment in rootlog or transfer tells where the rule is kept", name)
		}
	}
}

// TestConstants fails if a constant has no run, or two.
func TestConstants(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "mutations.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var constants, runs []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		if decl, ok := n.(*ast.GenDecl); ok && decl.Tok == token.CONST {
			for _, spec := range decl.Specs {
				constants = append(constants, spec.(*ast.ValueSpec).Names[0].Name)
			}
		}
		return true
	})
	for _, run := range Mutations {
		runs = append(runs, run.Name)
	}
	if !slices.Equal(constants, runs) {
		t.Errorf("constants are %v, runs are %v", constants, runs)
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files (%v)", pattern, err)
	}
	return files
}
