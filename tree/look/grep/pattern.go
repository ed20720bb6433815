// Package grep searches the lines of many files for patterns.
package grep

import (
	"bytes"
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PatternOptions select how [Compile] reads patterns.
type PatternOptions struct {
	Fixed      bool // patterns are text, not regular expressions
	IgnoreCase bool
	Words      bool // a match begins and ends at the border of a word
	MaxSteps   int  // the most steps of a compiled expression, which bound the time for a byte; 0: any number
}

// ErrTooLarge means that an expression has more steps than [PatternOptions] allow.
var ErrTooLarge = errors.New("the expression is too large")

// Pattern finds the lines that match one of some patterns. Goroutines may share it.
type Pattern struct {
	line  *regexp.Regexp // on one line
	later *regexp.Regexp // on the rest of a line: ^ matches nowhere
	text  *regexp.Regexp // on many lines; a match lies in one of them
	words bool

	literal []byte // what each matching line has, in small letters if folded; empty: unknown
	folded  bool
	exact   bool // a line with literal matches
}

// Compile compiles patterns. A newline also separates patterns. The error is a
// [*syntax.Error].
func Compile(patterns []string, o PatternOptions) (*Pattern, error) {
	var all []string
	for _, pattern := range patterns {
		for part := range strings.SplitSeq(pattern, "\n") {
			if o.Fixed {
				part = regexp.QuoteMeta(part)
			}
			if _, err := syntax.Parse(part, syntax.Perl); err != nil {
				return nil, err
			}
			all = append(all, "(?:"+part+")")
		}
	}
	flags := syntax.Perl
	if o.IgnoreCase {
		flags |= syntax.FoldCase
	}
	joined := strings.Join(all, "|")
	if err := checkSteps(joined, flags, o); err != nil {
		return nil, err
	}

	p := &Pattern{words: o.Words, folded: o.IgnoreCase}
	for _, form := range []struct {
		re  **regexp.Regexp
		fix func(*syntax.Regexp)
	}{{&p.line, func(*syntax.Regexp) {}}, {&p.later, withoutStart}, {&p.text, inOneLine}} {
		tree, err := syntax.Parse(joined, flags)
		if err != nil {
			return nil, err
		}
		form.fix(tree)
		if *form.re, err = regexp.Compile(tree.String()); err != nil {
			return nil, err
		}
		(*form.re).Longest()
	}

	tree, err := syntax.Parse(joined, flags)
	if err != nil {
		return nil, err
	}
	tree = tree.Simplify()
	literal, exact := requiredLiteral(tree, o.IgnoreCase)
	if o.IgnoreCase {
		literal = strings.ToLower(literal)
	}
	if ascii := strings.IndexFunc(literal, func(r rune) bool { return r > unicode.MaxASCII }) < 0; ascii || !o.IgnoreCase {
		p.literal, p.exact = []byte(literal), exact && !o.Words
	}
	return p, nil
}

// checkSteps returns ErrTooLarge if an expression has too many steps. Fixed text may be long.
func checkSteps(joined string, flags syntax.Flags, o PatternOptions) error {
	if o.MaxSteps == 0 || o.Fixed {
		return nil
	}
	tree, err := syntax.Parse(joined, flags)
	if err != nil {
		return err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err == nil && len(prog.Inst) > o.MaxSteps {
		err = ErrTooLarge
	}
	return err
}

// withoutStart makes ^ match nowhere.
func withoutStart(re *syntax.Regexp) {
	if re.Op == syntax.OpBeginLine || re.Op == syntax.OpBeginText {
		re.Op = syntax.OpNoMatch
	}
	for _, sub := range re.Sub {
		withoutStart(sub)
	}
}

// inOneLine makes matches end at a newline, and ^ and $ match at lines.
func inOneLine(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpBeginText:
		re.Op = syntax.OpBeginLine
	case syntax.OpEndText:
		re.Op, re.Flags = syntax.OpEndLine, re.Flags&^syntax.WasDollar
	case syntax.OpAnyChar:
		re.Op = syntax.OpAnyCharNotNL
	case syntax.OpLiteral:
		if slices.Contains(re.Rune, '\n') {
			re.Op = syntax.OpNoMatch
		}
	case syntax.OpCharClass:
		re.Rune = withoutNewline(re.Rune)
	}
	for _, sub := range re.Sub {
		inOneLine(sub)
	}
}

// withoutNewline removes the newline from ranges of characters.
func withoutNewline(ranges []rune) (out []rune) {
	for i := 0; i < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		if lo > '\n' || hi < '\n' {
			out = append(out, lo, hi)
			continue
		}
		if lo < '\n' {
			out = append(out, lo, '\n'-1)
		}
		if hi > '\n' {
			out = append(out, '\n'+1, hi)
		}
	}
	return out
}

// requiredLiteral returns a long literal that each match contains, or "". If exact is set,
// each text with the literal matches. Without folded, a literal whose case is ignored, as in
// (?i)a, does not count.
func requiredLiteral(re *syntax.Regexp, folded bool) (literal string, exact bool) {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 || folded {
			return string(re.Rune), true
		}
	case syntax.OpCapture:
		return requiredLiteral(re.Sub[0], folded)
	case syntax.OpPlus:
		literal, _ = requiredLiteral(re.Sub[0], folded)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if text, _ := requiredLiteral(sub, folded); len(text) > len(literal) {
				literal = text
			}
		}
	}
	return literal, false
}

// The two letters beyond ASCII that are equal to a letter of ASCII if case is ignored.
var foldedBeyond = [][]byte{[]byte("\u212a"), []byte("\u017f")}

// Next returns the bounds of the first matching line of text at or after from, which is the
// start of a line. Lower, if not nil, is text in small letters, see [Pattern.Lower]. The
// end is that of the line without its newline. ok is false if no line matches.
func (p *Pattern) Next(text, lower []byte, from int) (start, end int, ok bool) {
	search := text
	if p.folded {
		search = lower
	}
	useLiteral := len(p.literal) > 0 && search != nil
	for from < len(text) {
		var hit int
		if useLiteral {
			hit = bytes.Index(search[from:], p.literal)
		} else if loc := p.text.FindIndex(text[from:]); loc == nil {
			hit = -1
		} else {
			hit = loc[0]
		}
		if hit < 0 || from+hit >= len(text) {
			return 0, 0, false
		}
		hit += from
		start = bytes.LastIndexByte(text[from:hit], '\n') + 1 + from
		end = len(text)
		if n := bytes.IndexByte(text[hit:], '\n'); n >= 0 {
			end = hit + n
		}
		if useLiteral && p.exact || !useLiteral && !p.words || p.Match(text[start:end]) {
			return start, end, true
		}
		from = end + 1
	}
	return 0, 0, false
}

// Lower returns text in small letters for [Pattern.Next], in buf if that is large enough.
// It returns nil if that would not help.
func (p *Pattern) Lower(text, buf []byte) []byte {
	if !p.folded || len(p.literal) == 0 {
		return nil
	}
	for _, letter := range foldedBeyond {
		if bytes.Contains(text, letter) {
			return nil
		}
	}
	buf = append(buf[:0], text...)
	for i, c := range buf {
		if c >= 'A' && c <= 'Z' {
			buf[i] = c + 'a' - 'A'
		}
	}
	return buf
}

// Match reports whether a line, without its newline, matches.
func (p *Pattern) Match(line []byte) bool {
	if !p.words {
		return p.line.Match(line)
	}
	_, _, ok := p.findWord(line, 0)
	return ok
}

// Matches returns the places of the matches in a line.
func (p *Pattern) Matches(line []byte) (list [][]int) {
	if !p.words {
		return p.line.FindAllIndex(line, -1)
	}
	for from := 0; from < len(line); {
		lo, hi, ok := p.findWord(line, from)
		if !ok {
			break
		}
		list = append(list, []int{lo, hi})
		from = max(hi, from+1)
	}
	return list
}

// findWord returns the first match at or after from that is whole words. As in git, the search
// goes on behind the first word of a match that is not.
func (p *Pattern) findWord(line []byte, from int) (lo, hi int, ok bool) {
	for from <= len(line) {
		re := p.later
		if from == 0 {
			re = p.line
		}
		loc := re.FindIndex(line[from:])
		if loc == nil {
			return 0, 0, false
		}
		lo, hi = from+loc[0], from+loc[1]
		if lo < hi && (lo == 0 || !inWord(line[lo-1])) && (hi == len(line) || !inWord(line[hi])) {
			return lo, hi, true
		}
		for from = lo + 1; from < len(line) && (inWord(line[from-1]) || !utf8.RuneStart(line[from])); from++ {
		}
	}
	return 0, 0, false
}

func inWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
