package volume

import (
	"math/bits"
	"sync"
)

// Buffers for stored values are recycled by size, so that many small values
// do not hold large buffers.
const (
	minBufferBits = 10
	maxBufferBits = 25
)

var buffers [maxBufferBits + 1]sync.Pool

// buffer is a byte slice that is given back with free.
type buffer struct {
	b     []byte
	class int
}

// takeBuffer returns an empty buffer with room for at least n bytes.
func takeBuffer(n int) *buffer {
	class := max(minBufferBits, bits.Len(uint(max(n, 1)-1)))
	if class > maxBufferBits {
		return &buffer{b: make([]byte, 0, n), class: class}
	}
	if b, ok := buffers[class].Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 0, 1<<class), class: class}
}

// free gives the buffer back. It must not be used any more.
func (b *buffer) free() {
	if b.class <= maxBufferBits && cap(b.b) == 1<<b.class {
		b.b = b.b[:0]
		buffers[b.class].Put(b)
	}
}
