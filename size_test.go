package kist_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The limits of docs/style.md.
const (
	maxLines      = 80
	maxComplexity = 20
	maxParams     = 5
	maxFields     = 15
	maxMethods    = 40
	maxTestLines  = 135 // of a function in a test, without its tables
	maxStepLines  = 29  // of such a function without a blank line
)

// TestSize checks that no function or type of the product is larger than the
// limits, except as tooLarge allows.
func TestSize(t *testing.T) {
	found := map[string]int{}
	over := func(name, what string, n, limit int) {
		if n > limit {
			found[name+" "+what] = n
		}
	}

	methods := map[string]int{}
	for _, file := range goFiles(t) {
		dir := path.Dir(file.path)
		if file.test || strings.HasSuffix(dir, "test") || dir == "cmd/kistbench" || dir == "remote/rootlog/model" {
			continue
		}
		set, parsed := file.parse(t)

		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				name := dir + "." + n.Name.Name
				if n.Recv != nil {
					receiver := dir + "." + receiverType(n.Recv.List[0].Type)
					methods[receiver]++
					name = receiver + "." + n.Name.Name
				}
				over(name, "lines", set.Position(n.End()).Line-set.Position(n.Pos()).Line+1, maxLines)
				over(name, "complexity", complexity(n), maxComplexity)
				over(name, "parameters", n.Type.Params.NumFields(), maxParams)
				over(name, "errors returned by type", errorTypes(n.Type.Results), 0)
				over(name, "results changed in a defer", deferredResults(n), 0)
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					over(dir+"."+n.Name.Name, "fields", s.Fields.NumFields(), maxFields)
					over(dir+"."+n.Name.Name, "contexts", contexts(s), 0)
				}
			}
			return true
		})
	}

	for name, n := range methods {
		over(name, "methods", n, maxMethods)
	}
	for what, n := range found {
		if allowed := tooLarge[what]; n > allowed.n {
			t.Errorf("%s: %d, only %d allowed: find a better shape", what, n, allowed.n)
		}
	}

	for what, allowed := range tooLarge {
		if found[what] < allowed.n {
			t.Errorf("%s: %d, but tooLarge allows %d: lower it", what, found[what], allowed.n)
		}
	}
}

// TestSizeOfTests checks that blank lines separate the steps of long functions in tests, and that none is
// endless. Tables do not count.
func TestSizeOfTests(t *testing.T) {
	for _, file := range goFiles(t) {
		if !file.test {
			continue
		}
		data, err := os.ReadFile(filepath.FromSlash(file.path))
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file.path, data, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}

		lines := strings.Split(string(data), "\n")
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			code, blank := codeLines(set, f, lines)
			if code > maxTestLines {
				t.Errorf("%s: %s has %d lines without its tables, at most %d are allowed", set.Position(f.Pos()), f.Name.Name, code, maxTestLines)
			}
			if code > maxStepLines && blank == 0 {
				t.Errorf("%s: %s has %d lines and no blank line between its steps", set.Position(f.Pos()), f.Name.Name, code)
			}
		}
	}
}

// codeLines returns the number of lines of code of a function, and the number of blank lines, outside of composite
// literals.
func codeLines(set *token.FileSet, f *ast.FuncDecl, lines []string) (code, blank int) {
	inside := map[int]bool{}
	ast.Inspect(f, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		for line := set.Position(literal.Pos()).Line + 1; line <= set.Position(literal.End()).Line; line++ {
			inside[line] = true
		}
		return true
	})

	for line := set.Position(f.Pos()).Line; line <= set.Position(f.End()).Line; line++ {
		if inside[line] {
			continue
		}
		if strings.TrimSpace(lines[line-1]) == "" {
			blank++
		} else {
			code++
		}
	}
	return code, blank
}

// complexity returns the cyclomatic complexity of a function with its function literals: one more
// than its conditions, loops, cases, and operators && and ||.
func complexity(f *ast.FuncDecl) int {
	n := 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// errorTypes returns the number of results with an error type other than error.
func errorTypes(results *ast.FieldList) (n int) {
	if results == nil {
		return 0
	}
	for _, result := range results.List {
		if name := receiverType(result.Type); strings.HasSuffix(name, "Error") {
			n++
		}
	}
	return n
}

// deferredResults returns the number of assignments to named results in deferred
// function literals. The error result does not count: closing joins its error.
func deferredResults(f *ast.FuncDecl) (n int) {
	if f.Type.Results == nil || f.Body == nil {
		return 0
	}

	var results []string
	for _, result := range f.Type.Results.List {
		for _, name := range result.Names {
			if fmt.Sprint(result.Type) != "error" {
				results = append(results, name.Name)
			}
		}
	}

	ast.Inspect(f.Body, func(node ast.Node) bool {
		deferred, ok := node.(*ast.DeferStmt)
		if !ok {
			return true
		}
		ast.Inspect(deferred, func(node ast.Node) bool {
			if assign, ok := node.(*ast.AssignStmt); ok && assign.Tok != token.DEFINE {
				for _, left := range assign.Lhs {
					if slices.Contains(results, receiverType(left)) {
						n++
					}
				}
			}
			return true
		})
		return true
	})
	return n
}

// contexts returns the number of fields that hold a context.
func contexts(s *ast.StructType) (n int) {
	for _, field := range s.Fields.List {
		if selector(field.Type) == "context.Context" {
			n += max(1, len(field.Names))
		}
	}
	return n
}

// receiverType returns the name of a type, without pointer and type parameters.
func receiverType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverType(e.X)
	case *ast.IndexExpr:
		return receiverType(e.X)
	case *ast.IndexListExpr:
		return receiverType(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// tooLarge lists the functions and types above a limit, with the number and the reason. Without a
// reason, a better shape is still to be found. The numbers may only fall.
var tooLarge = map[string]struct {
	n      int
	reason string
}{
	"object.ContentReader contexts":                                   {1, "io.Reader and io.Seeker have no context"},
	"object/frame.worker.appendCompressed results changed in a defer": {2, "a panic of the encoder becomes a result"},
	"remote/limit.meteredBody contexts":                               {1, "io.ReaderAt has no context"},
	"remote/limit.noDeadline contexts":                                {1, "it is a context"},
	"remote/rootlog.State fields":                                     {23, "the content of a root, and of the files that it names"},
	"remote/rootlog.rootBody fields":                                  {19, "the fields of the format"},
}
