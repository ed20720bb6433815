package volume

import (
	"os"
	"sync/atomic"
)

// minReadOnce is the least stored value that is read with readOnce. Around
// smaller ones, others will be wanted soon.
const minReadOnce = 64 << 10

// readBefore remembers roughly which large values were lent: one that is lent
// again, since many files have it, is worth its place in the page cache.
type readBefore [1 << 14]atomic.Uint64

// note notes that the value at off in a log was lent, and reports whether it
// was before. It may take one for another.
func (r *readBefore) note(log uint32, off int64) bool {
	hash := (uint64(off) ^ uint64(log)<<40) * 0x9e3779b97f4a7c15
	word, bit := &r[hash>>50], uint64(1)<<(hash>>44&63)
	return word.Or(bit)&bit != 0
}

// lendReader returns how a value of n bytes is read that is lent.
func (s *Store) lendReader(log uint32, off int64, n int) readFunc {
	if n < minReadOnce || s.lent.note(log, off) {
		return (*os.File).ReadAt
	}
	return readOnce
}
