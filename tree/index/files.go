package index

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/kist-vcs/kist/object"
)

// The files of an index, in the .kist directory.
const (
	headName   = "index"
	headTemp   = "index.new"
	basePrefix = "index.base-"
	baseTemp   = "index.base.new"
	lockName   = "index.lock"
)

// minHeadSize is the number of bytes of changes that a head can always have.
const minHeadSize = 256 << 10

// fileState identifies the files that an index was loaded from or written to.
type fileState struct {
	head    [sha256.Size]byte // hash of the head's bytes; zero without a head
	base    baseRef
	entries int  // number in the base
	stale   bool // an update failed and left the index in an undefined state
}

// baseRef names a base file and identifies its content.
type baseRef struct {
	id   baseID // zero: there is no base, the head has everything
	size uint64 // bytes
	sum  uint32 // the checksum at its end
}

// baseID is the first half of the SHA-256 of a base file's bytes.
type baseID [16]byte

// name returns the name of the base file.
func (b baseRef) name() string { return basePrefix + hex.EncodeToString(b.id[:]) }

// maxHead returns the largest number of bytes of changes in a head. With more, a new
// base is written, which costs at most 32 times as much as that head.
func (f fileState) maxHead() uint64 { return max(minHeadSize, f.base.size/32) }

// maxTracked returns the largest number of changes that are tracked for a head.
func (f fileState) maxTracked() int { return max(8192, f.entries/16) }

// CorruptError is a damaged file of the index. It matches [object.ErrCorrupt]. The
// staged changes are lost, but no commit is: without its files the index is empty, and
// can be rebuilt from a tree.
type CorruptError struct {
	File string // its path
	Err  error  // the damage
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("index file %q is damaged: %v", e.File, e.Err)
}

// Is makes errors.Is(err, object.ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == object.ErrCorrupt }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// VersionError is a file of the index in a newer format than this program knows. It
// matches [object.ErrNewerFormat].
type VersionError struct {
	File    string // its path
	Version int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("index file %q has format version %d, this program knows up to %d", e.File, e.Version, version)
}

// Is makes errors.Is(err, object.ErrNewerFormat) true.
func (e *VersionError) Is(target error) bool { return target == object.ErrNewerFormat }
