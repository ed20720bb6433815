package ignore

import "strings"

// rule is one pattern, taken apart.
type rule struct {
	text    string // as in the file, without spaces at the end
	line    int
	negated bool // what matches is not ignored
	dirOnly bool // matches folders only

	kind    kind
	literal string // by kind
	glob    glob
	tail    string // what everything that matches ends with, unless the kind is exact
}

// kind is what a rule looks at, and how.
type kind uint8

const (
	exactName  kind = iota // the name is literal
	suffixName             // the name ends with literal
	globName               // the name matches glob
	exactPath              // the path is literal
	globPath               // the path begins with literal, and glob matches the rest
)

// wildcards are the bytes that do not stand for themselves.
const wildcards = `*?[\`

// newRule takes a line apart; false if nothing can match it.
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
		return r.compile(pattern[wild:], wild == 0 || pattern[wild-1] == '/')
	default:
		r.kind = globName
		return r.compile(pattern, false)
	}
	return r, true
}

func (r rule) compile(pattern string, atStart bool) (rule, bool) {
	var ok bool
	r.glob, ok = compileGlob(pattern, atStart, r.kind == globPath)
	r.tail = r.glob.tail()
	return r, ok
}

// match reports whether r, which is none of the exact kinds, matches.
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
