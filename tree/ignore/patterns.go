// Package ignore decides which paths of a worktree are ignored. A .kistignore
// file has exactly the rules of .gitignore; docs/format/ignore.md has them for
// users.
//
// The time of a match is at most proportional to the product of the lengths of
// pattern and path.
package ignore

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of an ignore file.
const (
	MaxFileSize = 1 << 20 // bytes of a file
	MaxLineSize = 2 << 10 // bytes of a line, except a comment
)

// LimitError means that an ignore file or one of its lines is too large.
type LimitError struct {
	Dir   string // the folder of the file
	Line  int    // the line that is too long; 0: the file is too large
	Size  int    // bytes
	Limit int    // bytes
}

func (e *LimitError) Error() string {
	what := "ignore file"
	if e.Line > 0 {
		what = fmt.Sprintf("line %d of ignore file", e.Line)
	}
	return fmt.Sprintf("%s in %q has %d bytes, %d are allowed", what, "/"+e.Dir, e.Size, e.Limit)
}

// Patterns are the rules of one ignore file. They do not change and are safe
// for concurrent use.
type Patterns struct {
	dir   string // "" or the folder of the file
	fold  bool   // the rules are in lower case, and so must paths be
	rules []rule

	// The rules by kind. A number is a rule's place in rules plus one, so that
	// 0 means none and the largest number wins.
	names map[string]lastRules // without wildcards, by name
	paths map[string]lastRules // without wildcards, by path below dir
	tails map[byte][]int       // with wildcards, by the last byte of each matching path; ascending
	globs []int                // the others, ascending
}

// lastRules are the numbers of the last rules with the same text.
type lastRules struct {
	any int // the last that matches anything
	dir int // the last that matches only folders
}

// Parse reads the content of an ignore file in the folder dir: a slash-separated
// path, "" for the root of the worktree. Like git, it drops patterns that cannot
// match anything, such as a pattern that ends within a character class.
// The error is a [*LimitError].
func Parse(data []byte, dir string) (*Patterns, error) { return parseRules(data, &Patterns{dir: dir}) }

// ParseFold is Parse for the root of the worktree and patterns for which the case of letters
// does not matter.
func ParseFold(data []byte) (*Patterns, error) {
	return parseRules([]byte(foldCase(string(data))), &Patterns{fold: true})
}

// Anywhere returns a line of an ignore file that matches in all folders, as restic's patterns
// do, unless it begins with a slash. In an ignore file, a slash in the middle is enough to bind a
// pattern to the folder of the file.
func Anywhere(line string) string {
	rest, negated := strings.CutPrefix(line, "!")
	if !strings.Contains(strings.TrimRight(rest, "/ \r"), "/") || strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, "**/") || strings.HasPrefix(rest, "#") {
		return line
	}
	rest = "**/" + strings.TrimPrefix(rest, "./")
	if negated {
		return "!" + rest
	}
	return rest
}

// foldCase returns s with its letters in lower case. It keeps bytes that are no UTF-8.
func foldCase(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 {
			b.WriteByte(s[0])
		} else {
			b.WriteRune(unicode.ToLower(r))
		}
		s = s[size:]
	}
	return b.String()
}

// parseRules adds the rules of an ignore file to p.
func parseRules(data []byte, p *Patterns) (*Patterns, error) {
	dir := p.dir
	if len(data) > MaxFileSize {
		return nil, &LimitError{Dir: dir, Size: len(data), Limit: MaxFileSize}
	}
	rest := string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	for line := 1; rest != ""; line++ {
		var text string
		text, rest, _ = strings.Cut(rest, "\n")
		if strings.HasPrefix(text, "#") {
			continue
		}
		if len(text) > MaxLineSize {
			return nil, &LimitError{Dir: dir, Line: line, Size: len(text), Limit: MaxLineSize}
		}
		text = strings.TrimSuffix(text, "\r")
		text, _, _ = strings.Cut(text, "\x00")
		if r, ok := newRule(trimSpaces(text)); ok {
			r.line = line
			p.addRule(r)
		}
	}

	return p, nil
}

// trimSpaces removes spaces at the end, but not those after a backslash.
func trimSpaces(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			if i++; i == len(s) {
				return s
			}
			end = i + 1
		} else if s[i] != ' ' {
			end = i + 1
		}
	}
	return s[:end]
}

func (p *Patterns) addRule(r rule) {
	p.rules = append(p.rules, r)
	n := len(p.rules)
	switch r.kind {
	case exactName:
		noteRule(&p.names, r.literal, n, r.dirOnly)
	case exactPath:
		noteRule(&p.paths, r.literal, n, r.dirOnly)
	default:
		if r.tail == "" {
			p.globs = append(p.globs, n)
			return
		}
		if p.tails == nil {
			p.tails = make(map[byte][]int)
		}
		end := r.tail[len(r.tail)-1]
		p.tails[end] = append(p.tails[end], n)
	}
}

func noteRule(m *map[string]lastRules, text string, n int, dirOnly bool) {
	if *m == nil {
		*m = make(map[string]lastRules)
	}
	l := (*m)[text]
	if dirOnly {
		l.dir = n
	} else {
		l.any = n
	}
	(*m)[text] = l
}

// lastMatch returns the last rule that matches a path below p.dir; nil for none.
func (p *Patterns) lastMatch(path, name string, isDir bool) *rule {
	n := 0
	if p.names != nil {
		n = p.names[name].ruleFor(isDir)
	}
	if p.paths != nil {
		n = max(n, p.paths[path].ruleFor(isDir))
	}
	if p.tails != nil {
		n = p.latestMatch(n, p.tails[name[len(name)-1]], path, name, isDir)
	}
	n = p.latestMatch(n, p.globs, path, name, isDir)
	if n == 0 {
		return nil
	}
	return &p.rules[n-1]
}

// latestMatch returns the last of numbers whose rule matches, if it is above n.
func (p *Patterns) latestMatch(n int, numbers []int, path, name string, isDir bool) int {
	for i := len(numbers) - 1; i >= 0 && numbers[i] > n; i-- {
		if p.rules[numbers[i]-1].match(path, name, isDir) {
			return numbers[i]
		}
	}
	return n
}

func (l lastRules) ruleFor(isDir bool) int {
	if isDir {
		return max(l.any, l.dir)
	}
	return l.any
}

// Matcher combines the patterns of a folder and of those above it. The zero Matcher
// and the nil one ignore nothing. A Matcher does not change and is safe for
// concurrent use.
type Matcher struct {
	above    *Matcher
	patterns *Patterns // nil in the zero Matcher
}

// Push returns a Matcher with the patterns of one more ignore file. They take
// precedence over the patterns of m. On the way down into a folder, push the
// patterns of its own ignore file.
func (m *Matcher) Push(p *Patterns) *Matcher {
	if p == nil || len(p.rules) == 0 {
		return m
	}
	return &Matcher{above: m, patterns: p}
}

// Rule is a line of an ignore file, for messages.
type Rule struct {
	Dir     string // the folder of the ignore file; "" is the root
	Line    int    // from 1; 0 in the zero Rule, which is no rule
	Pattern string // as in the file
	Negated bool   // it begins with an exclamation mark
}

// Match reports whether a path is ignored, and returns the rule that decided.
// Path is slash-separated and relative to the root of the worktree. isDir is
// true for a folder, but not for a symlink to one. The rule may be negated. It
// is zero if no rule matches.
//
// Match considers only the path itself. Everything in an ignored folder is
// ignored, so callers must not descend into one.
func (m *Matcher) Match(path string, isDir bool) (ignored bool, by Rule) {
	if m == nil || m.patterns == nil || path == "" {
		return false, Rule{}
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	if name == "" {
		return false, Rule{} // a slash at the end: no such path
	}
	for ; m != nil && m.patterns != nil; m = m.above {
		p := m.patterns
		below, ok := p.relativePath(path)
		if !ok {
			continue
		}
		name := name
		if p.fold {
			below, name = foldCase(below), foldCase(name)
		}
		if r := p.lastMatch(below, name, isDir); r != nil {
			return !r.negated, Rule{Dir: p.dir, Line: r.line, Pattern: r.text, Negated: r.negated}
		}
	}

	return false, Rule{}
}

// relativePath returns path relative to the folder of the patterns, if it lies in it.
func (p *Patterns) relativePath(path string) (string, bool) {
	n := len(p.dir)
	if n == 0 {
		return path, true
	}
	if len(path) <= n+1 || path[n] != '/' || path[:n] != p.dir {
		return "", false
	}
	return path[n+1:], true
}

// rule is one parsed pattern.
type rule struct {
	text    string // as in the file, without spaces at the end
	line    int
	negated bool // a matching path is not ignored
	dirOnly bool // matches folders only

	kind    ruleKind
	literal string // by kind
	glob    glob
	tail    string // the end of every matching path, unless the kind is exact
}

// ruleKind selects the part of a path that a rule compares, and how.
type ruleKind uint8

const (
	exactName  ruleKind = iota // the name is literal
	suffixName                 // the name ends with literal
	globName                   // the name matches glob
	exactPath                  // the path is literal
	globPath                   // the path begins with literal, and glob matches the rest
)

// wildcards are the bytes with a special meaning in a pattern.
const wildcards = `*?[\`

// newRule parses a line. It returns false if nothing can match the line.
func newRule(text string) (rule, bool) {
	r := rule{text: text}
	pattern, negated := strings.CutPrefix(text, "!")
	r.negated = negated
	pattern, r.dirOnly = strings.CutSuffix(pattern, "/")
	inPath := strings.Contains(pattern, "/") // and not at its end
	pattern = strings.TrimPrefix(pattern, "/")
	if pattern == "" {
		return rule{}, false
	}
	wild := strings.IndexAny(pattern, wildcards)
	switch {
	case wild < 0 && inPath:
		r.kind, r.literal = exactPath, pattern
	case wild < 0:
		r.kind, r.literal = exactName, pattern
	case !inPath && pattern[0] == '*' && !strings.ContainsAny(pattern[1:], wildcards):
		r.kind, r.tail = suffixName, pattern[1:]
	case inPath:
		r.kind, r.literal = globPath, pattern[:wild]
		// A ** is special at the start of a path and after a slash.
		return r.withGlob(pattern[wild:], wild == 0 || pattern[wild-1] == '/')
	default:
		r.kind = globName
		return r.withGlob(pattern, false)
	}

	return r, true
}

func (r rule) withGlob(pattern string, atStart bool) (rule, bool) {
	var ok bool
	r.glob, ok = compileGlob(pattern, atStart, r.kind == globPath)
	r.tail = r.glob.literalTail()
	return r, ok
}

// match reports whether r matches a path. The kind of r must not be exact.
func (r *rule) match(path, name string, isDir bool) bool {
	if r.dirOnly && !isDir {
		return false
	}
	switch r.kind {
	case suffixName:
		return strings.HasSuffix(name, r.tail)
	case globName:
		return strings.HasSuffix(name, r.tail) && r.glob.match(name)
	default:
		return strings.HasPrefix(path, r.literal) && strings.HasSuffix(path, r.tail) && r.glob.match(path[len(r.literal):])
	}
}
