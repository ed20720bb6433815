package object

import (
	"cmp"
	"strings"
	"time"
)

// Limits that encoders keep and decoders enforce.
const (
	MaxChunkSize   = 16 << 20  // bytes of a chunk
	MaxNodeSize    = 1 << 20   // bytes of an encoded node
	MaxLinks       = 1024      // links of a node
	MaxListItems   = 1024      // items of a manifest or tree node
	MaxListSize    = 256 << 10 // bytes of an encoded manifest or tree node
	MinListItems   = 16        // items before a node may end at a boundary
	MaxInline      = 32        // bytes of content kept in a tree entry
	MaxNameSize    = 255       // bytes of an entry's name
	MaxEntrySize   = 64 << 10  // bytes of an encoded entry
	MaxTargetSize  = 4095      // bytes of a symlink's target
	MaxDepth       = 2048      // directories below each other
	MaxSkipped     = 1000      // skipped paths listed in a commit itself
	MaxMessageSize = 256 << 10 // bytes of a commit's or tag's message

	// MaxSignatureSize is the largest size of a signature, in bytes.
	MaxSignatureSize = 8 << 10

	MaxTextSize = 1024 // bytes of a name, address, host, reason or key of an attribute
	MaxLevel    = 16   // levels of a chunked list
)

// EntryType is the type of a directory entry.
type EntryType uint8

// The types of entries. Their values are part of the format.
const (
	TypeFile        EntryType = 1
	TypeDir         EntryType = 2
	TypeSymlink     EntryType = 3
	TypeFIFO        EntryType = 4
	TypeCharDevice  EntryType = 5
	TypeBlockDevice EntryType = 6
	TypeSocket      EntryType = 7
)

// Time is a point in time as recorded in objects: seconds since 1970 UTC and
// nanoseconds within the second (below 1e9).
type Time struct {
	Sec  int64
	Nsec uint32
}

// Entry is one name in a directory. Content is the chunk or manifest of a
// file, the root tree node of a directory, or zero; a file of 1 to 32 bytes
// has its bytes in Inline instead, and an empty file has neither.
type Entry struct {
	Name    string    // bytes, not necessarily UTF-8; see [CheckName]
	Type    EntryType //
	Mode    uint16    // permission bits, including setuid, setgid and sticky (07777)
	Size    uint64    // file: bytes; directory: sum of the bytes of all files below it
	Files   uint64    // directory: number of entries below it, at any depth, that are not directories
	MTime   Time      // zero for directories in a repository with portable metadata
	Inline  []byte    //
	Content Key       //
	Target  string    // target of a symlink

	Meta  *Metadata         // nil unless the repository keeps full metadata
	Attrs map[string]string // the user's own; change them with SetAttrs
}

// Metadata is the part of an entry beyond the portable fields.
type Metadata struct {
	UID      uint32            `json:"uid" doc:"the number of the owner"`
	GID      uint32            `json:"gid" doc:"the number of the group"`
	Owner    string            `json:"owner,omitempty" doc:"the name of the owner"`
	Group    string            `json:"group,omitempty" doc:"the name of the group"`
	Xattrs   map[string][]byte `json:"xattrs,omitempty" doc:"the extended attributes"`
	Device   uint64            `json:"device,omitempty" doc:"the number of a device"`
	HardLink uint64            `json:"hard_link,omitempty" doc:"the number of a group of hard links in the commit"`
}

// Tree is one node of a directory: a chunked list of entries sorted by the
// bytes of their names. A leaf (level 0) has Entries, an inner node Children.
type Tree struct {
	Level    uint8
	Entries  []Entry
	Children []TreeChild
}

// TreeChild is a child of an inner tree node, one level below it.
type TreeChild struct {
	Last string // the last name in the child
	ID   ID
}

// Manifest is one node of a large file's chunk list. A leaf has Chunks, an
// inner node Children.
type Manifest struct {
	Level    uint8
	Chunks   []ChunkRef
	Children []ManifestChild
}

// ChunkRef is one chunk of a file.
type ChunkRef struct {
	ID   ID
	Size uint32 // bytes, never 0
}

// ManifestChild is a child of an inner manifest node, one level below it.
type ManifestChild struct {
	ID  ID
	End uint64 // bytes of the file from the start of this node to the end of the child
}

// Stamp is the name and address of an author, committer or tagger, with a time.
type Stamp struct {
	Name, Email string
	Time        Time
	Zone        int16 // minutes east of UTC
}

// Commit is a version of the worktree.
type Commit struct {
	Tree      ID
	Parents   []ID
	Author    Stamp
	Committer Stamp
	Message   string
	Host      string
	Files     uint64 // entries in the tree, at any depth, that are not directories
	Bytes     uint64 // sum of the sizes of its files

	// The paths that could not be stored, with reasons. SkippedCount is their number.
	// Skipped has the first ones, at most 1,000. The rest are in the chunk SkippedRest, which
	// is zero if Skipped has all.
	SkippedCount uint64
	Skipped      []Skipped
	SkippedRest  ID

	// Signature is an SSHSIG of ToSign, in binary form (see package object/sshsig), or empty.
	// Whoever changes a commit has to empty it, because it does not fit any more.
	Signature []byte
}

// FirstParent returns the first parent of c, or zero.
func (c *Commit) FirstParent() ID {
	if len(c.Parents) == 0 {
		return ID{}
	}
	return c.Parents[0]
}

// Subject returns the first line of the message of c.
func (c *Commit) Subject() string {
	line, _, _ := strings.Cut(c.Message, "\n")
	return line
}

// Skipped is a path that could not be stored.
type Skipped struct {
	Path   string
	Reason string
}

// Tag is an annotated name for a commit.
type Tag struct {
	Target  ID // a commit
	Name    string
	Tagger  Stamp
	Message string

	Signature []byte // as that of a [Commit]
}

// TimeOf returns the form of t in objects. It returns the zero Time for time.Time{}.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
}

// Time returns t in UTC. It returns time.Time{} for the zero Time.
func (t Time) Time() time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.Unix(t.Sec, int64(t.Nsec)).UTC()
}

// IsZero reports whether t is the zero Time, which stands for no time. See [Entry.Modified].
func (t Time) IsZero() bool { return t == Time{} }

// Modified returns the modification time of e in UTC. It reports false if none is recorded.
// Entries with metadata always have one: their zero Time is the start of 1970.
func (e *Entry) Modified() (at time.Time, ok bool) {
	if e.MTime.IsZero() && e.Meta != nil {
		return time.Unix(0, 0).UTC(), true
	}
	return e.MTime.Time(), !e.MTime.IsZero()
}

// Compare returns a negative number if t is before u, a positive one if it is
// after u, and 0 if they are equal.
func (t Time) Compare(u Time) int {
	return cmp.Or(cmp.Compare(t.Sec, u.Sec), cmp.Compare(t.Nsec, u.Nsec))
}

// lastYear is the last year that RFC 3339, and so JSON, can write.
const lastYear = 9999

// When returns the time of s in its own zone. A year that RFC 3339 cannot write becomes the
// nearest year that it can write. No real commit has such a time.
func (s Stamp) When() time.Time {
	return Writable(s.Time.Time().In(time.FixedZone("", int(s.Zone)*60)))
}

// Writable returns at, or the nearest time in its zone that RFC 3339 can write.
func Writable(at time.Time) time.Time {
	switch {
	case at.Year() > lastYear:
		return time.Date(lastYear, 12, 31, 23, 59, 59, 0, at.Location())
	case at.Year() < 0:
		return time.Date(0, 1, 1, 0, 0, 0, 0, at.Location())
	}
	return at
}
