package tree

import (
	"bytes"
	"strings"
)

// WordStyle is how [WordDiff] shows pieces of text. Each pair stands before and after a
// piece, which is a part of a line.
type WordStyle struct {
	Old, New, Same [2]string
	Newline        string              // ends a line
	Lines          bool                // each unchanged line gets Same and Newline, even an empty one
	Head           func(string) string // shows a line of the header, or the head of a hunk
}

// WordDiff shows the words that differ between the texts of a patch, which [Unified] made.
// A word is a run of bytes without white space.
func WordDiff(patch []byte, s WordStyle) []byte {
	w := wordDiff{style: s}
	header := 2
	for line := range strings.Lines(string(patch)) {
		switch mark := line[0]; {
		case header > 0 || mark == '@':
			header = max(header-1, 0)
			w.writeChange()
			w.out.WriteString(s.Head(line))
		case mark == '-':
			w.old.WriteString(line[1:])
		case mark == '+':
			w.new.WriteString(line[1:])
		case mark == '\\':
		case s.Lines:
			w.writeChange()
			w.out.WriteString(s.Same[0] + strings.TrimSuffix(line[1:], "\n") + s.Same[1] + s.Newline)
		default:
			w.writeChange()
			w.writePiece(s.Same, line[1:])
		}
	}
	w.writeChange()
	return w.out.Bytes()
}

type wordDiff struct {
	style    WordStyle
	old, new bytes.Buffer // the lines of the current change
	out      bytes.Buffer
}

// writePiece writes a piece of text.
func (w *wordDiff) writePiece(style [2]string, text string) {
	for text != "" {
		line, rest, newline := strings.Cut(text, "\n")
		if line != "" {
			w.out.WriteString(style[0] + line + style[1])
		}
		if newline {
			w.out.WriteString(w.style.Newline)
		}
		text = rest
	}
}

// writeChange writes the current change. White space between words is that of the new text.
func (w *wordDiff) writeChange() {
	old, new := w.old.String(), w.new.String()
	w.old.Reset()
	w.new.Reset()
	if new == "" {
		w.writePiece(w.style.Old, old)
		return
	}
	a, aEnds := splitWords(old)
	b, bEnds := splitWords(new)
	at := 0 // the end of the written part of new
	for _, e := range lineEdits(a, b) {
		oldLo, oldHi := wordsAt(a, aEnds, e.aLo, e.aHi)
		newLo, newHi := wordsAt(b, bEnds, e.bLo, e.bHi)
		w.writePiece(w.style.Same, new[at:newLo])
		w.writePiece(w.style.Old, old[oldLo:oldHi])
		w.writePiece(w.style.New, new[newLo:newHi])
		at = newHi
	}
	w.writePiece(w.style.Same, new[at:])
}

// splitWords returns the words of a text and where they end.
func splitWords(text string) (list []string, ends []int) {
	start := -1
	for i := range len(text) {
		blank := isBlank(rune(text[i]))
		if blank && start >= 0 {
			list, ends = append(list, text[start:i]), append(ends, i)
			start = -1
		} else if !blank && start < 0 {
			start = i
		}
	}
	if start >= 0 {
		list, ends = append(list, text[start:]), append(ends, len(text))
	}
	return list, ends
}

// wordsAt returns the bytes from one word up to another. No words are at the end of the
// word before them.
func wordsAt(list []string, ends []int, lo, hi int) (from, to int) {
	switch {
	case lo < hi:
		return ends[lo] - len(list[lo]), ends[hi-1]
	case lo == 0:
		return 0, 0
	}
	return ends[lo-1], ends[lo-1]
}
