package object

// Items of lists are encoded by hand, because they are most of all encoded data, and decoders
// encode their results again. A test compares the bytes with those of the CBOR library.

// Major types of CBOR.
const (
	cborUint  = 0 << 5
	cborNint  = 1 << 5
	cborBytes = 2 << 5
	cborArray = 4 << 5
	cborMap   = 5 << 5
)

// appendHead appends the shortest head of a CBOR item: major type and number.
func appendHead(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n < 1<<8:
		return append(dst, major|24, byte(n))
	case n < 1<<16:
		return append(dst, major|25, byte(n>>8), byte(n))
	case n < 1<<32:
		return append(dst, major|26, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return append(dst, major|27, byte(n>>56), byte(n>>48), byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// headSize returns the number of bytes that appendHead appends for n.
func headSize(n int) int {
	var buf [9]byte
	return len(appendHead(buf[:0], 0, uint64(n)))
}

func appendString(dst []byte, s string) []byte {
	return append(appendHead(dst, cborBytes, uint64(len(s))), s...)
}

// appendField appends a key and a number to a map, unless the number is 0.
func appendField(dst []byte, key byte, n uint64) []byte {
	if n == 0 {
		return dst
	}
	return appendHead(append(dst, key), cborUint, n)
}

// appendEntry appends the encoding of e, whose link is at the given position.
func appendEntry(dst []byte, e *Entry, link uint16) ([]byte, error) {
	meta, err := e.EncodeMetadata()
	fields := 2
	for _, there := range [...]bool{
		e.Mode != 0, e.Size != 0, e.Files != 0, e.MTime.Sec != 0, e.MTime.Nsec != 0,
		len(e.Inline) > 0, link != 0, e.Target != "", meta != "",
	} {
		if there {
			fields++
		}
	}

	dst = append(dst, cborMap|byte(fields)) // never more than 11
	dst = appendString(append(dst, 1), e.Name)
	dst = appendHead(append(dst, 2), cborUint, uint64(e.Type))
	dst = appendField(dst, 3, uint64(e.Mode))
	dst = appendField(dst, 4, e.Size)
	dst = appendField(dst, 5, e.Files)
	if sec := e.MTime.Sec; sec < 0 {
		dst = appendHead(append(dst, 6), cborNint, uint64(-1-sec))
	} else {
		dst = appendField(dst, 6, uint64(sec))
	}
	dst = appendField(dst, 7, uint64(e.MTime.Nsec))
	if len(e.Inline) > 0 {
		dst = append(appendHead(append(dst, 8), cborBytes, uint64(len(e.Inline))), e.Inline...)
	}
	dst = appendField(dst, 9, uint64(link))
	if e.Target != "" {
		dst = appendString(append(dst, 10), e.Target)
	}
	if meta != "" {
		dst = append(append(dst, 11), meta...)
	}
	return dst, err
}

// appendPair appends an item of a manifest: an array of the position of a link, and a size or
// an end.
func appendPair(dst []byte, link uint16, n uint64) []byte {
	dst = appendHead(append(dst, cborArray|2), cborUint, uint64(link))
	return appendHead(dst, cborUint, n)
}

// appendTreeChild appends an item of an inner tree node.
func appendTreeChild(dst []byte, last string, link uint16) []byte {
	dst = appendString(append(dst, cborArray|2), last)
	return appendHead(dst, cborUint, uint64(link))
}
