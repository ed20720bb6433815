package tree

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// patchOptions show as many unchanged lines around a change as git.
var patchOptions = TextOptions{Context: 3}

// Patch is the difference of two texts, in hunks that are chosen one by one. The chosen
// hunks change one of the texts, the base.
type Patch struct {
	hunks []hunk // from the base to the other text
	base  []string
	back  bool // the base is the new text: hunks are shown as they were made, and are taken back
}

// NewPatch returns the difference of two texts. The chosen hunks change old.
func NewPatch(old, new []byte) *Patch {
	a := SplitLines(old)
	return &Patch{hunks: hunksOf(a, SplitLines(new), patchOptions), base: a}
}

// NewReversePatch returns the difference of two texts. The chosen hunks are taken back from new.
func NewReversePatch(old, new []byte) *Patch {
	b := SplitLines(new)
	p := &Patch{hunks: hunksOf(SplitLines(old), b, patchOptions), base: b, back: true}
	for i := range p.hunks {
		p.hunks[i] = p.hunks[i].invert()
	}
	return p
}

// invert returns the hunk that leads from b to a.
func (h *hunk) invert() hunk {
	f := hunk{
		a: h.b, b: h.a, edits: make([]replacement, len(h.edits)), heading: h.heading,
		aLo: h.bLo, aHi: h.bHi, bLo: h.aLo, bHi: h.aHi,
	}
	for i, e := range h.edits {
		f.edits[i] = replacement{e.bLo, e.bHi, e.aLo, e.aHi}
	}
	return f
}

// Len returns the number of hunks.
func (p *Patch) Len() int { return len(p.hunks) }

// Hunk returns hunk i in the unified format.
func (p *Patch) Hunk(i int) []byte {
	h := p.hunks[i]
	if p.back {
		h = h.invert()
	}
	var out bytes.Buffer
	h.writeUnified(&out)
	return out.Bytes()
}

// Parts returns the number of hunks that hunk i can be split into, at least 1: one for each
// run of changed lines.
func (p *Patch) Parts(i int) int { return max(len(p.hunks[i].edits), 1) }

// Split replaces hunk i by its parts. The unchanged lines between two parts belong to both.
func (p *Patch) Split(i int) {
	h := p.hunks[i]
	var parts []hunk
	for n := range h.edits {
		part := h
		part.edits = h.edits[n : n+1]
		if n > 0 {
			part.aLo, part.bLo, part.heading = h.edits[n-1].aHi, h.edits[n-1].bHi, ""
		}
		if n+1 < len(h.edits) {
			part.aHi, part.bHi = h.edits[n+1].aLo, h.edits[n+1].bLo
		}
		parts = append(parts, part)
	}
	p.hunks = slices.Replace(p.hunks, i, i+1, parts...)
}

// Errors of [Patch.Edit].
var (
	// ErrNoHunk means that an edited hunk has no lines left.
	ErrNoHunk = errors.New("no line of the hunk is left")

	// ErrHunkMismatch means that an edited hunk does not fit the text that it has to change.
	ErrHunkMismatch = errors.New("the edited hunk does not apply")
)

// Edit replaces hunk i by an edited form of it. Lines that begin with # are left out, and
// so is the first line of the hunk, which has the line numbers. The unchanged and removed
// lines must be in the base, within the lines of the hunk, and the changes must stay apart
// from those of other hunks. Otherwise the error matches ErrHunkMismatch, and the hunk
// stays. The error is ErrNoHunk if no line is left.
func (p *Patch) Edit(i int, text []byte) error {
	lines, err := parseHunk(text)
	if err != nil {
		return err
	}
	if p.back {
		for n := range lines {
			lines[n].mark = map[byte]byte{'+': '-', '-': '+', ' ': ' '}[lines[n].mark]
		}
	}

	old := p.hunks[i]
	edited, ok := old.replaceLines(lines)
	if !ok {
		return fmt.Errorf("%w: its lines are not those of the file", ErrHunkMismatch)
	}
	if len(edited.edits) == 0 {
		return fmt.Errorf("%w: it changes nothing", ErrHunkMismatch)
	}
	p.hunks[i] = edited
	if _, err := p.Apply(func(int) bool { return true }); err != nil {
		p.hunks[i] = old
		return err
	}
	return nil
}

// hunkLine is a line of an edited hunk, behind its mark: a blank, a minus or a plus.
type hunkLine struct {
	mark byte
	text string
}

// parseHunk reads an edited hunk.
func parseHunk(text []byte) (lines []hunkLine, err error) {
	for n, line := range SplitLines(text) {
		mark, rest := line[0], line[1:]
		switch {
		case mark == '#' || mark == '@' && len(lines) == 0:
			continue
		case mark == '\n' || line == "\r\n": // an editor removed the blank
			mark, rest = ' ', line
		case mark == '\\':
			if len(lines) > 0 {
				last := &lines[len(lines)-1]
				last.text = strings.TrimSuffix(last.text, "\n")
			}
			continue
		case mark != ' ' && mark != '-' && mark != '+':
			return nil, fmt.Errorf("%w: line %d begins with neither a blank, - nor +", ErrHunkMismatch, n+1)
		}
		if !strings.HasSuffix(rest, "\n") {
			rest += "\n" // of the editor's file, not of the text
		}
		lines = append(lines, hunkLine{mark, rest})
	}
	if len(lines) == 0 {
		return nil, ErrNoHunk
	}
	return lines, nil
}

// replaceLines returns a hunk with edited lines in the place of h. It reports false if the
// lines without + are not consecutive lines of h.a within h.
func (h *hunk) replaceLines(lines []hunkLine) (hunk, bool) {
	var before []string
	for _, l := range lines {
		if l.mark != '+' {
			before = append(before, l.text)
		}
	}

	at := h.aLo
	for ; at+len(before) <= h.aHi && !slices.Equal(h.a[at:at+len(before)], before); at++ {
	}
	if at+len(before) > h.aHi {
		return hunk{}, false
	}

	// Of the other text before the hunk, only the number of lines counts: it is shown.
	start := min(h.bLo+at-h.aLo, len(h.b))
	r := hunk{a: h.a, b: slices.Clone(h.b[:start]), aLo: at, aHi: at + len(before), bLo: start, heading: h.heading}
	for _, l := range lines {
		n := len(r.edits)
		if l.mark != ' ' && (n == 0 || r.edits[n-1].aHi != at || r.edits[n-1].bHi != len(r.b)) {
			r.edits = append(r.edits, replacement{at, at, len(r.b), len(r.b)})
			n++
		}
		if l.mark != '-' {
			r.b = append(r.b, l.text)
		}
		if l.mark != '+' {
			at++
		}
		if l.mark != ' ' {
			r.edits[n-1].aHi, r.edits[n-1].bHi = at, len(r.b)
		}
	}
	r.bHi = len(r.b)
	return r, true
}

// Apply returns the base with the changes of the hunks that use selects.
func (p *Patch) Apply(use func(i int) bool) ([]byte, error) {
	type change struct {
		lo, hi int
		lines  []string
	}
	var changes []change
	for i, h := range p.hunks {
		if !use(i) {
			continue
		}
		for _, e := range h.edits {
			changes = append(changes, change{e.aLo, e.aHi, h.b[e.bLo:e.bHi]})
		}
	}
	slices.SortStableFunc(changes, func(x, y change) int { return cmp.Or(cmp.Compare(x.lo, y.lo), cmp.Compare(x.hi, y.hi)) })

	var lines []string
	at := 0
	for _, c := range changes {
		if c.lo < at {
			return nil, fmt.Errorf("%w: another hunk changes the same lines", ErrHunkMismatch)
		}
		lines = append(append(lines, p.base[at:c.lo]...), c.lines...)
		at = c.hi
	}
	lines = append(lines, p.base[at:]...)

	var out []byte
	for i, line := range lines {
		if i+1 < len(lines) && !strings.HasSuffix(line, "\n") {
			return nil, fmt.Errorf("%w: a line without an end is not the last one", ErrHunkMismatch)
		}
		out = append(out, line...)
	}
	return out, nil
}
