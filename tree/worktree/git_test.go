package worktree

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// makers are the methods of folderWriter that make or replace a name.
var makers = []string{"create", "rename", "renameNew", "mkdir", "symlink", "mknod", "link"}

// writingMethods are the exported methods that reach makers. Each has a reason why it makes
// nothing in a folder of git, or a call that is refused.
var writingMethods = map[string]struct {
	safe string
	call func(f *fixture, path string) error
}{
	"Apply": {call: func(f *fixture, path string) error {
		e := object.Entry{Type: object.TypeFile, Mode: 0o644, Size: 1, Inline: []byte("x")}
		_, err := f.w.Apply(ctx, f.store, []Op{{Path: path, New: &e}}, ApplyOptions{})
		return err
	}},
	"Rename": {call: func(f *fixture, path string) error {
		f.write("other", "x")
		if err := f.w.Rename(path, "new"); !errors.Is(err, ErrGit) {
			return err
		}
		return f.w.Rename("other", path)
	}},

	"Chunk":       {safe: "writes to a temporary file, which Apply moves"},
	"WriteEarly":  {safe: "makes temporary files, which Apply moves"},
	"Store":       {safe: "makes a temporary file to read the clock"},
	"StoreAll":    {safe: "makes a temporary file to read the clock"},
	"StoreStream": {safe: "makes a temporary file to read the clock"},
	"Confirm":     {safe: "makes a temporary file to read the clock"},
	"Check":       {safe: "makes a temporary file to read the clock"},
	"Pending":     {safe: "makes a temporary file to read the clock"},
}

// Every exported method that can make a name refuses those of git. The list of methods is
// made from the code: a new one fails the test until it is in the table.
func TestGitWriters(t *testing.T) {
	list := reachMakers(t)
	for _, name := range list {
		if _, known := writingMethods[name]; !known {
			t.Errorf("the method %s can write to a worktree: give it a row in writingMethods", name)
		}
	}

	for name, m := range writingMethods {
		if m.call == nil {
			continue
		}
		if !slices.Contains(list, name) {
			t.Errorf("the method %s writes nothing: remove its row", name)
		}
		for _, path := range []string{".git", ".git/config", "sub/.git", "sub/.git/hooks/post-checkout", "sub/.GIT/config", "GIT~1", ".g\u200cit/config"} {
			each(t, func(t *testing.T, f *fixture) {
				f.mkdir("sub")
				if err := m.call(f, path); !errors.Is(err, ErrGit) {
					t.Errorf("%s of %q: error %v, want ErrGit", name, path, err)
				}
				if f.w.Exists(path) {
					t.Errorf("%s made %q", name, path)
				}
			})
		}
	}
}

// reachMakers returns the exported methods that reach makers, sorted. It matches calls by name
// alone, so the list may be too long, but not too short.
func reachMakers(t *testing.T) []string {
	t.Helper()
	reach := map[string]bool{}
	for _, name := range makers {
		reach["."+name] = true
	}

	uses, exported := usesByFunction(t)
	for more := true; more; {
		more = false
		for f, used := range uses {
			if !reach[f] && slices.ContainsFunc(used, func(u string) bool { return reach[u] }) {
				reach[f], more = true, true
			}
		}
	}

	var list []string
	for name := range exported {
		if reach["."+name] {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// usesByFunction returns the functions and methods that each function of the package uses,
// and the exported methods. Names of methods begin with a dot.
func usesByFunction(t *testing.T) (uses map[string][]string, exported map[string]bool) {
	t.Helper()
	uses, exported = map[string][]string{}, map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			key := f.Name.Name
			if f.Recv != nil {
				key = "." + key
				exported[f.Name.Name] = exported[f.Name.Name] || f.Name.IsExported()
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					uses[key] = append(uses[key], "."+n.Sel.Name)
				case *ast.CallExpr:
					if called, ok := n.Fun.(*ast.Ident); ok {
						uses[key] = append(uses[key], called.Name)
					}
				}
				return true
			})
		}
	}
	maps.DeleteFunc(exported, func(_ string, is bool) bool { return !is })
	return uses, exported
}

// Apply writes everything else, and names each folder of git once. Options.Git permits them.
func TestApplyLeavesGit(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		file := object.Entry{Type: object.TypeFile, Mode: 0o644, Size: 1, Inline: []byte("x")}
		dir := object.Entry{Type: object.TypeDir, Mode: 0o755}
		ops := []Op{
			{Path: "a", New: &file}, {Path: ".git", New: &dir}, {Path: ".git/config", New: &file}, {Path: ".git/HEAD", New: &file},
			{Path: "sub/.git", New: &file}, {Path: "sub/b", New: &file},
		}
		applied, err := f.w.Apply(ctx, f.store, ops, ApplyOptions{})
		var failed *ApplyError
		if !errors.As(err, &failed) || failed.Stopped {
			t.Fatalf("Apply: error %v, want an ApplyError", err)
		}
		var named, done []string
		for _, f := range failed.Failed {
			named = append(named, f.Path)
		}
		for _, a := range applied {
			done = append(done, a.Path)
		}
		same(t, "failed", named, []string{".git", "sub/.git"})
		same(t, "applied", done, []string{"a", "sub/b"})
		if f.w.Exists(".git") || f.w.Exists("sub/.git") {
			t.Error("Apply made a folder of git")
		}

		f.w.AllowGit()
		if _, err := f.w.Apply(ctx, f.store, ops, ApplyOptions{KeepGit: true}); !errors.Is(err, ErrGit) || f.w.Exists(".git") {
			t.Errorf("Apply with KeepGit: error %v, want ErrGit", err)
		}
		if _, err := f.w.Apply(ctx, f.store, ops, ApplyOptions{}); err != nil || !f.w.Exists(".git/HEAD") || !f.w.Exists("sub/.git") {
			t.Errorf("Apply with Options.Git: error %v", err)
		}
	})
}

// Apply removes nothing from git's folders. A path that is absent already is no failure.
func TestApplyKeepsGit(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.write(".git/config", "x")
		old := index.NewEntry(object.Entry{Type: object.TypeFile, Mode: 0o644}, index.Stat{})
		_, err := f.w.Apply(ctx, f.store, []Op{{Path: ".git/config", Old: &old}, {Path: ".git"}}, ApplyOptions{})
		if !errors.Is(err, ErrGit) || !f.w.Exists(".git/config") {
			t.Errorf("removal: error %v, want ErrGit", err)
		}

		applied, err := f.w.Apply(ctx, f.store, []Op{{Path: "gone/.git/config", Old: &old}, {Path: "gone/.git"}}, ApplyOptions{})
		if err != nil || len(applied) != 2 {
			t.Errorf("removal of absent paths: %v, error %v, want both done", applied, err)
		}
	})
}

// A scan leaves out git's folder unless kist has read or written it here.
func TestScanGit(t *testing.T) {
	f := newReal(t)
	f.write("a", "1")
	f.write(".git/config", "own")
	check := func(o ScanOptions, want ...string) {
		t.Helper()
		same(t, "scan", f.scan(o), append([]string{}, want...))
	}
	check(ScanOptions{}, "untracked a")
	check(ScanOptions{Git: true}, "untracked .git/", "untracked .git/config", "untracked a")

	// The index has another one, of a commit that was not written here.
	other := index.NewEntry(object.Entry{Type: object.TypeFile, Mode: 0o644, Size: 5, Inline: []byte("other")}, index.Stat{})
	f.check(f.idx.Set(".git/config", other))
	check(ScanOptions{}, "untracked a")
	untracked, unwritten := f.w.LeftOutGit()
	same(t, "left out", untracked, []string(nil))
	same(t, "unwritten", unwritten, []string{".git"})
	check(ScanOptions{Git: true}, "modified .git/config", "untracked a")

	// From now on it is the one that lies here.
	info, err := f.w.Lstat(".git/config")
	f.check(err)
	f.check(f.idx.Set(".git/config", index.NewEntry(object.Entry{Type: object.TypeFile, Mode: 0o644, Size: 3, Inline: []byte("own")}, info.Stat)))
	f.write(".git/config", "changed")
	check(ScanOptions{}, "modified .git/config", "untracked a")
	f.check(os.RemoveAll(filepath.Join(f.root, ".git")))
	check(ScanOptions{}, "deleted .git/", "deleted .git/config", "untracked a")
}
