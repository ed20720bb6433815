package web

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/chroma/v2"
	all "github.com/alecthomas/chroma/v2/lexers"
)

var update = flag.Bool("update", false, "write lexers.zip instead of comparing it")

// reference finds the languages that a lexer uses for parts of a text.
var reference = regexp.MustCompile(`<using lexer="([^"]*)"`)

// TestLexerFiles checks that lexers.zip has the chosen lexers of the module's version.
func TestLexerFiles(t *testing.T) {
	want := chosenLexers(t)
	if *update {
		writeLexers(t, want)
	}

	files, err := zip.OpenReader("lexers.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	got := map[string]string{}
	for _, file := range files.File {
		r, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[file.Name] = string(data)
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s differs from chroma's; run this test with -update", name)
		}
	}
	for name := range got {
		if want[name] == "" {
			t.Errorf("%s is none of chroma's lexers; run this test with -update", name)
		}
	}
}

// TestLexers checks that each lexer of lexers.zip can be read, and finds the files that it is for.
func TestLexers(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: no work for the race detector")
	}

	if n, want := len(lexers().Lexers), len(chosenLexers(t))-1; n != want || n < 250 {
		t.Errorf("%d lexers, want %d", n, want)
	}
	for name, data := range chosenLexers(t) {
		for _, m := range reference.FindAllStringSubmatch(data, -1) {
			if lexers().Get(m[1]) == nil {
				t.Errorf("%s uses the lexer %s, which is not there", name, m[1])
			}
		}
	}
	for _, lexer := range lexers().Lexers {
		if _, err := lexer.Tokenise(nil, "a"); err != nil {
			t.Errorf("%s: %v", lexer.Config().Name, err)
		}
	}
	for name, want := range map[string]string{
		"a/main.go": "Go", "x.py": "Python", "x.c": "C", "x.rs": "Rust", "x.js": "JavaScript", "x.html": "HTML", "x.json": "JSON",
		"x.yml": "YAML", "Makefile": "Makefile", "Dockerfile": "Docker", "x.sh": "Bash", "x.toml": "TOML", "x.pl": "Perl", "x.h": "C",
	} {
		if lexer := lexerFor(name); lexer == nil || lexer.Config().Name != want {
			t.Errorf("the lexer for %s is %v, want %s", name, lexer, want)
		}
	}
	for _, name := range []string{"x.md", "x.rst", "x.raku", "x.phtml", "x.unknown", ""} {
		if lexer := lexerFor(name); lexer != nil {
			t.Errorf("the lexer for %q is %v, want none", name, lexer)
		}
	}
}

// chosenLexers returns the files of lexers.zip, made from the module: its lexers in XML, and the
// licence. A lexer that reads a block of another language at once is left out: it cannot be
// stopped between two words. Lexers in Go have functions beside their rules, so they are left
// out, too. Only that of the language Go is written as XML: a text in quotation marks is one word
// then, not a template.
func chosenLexers(t *testing.T) map[string]string {
	t.Helper()
	dir := moduleDir(t)
	licence, _, _ := strings.Cut(readFile(t, filepath.Join(dir, "COPYING")), "\n\n\n") // the rest is about a font
	golang, err := chroma.Marshal(withoutTemplates(all.Go.(*chroma.RegexLexer)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"COPYING": licence + "\n", "go.xml": string(golang)}

	names, err := filepath.Glob(filepath.Join(dir, "lexers", "embedded", "*.xml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if data := readFile(t, name); !strings.Contains(data, "<usingbygroup") {
			files[filepath.Base(name)] = data
		}
	}
	return files
}

// withoutTemplates returns the lexer of Go, whose strings are words.
func withoutTemplates(lexer *chroma.RegexLexer) *chroma.RegexLexer {
	rules := lexer.MustRules().Clone()
	for i, rule := range rules["root"] {
		if strings.HasPrefix(rule.Pattern, "(`)") {
			rules["root"][i] = chroma.Rule{Pattern: "`[^`]*`", Type: chroma.LiteralString}
		}
	}
	return chroma.MustNewLexer(lexer.Config(), func() chroma.Rules { return rules })
}

// moduleDir returns the folder of chroma's module.
func moduleDir(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/alecthomas/chroma/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func writeLexers(t *testing.T, files map[string]string) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("lexers.zip", b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}
