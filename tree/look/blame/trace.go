package blame

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/tree"
)

// LineEdit replaces lines of an old text by lines of a new text.
type LineEdit struct{ Old, New Lines }

// Trace returns where ranges of the lines of a new text were in the old text, and the edits
// that touched them. The ranges are sorted, and so is the result. An edit that touches a range
// is in the result as a whole, as in git.
func Trace(old, new []string, ranges []Lines) (before []Lines, touched []LineEdit) {
	var edits []LineEdit
	tree.EachEdit(old, new, func(aLo, aHi, bLo, bHi int) {
		edits = append(edits, LineEdit{Lines{aLo, aHi}, Lines{bLo, bHi}})
	})
	for _, e := range edits {
		if slices.ContainsFunc(ranges, func(r Lines) bool { return e.New.Hi > r.Lo && e.New.Lo < r.Hi }) {
			touched = append(touched, e)
		}
	}

	// Unedited lines are in both texts, at different places.
	shift, next := 0, 0
	keep := func(lo, hi int) {
		for ; next < len(edits) && edits[next].New.Lo <= lo; next++ {
			e := edits[next]
			shift += e.Old.Hi - e.Old.Lo - (e.New.Hi - e.New.Lo)
		}
		if lo < hi {
			before = append(before, Lines{lo + shift, hi + shift})
		}
	}
	for _, r := range ranges {
		lo := r.Lo
		for _, e := range touched {
			if e.New.Hi < lo || e.New.Lo >= r.Hi {
				continue
			}
			if e.New.Lo > lo {
				keep(lo, e.New.Lo)
			}
			lo = max(lo, e.New.Hi)
		}
		if lo < r.Hi {
			keep(lo, r.Hi)
		}
	}
	for _, e := range touched {
		if e.Old.Lo < e.Old.Hi {
			before = append(before, e.Old)
		}
	}
	return JoinLines(before), touched
}

// Hunks returns the edits of ranges in the unified format, one hunk for each range that an
// edit touches. Touched is the result of [Trace] for the same ranges.
func Hunks(old, new []string, ranges []Lines, touched []LineEdit) []byte {
	var out bytes.Buffer
	for _, r := range ranges {
		list := slices.DeleteFunc(slices.Clone(touched), func(e LineEdit) bool { return e.New.Hi < r.Lo || e.New.Lo > r.Hi })
		if n := len(list); n > 1 { // an edit directly behind the range counts only if it is alone
			if i := slices.IndexFunc(list, func(e LineEdit) bool { return e.New.Lo == r.Hi }); i > 0 {
				list = list[:i]
			}
		}
		if len(list) > 0 {
			writeHunk(&out, old, new, r, list)
		}
	}
	return out.Bytes()
}

// writeHunk writes one hunk.
func writeHunk(out *bytes.Buffer, old, new []string, r Lines, edits []LineEdit) {
	first, last := edits[0], edits[len(edits)-1]
	from := Lines{first.Old.Lo - max(first.New.Lo-r.Lo, 0), last.Old.Hi + max(r.Hi-last.New.Hi, 0)}
	start := from.Lo + 1
	if from == (Lines{}) {
		start = 0
	}
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n", start, from.Hi-from.Lo, r.Lo+1, r.Hi-r.Lo)
	write := func(mark byte, lines []string) {
		for _, line := range lines {
			out.WriteByte(mark)
			out.WriteString(line)
			if !strings.HasSuffix(line, "\n") {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	at := r.Lo
	for _, e := range edits {
		if e.New.Lo >= r.Hi {
			break
		}
		if e.New.Lo > at {
			write(' ', new[at:e.New.Lo])
			at = e.New.Lo
		}
		write('-', old[e.Old.Lo:e.Old.Hi])
		if end := min(e.New.Hi, r.Hi); end > at {
			write('+', new[at:end])
			at = end
		}
	}
	write(' ', new[at:r.Hi])
}
