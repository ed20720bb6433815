package find

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// SyntaxError is an error in an expression. Word counts from 0. It is the number of words if
// the expression ends too early.
type SyntaxError struct {
	Words []string
	Word  int
	Err   error
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("word %d: %v", e.Word+1, e.Err) }

func (e *SyntaxError) Unwrap() error { return e.Err }

// test decides about a file. Cheap tests run first.
type test struct {
	cost  testCost
	match func(ctx context.Context, f *File) (bool, error)

	// reads returns what match reads of the content of a file. Nil: nothing.
	reads func(ctx context.Context, f *File) []object.Entry
}

type testCost int

const (
	fromEntry   testCost = iota // of the name and the entry
	fromTree                    // other entries, or the list of chunks
	fromContent                 // reads content
)

// Names of the operators.
const (
	opAnd   = "and"
	opOr    = "or"
	opNot   = "not"
	opOpen  = "("
	opClose = ")"
)

// maxNested bounds how deep operators and parentheses are nested.
const maxNested = 200

// parser reads an expression: tests in disjunctions of conjunctions.
type parser struct {
	words  []string
	at     int
	nested int
	test   func(word string) (test, error)
}

// parseExpr reads an expression, one operator or test in each word. The function makes a test.
// The error is a [*SyntaxError]. An empty expression accepts every file.
func parseExpr(words []string, makeTest func(word string) (test, error)) (test, error) {
	p := &parser{words: words, test: makeTest}
	if len(words) == 0 {
		return allOf(nil), nil
	}
	t, err := p.parseOr()
	if err == nil && p.at < len(words) {
		err = errors.New("no ( before this )")
	}
	if err != nil {
		return test{}, &SyntaxError{words, p.at, err}
	}
	return t, nil
}

// peekWord returns the word to read, "" at the end.
func (p *parser) peekWord() string {
	if p.at == len(p.words) {
		return ""
	}
	return p.words[p.at]
}

func (p *parser) parseOr() (test, error) {
	var list []test
	for {
		t, err := p.parseAnd()
		if err != nil {
			return t, err
		}
		list = append(list, t)
		if p.peekWord() != opOr {
			return anyOf(list), nil
		}
		p.at++
	}
}

func (p *parser) parseAnd() (test, error) {
	var list []test
	for {
		t, err := p.parseNot()
		if err != nil {
			return t, err
		}
		list = append(list, t)
		switch {
		case p.at == len(p.words) || p.peekWord() == opOr || p.peekWord() == opClose:
			return allOf(list), nil
		case p.peekWord() == opAnd:
			p.at++
		}
	}
}

// parseNot reads a test, the negation of one, or an expression in parentheses.
func (p *parser) parseNot() (test, error) {
	if p.nested++; p.nested > maxNested {
		return test{}, fmt.Errorf("more than %d operators and parentheses inside each other", maxNested)
	}
	defer func() { p.nested-- }()

	switch word := p.peekWord(); {
	case p.at == len(p.words):
		return test{}, errors.New("a test is missing at the end")
	case word == opAnd || word == opOr || word == opClose:
		return test{}, fmt.Errorf("a test is missing before %q; a file of this name is name=%s", word, word)
	case word == opNot || word == "!":
		p.at++
		t, err := p.parseNot()
		return negate(t), err
	case word == opOpen:
		p.at++
		t, err := p.parseOr()
		if err == nil && p.peekWord() != opClose {
			err = errors.New("a ) is missing at the end")
		}
		if err == nil {
			p.at++
		}
		return t, err
	default:
		t, err := p.test(word)
		if err == nil {
			p.at++
		}
		return t, err
	}
}

// allOf returns a test that accepts what every test of list accepts.
func allOf(list []test) test { return combineTests(list, true) }

// anyOf returns a test that accepts what at least one test of list accepts.
func anyOf(list []test) test { return combineTests(list, false) }

// combineTests returns a test with the result usual, unless a test of list has the other result. Cheap
// tests run first, because one such result is enough.
func combineTests(list []test, usual bool) test {
	if len(list) == 1 {
		return list[0]
	}
	slices.SortStableFunc(list, func(a, b test) int { return int(a.cost - b.cost) })
	c := fromEntry
	for _, t := range list {
		c = max(c, t.cost)
	}
	match := func(ctx context.Context, f *File) (bool, error) {
		for _, t := range list {
			if ok, err := t.match(ctx, f); err != nil || ok != usual {
				return ok, err
			}
		}
		return usual, nil
	}
	reads := func(ctx context.Context, f *File) (entries []object.Entry) {
		for _, t := range list {
			if t.reads != nil {
				entries = append(entries, t.reads(ctx, f)...)
			} else if ok, err := t.match(ctx, f); err != nil || ok != usual {
				break
			}
		}
		return entries
	}
	if !slices.ContainsFunc(list, func(t test) bool { return t.reads != nil }) {
		reads = nil
	}
	return test{c, match, reads}
}

func negate(t test) test {
	match := func(ctx context.Context, f *File) (bool, error) {
		ok, err := t.match(ctx, f)
		return !ok, err
	}
	return test{t.cost, match, t.reads}
}

// splitWord returns the key and value of a test. A word without a key is a pattern: of a path
// if it has a slash, otherwise of a name.
func splitWord(word string) (key, value string) {
	if key, value, ok := strings.Cut(word, "="); ok {
		return key, value
	}
	if strings.Contains(word, "/") {
		return "path", word
	}
	return "name", word
}
