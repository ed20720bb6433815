package kist_test

import (
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readPage returns the text of a file of the repository.
func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// inFirstCells returns all matches of the pattern's first group in the first cells of the tables of
// a page.
func inFirstCells(t *testing.T, page string, pattern *regexp.Regexp) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(readPage(t, page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || cells[0] != "" {
			continue
		}
		for _, match := range pattern.FindAllStringSubmatch(cells[1], -1) {
			found = append(found, match[1])
		}
	}
	return found
}

// wantSame reports names that only the page has, or only the code.
func wantSame(t *testing.T, page string, onPage, inCode []string) {
	t.Helper()
	if len(inCode) < 10 {
		t.Fatalf("the code has only %q: does the test look in the right place?", inCode)
	}
	for _, name := range inCode {
		if !slices.Contains(onPage, name) {
			t.Errorf("%s lacks %s", page, name)
		}
	}
	for _, name := range onPage {
		if !slices.Contains(inCode, name) {
			t.Errorf("%s has %s, which is not in the code", page, name)
		}
	}
}

func TestPageOfPackages(t *testing.T) {
	const page = "docs/architecture.md"
	var packages []string
	for _, file := range goFiles(t) {
		if dir := path.Dir(file.path); dir != "." && !slices.Contains(packages, dir) {
			packages = append(packages, dir)
		}
	}
	rows := inFirstCells(t, page, regexp.MustCompile("`((?:cmd|gc|object|refs|remote|tree|chunker|docs)[a-z0-9/]*)`"))
	wantSame(t, page, rows, packages)
}

func TestPageOfDependencies(t *testing.T) {
	const page = "docs/decisions/dependencies.md"
	direct, _, _ := strings.Cut(readPage(t, "go.mod"), "\n)")
	var modules []string
	for _, match := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(direct, -1) {
		modules = append(modules, match[1])
	}
	wantSame(t, page, inFirstCells(t, page, regexp.MustCompile(`^ ((?:filippo|github|go|golang|gopkg)\.\S+) $`)), modules)
}

// TestPageOfEnvironment compares the page with the names that the product passes to a function such
// as os.Getenv, and with all texts that look like variables of kist or of AWS.
func TestPageOfEnvironment(t *testing.T) {
	const page = "docs/environment.md"
	onPage := inFirstCells(t, page, regexp.MustCompile("`([A-Z][A-Z0-9_]+)`"))
	read, texts := map[string]bool{}, map[string]bool{}
	ours := regexp.MustCompile(`^(KIST|AWS)_[A-Z0-9_]+$`)
	for _, file := range goFiles(t) {
		if !file.isProduct() {
			continue
		}
		_, parsed := file.parse(t)
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				name := strings.Trim(n.Value, `"`)
				texts[name] = true
				read[name] = read[name] || ours.MatchString(name)
			case *ast.CallExpr:
				if name := readVariable(n); name != strings.ToLower(name) {
					read[name] = true
				}
			}
			return true
		})
	}

	delete(read, "")
	for name, isRead := range read {
		if isRead && !slices.Contains(onPage, name) {
			t.Errorf("%s lacks %s", page, name)
		}
	}
	for _, name := range onPage {
		if !texts[name] {
			t.Errorf("%s has %s, which is not in the code", page, name)
		}
	}
	if len(read) < 30 {
		t.Errorf("found only %d variables in the code: does another function read them now?", len(read))
	}
}

// readVariable returns the name of the variable that a call reads, or "".
func readVariable(call *ast.CallExpr) string {
	var function string
	switch f := call.Fun.(type) {
	case *ast.Ident:
		function = f.Name
	case *ast.SelectorExpr:
		function = f.Sel.Name
	}
	if !slices.Contains([]string{"Getenv", "getenv", "LookupEnv"}, function) || len(call.Args) != 1 {
		return ""
	}
	name, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return ""
	}
	return strings.Trim(name.Value, `"`)
}

// TestPageOfChanges checks that the top section of the changelog is about the version in the code.
func TestPageOfChanges(t *testing.T) {
	code := readPage(t, "cmd/kist/cli/version.go")
	version := regexp.MustCompile(`\tVersion\s+= "(\d+\.\d+\.\d+)"`).FindStringSubmatch(code)
	released := regexp.MustCompile(`\tReleased\s+= "(\d{4}-\d\d-\d\d)"`).FindStringSubmatch(code)
	if version == nil || released == nil {
		t.Fatal("version.go has no version and day")
	}
	want := "## " + version[1] + ", " + released[1]
	if got := regexp.MustCompile(`(?m)^## .*$`).FindString(readPage(t, "docs/CHANGELOG.md")); got != want {
		t.Errorf("the top section of docs/CHANGELOG.md is %q, want %q", got, want)
	}
}

// TestPageLinks checks that the files to which pages link exist, and the sections in them.
func TestPageLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^():\s]+)\)`)
	for _, page := range pageFiles(t) {
		for _, match := range link.FindAllStringSubmatch(indented.ReplaceAllString(readPage(t, page), ""), -1) {
			file, section, _ := strings.Cut(match[1], "#")
			target := path.Join(path.Dir(page), file)
			if file == "" {
				target = page
			}
			info, err := os.Stat(target)
			if err != nil {
				t.Errorf("%s links to %s, which does not exist", page, match[1])
			} else if section != "" && !info.IsDir() && !slices.Contains(sections(t, target), section) {
				t.Errorf("%s links to %s, and that page has no such section", page, match[1])
			}
		}
	}
}

// pageFiles returns the Markdown files of the project.
func pageFiles(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md"}
	for _, pattern := range []string{".github/*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %q, %v", pattern, found, err)
		}
		pages = append(pages, found...)
	}
	return pages
}

// TestPagesInMessages checks that messages and help name no file of docs: it is not installed. They
// name a topic of 'kist help'.
func TestPagesInMessages(t *testing.T) {
	page := regexp.MustCompile(`docs/[a-z/]+\.md`)
	for _, file := range goFiles(t) {
		if !file.isProduct() {
			continue
		}
		_, parsed := file.parse(t)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && page.MatchString(text.Value) {
				t.Errorf("%s names %s: use a topic of 'kist help'", file.path, page.FindString(text.Value))
			}
			return true
		})
	}
}

var indented = regexp.MustCompile(`(?m)^    .*$`)

var headings = regexp.MustCompile(`(?m)^#+ (.*)$`)

// sections returns the anchors of a page's headings, as GitHub makes them.
func sections(t *testing.T, page string) []string {
	t.Helper()
	anchors := map[string]bool{}
	for _, match := range headings.FindAllStringSubmatch(readPage(t, page), -1) {
		kept := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case strings.ContainsRune("`.,:;?!()*/'\"@{}[]<>|+=&", r):
				return -1
			}
			return r
		}, strings.ToLower(match[1]))
		anchors[kept] = true
	}
	return slices.Collect(maps.Keys(anchors))
}
