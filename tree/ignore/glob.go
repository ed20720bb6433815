package ignore

import "strings"

// glob is a compiled wildcard pattern.
type glob struct {
	elems []elem
	sets  []set
	flat  bool // a slash is a letter like others: *, ? and sets match it
}

// Glob is a pattern for whole paths. It does not change and is safe for
// concurrent use.
type Glob struct {
	glob glob
	fold bool
}

// CompileGlob compiles a pattern as git's pathspecs have them, and reports
// false if nothing can match it. With slashes, *, ? and sets do not match a
// slash, and ** between slashes does, as in an ignore file. With fold, capital
// and small letters of ASCII are the same.
func CompileGlob(pattern string, slashes, fold bool) (Glob, bool) {
	if fold {
		pattern = lower(pattern)
	}
	if slashes {
		g, ok := compileGlob(pattern, true, true)
		return Glob{g, fold}, ok
	}
	g, ok := compileFlat(pattern)
	return Glob{g, fold}, ok
}

// Match reports whether the whole of path matches. It takes time that is at
// worst the product of the lengths of pattern and path.
func (g *Glob) Match(path string) bool {
	if g.fold {
		path = lower(path)
	}
	return g.glob.match(path)
}

// HasWildcards reports whether a pattern stands for more than its text.
func HasWildcards(pattern string) bool { return strings.ContainsAny(pattern, wildcards) }

// lower returns s with the small letters of ASCII.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// compileFlat compiles a pattern in which a slash is a letter like others.
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
	op   op
	byte byte   // of oneByte
	set  uint16 // of oneOf: index in sets; a line has far fewer
}

type op uint8

const (
	oneByte op = iota
	anyByte    // ?    any but a slash
	oneOf      // [a-z] one of a set, never a slash
	star       // *    any number, no slash
	dirs       // **/  nothing, or any number and then a slash
	all        // **   any number
)

// compileGlob compiles a pattern; false if nothing can match it. In a path, a
// run of stars between slashes, or between a slash and an end, may match
// slashes; atStart says that the pattern stands where a name begins.
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
				g.add(elem{op: star})
			case strings.HasPrefix(rest, "/"):
				i++
				g.add(elem{op: dirs})
			case rest == "" || strings.HasPrefix(rest, `\/`):
				g.add(elem{op: all})
			default:
				g.add(elem{op: star})
			}
		case '?':
			g.add(elem{op: anyByte})
		case '[':
			s, n := parseSet(pattern[i:])
			if n == 0 {
				return glob{}, false
			}
			i += n - 1
			g.add(elem{op: oneOf, set: uint16(len(g.sets))})
			g.sets = append(g.sets, s)
		case '\\':
			if i++; i == len(pattern) {
				return glob{}, false
			}
			fallthrough
		default:
			g.add(elem{op: oneByte, byte: pattern[i]})
		}
	}
	return g, true
}

// add appends an element, unless it adds nothing: **/**/ is **/.
func (g *glob) add(e elem) {
	if n := len(g.elems); e.op == dirs && n > 0 && g.elems[n-1].op == dirs {
		return
	}
	g.elems = append(g.elems, e)
}

// tail returns what every text that matches ends with.
func (g *glob) tail() string {
	var tail []byte
	for i := len(g.elems) - 1; i >= 0 && g.elems[i].op == oneByte; i-- {
		tail = append(tail, g.elems[i].byte)
	}
	for i, j := 0, len(tail)-1; i < j; i, j = i+1, j-1 {
		tail[i], tail[j] = tail[j], tail[i]
	}
	return string(tail)
}

// match reports whether the whole of text matches.
//
// Elements are matched from left to right, and stars match as little as they
// can. On a mismatch the last star matches one byte more; if it cannot,
// because a slash is next, the last ** takes in one folder more. Those before
// need not be tried again: what follows them has matched as early as it can,
// and if it matched later, then less would be left for the rest.
//
// From each start of a ** an element meets the bytes of one name, another one
// from each start. So in all it meets each byte of text about once, and the
// work is at most the product of the lengths of pattern and text.
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
				if t < len(text) && g.accepts(el, text[t]) {
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

func (g *glob) accepts(e elem, b byte) bool {
	switch e.op {
	case oneByte:
		return b == e.byte
	case anyByte:
		return g.flat || b != '/'
	default:
		return (g.flat || b != '/') && g.sets[e.set].has(b)
	}
}
