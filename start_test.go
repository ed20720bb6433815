package kist_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// slowAtStart lists functions that no package may call before main. Every command would pay
// for them: such a value is made by sync.OnceValue, when it is needed first.
var slowAtStart = []string{"regexp.MustCompile", "regexp.Compile", "regexp.MustCompilePOSIX", "template.Must", "template.New", "zip.NewReader"}

// TestStartOfPackages checks that package-level variables are cheap.
func TestStartOfPackages(t *testing.T) {
	if got := madeBeforeMain(t, "x.go", `package x
		var a = regexp.MustCompile("a")
		var b = func() *regexp.Regexp { return regexp.MustCompile("b") }()
		var c = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("c") })
		func d() { regexp.MustCompile("d") }
		func init() { template.Must(nil, nil) }
	`); len(got) != 3 {
		t.Errorf("found %q, want those of a, b and init", got)
	}

	for _, file := range goFiles(t) {
		if file.test {
			continue
		}
		for _, place := range madeBeforeMain(t, filepath.FromSlash(file.path), nil) {
			t.Errorf("%s before main: use sync.OnceValue", place)
		}
	}
}

// madeBeforeMain returns the calls of slow functions that a file makes before main.
func madeBeforeMain(t *testing.T, name string, source any) (calls []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}

	look := func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		called := selected(call.Fun)
		if slices.Contains(slowAtStart, called) {
			calls = append(calls, set.Position(call.Pos()).String()+" calls "+called)
		}
		return called != "sync.OnceValue" && called != "sync.OnceValues" && called != "sync.OnceFunc"
	}

	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			ast.Inspect(d, look)
		case *ast.FuncDecl:
			if d.Name.Name == "init" && d.Recv == nil {
				ast.Inspect(d, look)
			}
		}
	}
	return calls
}

// selected returns the text of a function of a package, such as regexp.MustCompile, or "".
func selected(fun ast.Expr) string {
	if s, ok := fun.(*ast.SelectorExpr); ok {
		if pkg, ok := s.X.(*ast.Ident); ok {
			return pkg.Name + "." + s.Sel.Name
		}
	}
	return ""
}
