package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// RacyWindow is the largest distance, in nanoseconds, between the times of a racy
// file and the time when it was read: 60 seconds.
const RacyWindow = 60e9

// Stat is the result of lstat when a file was read. A file that is not racy is
// unchanged as long as its Stat is [Stat.Same]. The zero Stat stands for unknown: the
// file has to be read.
type Stat struct {
	Size   int64  // bytes
	MTime  int64  // nanoseconds since 1970 UTC, modulo 2^64: the time itself is in the entry
	CTime  int64  // nanoseconds since 1970 UTC
	Inode  uint64 //
	ReadAt int64  // time of reading by the clock of the file system, in nanoseconds since 1970 UTC; see Settled
	Mode   uint32 // type and permission bits, as the system has them
}

// IsZero reports whether s is unknown.
func (s Stat) IsZero() bool { return s == Stat{} }

// Same reports whether s and other are equal except for ReadAt. The zero Stat is the
// same as no other.
func (s Stat) Same(other Stat) bool {
	if s.IsZero() || other.IsZero() {
		return false
	}
	other.ReadAt = s.ReadAt
	return s == other
}

// Racy reports whether the file's times lie within [RacyWindow] of ReadAt. A later
// change can then leave all of s unchanged. The zero Stat is racy.
func (s Stat) Racy() bool {
	return s.IsZero() || isNear(s.MTime, s.ReadAt) || isNear(s.CTime, s.ReadAt)
}

func isNear(a, b int64) bool {
	if a < b {
		a, b = b, a
	}
	return uint64(a)-uint64(b) <= RacyWindow
}

// Settled returns s for a file that no process had open for writing when it was read.
// Each later change of such a file shows in its times, unless it comes within one
// tick of the file system's clock. So Settled moves ReadAt ahead until the file is
// racy only if it changed within one tick before it was read.
func (s Stat) Settled() Stat {
	s.ReadAt += RacyWindow - clockGrain(s.MTime, s.CTime)
	return s
}

// Written returns s for a file that its writer has just made, if no other process had it
// open afterwards and the next change gives it another time. So the file is never racy.
func (s Stat) Written() Stat {
	s.ReadAt = max(s.MTime, s.CTime) + RacyWindow + 1
	return s
}

// clockGrain returns at least the tick, in nanoseconds, of the clock that set two times of
// a file. A kernel's tick takes at most 10 ms. Some file systems keep full seconds,
// or every other second.
func clockGrain(a, b int64) int64 {
	if a%1e9 == 0 || b%1e9 == 0 {
		return 2e9
	}
	return 20e6
}

// Entry is one name in a directory, other than a sub-directory: its fields in the
// tree, and its stat data. Entries can be compared with ==.
type Entry struct {
	Name    string           // within its directory
	Data    string           // file: its content, if that has 1 to 32 bytes; symlink: its target
	Size    uint64           // file: bytes
	MTime   object.Time      // in the tree, which may differ from Stat's
	Stat    Stat             //
	Meta    string           // the encoded metadata and attributes, see [object.Entry.EncodeMetadata]; "": none
	Content object.Key       // file: its chunk or manifest; zero if it is empty or in Data
	Type    object.EntryType // never object.TypeDir; it and Mode fill the last word of Content
	Mode    uint16           // permission bits (07777)

	lossy bool // made from an object.Entry with more than an Entry can hold; Set refuses it
}

// NewEntry returns e with the stat data st. [Index.Set] refuses the result if an index
// cannot hold e: if e is a directory, or has metadata or content that does not fit its type.
func NewEntry(e object.Entry, st Stat) Entry {
	n := Entry{Name: e.Name, Size: e.Size, MTime: e.MTime, Stat: st, Content: e.Content, Type: e.Type, Mode: e.Mode}
	other := string(e.Inline)
	if n.Data = e.Target; e.Type != object.TypeSymlink {
		n.Data, other = other, n.Data
	}
	n.Meta, n.lossy = encodeMeta(&e)
	n.lossy = n.lossy || e.Files != 0 || other != ""
	return n
}

// encodeMeta returns the encoding of an entry's metadata and attributes, and whether no
// tree could hold them.
func encodeMeta(e *object.Entry) (string, bool) {
	text, err := e.EncodeMetadata()
	return text, err != nil || len(text) > object.MaxEntrySize || text != "" && e.CheckMetadata() != nil
}

// HasMetadata reports whether e has metadata, and not only attributes.
func (e *Entry) HasMetadata() bool { return hasMetadata(e.Meta) }

func hasMetadata(meta string) bool { return meta != "" && !object.OnlyAttrs(meta) }

// Metadata returns the decoded metadata, nil for none.
func (e *Entry) Metadata() *object.Metadata { return decodeMeta(e.Meta).Meta }

// Attrs returns the attributes.
func (e *Entry) Attrs() map[string]string { return decodeMeta(e.Meta).Attrs }

// SetHardLink changes the hard-link group of an entry with metadata.
func (e *Entry) SetHardLink(group uint64) {
	o := decodeMeta(e.Meta)
	o.Type, o.Meta.HardLink = e.Type, group
	e.Meta, e.lossy = encodeMeta(&o)
}

// SetAttrs replaces the attributes. It changes nothing and reports false if a tree could not
// hold the entry with them.
func (e *Entry) SetAttrs(attrs map[string]string) bool {
	o := e.Object()
	o.SetAttrs(attrs)
	meta, ok := encodeFitting(&o)
	if ok {
		e.Meta = meta
	}
	return ok
}

// encodeFitting is encodeMeta, and reports whether a tree can hold the complete entry.
func encodeFitting(o *object.Entry) (string, bool) {
	const others = 128 // at least the size of the other fields
	meta, lossy := encodeMeta(o)
	return meta, !lossy && len(meta)+len(o.Name)+len(o.Target)+others <= object.MaxEntrySize
}

// decodeMeta returns an entry that has only metadata and attributes.
func decodeMeta(text string) (o object.Entry) {
	if text != "" {
		_ = o.DecodeMetadata(text) // it was checked before
	}
	return o
}

// sameMeta reports whether two encodings have the same attributes and, if both have
// metadata, the same metadata.
func sameMeta(a, b string) bool {
	if a == b || hasMetadata(a) && hasMetadata(b) {
		return a == b
	}
	return maps.Equal(decodeMeta(a).Attrs, decodeMeta(b).Attrs)
}

// Object returns the entry as in a tree. Its Inline is a copy.
func (e *Entry) Object() object.Entry {
	o := decodeMeta(e.Meta)
	o.Name, o.Type, o.Mode, o.Size, o.MTime, o.Content = e.Name, e.Type, e.Mode, e.Size, e.MTime, e.Content
	switch {
	case e.Type == object.TypeSymlink:
		o.Target = e.Data
	case e.Data != "":
		o.Inline = []byte(e.Data)
	}
	return o
}

// SameContent reports whether e and other have the same type, permission bits, attributes
// and content. Stat data may differ. If both have metadata, it and the time must be the
// same; otherwise a change of the time is no change.
func (e *Entry) SameContent(other *Entry) bool {
	return e.SameData(other) && sameMeta(e.Meta, other.Meta) &&
		(e.MTime == other.MTime || !e.HasMetadata() || !other.HasMetadata())
}

// SameData is SameContent without metadata, attributes and time.
func (e *Entry) SameData(other *Entry) bool {
	return e.Type == other.Type && e.Mode == other.Mode && e.Size == other.Size &&
		e.Content == other.Content && e.Data == other.Data
}

// checkEntry returns an error if a tree would refuse the entry. It does not check
// the name.
func checkEntry(e *Entry) error {
	content := e.Size > 0 || e.Data != "" || !e.Content.IsZero()
	switch {
	case e.lossy:
		return errors.New("metadata or content does not fit the type")
	case e.Mode&^0o7777 != 0:
		return fmt.Errorf("mode %#o has more than permission bits", e.Mode)
	case e.MTime.Nsec >= 1e9:
		return errors.New("nanoseconds of mtime beyond a second")
	case e.Type == object.TypeFile:
		return checkContent(e)
	case e.Type == object.TypeSymlink:
		if e.Data == "" || len(e.Data) > object.MaxTargetSize || strings.IndexByte(e.Data, 0) >= 0 {
			return errors.New("not the target of a symlink")
		}
		if e.Size > 0 || !e.Content.IsZero() {
			return errors.New("symlink with content")
		}
	case e.Type >= object.TypeFIFO && e.Type <= object.TypeSocket:
		if content {
			return errors.New("special file with content")
		}
	default:
		return fmt.Errorf("entry type %d", e.Type)
	}
	return nil
}

// checkContent checks the size and the content of a file.
func checkContent(e *Entry) error {
	switch {
	case e.Size > object.MaxFileSize:
		return errors.New("file too large")
	case e.Size <= object.MaxInline:
		if uint64(len(e.Data)) != e.Size || !e.Content.IsZero() {
			return errors.New("small file without its bytes")
		}
	case e.Data != "" || e.Content.ID.IsZero():
		return errors.New("file without content")
	case e.Content.Kind == object.KindChunk:
		if e.Size > object.MaxChunkSize {
			return errors.New("file larger than its one chunk can be")
		}
	case e.Content.Kind != object.KindManifest:
		return fmt.Errorf("file with a %s as content", e.Content.Kind)
	}
	return nil
}

// fieldReader reads the fields of a record. After a field that is missing or not in
// canonical form, bad is true, and all later fields are zero.
type fieldReader struct {
	in   []byte
	size int // of the full block
	bad  bool
}

// takeBytes returns the next n bytes.
func (f *fieldReader) takeBytes(n int) []byte {
	if n > len(f.in) || n < 0 {
		f.bad, f.in = true, nil
		return nil
	}
	b := f.in[:n]
	f.in = f.in[n:]
	return b
}

func (f *fieldReader) u8() byte {
	if b := f.takeBytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (f *fieldReader) u16() uint16 {
	if b := f.takeBytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (f *fieldReader) u32() uint32 {
	if b := f.takeBytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (f *fieldReader) i64() int64 {
	if b := f.takeBytes(8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

// uvarint reads a number, which must be in its shortest form.
func (f *fieldReader) uvarint() uint64 {
	if len(f.in) > 0 && f.in[0] < 0x80 {
		v := f.in[0]
		f.in = f.in[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(f.in)
	if n <= 0 || f.in[n-1] == 0 {
		f.bad, f.in = true, nil
		return 0
	}
	f.in = f.in[n:]
	return v
}

func (f *fieldReader) varint() int64 {
	v := f.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// readID reads an ID of fixed size.
func (f *fieldReader) readID(to []byte) { copy(to, f.takeBytes(len(to))) }

// readName returns the bytes of a name. They are valid until the next block is read.
func (f *fieldReader) readName() []byte { return f.takeBytes(int(f.u8())) }

// readText returns at most limit bytes that follow their length.
func (f *fieldReader) readText(limit int) []byte {
	n := f.uvarint()
	if n > uint64(limit) {
		f.bad, f.in = true, nil
		return nil
	}
	return f.takeBytes(int(n))
}

func appendName(dst []byte, name string) []byte {
	return append(append(dst, byte(len(name))), name...)
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// The flags of an encoded entry. The lowest three bits are its type, or 0 for an entry
// that was removed.
const (
	flagType = 1<<3 - 1

	flagForm     = 3 << 3 // the place of the content
	formNone     = 0 << 3
	formData     = 1 << 3
	formChunk    = 2 << 3
	formManifest = 3 << 3

	flagStat  = 1 << 5 // the entry has stat data
	flagSize  = 1 << 6 // the stat data have another size than the entry
	flagMTime = 1 << 7 // the entry has another mtime than the stat data, or no stat data
	flagCTime = 1 << 8 // the stat data have another ctime than mtime
	flagMeta  = 1 << 9 // the entry has metadata
	flagAll   = 1<<10 - 1
)

// appendEntry appends the record of an entry.
func appendEntry(dst []byte, e *Entry) []byte {
	flags := uint16(e.Type)
	switch {
	case e.Data != "":
		flags |= formData
	case e.Content.Kind == object.KindChunk:
		flags |= formChunk
	case e.Content.Kind == object.KindManifest:
		flags |= formManifest
	}

	st := &e.Stat
	if *st != (Stat{}) {
		flags |= flagStat
		if st.Size != int64(e.Size) {
			flags |= flagSize
		}
		if st.CTime != st.MTime {
			flags |= flagCTime
		}
	}
	if flags&flagStat == 0 || e.MTime != timeOf(st.MTime) {
		flags |= flagMTime
	}

	if e.Meta != "" {
		flags |= flagMeta
	}

	dst = binary.LittleEndian.AppendUint16(dst, flags)
	dst = appendName(dst, e.Name)
	dst = binary.LittleEndian.AppendUint16(dst, e.Mode)
	dst = binary.AppendUvarint(dst, e.Size)
	if flags&flagMTime != 0 {
		dst = appendTime(dst, e.MTime)
	}
	switch flags & flagForm {
	case formData:
		dst = appendText(dst, e.Data)
	case formChunk, formManifest:
		dst = append(dst, e.Content.ID[:]...)
	}

	if e.Meta != "" {
		dst = appendText(dst, e.Meta)
	}
	if flags&flagStat == 0 {
		return dst
	}
	if flags&flagSize != 0 {
		dst = binary.AppendVarint(dst, st.Size)
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(st.MTime))
	if flags&flagCTime != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(st.CTime))
	}
	dst = binary.AppendUvarint(dst, st.Inode)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(st.ReadAt))
	return binary.AppendUvarint(dst, uint64(st.Mode))
}

// appendRemoved appends the record of an entry of the base that was removed.
func appendRemoved(dst []byte, name string) []byte {
	return appendName(append(dst, 0, 0), name)
}

// decodeEntry decodes an entry into e, which must be zero, and reports whether it is in
// canonical form. An entry that was removed has type 0 and only a name. Strings go
// into a.
func (f *fieldReader) decodeEntry(e *Entry, a *arena) bool {
	flags := f.u16()
	e.Name = a.keepBytes(f.readName())
	if flags == 0 {
		return !f.bad
	}
	if flags&^flagAll != 0 || flags&flagType == 0 {
		return false
	}
	e.Type = object.EntryType(flags & flagType)
	e.Mode = f.u16()
	e.Size = f.uvarint()
	if flags&flagMTime != 0 {
		e.MTime = f.readTime()
	}
	switch flags & flagForm {
	case formData:
		e.Data = a.keepBytes(f.readText(object.MaxTargetSize))
		f.bad = f.bad || e.Data == ""
	case formChunk:
		e.Content.Kind = object.KindChunk
		f.readID(e.Content.ID[:])
	case formManifest:
		e.Content.Kind = object.KindManifest
		f.readID(e.Content.ID[:])
	}

	if flags&flagMeta != 0 {
		e.Meta = f.decodeMeta(e.Type, a)
	}
	if flags&flagStat == 0 {
		return !f.bad && flags&(flagSize|flagMTime|flagCTime) == flagMTime
	}

	st := &e.Stat
	st.Size = int64(e.Size)
	if flags&flagSize != 0 {
		st.Size = f.varint()
		f.bad = f.bad || st.Size == int64(e.Size)
	}
	st.MTime = f.i64()
	st.CTime = st.MTime
	if flags&flagCTime != 0 {
		st.CTime = f.i64()
		f.bad = f.bad || st.CTime == st.MTime
	}
	st.Inode = f.uvarint()
	st.ReadAt = f.i64()
	mode := f.uvarint()
	st.Mode = uint32(mode)
	if recorded := timeOf(st.MTime); flags&flagMTime == 0 {
		e.MTime = recorded
	} else if e.MTime == recorded {
		return false
	}
	return !f.bad && mode == uint64(st.Mode) && *st != (Stat{})
}

// decodeMeta reads the metadata of an entry of type t. Neighbours mostly have the same: they
// share memory, and are checked once.
func (f *fieldReader) decodeMeta(t object.EntryType, a *arena) string {
	text := f.readText(object.MaxEntrySize)
	if a.meta == nil || string(text) != a.metaText {
		m := new(object.Entry)
		if err := m.DecodeMetadata(string(text)); err != nil {
			f.bad = true
			return ""
		}
		a.meta, a.metaText = m, string(text)
	}
	a.meta.Type = t
	f.bad = f.bad || a.meta.CheckMetadata() != nil
	return a.metaText
}

// timeOf returns nanoseconds since 1970 as a time of an entry.
func timeOf(ns int64) object.Time {
	sec, nsec := ns/1e9, ns%1e9
	if nsec < 0 {
		sec, nsec = sec-1, nsec+1e9
	}
	return object.Time{Sec: sec, Nsec: uint32(nsec)}
}

func appendTime(dst []byte, t object.Time) []byte {
	return binary.AppendUvarint(binary.AppendVarint(dst, t.Sec), uint64(t.Nsec))
}

func (f *fieldReader) readTime() object.Time {
	sec, nsec := f.varint(), f.uvarint()
	if nsec >= 1e9 {
		f.bad = true
	}
	return object.Time{Sec: sec, Nsec: uint32(nsec)}
}

// stringSize returns the number of bytes that an entry takes in an arena.
func (e *Entry) stringSize() int { return len(e.Name) + len(e.Data) }
