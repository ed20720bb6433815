package kist_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// avoided has the patterns that docs/style.md forbids, with the reason.
var avoided = map[string]*regexp.Regexp{
	"a clause used as a noun":    regexp.MustCompile(`(?i)\bwhat\s+(is|was|are|were|has|it|they)\b`),
	"told, said or tells":        regexp.MustCompile(`(?i)\b(told|said|tells|telling)\b`),
	"a word that style.md lists": regexp.MustCompile(`(?i)\b(anew|but\s+for|of\s+which|lets\s+go|those\s+that|these\s+are\s+to|wholly|lacking)\b`),
}

// maxWords is the length of a sentence above which it counts as too long.
const maxWords = 30

// TestProse checks all comments, help texts, messages of errors and tests, and pages for the
// patterns that docs/style.md avoids. That page itself has examples of them, and so has this file.
func TestProse(t *testing.T) {
	for _, name := range repositoryFiles(t) {
		if filepath.Ext(name) != ".go" || name == "prose_test.go" {
			continue
		}
		for _, text := range texts(t, name) {
			for _, f := range findings(name, text) {
				t.Error(f)
			}
		}
	}

	pages, err := filepath.Glob("docs/*/*.md")
	more, err2 := filepath.Glob("docs/*.md")
	if err != nil || err2 != nil || len(pages) == 0 || len(more) == 0 {
		t.Fatal("no pages", err, err2)
	}

	for _, page := range slices.Concat(pages, more, []string{"README.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md"}) {
		if page == filepath.Join("docs", "style.md") {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for paragraph := range strings.SplitSeq(string(text), "\n\n") {
			for _, f := range findings(page, paragraph) {
				t.Error(f)
			}
		}
	}
}

func TestFindings(t *testing.T) {
	for text, want := range map[string]int{
		"Get returns the object.":                                 0,
		"Get returns what is there.":                              1,
		"The caller is told. It is made anew.":                    2,
		strings.Repeat("word ", maxWords) + "end.":                1,
		strings.Repeat("Short sentence. ", 40):                    0,
		"|a table | has no sentences|" + strings.Repeat(" x", 99): 0,
	} {
		if got := findings("f", text); len(got) != want {
			t.Errorf("%q: %q, want %d", text, got, want)
		}
	}
}

// texts returns the paragraphs of a file's comments, without their markers, and of its help
// texts and messages.
func texts(t *testing.T, file string) (list []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range parsed.Comments {
		for paragraph := range strings.SplitSeq(group.Text(), "\n\n") {
			list = append(list, paragraph)
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		var text ast.Expr
		switch n := n.(type) {
		case *ast.CallExpr:
			if len(n.Args) > 0 && takesMessage(n.Fun) {
				text = n.Args[0]
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Short" || key.Name == "Long") {
				text = n.Value
			}
		}
		if literal, ok := text.(*ast.BasicLit); ok {
			list = slices.AppendSeq(list, strings.SplitSeq(strings.Trim(literal.Value, "`\""), "\n\n"))
		}
		return true
	})
	return list
}

// takesMessage reports whether the first argument of a function is the message of an error or a
// test.
func takesMessage(function ast.Expr) bool {
	f, ok := function.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"New", "Error", "Errorf", "Fatal", "Fatalf", "Log", "Logf", "Skip", "Skipf"}, f.Sel.Name)
}

var sentenceEnd = regexp.MustCompile(`[.:;?!](\s|$)|\n\s*[-*] |\s·\s`)

// findings returns the avoided patterns and the long sentences of a paragraph.
// Indented text and tables are no prose.
func findings(file, text string) (list []string) {
	if strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "  ") || strings.HasPrefix(strings.TrimSpace(text), "|") || strings.HasPrefix(text, "```") {
		return nil
	}
	for why, pattern := range avoided {
		for _, found := range pattern.FindAllString(text, -1) {
			list = append(list, file+": "+why+": "+found)
		}
	}
	for _, sentence := range sentenceEnd.Split(text, -1) {
		if words := strings.Fields(sentence); len(words) > maxWords {
			list = append(list, file+": a sentence of more than "+strconv.Itoa(maxWords)+" words: "+strings.Join(words, " ")+"")
		}
	}
	return list
}
