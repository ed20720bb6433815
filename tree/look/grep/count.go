package grep

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/tree"
)

// Count returns the number of matches in text that do not overlap.
func (p *Pattern) Count(text []byte) int {
	if p.exact && !p.folded {
		return bytes.Count(text, p.literal)
	}
	return len(p.text.FindAllIndex(text, -1))
}

// CountText returns how often content has a text, without overlaps. It reads block by block.
func CountText(r io.Reader, text string) (n int, err error) {
	want, buf := []byte(text), make([]byte, 0, blockSize+len(text))
	for {
		var read int
		read, err = r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+read]
		rest := buf
		for {
			at := bytes.Index(rest, want)
			if at < 0 {
				break
			}
			n++
			rest = rest[at+len(want):]
		}
		rest = rest[max(0, len(rest)-len(want)+1):]
		buf = buf[:copy(buf[:cap(buf)], rest)]
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// Changed reports whether a line matches that was added or removed between two texts.
func (p *Pattern) Changed(a, b []string) bool {
	matches := func(line string) bool { return p.Match([]byte(strings.TrimSuffix(line, "\n"))) }
	changed := false
	tree.EachEdit(a, b, func(aLo, aHi, bLo, bHi int) {
		changed = changed || slices.ContainsFunc(a[aLo:aHi], matches) || slices.ContainsFunc(b[bLo:bHi], matches)
	})
	return changed
}
