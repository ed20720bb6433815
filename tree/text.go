package tree

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// MaxText is the size of the largest text, in bytes.
const MaxText = 8 << 20

// IsText reports whether data counts as text, which is compared and merged by
// lines. Text has at most [MaxText] bytes and no NUL byte.
func IsText(data []byte) bool {
	return len(data) <= MaxText && bytes.IndexByte(data, 0) < 0
}

// maxHeading is the number of bytes of a line shown in the head of a hunk.
const maxHeading = 80

// symbols numbers lines or chunks: equal ones have equal numbers.
type symbols[K comparable] map[K]int32

// numberItems returns the numbers of items, by the part of an item that key returns.
func numberItems[T any, K comparable](s symbols[K], items []T, key func(T) K) []int32 {
	ids := make([]int32, len(items))
	for i, item := range items {
		id, ok := s[key(item)]
		if !ok {
			id = int32(len(s))
			s[key(item)] = id
		}
		ids[i] = id
	}
	return ids
}

// numberLines returns the numbers of lines.
func numberLines(s symbols[string], lines []string) []int32 {
	return numberItems(s, lines, func(line string) string { return line })
}

// SplitLines cuts text after each newline. Only the last line may have none.
func SplitLines(text []byte) []string {
	lines := make([]string, 0, bytes.Count(text, []byte{'\n'})+1)
	for line := range strings.Lines(string(text)) {
		lines = append(lines, line)
	}
	return lines
}

// TextOptions select how two texts are compared.
type TextOptions struct {
	Context int       // the number of unchanged lines around each change
	Space   SpaceRule // white space that does not count
	Blank   bool      // changes of blank lines alone do not count
}

// SpaceRule is a rule for white space in a comparison of lines.
type SpaceRule uint8

// The rules. Each ignores more than the one before.
const (
	ExactSpace   SpaceRule = iota
	SpaceAtEnd             // ignore white space at the end of lines
	SpaceAmount            // also take any run of white space for one space
	WithoutSpace           // ignore all white space
)

// blanks are the bytes that count as white space.
const blanks = " \t\r\n"

// Keys returns texts by which lines are compared.
func (o TextOptions) Keys(lines []string) []string {
	if o.Space == ExactSpace {
		return lines
	}
	keys := make([]string, len(lines))
	for i, line := range lines {
		switch line = strings.TrimRight(line, blanks); o.Space {
		case SpaceAmount:
			lead := ""
			if line != "" && isBlank(rune(line[0])) {
				lead = " "
			}
			line = lead + strings.Join(strings.FieldsFunc(line, isBlank), " ")
		case WithoutSpace:
			line = strings.Join(strings.FieldsFunc(line, isBlank), "")
		}
		keys[i] = line
	}
	return keys
}

func isBlank(r rune) bool { return r < 0x80 && strings.IndexByte(blanks, byte(r)) >= 0 }

// diffLines returns the replacements that turn lines a into lines b. With Blank, uncounted
// marks the replacements of blank lines alone.
func (o TextOptions) diffLines(a, b []string) (edits []replacement, uncounted []bool) {
	edits = lineEdits(o.Keys(a), o.Keys(b))
	if !o.Blank {
		return edits, nil
	}
	filled := func(line string) bool {
		if o.Space == ExactSpace {
			return line != "\n"
		}
		return strings.TrimRight(line, blanks) != ""
	}
	for _, e := range edits {
		uncounted = append(uncounted, !slices.ContainsFunc(a[e.aLo:e.aHi], filled) && !slices.ContainsFunc(b[e.bLo:e.bHi], filled))
	}
	return edits, uncounted
}

// nextHunk returns the range of the next edits that one hunk shows; lo == hi: there are
// no more. Edits that do not count are in a hunk only if they are near others.
func nextHunk(edits []replacement, uncounted []bool, context int) (lo, hi int) {
	distance := func(i, j int) int { return edits[j].aLo - edits[i].aHi }
	skip := func(i int) bool { return uncounted != nil && uncounted[i] }
	for i := 0; i < len(edits) && skip(i); i++ {
		if i+1 == len(edits) || distance(i, i+1) >= context {
			lo = i + 1
		}
	}
	if lo == len(edits) {
		return lo, lo
	}

	last, added := lo, 0 // the last edit of the hunk; lines that later uncounted edits add
	for i := lo + 1; i < len(edits); i++ {
		d := distance(i-1, i)
		if d > 2*context {
			break
		}
		near := d < context
		switch {
		case near && (!skip(i) || last == i-1):
			last, added = i, 0
		case near:
			added += edits[i].bHi - edits[i].bLo
		case last != i-1 && distance(last, i)+added > 2*context:
			return lo, last + 1
		case !skip(i):
			last, added = i, 0
		default:
			added += edits[i].bHi - edits[i].bLo
		}
	}
	return lo, last + 1
}

// Unified returns the difference of two texts in the unified format, or nil if they are
// equal. The header has the given names; "/dev/null" stands for a missing file. As in
// git, the head of a hunk ends with the last line before it that begins with a
// letter, an underscore or a dollar sign. In a program, this is often the
// enclosing function.
func Unified(oldName, newName string, old, new []byte, o TextOptions) []byte {
	var out bytes.Buffer
	for _, h := range hunksOf(SplitLines(old), SplitLines(new), o) {
		if out.Len() == 0 {
			fmt.Fprintf(&out, "--- %s\n+++ %s\n", oldName, newName)
		}
		h.writeUnified(&out)
	}
	return out.Bytes()
}

// hunksOf returns the difference of lines a and b.
func hunksOf(a, b []string, o TextOptions) (hunks []hunk) {
	edits, uncounted := o.diffLines(a, b)
	looked, heading := 0, "" // lines of a searched for headings, and the last heading
	for {
		lo, hi := nextHunk(edits, uncounted, o.Context)
		if lo == hi {
			return hunks
		}
		first, last := edits[lo], edits[hi-1]
		for ; looked < first.aLo-o.Context; looked++ {
			if IsHeading(a[looked]) {
				heading = a[looked]
			}
		}
		after := min(o.Context, len(a)-last.aHi, len(b)-last.bHi)
		hunks = append(hunks, hunk{
			a: a, b: b, edits: edits[lo:hi], heading: heading,
			aLo: max(first.aLo-o.Context, 0), aHi: last.aHi + after, bLo: max(first.bLo-o.Context, 0), bHi: last.bHi + after,
		})
		edits = edits[hi:]
		if uncounted != nil {
			uncounted = uncounted[hi:]
		}
	}
}

// CountLines returns how many lines [Unified] shows as added, and as removed.
func CountLines(old, new []byte, o TextOptions) (added, removed int) {
	edits, uncounted := o.diffLines(SplitLines(old), SplitLines(new))
	for {
		lo, hi := nextHunk(edits, uncounted, o.Context)
		if lo == hi {
			return added, removed
		}
		for _, e := range edits[lo:hi] {
			added += e.bHi - e.bLo
			removed += e.aHi - e.aLo
		}
		edits = edits[hi:]
		if uncounted != nil {
			uncounted = uncounted[hi:]
		}
	}
}

// lineEdits returns the replacements that turn lines a into lines b.
func lineEdits(a, b []string) []replacement {
	// Common lines at the start and end, often nearly all, need no number.
	start, most := 0, min(len(a), len(b))
	for start < most && a[start] == b[start] {
		start++
	}

	end := 0
	for end < most-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}

	a, b = a[start:len(a)-end], b[start:len(b)-end]
	switch {
	case len(a) == 0 && len(b) == 0:
		return nil
	case len(a) == 0 || len(b) == 0:
		return []replacement{{start, start + len(a), start, start + len(b)}}
	}

	numbers := make(symbols[string], max(len(a), len(b)))
	edits := diffSeq(numberLines(numbers, a), numberLines(numbers, b), len(numbers))
	for i := range edits {
		e := &edits[i]
		e.aLo, e.aHi, e.bLo, e.bHi = e.aLo+start, e.aHi+start, e.bLo+start, e.bHi+start
	}

	return edits
}

// EachEdit calls fn with the replacements that turn lines a into lines b, in order:
// a[aLo:aHi] became b[bLo:bHi]. They neither overlap nor touch.
func EachEdit(a, b []string, fn func(aLo, aHi, bLo, bHi int)) {
	for _, e := range lineEdits(a, b) {
		fn(e.aLo, e.aHi, e.bLo, e.bHi)
	}
}

// IsHeading reports whether a line may describe the place of a hunk.
func IsHeading(line string) bool {
	c := line[0]
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$'
}

// hunk is a run of edits from lines a to lines b that are near each other.
type hunk struct {
	a, b               []string
	edits              []replacement
	aLo, aHi, bLo, bHi int    // the lines to show: the edits, and unchanged lines around them
	heading            string // the line that names the part of the text
}

// writeUnified writes the hunk in the unified format. Unchanged lines are those of b.
func (h *hunk) writeUnified(out *bytes.Buffer) {
	a, b := h.a, h.b
	fmt.Fprintf(out, "@@ -%s +%s @@", hunkRange(h.aLo, h.aHi), hunkRange(h.bLo, h.bHi))
	if heading := strings.TrimRight(h.heading[:min(len(h.heading), maxHeading)], " \t\r\n\v\f"); heading != "" {
		out.WriteString(" " + heading)
	}

	out.WriteByte('\n')
	at := h.bLo
	for _, e := range h.edits {
		writeLines(out, ' ', b[at:e.bLo])
		writeLines(out, '-', a[e.aLo:e.aHi])
		writeLines(out, '+', b[e.bLo:e.bHi])
		at = e.bHi
	}

	writeLines(out, ' ', b[at:h.bHi])
}

// hunkRange formats the lines from lo up to hi, counted from 0. The format
// counts from 1, and names an empty range by the line before it.
func hunkRange(lo, hi int) string {
	switch hi - lo {
	case 0:
		return fmt.Sprintf("%d,0", lo)
	case 1:
		return fmt.Sprint(lo + 1)
	}
	return fmt.Sprintf("%d,%d", lo+1, hi-lo)
}

func writeLines(out *bytes.Buffer, mark byte, lines []string) {
	for _, line := range lines {
		out.WriteByte(mark)
		out.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

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
	return mergeText([3][]byte{base, ours, theirs}, labels, NoSide)
}

// mergeText is [MergeText] of base, ours and theirs. If favor is not NoSide, lines that
// conflict are those of that side.
func mergeText(texts [3][]byte, labels Labels, favor MergeSide) (merged []byte, conflicts bool) {
	numbers := symbols[string]{}
	m := textMerge{base: SplitLines(texts[0]), ours: SplitLines(texts[1]), theirs: SplitLines(texts[2])}
	b, o, t := numberLines(numbers, m.base), numberLines(numbers, m.ours), numberLines(numbers, m.theirs)
	m.oursIDs, m.theirsIDs, m.symbols = o, t, len(numbers)
	m.alignChanges(diffSeq(b, o, len(numbers)), diffSeq(b, t, len(numbers)))
	m.joinNearConflicts()
	if favor != NoSide {
		for i := range m.spans {
			if m.spans[i].from == conflicting {
				m.spans[i].from = map[MergeSide]spanOrigin{Ours: fromOurs, Theirs: fromTheirs}[favor]
			}
		}
	}
	return m.writeMerged(labels)
}

// spanOrigin is the origin of the lines of a span.
type spanOrigin uint8

const (
	fromBoth   spanOrigin = iota // ours and theirs agree
	fromOurs                     // only ours changed base
	fromTheirs                   // only theirs changed base
	conflicting
)

// A span is a stretch of the merged text: the lines ours[oLo:oHi], or
// theirs[tLo:tHi], or both in conflict.
type span struct {
	from               spanOrigin
	oLo, oHi, tLo, tHi int
}

type textMerge struct {
	base, ours, theirs []string
	oursIDs, theirsIDs []int32
	symbols            int
	spans              []span
}

// alignChanges cuts the text into spans, from the changes of the two sides.
func (m *textMerge) alignChanges(o, t []replacement) {
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
		oHi, tHi := oLo+hi-lo+countAdded(o[:no]), tLo+hi-lo+countAdded(t[:nt])
		switch {
		case nt == 0:
			m.spans = append(m.spans, span{fromOurs, oLo, oHi, tLo, tHi})
		case no == 0:
			m.spans = append(m.spans, span{fromTheirs, oLo, oHi, tLo, tHi})
		default:
			m.splitEqualLines(oLo, oHi, tLo, tHi)
		}
		at, oAt, tAt, o, t = hi, oHi, tHi, o[no:], t[nt:]
	}

	m.spans = append(m.spans, span{fromBoth, oAt, len(m.ours), tAt, len(m.theirs)})
}

// countAdded returns how many lines replacements add.
func countAdded(rs []replacement) (n int) {
	for _, r := range rs {
		n += (r.bHi - r.bLo) - (r.aHi - r.aLo)
	}
	return n
}

// splitEqualLines splits lines that both sides changed into equal lines and conflicts.
func (m *textMerge) splitEqualLines(oLo, oHi, tLo, tHi int) {
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

// joinNearConflicts joins conflicts that have few equal lines between them.
func (m *textMerge) joinNearConflicts() {
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

// writeMerged writes the merged text.
func (m *textMerge) writeMerged(labels Labels) (merged []byte, conflicts bool) {
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
