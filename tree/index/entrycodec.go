package index

import (
	"encoding/binary"

	"github.com/kist-vcs/kist/object"
)

// The flags an encoded entry begins with. The lowest three bits are its type,
// 0 for one that was removed.
const (
	flagType = 1<<3 - 1

	flagForm     = 3 << 3 // where the content is
	formNone     = 0 << 3
	formData     = 1 << 3
	formChunk    = 2 << 3
	formManifest = 3 << 3

	flagStat  = 1 << 5 // there are stat data
	flagSize  = 1 << 6 // their size is not the entry's
	flagMTime = 1 << 7 // the entry's mtime is not theirs, or there are none
	flagCTime = 1 << 8 // their ctime is not their mtime
	flagAll   = 1<<9 - 1
)

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

// appendRemoved appends the record of an entry that the base has and the index
// does not.
func appendRemoved(dst []byte, name string) []byte {
	return appendName(append(dst, 0, 0), name)
}

// entry decodes an entry, which is zero before, and reports whether it is in
// canonical form. Type 0 is one that was removed, and has only a name. Strings
// are kept in a.
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

// timeOf returns the recorded form of a time in nanoseconds.
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

// stringSize returns how much of an entry is kept in an arena.
func (e *Entry) stringSize() int { return len(e.Name) + len(e.Data) }
