package index

import (
	"crypto/sha256"
	"encoding/hex"
)

// The files of an index, in a repository's .kist folder.
const (
	headName    = "index"
	headTemp    = "index.new"
	basePrefix  = "index.base-"
	baseTemp    = "index.base.new"
	lockName    = "index.lock"
	minHeadSize = 256 << 10
)

// fileState is what an index remembers of the files it was loaded from or
// written to.
type fileState struct {
	head    [sha256.Size]byte // of the head's bytes; zero: there was no head
	base    baseRef
	entries int  // in the base
	stale   bool // an update that failed has left the index in an undefined state
}

// baseRef names a base file and says how to know it.
type baseRef struct {
	id   baseID // zero: there is none, the head holds everything
	size uint64 // bytes
	sum  uint32 // the checksum at its end
}

// baseID is the first half of the SHA-256 of a base file's bytes.
type baseID [16]byte

func (b baseRef) name() string { return basePrefix + hex.EncodeToString(b.id[:]) }

// maxHead is how many bytes of changes are written beside the base.
// Beyond it a new base is written, which then costs at most 32 times as much.
func (f fileState) maxHead() uint64 { return max(minHeadSize, f.base.size/32) }

// maxTracked is how many changes are remembered to be written beside the base.
func (f fileState) maxTracked() int { return max(8192, f.entries/16) }
