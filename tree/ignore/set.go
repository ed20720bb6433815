package ignore

import "strings"

// set is a set of bytes.
type set [4]uint64

func (s *set) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *set) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

func (s *set) invert() {
	for i := range s {
		s[i] = ^s[i]
	}
}

func (s *set) addRange(first, last byte) {
	for b := int(first); b <= int(last); b++ {
		s.add(byte(b))
	}
}

// classes are the named classes, in ASCII. Space leaves out what git leaves
// out: vertical tab and form feed.
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

// parseSet reads a bracket expression at the start of s, which begins with a
// bracket, and returns its length; 0 if it has no end or an unknown class.
func parseSet(s string) (result set, n int) {
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
			return set{}, 0
		case s[i] == ']' && !first:
			if negated {
				result.invert()
			}
			return result, i + 1
		case s[i] == '-' && prev != none && i+1 < len(s) && s[i+1] != ']':
			last, size := escaped(s[i+1:])
			if size == 0 {
				return set{}, 0
			}
			result.addRange(byte(prev), last)
			i += 1 + size
			prev = none
		case strings.HasPrefix(s[i:], "[:"):
			is, size := parseClass(s[i:])
			if size == 0 {
				return set{}, 0
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
			b, size := escaped(s[i:])
			if size == 0 {
				return set{}, 0
			}
			result.add(b)
			prev = int(b)
			i += size
		}
	}
}

// parseClass reads a named class at the start of s, such as [:alpha:], and returns its
// length; 0 if it has no end or is unknown. Without a second colon it is no class, and
// nil is returned.
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

// escaped returns the byte at the start of s, or the one after a backslash,
// and how long that is; 0 if there is none after it.
func escaped(s string) (b byte, size int) {
	switch {
	case s[0] != '\\':
		return s[0], 1
	case len(s) == 1:
		return 0, 0
	default:
		return s[1], 2
	}
}
