package frame

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"sync"
)

// A script makes an object from its base: bytes to insert and places to copy
// from, in turn. See docs/format/frame.md.

// scripts holds buffers for scripts that are decoded.
var scripts = sync.Pool{New: func() any { return new([]byte) }}

var (
	errScriptNumber = errors.New("the script has no number where one belongs")
	errScriptEnd    = errors.New("the script ends early")
	errScriptLonger = errors.New("the script goes on after the end")
	errScriptLength = errors.New("the script makes more than the object")
	errScriptCopy   = errors.New("the script copies what the base does not have")
)

// applyScript appends what script makes of base to dst until its capacity is
// full, which must be so when the script ends.
func applyScript(dst, script, base []byte) ([]byte, error) {
	r := scriptReader{rest: script, base: base}
	for insert := true; ; insert = !insert {
		part, err := r.next(insert)
		switch {
		case err != nil:
			return nil, err
		case len(part) > cap(dst)-len(dst):
			return nil, errScriptLength
		}
		if dst = append(dst, part...); len(dst) == cap(dst) {
			break
		}
	}
	if len(r.rest) > 0 {
		return nil, errScriptLonger
	}
	return dst, nil
}

// scriptReader reads a script.
type scriptReader struct {
	rest []byte
	base []byte
	at   int64 // in base, after the last copied part
}

// next returns the bytes that are inserted, or copied, next.
func (r *scriptReader) next(insert bool) ([]byte, error) {
	n, err := r.number()
	if err != nil {
		return nil, err
	}
	if insert {
		if n > int64(len(r.rest)) {
			return nil, errScriptEnd
		}
		part := r.rest[:n]
		r.rest = r.rest[n:]
		return part, nil
	}
	skip, err := r.number()
	if err != nil {
		return nil, err
	}
	from := r.at + (skip>>1 ^ -(skip & 1))
	if from < 0 || from > int64(len(r.base)) || n > int64(len(r.base))-from {
		return nil, errScriptCopy
	}
	r.at = from + n
	return r.base[from:r.at], nil
}

// number reads a number of up to 35 bits.
func (r *scriptReader) number() (int64, error) {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || size > 5 || size > 1 && n>>(7*(size-1)) == 0 {
		return 0, errScriptNumber
	}
	r.rest = r.rest[size:]
	return int64(n), nil
}

// A copied part has at least minCopy bytes. zstd compresses shorter ones
// better by itself. The hash table has every baseStep'th place of the base:
// among minCopy equal bytes, hashLen bytes begin at such a place.
const (
	minCopy  = 24
	baseStep = 4
	hashLen  = 8
)

// matcher makes scripts.
type matcher struct {
	places []int32 // by hash: a place in the base, + 1; 0: none
	bits   int     // of a hash
}

func (m *matcher) hash(b []byte) uint64 {
	return binary.LittleEndian.Uint64(b) * 0x9e3779b185ebca87 >> (64 - m.bits)
}

// index notes where in base is what.
func (m *matcher) index(base []byte) {
	m.bits = max(8, bits.Len(uint(len(base)/baseStep))+1)
	m.places = slices.Grow(m.places[:0], 1<<m.bits)[:1<<m.bits]
	clear(m.places)
	// From the end: of equal places, the first is known.
	for i := (len(base) - hashLen) &^ (baseStep - 1); i >= 0; i -= baseStep {
		m.places[m.hash(base[i:])] = int32(i) + 1
	}
}

// append appends to dst the script that makes src from base.
func (m *matcher) append(dst, src, base []byte) []byte {
	m.index(base)
	done := 0 // of src
	at := 0   // in base, after the last copied part
	for i := 0; i+hashLen <= len(src); {
		c := m.find(src, base, done, i, at)
		if c.n < minCopy {
			i++
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(c.to-done))
		dst = append(dst, src[done:c.to]...)
		dst = binary.AppendUvarint(dst, uint64(c.n))
		dst = binary.AppendVarint(dst, int64(c.from-at))
		done, at = c.to+c.n, c.from+c.n
		i = done
	}
	if done < len(src) {
		dst = binary.AppendUvarint(dst, uint64(len(src)-done))
		dst = append(dst, src[done:]...)
	}
	return dst
}

// part is a part of the source that the base has as well.
type part struct{ to, from, n int }

// find returns the longest equal part around place i of the source, beginning
// after done. It tries the continuation of the last copied part, with as many
// bytes in between as in the source or none, and the place that the hash
// finds.
func (m *matcher) find(src, base []byte, done, i, at int) (best part) {
	want := binary.LittleEndian.Uint64(src[i:])
	for _, from := range [3]int{at + i - done, at, int(m.places[m.hash(src[i:])]) - 1} {
		if from < 0 || from+hashLen > len(base) || binary.LittleEndian.Uint64(base[from:]) != want {
			continue
		}
		n := hashLen + common(src[i+hashLen:], base[from+hashLen:])
		back := 0
		for back < min(i-done, from) && src[i-back-1] == base[from-back-1] {
			back++
		}
		if n+back > best.n {
			best = part{i - back, from - back, n + back}
		}
	}
	return best
}

// common returns how many bytes a and b begin with that are equal.
func common(a, b []byte) int {
	n := 0
	for n+8 <= min(len(a), len(b)) {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
