package frame

import (
	"container/list"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// MaxPatch is the largest size of an object that is stored as a patch, and of the base of a
// patch, in bytes.
const MaxPatch = 4 << 20

// patchHeader is the length of a patch's codec byte and ID.
const patchHeader = 1 + len(object.ID{})

// Base returns the ID of the base of the patch in value. The base has the kind of the
// patched object. Ok is false for a value that is no patch, or too short to be one, and for
// a near patch, which has no ID: see [NearBase].
func Base(value []byte) (id object.ID, ok bool) {
	if len(value) < patchHeader || value[0] != codecPatch {
		return id, false
	}
	return object.ID(value[1:patchHeader]), true
}

// DecodePatch is [Decode] for a patch or a near patch. Base has the bytes of the object that
// [Base] or [NearBase] names. DecodePatch does not keep or change it. It must not overlap
// the spare capacity of dst.
func DecodePatch(dst, value []byte, rawLen int, base []byte) ([]byte, error) {
	stored, err := patchScript(value, rawLen)
	if err != nil {
		return dst, err
	}
	if err := checkBase(value, len(base)); err != nil {
		return dst, err
	}

	n, err := Size(stored)
	if err != nil {
		return dst, err
	}
	if n > rawLen {
		return dst, &Error{ReasonLength, fmt.Errorf("script of %d bytes for %d", n, rawLen)}
	}

	script, ok := Raw(stored)
	if !ok {
		b := scripts.Get().(*[]byte)
		defer scripts.Put(b)
		if *b, err = Decode((*b)[:0], stored, n); err != nil {
			return dst, err
		}
		script = *b
	}

	grown := slices.Grow(dst, rawLen)
	if _, err := applyScript(grown[len(dst):len(dst):len(dst)+rawLen], script, base); err != nil {
		return dst, &Error{ReasonPayload, err}
	}
	return grown[:len(dst)+rawLen], nil
}

// checkBase checks the length of the base of a patch.
func checkBase(value []byte, length int) error {
	if length > MaxPatch {
		return &Error{ReasonLength, fmt.Errorf("base of %d bytes", length)}
	}
	if !IsNear(value) {
		return nil
	}
	n, err := NearBase(value)
	if err == nil && n.Raw != length {
		err = &Error{ReasonLength, fmt.Errorf("base of %d bytes, want %d", length, n.Raw)}
	}
	return err
}

// patchScript checks the header of a patch, and returns the stored value of its script.
func patchScript(value []byte, rawLen int) ([]byte, error) {
	size, n, err := patchSize(value)
	switch {
	case err != nil:
		return nil, err
	case size != rawLen:
		return nil, &Error{ReasonLength, fmt.Errorf("patch for %d bytes, want %d", size, rawLen)}
	case len(value) > n && (value[n] == codecPatch || value[n] == codecNear):
		return nil, &Error{ReasonHeader, errors.New("the script is a patch")}
	}
	return value[n:], nil
}

// patchSize returns the size of the patched object, and the offset of the script in value.
func patchSize(value []byte) (size, script int, err error) {
	at, err := baseEnd(value)
	if err != nil {
		return 0, 0, err
	}
	v, n, err := patchNumber(value[at:], "length")
	switch {
	case err != nil:
		return 0, 0, err
	case v > MaxPatch:
		return 0, 0, &Error{ReasonLength, fmt.Errorf("patch for %d bytes", v)}
	}
	return int(v), at + n, nil
}

// baseEnd returns the offset in a patch after the ID or the place of its base.
func baseEnd(value []byte) (int, error) {
	switch {
	case len(value) == 0:
		return 0, &Error{Reason: ReasonEmpty}
	case value[0] == codecNear:
		_, n, err := nearBase(value)
		return n, err
	case value[0] != codecPatch:
		return 0, &Error{ReasonCodec, fmt.Errorf("codec %d, want a patch", value[0])}
	case len(value) < patchHeader:
		return 0, &Error{ReasonHeader, errors.New("cut short")}
	}
	return patchHeader, nil
}

// patchNumber reads the number at the start of b, and returns its length in bytes. What
// names the number in errors.
func patchNumber(b []byte, what string) (v uint64, n int, err error) {
	v, n = binary.Uvarint(b)
	if n <= 0 || n > 1 && v>>(7*(n-1)) == 0 {
		return 0, 0, &Error{ReasonHeader, errors.New("no " + what)}
	}
	return v, n, nil
}

// AppendPatch appends the value for src as a patch of base to dst, and returns the extended
// slice. ID is that of base. AppendPatch decodes and compares the patch. Ok is false, and
// nothing is appended, if src or base is longer than [MaxPatch], or the patch would not be
// shorter than src. AppendPatch does not keep or change src and base, which must not overlap
// the spare capacity of dst.
func (e *Encoder) AppendPatch(dst, src []byte, id object.ID, base []byte) (out []byte, ok bool) {
	if len(src) > MaxPatch || len(base) > MaxPatch {
		return dst, false
	}
	w := e.workers.get()
	out, s := w.appendPatch(dst, src, id, base)
	if s != broken {
		e.workers.put(w)
	}
	return out, s == compressed
}

// appendPatch appends a patch, if that saves enough.
func (w *worker) appendPatch(dst, src []byte, id object.ID, base []byte) (out []byte, s state) {
	w.script = w.matcher.appendScript(w.script[:0], src, base)
	if len(w.script) > len(src) {
		return dst, notWorth
	}

	n := len(dst)
	out = append(append(dst, codecPatch), id[:]...)
	out = binary.AppendUvarint(out, uint64(len(src)))
	m := len(out)
	s = notWorth
	if len(w.script) >= minCompress {
		if out, s = w.appendCompressed(out, w.script); s == broken {
			return dst, broken
		}
	}
	if s == notWorth {
		out = append(append(out[:m], codecRaw), w.script...)
	}

	if len(out)-n >= len(src) {
		return dst, notWorth
	}
	var err error
	w.check, err = DecodePatch(w.check[:0], out[n:], len(src), base)
	if err != nil || string(w.check) != string(src) {
		return dst, broken
	}
	return out, compressed
}

// BaseObject is the base of a patch.
type BaseObject struct {
	Data  []byte // read-only
	Depth int    // the number of patches that it was read through; 0: it is no patch
}

// BaseCache keeps the bases that were used last, so that several patches of one base read it
// once. P identifies the place that a base was read from: the same object can have another
// depth elsewhere. A BaseCache is safe for concurrent use. [NewBaseCache] makes one.
type BaseCache[P comparable] struct {
	maxBytes int
	mu       sync.Mutex
	bytes    int
	recent   list.List // of *cachedBase[P], the last used first
	places   map[P]*list.Element
}

type cachedBase[P comparable] struct {
	place P
	base  BaseObject
}

// NewBaseCache returns a cache of bases that have at most maxBytes together.
func NewBaseCache[P comparable](maxBytes int) *BaseCache[P] {
	return &BaseCache[P]{maxBytes: maxBytes, places: map[P]*list.Element{}}
}

// Get returns the base that was read at place, and whether the cache has it.
func (c *BaseCache[P]) Get(place P) (BaseObject, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.places[place]
	if e == nil {
		return BaseObject{}, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cachedBase[P]).base, true
}

// Put keeps the base that was read at place, unless the cache has one already.
// The caller no longer changes the base's data.
func (c *BaseCache[P]) Put(place P, b BaseObject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.places[place] != nil {
		return
	}
	c.places[place] = c.recent.PushFront(&cachedBase[P]{place, b})
	c.bytes += cap(b.Data)
	for c.bytes > c.maxBytes {
		c.removeBase(c.recent.Back())
	}
}

// Forget removes the bases at all places for which drop returns true.
func (c *BaseCache[P]) Forget(drop func(place P) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for place, e := range c.places {
		if drop(place) {
			c.removeBase(e)
		}
	}
}

// removeBase removes one base. The caller holds c.mu.
func (c *BaseCache[P]) removeBase(e *list.Element) {
	b := c.recent.Remove(e).(*cachedBase[P])
	delete(c.places, b.place)
	c.bytes -= cap(b.base.Data)
}
