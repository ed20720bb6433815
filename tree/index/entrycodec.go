package index

import (
	"encoding/binary"

	"github.com/kist-vcs/kist/object"
)

// fields reads the fields of a record. After a field that is missing or not in
// canonical form, bad is true, and all later fields are zero.
type fields struct {
	in   []byte
	size int // of the full block
	bad  bool
}

// take returns the next n bytes.
func (f *fields) take(n int) []byte {
	if n > len(f.in) || n < 0 {
		f.bad, f.in = true, nil
		return nil
	}
	b := f.in[:n]
	f.in = f.in[n:]
	return b
}

func (f *fields) u8() byte {
	if b := f.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (f *fields) u16() uint16 {
	if b := f.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (f *fields) u32() uint32 {
	if b := f.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (f *fields) i64() int64 {
	if b := f.take(8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

// uvarint reads a number, which must be in its shortest form.
func (f *fields) uvarint() uint64 {
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

func (f *fields) varint() int64 {
	v := f.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// id reads an ID of fixed size.
func (f *fields) id(to []byte) { copy(to, f.take(len(to))) }

// name returns the bytes of a name. They are valid until the next block is read.
func (f *fields) name() []byte { return f.take(int(f.u8())) }

// text returns at most limit bytes that follow their length.
func (f *fields) text(limit int) []byte {
	n := f.uvarint()
	if n > uint64(limit) {
		f.bad, f.in = true, nil
		return nil
	}
	return f.take(int(n))
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
	flagAll   = 1<<9 - 1
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

// entry decodes an entry into e, which must be zero, and reports whether it is in
// canonical form. An entry that was removed has type 0 and only a name. Strings go
// into a.
func (f *fields) entry(e *Entry, a *arena) bool {
	flags := f.u16()
	e.Name = a.keepBytes(f.name())
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
		e.MTime = f.time()
	}
	switch flags & flagForm {
	case formData:
		e.Data = a.keepBytes(f.text(object.MaxTargetSize))
		f.bad = f.bad || e.Data == ""
	case formChunk:
		e.Content.Kind = object.KindChunk
		f.id(e.Content.ID[:])
	case formManifest:
		e.Content.Kind = object.KindManifest
		f.id(e.Content.ID[:])
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

func (f *fields) time() object.Time {
	sec, nsec := f.varint(), f.uvarint()
	if nsec >= 1e9 {
		f.bad = true
	}
	return object.Time{Sec: sec, Nsec: uint32(nsec)}
}

// stringSize returns the number of bytes that an entry takes in an arena.
func (e *Entry) stringSize() int { return len(e.Name) + len(e.Data) }
