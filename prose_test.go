package kist_test

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// avoided has the patterns that docs/style.md forbids, with the reason.
var avoided = map[string]*regexp.Regexp{
	"a clause used as a noun":    regexp.MustCompile(`(?i)\bwhat (is|was|are|were|has|it|they)\b`),
	"told, said or tells":        regexp.MustCompile(`(?i)\b(told|said|tells|telling)\b`),
	"a word that style.md lists": regexp.MustCompile(`(?i)\b(anew|but for|of which|lets go|those that|these are to|wholly|lacking)\b`),
}

// maxWords is the length of a sentence above which it counts as too long.
const maxWords = 40

// TestProse checks the comments of the code and the generated pages of help for
// the patterns that docs/style.md avoids. Folders that are not clean yet may have
// as many findings as remaining allows; lower the number when you remove some.
func TestProse(t *testing.T) {
	found := map[string][]string{}
	for _, file := range goFiles(t) {
		if !file.test {
			for _, text := range comments(t, file.path) {
				found[path.Dir(file.path)] = append(found[path.Dir(file.path)], findings(file.path, text)...)
			}
		}
	}
	pages, err := filepath.Glob("docs/reference/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no pages of reference", err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for paragraph := range strings.SplitSeq(string(text), "\n\n") {
			found["docs/reference"] = append(found["docs/reference"], findings(page, paragraph)...)
		}
	}
	for dir, list := range found {
		if len(list) > remaining[dir] {
			t.Errorf("%s has %d findings, %d are allowed:\n%s", dir, len(list), remaining[dir], strings.Join(list, "\n"))
		}
	}
	for dir, n := range remaining {
		if len(found[dir]) < n {
			t.Logf("%s has %d findings left, not %d: lower its number", dir, len(found[dir]), n)
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

// comments returns the comment groups of a file, without their markers.
func comments(t *testing.T, file string) (list []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(file), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range parsed.Comments {
		for paragraph := range strings.SplitSeq(group.Text(), "\n\n") {
			list = append(list, paragraph)
		}
	}
	return list
}

var sentenceEnd = regexp.MustCompile(`[.:;?!](\s|$)|\n\s+[-*] `)

// findings returns the avoided patterns and the long sentences of a paragraph.
// Indented text and tables are no prose.
func findings(file, text string) (list []string) {
	if strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "    ") || strings.HasPrefix(text, "|") || strings.HasPrefix(text, "```") {
		return nil
	}
	for why, pattern := range avoided {
		for _, found := range pattern.FindAllString(text, -1) {
			list = append(list, file+": "+why+": "+found)
		}
	}
	for _, sentence := range sentenceEnd.Split(text, -1) {
		if words := strings.Fields(sentence); len(words) > maxWords {
			list = append(list, file+": a sentence of more than 40 words: "+strings.Join(words[:8], " ")+" …")
		}
	}
	return list
}

// remaining has, for folders that are not clean yet, the number of findings that
// they may have.
var remaining = map[string]int{}
