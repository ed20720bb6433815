package find

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

var implied = regexp.MustCompile(`([tf)])([tf(!])`) // places of implied "and"s

// rules are the rewriting steps of the oracle, strongest operators first.
var rules = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`!t`), "f"},
	{regexp.MustCompile(`!f`), "t"},
	{regexp.MustCompile(`\(([tf])\)`), "$1"},
	{regexp.MustCompile(`(^|[^!])t&t`), "${1}t"},
	{regexp.MustCompile(`(^|[^!])(?:f&[tf]|t&f)`), "${1}f"},
	{regexp.MustCompile(`(^|[(|])f\|f($|[)|])`), "${1}f$2"},
	{regexp.MustCompile(`(^|[(|])(?:t\|[tf]|f\|t)($|[)|])`), "${1}t$2"},
}

// oracle evaluates an expression of the tests t and f by rewriting its text. It returns "t" or
// "f", and something else for an invalid expression.
func oracle(words []string) string {
	text := ""
	for _, w := range words {
		switch w {
		case "t", "f", "(", ")":
			text += w
		case "and":
			text += "&"
		case "or":
			text += "|"
		case "not", "!":
			text += "!"
		default:
			return "unknown"
		}
	}

	for implied.MatchString(text) {
		text = implied.ReplaceAllString(text, "$1&$2")
	}

	for again := true; again; {
		again = false
		for _, r := range rules {
			if next := r.from.ReplaceAllString(text, r.to); next != text {
				text, again = next, true
				break
			}
		}
	}
	return text
}

func letters(word string) (test, error) {
	if word != "t" && word != "f" {
		return test{}, errors.New("unknown")
	}
	return ofEntry(func(*File) bool { return word == "t" }), nil
}

// evaluate returns parse's result in the form of the oracle's.
func evaluate(t *testing.T, words []string) string {
	parsed, err := parseExpr(words, letters)
	if err != nil {
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Word < 0 || syntax.Word > len(words) {
			t.Fatalf("%q: error %#v without a position", words, err)
		}
		return "error"
	}
	ok, err := parsed.match(context.Background(), &File{})
	if err != nil {
		t.Fatal(err)
	}
	return map[bool]string{true: "t", false: "f"}[ok]
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"t", "t f", "t or f t", "not ( t or f ) and t", "! not t", "( ( f ) )", "t or", "or", "( t", "t )", "not", "t and and f", "x", "( )",
		"f t or f or not f t", strings.Repeat("( ", 300) + "t",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words := strings.Fields(text)
		if len(words) == 0 || len(words) > 40 {
			evaluateAny(t, words)
			return
		}
		got, want := evaluate(t, words), oracle(words)
		if want != "t" && want != "f" {
			want = "error"
		}
		if got != want {
			t.Errorf("%q: %s, want %s", words, got, want)
		}
	})
}

// evaluateAny checks only that parse returns.
func evaluateAny(t *testing.T, words []string) {
	if _, err := parseExpr(words, letters); err == nil && len(words) > 0 {
		evaluate(t, words)
	}
}

// TestParseExhaustively compares all expressions of up to five words with the oracle.
func TestParseExhaustively(t *testing.T) {
	alphabet := []string{"t", "f", "and", "or", "not", "(", ")"}
	var all func(words []string)
	valid := 0
	all = func(words []string) {
		if len(words) > 0 {
			got, want := evaluate(t, words), oracle(words)
			if want != "t" && want != "f" {
				want = "error"
			} else {
				valid++
			}
			if got != want {
				t.Fatalf("%q: %s, want %s", words, got, want)
			}
		}
		if len(words) == 5 {
			return
		}
		for _, w := range alphabet {
			all(append(words[:len(words):len(words)], w))
		}
	}
	all(nil)
	if valid < 100 {
		t.Errorf("%d valid expressions, want at least 100", valid)
	}
}

func TestSyntaxErrors(t *testing.T) {
	for text, want := range map[string]string{
		"or":                        "word 1: a test is missing before \"or\"; a file of this name is name=or",
		"t or":                      "word 3: a test is missing at the end",
		"t not":                     "word 3: a test is missing at the end",
		"( t or f":                  "word 5: a ) is missing at the end",
		"t ) f":                     "word 2: no ( before this )",
		"( )":                       "word 2: a test is missing before \")\"; a file of this name is name=)",
		"t x":                       "word 2: unknown",
		"t and or":                  "word 3: a test is missing before \"or\"; a file of this name is name=or",
		strings.Repeat("not ", 300): fmt.Sprintf("word 201: more than %d operators and parentheses inside each other", maxNested),
	} {
		_, err := parseExpr(strings.Fields(text), letters)
		if err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}
