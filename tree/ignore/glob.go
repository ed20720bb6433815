package ignore

import (
	"slices"
	"strings"
)

// glob is a compiled wildcard pattern.
type glob struct {
	elems []elem
	sets  []byteSet
	flat  bool // *, ? and sets also match a slash
}

// Glob is a pattern for whole paths. It does not change and is safe for
// concurrent use.
type Glob struct {
	glob glob
	fold bool
}

// CompileGlob compiles a pattern of a pathspec, by git's rules. It reports false
// if nothing can match the pattern. With slashes, *, ? and sets do not match a
// slash, but ** between slashes does, as in an ignore file. With fold, the case
// of ASCII letters does not matter.
func CompileGlob(pattern string, slashes, fold bool) (Glob, bool) {
	if fold {
		pattern = lowerASCII(pattern)
	}
	if slashes {
		g, ok := compileGlob(pattern, true, true)
		return Glob{g, fold}, ok
	}
	g, ok := compileFlat(pattern)
	return Glob{g, fold}, ok
}

// Match reports whether the full path matches. Its time is at most proportional
// to the product of the lengths of pattern and path.
func (g *Glob) Match(path string) bool {
	if g.fold {
		path = lowerASCII(path)
	}
	return g.glob.match(path)
}

// HasWildcards reports whether a pattern has a byte with a special meaning.
func HasWildcards(pattern string) bool { return strings.ContainsAny(pattern, wildcards) }

// lowerASCII returns s with its ASCII letters in lower case.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// compileFlat compiles a pattern whose wildcards also match slashes.
func compileFlat(pattern string) (glob, bool) {
	g, ok := compileGlob(pattern, false, false)
	g.flat = true
	for i := range g.elems {
		if g.elems[i].op == star {
			g.elems[i].op = all
		}
	}

	return g, ok
}

// elem matches one byte (oneByte, anyByte, oneOf) or any number of them.
type elem struct {
	op   elemOp
	byte byte   // of oneByte
	set  uint16 // of oneOf: index in sets; a line has far fewer
}

type elemOp uint8

const (
	oneByte elemOp = iota
	anyByte        // ?    any but a slash
	oneOf          // [a-z] one of a set, never a slash
	star           // *    any number, no slash
	dirs           // **/  nothing, or any number and then a slash
	all            // **   any number
)

// compileGlob compiles a pattern. It returns false if nothing can match the
// pattern. With inPath, a run of stars between slashes, or between a slash and an
// end, may match slashes. atStart means that the pattern begins where a name
// begins.
func compileGlob(pattern string, atStart, inPath bool) (g glob, ok bool) {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '*':
			begin := i
			for i+1 < len(pattern) && pattern[i+1] == '*' {
				i++
			}
			rest := pattern[i+1:]
			afterSlash := begin == 0 && atStart || begin > 0 && pattern[begin-1] == '/'
			switch {
			case i == begin || !inPath || !afterSlash:
				g.addElem(elem{op: star})
			case strings.HasPrefix(rest, "/"):
				i++
				g.addElem(elem{op: dirs})
			case rest == "" || strings.HasPrefix(rest, `\/`):
				g.addElem(elem{op: all})
			default:
				g.addElem(elem{op: star})
			}
		case '?':
			g.addElem(elem{op: anyByte})
		case '[':
			s, n := parseSet(pattern[i:])
			if n == 0 {
				return glob{}, false
			}
			i += n - 1
			g.addElem(elem{op: oneOf, set: uint16(len(g.sets))})
			g.sets = append(g.sets, s)
		case '\\':
			if i++; i == len(pattern) {
				return glob{}, false
			}
			fallthrough
		default:
			g.addElem(elem{op: oneByte, byte: pattern[i]})
		}
	}
	return g, true
}

// addElem appends an element, unless it adds nothing: **/**/ is **/.
func (g *glob) addElem(e elem) {
	if n := len(g.elems); e.op == dirs && n > 0 && g.elems[n-1].op == dirs {
		return
	}
	g.elems = append(g.elems, e)
}

// literalTail returns the literal end of the pattern. Every matching text ends with it.
func (g *glob) literalTail() string {
	var tail []byte
	for i := len(g.elems) - 1; i >= 0 && g.elems[i].op == oneByte; i-- {
		tail = append(tail, g.elems[i].byte)
	}

	slices.Reverse(tail)
	return string(tail)
}

// match reports whether the full text matches.
//
// It matches elements from left to right, and stars match as little as possible.
// On a mismatch, the last star matches one byte more. If a slash is next, that is
// impossible, and the last ** matches one more folder instead. Earlier stars need
// no retry: the elements after them matched at the earliest place, and a later
// place would only leave less text for the rest.
//
// For each start of a **, an element meets the bytes of one name, and the names
// differ. So an element meets each byte of text about once, and the work is at
// most the product of the lengths of pattern and text.
func (g *glob) match(text string) bool {
	const none = -1
	starElem, starText := none, 0               // after the last star, and where it ends
	wideElem, wideText, whole := none, 0, false // after the last ** or **/, and where it ends
	for e, t := 0, 0; ; {
		if e == len(g.elems) {
			if t == len(text) {
				return true
			}
		} else {
			switch el := g.elems[e]; el.op {
			case star:
				e++
				starElem, starText = e, t
				continue
			case dirs, all:
				e++
				if el.op == all && e == len(g.elems) {
					return true
				}
				starElem = none
				wideElem, wideText, whole = e, t, el.op == dirs
				continue
			default:
				if t < len(text) && g.matchesByte(el, text[t]) {
					e, t = e+1, t+1
					continue
				}
			}
		}
		switch {
		case starElem != none && starText < len(text) && text[starText] != '/':
			starText++
			e, t = starElem, starText
		case wideElem != none:
			next := 1
			if whole {
				next += strings.IndexByte(text[wideText:], '/')
			}
			if next == 0 || wideText+next > len(text) {
				return false
			}
			wideText += next
			starElem = none
			e, t = wideElem, wideText
		default:
			return false
		}
	}
}

func (g *glob) matchesByte(e elem, b byte) bool {
	switch e.op {
	case oneByte:
		return b == e.byte
	case anyByte:
		return g.flat || b != '/'
	default:
		return (g.flat || b != '/') && g.sets[e.set].has(b)
	}
}

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

func (s *byteSet) invert() {
	for i := range s {
		s[i] = ^s[i]
	}
}

func (s *byteSet) addRange(first, last byte) {
	for b := int(first); b <= int(last); b++ {
		s.add(byte(b))
	}
}

// classes are the named classes, in ASCII. Like git's, space has no vertical tab
// and no form feed.
var classes = map[string]func(b byte) bool{
	"alnum":  func(b byte) bool { return isAlpha(b) || isDigit(b) },
	"alpha":  isAlpha,
	"blank":  func(b byte) bool { return b == ' ' || b == '\t' },
	"cntrl":  func(b byte) bool { return b < ' ' || b == 0x7f },
	"digit":  isDigit,
	"graph":  isGraph,
	"lower":  func(b byte) bool { return 'a' <= b && b <= 'z' },
	"print":  func(b byte) bool { return b == ' ' || isGraph(b) },
	"punct":  func(b byte) bool { return isGraph(b) && !isAlpha(b) && !isDigit(b) },
	"space":  func(b byte) bool { return strings.IndexByte(" \t\n\r", b) >= 0 },
	"upper":  func(b byte) bool { return 'A' <= b && b <= 'Z' },
	"xdigit": func(b byte) bool { return isDigit(b) || 'a' <= b|0x20 && b|0x20 <= 'f' },
}

func isAlpha(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }
func isDigit(b byte) bool { return '0' <= b && b <= '9' }
func isGraph(b byte) bool { return ' ' < b && b < 0x7f }

// parseSet reads the bracket expression at the start of s and returns its length.
// The length is 0 if the expression has no end or an unknown class.
func parseSet(s string) (result byteSet, n int) {
	i := 1
	negated := i < len(s) && (s[i] == '!' || s[i] == '^')
	if negated {
		i++
	}
	const none = -1
	prev := none // the byte before, if a range may begin with it
	for first := true; ; first = false {
		switch {
		case i >= len(s):
			return byteSet{}, 0
		case s[i] == ']' && !first:
			if negated {
				result.invert()
			}
			return result, i + 1
		case s[i] == '-' && prev != none && i+1 < len(s) && s[i+1] != ']':
			last, size := unescapeByte(s[i+1:])
			if size == 0 {
				return byteSet{}, 0
			}
			result.addRange(byte(prev), last)
			i += 1 + size
			prev = none
		case strings.HasPrefix(s[i:], "[:"):
			is, size := parseClass(s[i:])
			if size == 0 {
				return byteSet{}, 0
			}
			if is == nil { // a bracket like any other byte
				result.add('[')
				prev = '['
				i++
				continue
			}
			for b := range 256 {
				if is(byte(b)) {
					result.add(byte(b))
				}
			}
			i += size
			prev = none
		default:
			b, size := unescapeByte(s[i:])
			if size == 0 {
				return byteSet{}, 0
			}
			result.add(b)
			prev = int(b)
			i += size
		}
	}
}

// parseClass reads a named class at the start of s, such as [:alpha:], and returns its
// length. The length is 0 if the class has no end or is unknown. Without a second
// colon it is no class, and the function is nil.
func parseClass(s string) (is func(b byte) bool, n int) {
	end := strings.IndexByte(s[2:], ']')
	switch {
	case end < 0:
		return nil, 0
	case end == 0 || s[2+end-1] != ':':
		return nil, 1
	}

	is, ok := classes[s[2:2+end-1]]
	if !ok {
		return nil, 0
	}
	return is, 2 + end + 1
}

// unescapeByte returns the byte at the start of s, or the byte after a backslash, and
// the length of both. The length is 0 if nothing follows the backslash.
func unescapeByte(s string) (b byte, size int) {
	switch {
	case s[0] != '\\':
		return s[0], 1
	case len(s) == 1:
		return 0, 0
	default:
		return s[1], 2
	}
}
