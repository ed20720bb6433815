package kist_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const module = "github.com/kist-vcs/kist"

// layers lists every package of the module; "." is the root. A package imports only from lower
// layers, and from its own layer only packages with the same first path element (tree/index may
// import tree, but not refs).
var layers = [][]string{
	{"cmd/kist"},
	{"cmd/kist/commands"},
	{"cmd/kist/commands/look"},
	{"cmd/kist/commands/care"},
	{"cmd/kist/commands/share"},
	{"cmd/kist/commands/convert", "cmd/kist/commands/about"},
	{"cmd/kist/commands/work"},
	{"cmd/kist/show"},
	{"cmd/kist/input"},
	{"cmd/kist/cli/clitest"},
	{"cmd/kist/cli"},
	{"cmd/kist/jsonform", "cmd/kist/mount", "cmd/kist/serve", "cmd/kist/serve/access", "cmd/kist/serve/web", "cmd/kist/serve/dav", "cmd/kist/readable", "cmd/kist/schedule", "cmd/kist/kisttest"},
	{"gc/backup", "gc/repair", "gc/stats", "gc/upgrade"},
	{"remote/exchange"}, // the one knot: fetch and push judge the records of others by gc, gc/purge and gc/retain
	{"gc/rewrite"},
	{"gc/purge", "gc/retain"},
	{"gc"},
	{"remote/exchange/registry"},
	{"tree/work/convert", "tree/work/bisect", "tree/look/log"},
	{"tree/work/commits", "tree/work/stash", "tree/work/rebase", "tree/work/pending", "tree/look/browse", "tree/look/find", "tree/look/blame", "tree/look/grep", "tree/pathspec"},
	{"tree/work/checkout", "tree/work/stage", "tree/views", "tree/look/versions", "tree/look/compare"},
	{"tree/work/operation"},
	{"."},
	{"tree/worktree", "tree/lent", "remote/transfer", "remote/collect", "remote/mirror", "remote/transfertest"},
	{"tree", "tree/index", "tree/ignore", "refs", "refs/history", "object/volume",
		"remote/rootlog", "remote/rootlog/model", "remote/pack", "remote/retry", "remote/limit", "remote/crypt", "remote/keyset", "remote/check", "remote/dir", "remote/s3", "remote/gridfs", "remote/sftp", "remote/web", "remote/httpclient"},
	{"refs/record", "remote/remotetest"},
	{"object/volume/ingest", "object/keys", "object/graph", "object/cache", "object/frame", "object/repack", "object/disk", "object/canonical", "object/sshsig", "object/objecttest"},
	{"object", "object/trace", "chunker", "remote", "docs"},
}

// doors lists the modules and packages that only some packages may import. An empty list stands
// for tests and their helpers. "p_test" allows only the tests of p.
var doors = map[string][]string{
	"github.com/dgraph-io/":                      {"object/volume/ingest", "object/volume_test"},
	"github.com/restic/chunker":                  {"chunker"},
	"github.com/go-git/go-billy":                 {"tree/worktree"},
	"github.com/klauspost/compress":              {"object/frame", "tree/work/checkout", "tree/work/convert", "cmd/kist_test"},
	"github.com/ulikunitz/xz":                    {"tree/work/checkout", "tree/work/convert"},
	"github.com/fxamacker/cbor":                  {"object", "object/canonical", "refs/record", "remote/rootlog", "cmd/kist/commands_test", "cmd/kist_test"},
	"github.com/spf13/":                          {"cmd/kist"},
	"github.com/gabriel-vasile/mimetype":         {"tree"},
	"github.com/BurntSushi/toml":                 {"."},
	"github.com/minio/":                          {"remote/s3", "cmd/kist_test"},
	"gopkg.in/ini.v1":                            {"remote/s3"},
	"go.mongodb.org/":                            {"remote/gridfs"},
	"github.com/pkg/sftp":                        {"remote/sftp"},
	"github.com/alecthomas/chroma":               {"cmd/kist/serve/web"},
	"github.com/yuin/goldmark":                   {"cmd/kist/serve/web"},
	"github.com/chromedp/":                       {"cmd/kist/serve/web_test"},
	"github.com/hanwen/go-fuse/":                 {"cmd/kist/mount"},
	"golang.org/x/term":                          {"cmd/kist"},
	"golang.org/x/time":                          {"remote/limit", "cmd/kist/serve"},
	"golang.org/x/crypto/bcrypt":                 {"cmd/kist/serve"},
	"golang.org/x/crypto/ssh":                    {"object/sshsig", "remote/keyset", "remote/remotetest"},
	"filippo.io/age":                             {"remote/keyset"},
	"golang.org/x/text":                          {"tree/work/convert"},
	module + "/remote/s3":                        {"cmd/kist/cli"},
	module + "/remote/gridfs":                    {"cmd/kist/cli"},
	module + "/remote/sftp":                      {"cmd/kist/cli"},
	module + "/remote/dir":                       {"cmd/kist/cli"},
	module + "/remote/web":                       {"cmd/kist/cli"},
	"github.com/google/go-cmp":                   {},
	"github.com/rogpeppe/go-internal/testscript": {},
	module + "/object/objecttest":                {},
	module + "/remote/remotetest":                {},
	module + "/cmd/kist/cli/clitest":             {},
	module + "/remote/transfertest":              {},
	module + "/cmd/kist/kisttest":                {},
}

// onlyDependency lists the packages at the bottom, each with its only import beyond the standard
// library.
var onlyDependency = map[string]string{
	"object":  "github.com/fxamacker/cbor/v2",
	"chunker": "github.com/restic/chunker",
}

// environment lists the functions that only cmd/kist may call. A library gets the time, the user
// and the settings from its caller.
var environment = []string{
	"os.Getenv", "os.LookupEnv", "os.Environ", "os.ExpandEnv", "os.UserHomeDir", "os.UserConfigDir", "os.UserCacheDir",
	"os.Getwd", "os.Hostname", "os.Exit", "user.Current", "time.Now", "time.Since",
}

func TestImportDirection(t *testing.T) {
	layerOf := map[string]int{}
	for i, packages := range layers {
		for _, pkg := range packages {
			layerOf[pkg] = i
		}
	}

	for _, file := range goFiles(t) {
		pkg := path.Dir(file.path)
		layer, known := layerOf[pkg]
		if !known {
			t.Errorf("%s: package %s is in no layer", file.path, pkg)
			continue
		}

		for _, imported := range file.imports {
			inModule, isOurs := ours(imported)
			isStd := !strings.Contains(strings.Split(imported, "/")[0], ".")
			switch to, ok := layerOf[inModule]; {
			case isOurs && !ok:
				t.Errorf("%s imports %s, which is in no layer", file.path, imported)
			case isOurs && file.test && (inModule == pkg || strings.HasSuffix(inModule, "test")): // a test of its own package, or a test helper
			case isOurs && file.test && (pkg == "." || slices.Contains(file.imports, module+"/cmd/kist/kisttest")): // a test that works on a repository
			case isOurs && to == layer && first(inModule) != first(pkg):
				t.Errorf("%s imports %s, which is in the same layer", file.path, inModule)
			case isOurs && to < layer:
				t.Errorf("%s imports %s, which is in a higher layer", file.path, inModule)
			}

			if only := onlyDependency[pkg]; !file.test && only != "" && !isStd && imported != only {
				t.Errorf("%s imports %s: package %s may import only %s and the standard library", file.path, imported, pkg, only)
			}
			for prefix, allowed := range doors {
				if strings.HasPrefix(imported, prefix) && !file.mayImport(pkg, imported, allowed) {
					t.Errorf("%s imports %s: only the packages %q may", file.path, imported, allowed)
				}
			}
		}
	}
}

// mayImport reports whether the file, in package pkg, may import a package that is reserved for
// the packages in allowed, as in doors.
func (f goFile) mayImport(pkg, imported string, allowed []string) bool {
	if len(allowed) == 0 {
		return f.test || strings.HasSuffix(pkg, "test")
	}
	if _, isOurs := ours(imported); isOurs && f.test {
		return true
	}
	return slices.ContainsFunc(allowed, func(a string) bool {
		return pkg == a || f.test && pkg+"_test" == a || strings.HasPrefix(a, "cmd/") && strings.HasPrefix(pkg, a+"/")
	})
}

func TestLibrariesDoNotReadTheEnvironment(t *testing.T) {
	for _, file := range goFiles(t) {
		if file.test || strings.HasPrefix(file.path, "cmd/") || strings.HasSuffix(path.Dir(file.path), "test") {
			continue
		}
		set, parsed := file.parse(t)
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if name := selector(call.Fun); slices.Contains(environment, name) {
				t.Errorf("%s calls %s: take it from the caller", set.Position(call.Pos()), name)
			}
			return true
		})
	}
}

// inRepository lists the packages that work in .kist and must not follow a symlink there.
var inRepository = []string{".", "tree/index", "object/volume", "object/volume/ingest", "refs", "refs/record", "remote/rootlog", "remote/transfer", "remote/collect", "tree/look/versions", "tree/lent"}

// outsideRepository lists the files of these packages that work elsewhere.
var outsideRepository = []string{"extract.go", "userconfig.go", "object/volume/ingest/space_linux.go"}

// opening lists functions that follow symlinks. Package object/disk has safe ones of the same names.
var opening = []string{
	"os.Open", "os.OpenFile", "os.OpenRoot", "os.Create", "os.CreateTemp", "os.ReadFile", "os.WriteFile", "os.ReadDir", "os.Lstat", "os.Stat",
	"os.Mkdir", "os.MkdirAll", "os.Remove", "os.RemoveAll", "os.Rename", "os.Chmod", "os.Truncate", "filepath.Walk", "filepath.WalkDir", "filepath.Glob",
}

func TestRepositoryIsOpenedByPackageDisk(t *testing.T) {
	for _, file := range goFiles(t) {
		if file.test || !slices.Contains(inRepository, path.Dir(file.path)) || slices.Contains(outsideRepository, file.path) {
			continue
		}
		set, parsed := file.parse(t)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && slices.Contains(opening, selector(e)) {
				t.Errorf("%s uses %s, which follows symlinks: use the function of object/disk", set.Position(e.Pos()), selector(e))
			}
			return true
		})
	}
}

// TestNoTraceOfMachines checks that no file names folders of a developer's machine or servers of
// its dependencies.
func TestNoTraceOfMachines(t *testing.T) {
	dot, slash := ".", "/" // this file must not contain the traces
	traces := []string{
		"proxy" + dot + "golang" + dot + "org", "sum" + dot + "golang" + dot + "org", "goproxy" + dot,
		"registry" + dot + "npmjs", "pypi" + dot + "org", "arti" + "factory",
		slash + "root" + slash, slash + "home" + slash, slash + "Users" + slash, slash + "builds" + slash, slash + "workspace" + slash,
	}

	for proxy := range strings.FieldsFuncSeq(os.Getenv("GOPROXY"), func(r rune) bool { return r == ',' || r == '|' }) {
		if u, err := url.Parse(proxy); err == nil && u.Host != "" {
			traces = append(traces, u.Host)
		}
	}

	for _, dir := range []func() (string, error){os.Getwd, os.UserHomeDir} {
		if dir, err := dir(); err == nil && strings.Count(dir, slash) > 1 {
			traces = append(traces, dir)
		}
	}

	for _, name := range repositoryFiles(t) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}

		if bytes.IndexByte(data, 0) >= 0 {
			continue // not text
		}
		for _, trace := range traces {
			if i := indexPath(data, trace); i >= 0 {
				t.Errorf("%s:%d: %q", name, 1+bytes.Count(data[:i], []byte("\n")), trace)
			}
		}
	}
}

// indexPath returns the index of trace in data, or -1. It skips a trace with a leading slash in
// the middle of a path such as probe/x/root/1.
func indexPath(data []byte, trace string) int {
	for from := 0; ; {
		i := bytes.Index(data[from:], []byte(trace))
		if i < 0 {
			return -1
		}
		from += i
		inside := from > 0 && (data[from-1] == '.' || data[from-1] == '_' || data[from-1] == '>' ||
			unicode.IsLetter(rune(data[from-1])) || unicode.IsDigit(rune(data[from-1])))
		if trace[0] != '/' || !inside {
			return from
		}
		from++
	}
}

// goFile is a Go file of the module.
type goFile struct {
	path    string // with slashes, from the module's root
	imports []string
	test    bool
}

func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	for _, name := range repositoryFiles(t) {
		if filepath.Ext(name) != ".go" || strings.Contains(filepath.ToSlash(name), "testdata/") || inOtherModule(name) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			continue
		}
		file := goFile{path: filepath.ToSlash(name), test: strings.HasSuffix(name, "_test.go")}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Error(err)
			}
			file.imports = append(file.imports, imported)
		}
		files = append(files, file)
	}
	if len(files) < 10 {
		t.Fatalf("only %d Go files found: is this the root of the module?", len(files))
	}
	return files
}

// isProduct reports whether a file is part of the product: no test, and no helper of tests.
func (f goFile) isProduct() bool { return !f.test && !strings.HasSuffix(path.Dir(f.path), "test") }

// parse returns the syntax tree of a file, and the set that has its positions.
func (f goFile) parse(t *testing.T) (*token.FileSet, *ast.File) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, filepath.FromSlash(f.path), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return set, parsed
}

// inOtherModule reports whether a file belongs to a nested module.
func inOtherModule(name string) bool {
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// repositoryFiles returns the files of the repository, without build results and the hidden
// folders of tools.
func repositoryFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") && name != "." && d.Name() != ".ci"
		switch {
		case d.IsDir() && (hidden || name == "bin"):
			return filepath.SkipDir
		case d.Type().IsRegular():
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// ours returns an import path of this module relative to its root.
func ours(imported string) (pkg string, ok bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

func first(pkg string) string {
	name, _, _ := strings.Cut(pkg, "/")
	return name
}

// selector returns an expression such as time.Now as text, or "" for any other expression.
func selector(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + s.Sel.Name
}

// unguarded lists functions and clients of the standard library that the product does not use.
var unguarded = []string{"http.DefaultClient", "http.Get", "http.Head", "http.Post", "http.PostForm"}

// TestGuarded checks that the product runs git at one place only, which keeps git from running the
// programs of a repository. It also checks that each HTTP client has a rule for redirects.
func TestGuarded(t *testing.T) {
	const runsGit = "cmd/kist/cli/program.go"
	for _, file := range goFiles(t) {
		if file.test || strings.HasPrefix(file.path, "cmd/kistbench/") || strings.HasSuffix(path.Dir(file.path), "test") {
			continue
		}
		set, parsed := file.parse(t)

		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if slices.Contains(unguarded, selector(n)) {
					t.Errorf("%s uses %s: use a client with CheckRedirect", set.Position(n.Pos()), selector(n))
				}
			case *ast.CallExpr:
				if file.path != runsGit && startsGit(n) {
					t.Errorf("%s runs git: use safeGit of %s", set.Position(n.Pos()), runsGit)
				}
			case *ast.CompositeLit:
				if n.Type != nil && types.ExprString(n.Type) == "http.Client" && !hasKey(n, "CheckRedirect") {
					t.Errorf("%s: a client without CheckRedirect sends secrets to other hosts", set.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

// startsGit reports whether a call starts a program whose name is git.
func startsGit(call *ast.CallExpr) bool {
	starts := []string{"exec.Command", "exec.CommandContext", "NewCommand", "NewProgram", "cli.NewCommand", "cli.NewProgram"}
	return slices.Contains(starts, types.ExprString(call.Fun)) &&
		slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return types.ExprString(e) == `"git"` })
}

// hasKey reports whether a literal of a struct sets a field.
func hasKey(lit *ast.CompositeLit, field string) bool {
	return slices.ContainsFunc(lit.Elts, func(e ast.Expr) bool {
		pair, ok := e.(*ast.KeyValueExpr)
		return ok && types.ExprString(pair.Key) == field
	})
}
