package web

import (
	"archive/zip"
	_ "embed"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/alecthomas/chroma/v2"
)

// lexerFiles is a zip file of chroma's lexers in XML, with chroma's licence. Chroma's own package
// of lexers reads all of them at the start of every process, and would add all its code.
// The test TestLexerFiles writes the file with -update; it has the choice.
//
//go:embed lexers.zip
var lexerFiles string

// lexers returns the lexers of [lexerFiles]. Each reads its rules when it is used first.
var lexers = sync.OnceValue(func() *chroma.LexerRegistry {
	registry := chroma.NewLexerRegistry()
	files, err := zip.NewReader(strings.NewReader(lexerFiles), int64(len(lexerFiles)))
	if err != nil {
		return registry
	}
	names, err := fs.Glob(files, "*.xml")
	if err != nil {
		return registry
	}
	for _, name := range names {
		if lexer, err := chroma.NewXMLLexer(files, name); err == nil {
			registry.Register(lexer)
		}
	}
	return registry
})

// maxLanguage is the longest name of a language that [lexerOf] looks for.
const maxLanguage = 40

// lexerOf returns the lexer for the name of a language, or nil.
func lexerOf(language string) *chroma.RegexLexer {
	if len(language) > maxLanguage {
		return nil
	}
	lexer, _ := lexers().Get(language).(*chroma.RegexLexer)
	return lexer
}

// lexerFor returns the lexer for a file of a name, or nil.
func lexerFor(name string) *chroma.RegexLexer {
	lexer, _ := lexers().Match(path.Base(name)).(*chroma.RegexLexer)
	return lexer
}
