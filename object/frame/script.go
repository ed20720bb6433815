package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// A script makes an object from its base: bytes to insert and places to copy
// from, in turn. See docs/format/frame.md.

// scripts holds buffers for scripts that are decoded.
var scripts = sync.Pool{New: func() any { return new([]byte) }}

var (
	errScriptNumber = errors.New("the script has a missing or invalid number")
	errScriptEnd    = errors.New("the script ends early")
	errScriptLonger = errors.New("the script goes on after the end")
	errScriptLength = errors.New("the script makes more bytes than the object has")
	errScriptCopy   = errors.New("the script copies from outside the base")
)

// applyScript appends the object that script makes from base to dst. The object must fill
// the capacity of dst exactly.
func applyScript(dst, script, base []byte) ([]byte, error) {
	r := scriptReader{rest: script, base: base}
	for insert := true; ; insert = !insert {
		part, err := r.nextPart(insert)
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

// nextPart returns the next bytes to insert or to copy.
func (r *scriptReader) nextPart(insert bool) ([]byte, error) {
	n, err := r.readNumber()
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
	skip, err := r.readNumber()
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

// readNumber reads a number of up to 35 bits.
func (r *scriptReader) readNumber() (int64, error) {
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

func (m *matcher) hashOf(b []byte) uint64 {
	return binary.LittleEndian.Uint64(b) * 0x9e3779b185ebca87 >> (64 - m.bits)
}

// indexBase fills the hash table with the places in base.
func (m *matcher) indexBase(base []byte) {
	m.bits = max(8, bits.Len(uint(len(base)/baseStep))+1)
	m.places = slices.Grow(m.places[:0], 1<<m.bits)[:1<<m.bits]
	clear(m.places)
	// The loop runs backwards, so that the first of equal places remains.
	for i := (len(base) - hashLen) &^ (baseStep - 1); i >= 0; i -= baseStep {
		m.places[m.hashOf(base[i:])] = int32(i) + 1
	}
}

// appendScript appends the script that makes src from base to dst.
func (m *matcher) appendScript(dst, src, base []byte) []byte {
	m.indexBase(base)
	done := 0 // of src
	at := 0   // in base, after the last copied part
	for i := 0; i+hashLen <= len(src); {
		c := m.longestPart(src, base, done, i, at)
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

// part is a part of the source that is also in the base.
type part struct{ to, from, n int }

// longestPart returns the longest common part around offset i of the source that begins after done.
// At is the end of the last copied part in the base. It tries three places: at, the place as
// far after at as i is after done, and the place that the hash table has.
func (m *matcher) longestPart(src, base []byte, done, i, at int) (best part) {
	want := binary.LittleEndian.Uint64(src[i:])
	for _, from := range [3]int{at + i - done, at, int(m.places[m.hashOf(src[i:])]) - 1} {
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

// common returns the number of equal bytes at the beginnings of a and b.
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

// MaxDistance is the largest number of bytes between the beginnings of a near patch and of
// its base.
const MaxDistance = 1 << 30

// Near is the place of the base of a near patch: in the same file, before the
// patch.
type Near struct {
	Distance int // bytes back from the beginning of the patch to that of the base's stored value
	Stored   int // bytes of that value, at most Distance
	Raw      int // bytes of the base, at most MaxPatch
}

// checkPlace returns an error if n cannot be the place of a base.
func (n Near) checkPlace() error {
	switch {
	case n.Raw > MaxPatch:
		return &Error{ReasonLength, fmt.Errorf("base of %d bytes", n.Raw)}
	case n.Raw <= 0 || n.Stored <= 0 || n.Stored > n.Raw+MaxOverhead:
		return &Error{ReasonHeader, fmt.Errorf("base of %d bytes, stored as %d", n.Raw, n.Stored)}
	case n.Distance < n.Stored || n.Distance > MaxDistance:
		return &Error{ReasonHeader, fmt.Errorf("base stored as %d bytes, %d before the patch", n.Stored, n.Distance)}
	}
	return nil
}

// IsNear reports whether value begins like a near patch.
func IsNear(value []byte) bool { return len(value) > 0 && value[0] == codecNear }

// NearBase returns the place of the base of the near patch in value. The base has the kind
// of the patched object. An error is an [*Error].
func NearBase(value []byte) (Near, error) {
	if !IsNear(value) {
		_, err := baseEnd(value)
		if err == nil {
			err = &Error{ReasonCodec, fmt.Errorf("codec %d, want a near patch", value[0])}
		}
		return Near{}, err
	}
	n, _, err := nearBase(value)
	return n, err
}

// nearBase is NearBase, and also returns the offset in value after the place.
func nearBase(value []byte) (near Near, end int, err error) {
	end = 1
	var numbers [3]int
	for i, what := range [...]string{"distance", "stored length of the base", "length of the base"} {
		v, n, err := patchNumber(value[end:], what)
		if err != nil {
			return Near{}, 0, err
		}
		numbers[i] = int(min(v, MaxDistance+1))
		end += n
	}
	near = Near{numbers[0], numbers[1], numbers[2]}
	return near, end, near.checkPlace()
}

// AppendNear appends the patch in value to dst, as a near patch whose base is at n. Value
// must not overlap the spare capacity of dst. AppendNear does not check the script. It
// returns dst unchanged and an [*Error] if value is no patch with the ID of its base, or if
// n cannot be the place of a base.
func AppendNear(dst, value []byte, n Near) ([]byte, error) {
	if IsNear(value) {
		return dst, &Error{ReasonCodec, fmt.Errorf("codec %d, want %d", value[0], codecPatch)}
	}
	if _, _, err := patchSize(value); err != nil {
		return dst, err
	}
	if err := n.checkPlace(); err != nil {
		return dst, err
	}
	dst = append(dst, codecNear)
	for _, v := range [...]int{n.Distance, n.Stored, n.Raw} {
		dst = binary.AppendUvarint(dst, uint64(v))
	}
	return append(dst, value[patchHeader:]...), nil
}

// AppendFar is the reverse of [AppendNear]: it appends the near patch in value to dst, as a
// patch with the ID of its base. Value must not overlap the spare capacity of dst. AppendFar
// does not check the script. It returns dst unchanged and an [*Error] if value is no near
// patch.
func AppendFar(dst, value []byte, base object.ID) ([]byte, error) {
	if _, err := NearBase(value); err != nil {
		return dst, err
	}
	if _, _, err := patchSize(value); err != nil {
		return dst, err
	}
	end, err := baseEnd(value)
	if err != nil {
		return dst, err
	}
	dst = append(append(dst, codecPatch), base[:]...)
	return append(dst, value[end:]...), nil
}
