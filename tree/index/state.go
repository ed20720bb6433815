package index

import "crypto/sha256"

// fileState is what an index remembers of the files it was loaded from or
// written to.
type fileState struct {
	head    [sha256.Size]byte // of the head's bytes; zero: there was no head
	base    baseRef
	entries int // in the base
}

// baseRef names a base file and says how to know it.
type baseRef struct {
	id   baseID // zero: there is none, the head holds everything
	size uint64 // bytes
	sum  uint32 // the checksum at its end
}

// baseID is the first half of the SHA-256 of a base file's bytes.
type baseID [16]byte

// maxTracked is how many changes are kept apart from the base's entries,
// beyond which the base will be written again.
func (f fileState) maxTracked() int { return max(8192, f.entries/16) }
