package web

import (
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"
)

// encodedUTF16 returns a text in UTF-16 with a byte order mark.
func encodedUTF16(order binary.AppendByteOrder, text string) string {
	data := order.AppendUint16(nil, 0xfeff)
	for _, half := range utf16.Encode([]rune(text)) {
		data = order.AppendUint16(data, half)
	}
	return string(data)
}

// Texts in UTF-16 are read as UTF-8. A half of a character shows that the bytes are no text.
func TestUTF16(t *testing.T) {
	text := "one\r\nžwei 🎈\n" + strings.Repeat("many 🎈🎈\n", 3000)
	for _, c := range []struct {
		name, data, want string
		isnt             bool
	}{
		{"little endian", encodedUTF16(binary.LittleEndian, text), text, false},
		{"big endian", encodedUTF16(binary.BigEndian, text), text, false},
		{"UTF-8", text, text, false},
		{"no bytes", "", "", false},
		{"one byte", "\xff", "\xff", false},
		{"the mark alone", "\xff\xfe", "", false},
		{"an odd byte", "\xff\xfea\x00b", "a\ufffd", true},
		{"a second half", "\xfe\xff\xdc\x00\x00a", "\ufffda", true},
		{"a first half", "\xfe\xff\xd8\x00\x00a", "\ufffda", true},
		{"a first half at the end", "\xfe\xff\x00a\xd8\x00", "a\ufffd", true},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.data), iotest.OneByteReader(strings.NewReader(c.data))} {
			decoded, isnt := asUTF8(r)
			got, err := io.ReadAll(decoded)
			if string(got) != c.want || err != nil || isnt() != c.isnt {
				t.Errorf("%s: %.40q, %v, no text: %v; want %.40q, %v", c.name, got, err, isnt(), c.want, c.isnt)
			}
		}
	}

	failing, _ := asUTF8(io.MultiReader(strings.NewReader("\xff\xfea\x00"), iotest.ErrReader(io.ErrNoProgress)))
	if _, err := io.ReadAll(failing); err != io.ErrNoProgress {
		t.Errorf("error %v, want that of the content", err)
	}
}
