package model

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ruleName matches words that look like the name of a rule.
var ruleName = regexp.MustCompile(`\b[A-Z][A-Z0-9]*(_[A-Z0-9]+)+\b`)

// TestNames checks that comments and pages name only rules of the model, and that
// comments name the most important rules.
func TestNames(t *testing.T) {
	inCode := map[string]bool{}
	use := func(where, text string, used map[string]bool) {
		for _, name := range ruleName.FindAllString(text, -1) {
			if strings.HasPrefix(name, "KIST_") {
				continue // an environment variable
			}
			if _, ok := rules[name]; !ok {
				t.Errorf("%s: no rule of the model is named %s", where, name)
			}
			used[name] = true
		}
	}

	set := token.NewFileSet()
	for _, pattern := range []string{"../*.go", "../../transfer/*.go", "../../collect/*.go", "../../exchange/keep.go", "../../exchange/evict.go",
		"../../exchange/registry/evicted.go", "../../../object/volume/session.go"} {
		for _, file := range glob(t, pattern) {
			parsed, err := parser.ParseFile(set, file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, comment := range parsed.Comments {
				use(set.Position(comment.Pos()).String(), comment.Text(), inCode)
			}
		}
	}
	for _, page := range []string{"format/remote.md", "format/rootlog.md", "format/encrypted.md", "format/records.md", "decisions/protocol-model.md"} {
		file := filepath.Join("../../../docs", page)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		use(file, string(data), map[string]bool{})
	}

	for _, name := range []string{
		"RELY_ON_ALL_LIVE", "HEED_FLOOR", "RECHECK_HEAD", "CHECK_TXID", "RESUME_AT_START", "CHECK_KNOWN_HEAD", "STOP_AT_REFS",
		"KEEP_FROM_LIVE", "KEEP_COVERS_AWAY", "EVICT_KEPT", "RELY_ON_KEPT",
	} {
		if !inCode[name] {
			t.Errorf("%s: no comment of the code names the rule", name)
		}
	}
}

// TestMutationsOfRules checks that each mutation has a rule, and that each rule has
// a mutation that loses data.
func TestMutationsOfRules(t *testing.T) {
	breaks := map[string]bool{"IDX_CONDEMN_MERGED": true} // its mutation loses no data
	for _, run := range mutations {
		if _, ok := rules[run.rule]; !ok {
			t.Errorf("%s: no rule of the model is named %s", run.name, run.rule)
		}
		if run.violation != "" {
			breaks[run.rule] = true
		}
	}
	for name := range rules {
		if !breaks[name] {
			t.Errorf("%s: no mutation of the rule loses data", name)
		}
	}
}

// TestConstants checks that each mutation has one scenario.
func TestConstants(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "mutations_test.go", nil, parser.SkipObjectResolution)
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
	for _, run := range mutations {
		runs = append(runs, run.name)
	}
	if !slices.Equal(constants, runs) {
		t.Errorf("mutations with a constant: %v; with a scenario: %v", constants, runs)
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
