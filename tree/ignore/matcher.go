package ignore

import "strings"

// Matcher has the patterns of a folder and of those above it. The zero Matcher
// and the nil one ignore nothing. A Matcher does not change and is safe for
// concurrent use.
type Matcher struct {
	above    *Matcher
	patterns *Patterns // nil in the zero Matcher
}

// Push returns a Matcher that has the patterns of one more ignore file, which
// go before those of m. On the way down into a folder, push what its own
// ignore file says, if it has one.
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

// Match reports whether a path is ignored, and by which rule. Path is
// slash-separated and relative to the root of the worktree. isDir is true for
// a folder, but not for a symlink to one. A negated rule that matches is
// returned, too; the rule is zero if none matches.
//
// Match considers only the path itself. Everything in an ignored folder is
// ignored, whatever the rules, so callers must not descend into one.
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
		below, ok := p.below(path)
		if !ok {
			continue
		}
		if r := p.match(below, name, isDir); r != nil {
			return !r.negated, Rule{Dir: p.dir, Line: r.line, Pattern: r.text, Negated: r.negated}
		}
	}
	return false, Rule{}
}

// below returns path relative to the folder of the patterns, if it lies in it.
func (p *Patterns) below(path string) (string, bool) {
	n := len(p.dir)
	if n == 0 {
		return path, true
	}
	if len(path) <= n+1 || path[n] != '/' || path[:n] != p.dir {
		return "", false
	}
	return path[n+1:], true
}
