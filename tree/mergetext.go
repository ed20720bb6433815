package tree

import (
	"slices"
	"strings"
)

// Labels name the two sides of a merge in conflict markers and in the names of
// files put aside.
type Labels struct {
	Ours   string // "HEAD", say
	Theirs string // the name of the merged branch, say
}

// Conflict markers, as git writes them.
const (
	markOurs   = "<<<<<<< "
	markMiddle = "======="
	markTheirs = ">>>>>>> "
)

// joinConflicts is the largest number of equal lines between two conflicts
// that are shown as one.
const joinConflicts = 3

// MergeText merges the changes of ours and theirs to base, line by line.
// Different changes of the same or adjacent lines are a conflict: the merged
// text then has both versions between conflict markers, and conflicts is true.
// If both texts have CR LF line ends, so do the markers.
//
// The texts should be [IsText]. MergeText does not limit their size. Its time
// is that of a few comparisons.
func MergeText(base, ours, theirs []byte, labels Labels) (merged []byte, conflicts bool) {
	numbers := symbols{}
	m := textMerge{base: splitLines(base), ours: splitLines(ours), theirs: splitLines(theirs)}
	b, o, t := numbers.number(m.base), numbers.number(m.ours), numbers.number(m.theirs)
	m.oursIDs, m.theirsIDs, m.symbols = o, t, len(numbers)
	m.align(diffSeq(b, o, len(numbers)), diffSeq(b, t, len(numbers)))
	m.join()
	return m.render(labels)
}

// side is the origin of the lines of a span.
type side uint8

const (
	fromBoth   side = iota // ours and theirs agree
	fromOurs               // only ours changed base
	fromTheirs             // only theirs changed base
	conflicting
)

// A span is a stretch of the merged text: the lines ours[oLo:oHi], or
// theirs[tLo:tHi], or both in conflict.
type span struct {
	from               side
	oLo, oHi, tLo, tHi int
}

type textMerge struct {
	base, ours, theirs []string
	oursIDs, theirsIDs []int32
	symbols            int
	spans              []span
}

// align cuts the text into spans, from the changes of the two sides.
func (m *textMerge) align(o, t []replacement) {
	at, oAt, tAt := 0, 0, 0 // ends of the last span in base, ours and theirs
	for len(o) > 0 || len(t) > 0 {
		// A group of changes that overlap or touch: base[lo:hi].
		lo := len(m.base)
		if len(o) > 0 {
			lo = o[0].aLo
		}
		if len(t) > 0 {
			lo = min(lo, t[0].aLo)
		}
		hi, no, nt := lo, 0, 0
		for {
			switch {
			case no < len(o) && o[no].aLo <= hi:
				hi = max(hi, o[no].aHi)
				no++
				continue
			case nt < len(t) && t[nt].aLo <= hi:
				hi = max(hi, t[nt].aHi)
				nt++
				continue
			}
			break
		}
		oLo, tLo := oAt+lo-at, tAt+lo-at
		m.spans = append(m.spans, span{fromBoth, oAt, oLo, tAt, tLo})
		oHi, tHi := oLo+hi-lo+growth(o[:no]), tLo+hi-lo+growth(t[:nt])
		switch {
		case nt == 0:
			m.spans = append(m.spans, span{fromOurs, oLo, oHi, tLo, tHi})
		case no == 0:
			m.spans = append(m.spans, span{fromTheirs, oLo, oHi, tLo, tHi})
		default:
			m.refine(oLo, oHi, tLo, tHi)
		}
		at, oAt, tAt, o, t = hi, oHi, tHi, o[no:], t[nt:]
	}

	m.spans = append(m.spans, span{fromBoth, oAt, len(m.ours), tAt, len(m.theirs)})
}

// growth returns how many lines replacements add.
func growth(rs []replacement) (n int) {
	for _, r := range rs {
		n += (r.bHi - r.bLo) - (r.aHi - r.aLo)
	}
	return n
}

// refine splits lines that both sides changed into equal lines and conflicts.
func (m *textMerge) refine(oLo, oHi, tLo, tHi int) {
	for _, r := range diffSeq(m.oursIDs[oLo:oHi], m.theirsIDs[tLo:tHi], m.symbols) {
		o, t := oLo+r.aLo, tLo+r.bLo
		last := m.spans[len(m.spans)-1]
		m.spans = append(m.spans,
			span{fromBoth, last.oHi, o, last.tHi, t},
			span{conflicting, o, oLo + r.aHi, t, tLo + r.bHi})
	}
	last := m.spans[len(m.spans)-1]
	m.spans = append(m.spans, span{fromBoth, last.oHi, oHi, last.tHi, tHi})
}

// join joins conflicts that have few equal lines between them.
func (m *textMerge) join() {
	m.spans = slices.DeleteFunc(m.spans, func(s span) bool { return s.oLo == s.oHi && s.tLo == s.tHi })
	out := m.spans[:0]
	for _, s := range m.spans {
		if n := len(out); s.from == conflicting && n >= 2 &&
			out[n-1].from == fromBoth && out[n-1].oHi-out[n-1].oLo <= joinConflicts && out[n-2].from == conflicting {
			out = out[:n-1]
			out[n-2].oHi, out[n-2].tHi = s.oHi, s.tHi
			continue
		}
		out = append(out, s)
	}
	m.spans = out
}

// render writes the merged text.
func (m *textMerge) render(labels Labels) (merged []byte, conflicts bool) {
	newline := "\n"
	if hasCRLF(m.ours) && hasCRLF(m.theirs) {
		newline = "\r\n"
	}

	var out []byte
	lines := func(lines []string) {
		for _, line := range lines {
			out = append(out, line...)
		}
	}

	mark := func(text string) {
		if n := len(out); n > 0 && out[n-1] != '\n' {
			out = append(out, newline...)
		}
		out = append(append(out, strings.TrimRight(text, " ")...), newline...)
	}

	for _, s := range m.spans {
		switch s.from {
		case fromTheirs:
			lines(m.theirs[s.tLo:s.tHi])
		case conflicting:
			conflicts = true
			mark(markOurs + labels.Ours)
			lines(m.ours[s.oLo:s.oHi])
			mark(markMiddle)
			lines(m.theirs[s.tLo:s.tHi])
			mark(markTheirs + labels.Theirs)
		default:
			lines(m.ours[s.oLo:s.oHi])
		}
	}

	return out, conflicts
}

// hasCRLF reports whether the first line ends in CR LF. It is also true for an
// empty text.
func hasCRLF(lines []string) bool {
	return len(lines) == 0 || strings.HasSuffix(lines[0], "\r\n")
}
