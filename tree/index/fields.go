package index

import "encoding/binary"

// fields takes a record apart. After a field that is not there or not in
// canonical form, bad is true and all that follow are zero.
type fields struct {
	in   []byte
	size int // of in, when it was whole
	bad  bool
}

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

func (f *fields) uvarint() uint64 {
	if len(f.in) > 0 && f.in[0] < 0x80 {
		v := f.in[0]
		f.in = f.in[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(f.in)
	if n <= 0 || f.in[n-1] == 0 { // too short, too long, or not the shortest form
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

// id fills an ID or the like.
func (f *fields) id(to []byte) { copy(to, f.take(len(to))) }

// name returns the bytes of a name, valid until the next block is read.
func (f *fields) name() []byte { return f.take(int(f.u8())) }

// text returns bytes with their length in front, at most limit.
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
