package index

import (
	"github.com/kist-vcs/kist/object"
)

// RacyWindow is how near to its reading, in nanoseconds, a file's times may
// lie for the file to count as racy: 60 seconds.
const RacyWindow = 60e9

// Stat is what lstat said of a file when it was read. Two equal Stats (but for
// ReadAt) of a file that is not racy mean that the file has not changed. The
// zero Stat means that nothing is known, and the file has to be read.
type Stat struct {
	Size   int64  // bytes
	MTime  int64  // nanoseconds since 1970 UTC, modulo 2^64: the time itself is in the entry
	CTime  int64  // nanoseconds since 1970 UTC
	Inode  uint64 //
	ReadAt int64  // when the file was read, by the clock of its file system; nanoseconds since 1970 UTC; see Settled
	Mode   uint32 // type and permission bits, as the system has them
}

// IsZero reports whether nothing is known.
func (s Stat) IsZero() bool { return s == Stat{} }

// Same reports whether s and other describe the same state of the same file,
// whenever it was read. Nothing is the same as the zero Stat.
func (s Stat) Same(other Stat) bool {
	if s.IsZero() || other.IsZero() {
		return false
	}
	other.ReadAt = s.ReadAt
	return s == other
}

// Racy reports whether the file's times lie within [RacyWindow] of its own
// reading, so that a change since then may have left all of s as it was. The
// zero Stat is racy.
func (s Stat) Racy() bool {
	return s.IsZero() || near(s.MTime, s.ReadAt) || near(s.CTime, s.ReadAt)
}

func near(a, b int64) bool {
	if a < b {
		a, b = b, a
	}
	return uint64(a)-uint64(b) <= RacyWindow
}

// Settled returns the Stat of a file that nobody had open for writing when it
// was read. Each later change of such a file shows in its times, unless it comes
// within the grain of the file system's clock. So ReadAt moves ahead until the
// file is racy only if it changed that shortly before it was read.
func (s Stat) Settled() Stat {
	s.ReadAt += RacyWindow - grain(s.MTime, s.CTime)
	return s
}

// grain returns the grain of the clock that two times of a file come from, or
// more. A kernel's tick takes 10 ms at most. Some file systems keep whole
// seconds, or every other one.
func grain(a, b int64) int64 {
	if a%1e9 == 0 || b%1e9 == 0 {
		return 2e9
	}
	return 20e6
}

// Entry is one name in a directory that is not a directory: what the tree will
// say of it, and the stat data. Entries are compared with ==.
type Entry struct {
	Name    string           // within its directory
	Data    string           // file: its content, if that is 1 to 32 bytes; symlink: what it points to
	Size    uint64           // file: bytes
	MTime   object.Time      // as recorded, which need not be Stat's
	Stat    Stat             //
	Content object.Key       // file: its chunk or manifest; zero if it is empty or in Data
	Type    object.EntryType // never object.TypeDir
	Mode    uint16           // permission bits (07777)

	lossy bool // made of an object.Entry with more than an Entry can hold; refused by Set
}

// NewEntry returns e with the stat data st. [Index.Set] refuses what it returns
// for a directory, and for an entry with metadata beyond the portable fields or
// content that does not go with its type, which an index cannot hold.
func NewEntry(e object.Entry, st Stat) Entry {
	n := Entry{Name: e.Name, Size: e.Size, MTime: e.MTime, Stat: st, Content: e.Content, Type: e.Type, Mode: e.Mode}
	other := string(e.Inline)
	if n.Data = e.Target; e.Type != object.TypeSymlink {
		n.Data, other = other, n.Data
	}
	n.lossy = e.Meta != nil || e.Files != 0 || other != ""
	return n
}

// Object returns the entry as a tree holds it. Its Inline is a copy.
func (e *Entry) Object() object.Entry {
	o := object.Entry{Name: e.Name, Type: e.Type, Mode: e.Mode, Size: e.Size, MTime: e.MTime, Content: e.Content}
	switch {
	case e.Type == object.TypeSymlink:
		o.Target = e.Data
	case e.Data != "":
		o.Inline = []byte(e.Data)
	}
	return o
}

// Racy reports whether the entry's file must be read to know whether it has
// changed, however equal its stat data. See [Stat.Racy].
func (e *Entry) Racy() bool { return e.Stat.Racy() }

// SameContent reports whether e and other have the same type, permission bits
// and content: all that counts as a change. Times and stat data do not.
func (e *Entry) SameContent(other *Entry) bool {
	return e.Type == other.Type && e.Mode == other.Mode && e.Size == other.Size &&
		e.Content == other.Content && e.Data == other.Data
}
