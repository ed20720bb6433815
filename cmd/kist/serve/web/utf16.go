package web

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// utf16Reader reads a text in UTF-16 as UTF-8.
type utf16Reader struct {
	r     io.Reader
	order binary.ByteOrder
	first rune // half of a character whose other half follows; 0: none
	wrong bool // a half without the other was read, so this is no text
	in    [4096]byte
	out   []byte // read and not returned yet
	err   error  // after out
}

// asUTF8 returns a reader of the same text in UTF-8. A text in UTF-16 begins with a byte order mark.
// Isn't reports whether the bytes read so far are no text in UTF-16, though they have the mark.
func asUTF8(content io.Reader) (text io.Reader, isnt func() bool) {
	r := bufio.NewReader(content)
	mark, _ := r.Peek(2) // the next read returns the error
	u := &utf16Reader{r: r}
	switch {
	case bytes.Equal(mark, []byte{0xff, 0xfe}):
		u.order = binary.LittleEndian
	case bytes.Equal(mark, []byte{0xfe, 0xff}):
		u.order = binary.BigEndian
	default:
		return r, func() bool { return false }
	}
	r.Discard(len(mark))
	return u, func() bool { return u.wrong }
}

// Read implements [io.Reader].
func (u *utf16Reader) Read(p []byte) (int, error) {
	for len(u.out) == 0 && u.err == nil {
		u.decodeNext()
	}
	if len(u.out) == 0 {
		return 0, u.err
	}
	n := copy(p, u.out)
	u.out = u.out[n:]
	return n, nil
}

// decodeNext reads and decodes the next bytes.
func (u *utf16Reader) decodeNext() {
	n, err := io.ReadFull(u.r, u.in[:])
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	u.out, u.err = u.out[:0], err
	for i := 0; i+1 < n; i += 2 {
		u.decodeUnit(rune(u.order.Uint16(u.in[i:])))
	}
	if err == io.EOF && (n%2 == 1 || u.first != 0) {
		u.putReplacement(utf8.RuneError)
	}
}

// decodeUnit decodes the next two bytes.
func (u *utf16Reader) decodeUnit(half rune) {
	if first := u.first; first != 0 {
		u.first = 0
		whole := utf16.DecodeRune(first, half)
		u.putReplacement(whole)
		if whole != utf8.RuneError {
			return
		}
	}
	switch {
	case !utf16.IsSurrogate(half):
		u.out = utf8.AppendRune(u.out, half)
	case half < 0xdc00:
		u.first = half
	default:
		u.putReplacement(utf8.RuneError)
	}
}

// putReplacement appends a character that two halves should have made.
func (u *utf16Reader) putReplacement(whole rune) {
	u.wrong = u.wrong || whole == utf8.RuneError
	u.out = utf8.AppendRune(u.out, whole)
}
