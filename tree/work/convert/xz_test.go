package convert

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

// packXZ returns text as an xz file, with the code of a dictionary's size in the header of its
// first block.
func packXZ(t testing.TB, c xz.WriterConfig, text string, dictionary byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := c.NewWriter(&out)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}

	data := out.Bytes()
	if dictionary > 0 {
		const start = 12
		block := data[start:][:(int(data[start])+1)*4]
		at := bytes.Index(block, []byte{0x21, 1})
		block[at+2] = dictionary
		binary.LittleEndian.PutUint32(block[len(block)-4:], crc32.ChecksumIEEE(block[:len(block)-4]))
	}
	return data
}

// The guard passes on every form of file, and the content is the same.
func TestXZForms(t *testing.T) {
	text := strings.Repeat("some text; ", 20_000)
	for name, data := range map[string][]byte{
		"plain":         packXZ(t, xz.WriterConfig{}, text, 0),
		"empty":         packXZ(t, xz.WriterConfig{}, "", 0),
		"many blocks":   packXZ(t, xz.WriterConfig{BlockSize: 1000}, text, 0),
		"CRC32":         packXZ(t, xz.WriterConfig{CheckSum: xz.CRC32}, text, 0),
		"SHA-256":       packXZ(t, xz.WriterConfig{CheckSum: xz.SHA256}, text, 0),
		"no check":      packXZ(t, xz.WriterConfig{NoCheckSum: true}, text, 0),
		"512 MiB":       packXZ(t, xz.WriterConfig{}, text, 34),
		"several":       bytes.Repeat(packXZ(t, xz.WriterConfig{}, text, 0), 3),
		"with padding":  append(packXZ(t, xz.WriterConfig{}, text, 0), make([]byte, 8)...),
		"not compacted": packXZ(t, xz.WriterConfig{}, string(noise(100_000)), 0),
	} {
		want, err := xz.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}

		r, err := newXZReader(bytes.NewReader(data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, error %v, want %d", name, len(got), err, len(content))
		}
	}
}

// noise returns bytes that do not compress.
func noise(n int) []byte {
	data, x := make([]byte, n), uint32(1)
	for i := range data {
		x = x*1664525 + 1013904223
		data[i] = byte(x >> 24)
	}
	return data
}

// A file cannot make the library allocate much.
func TestXZDictionaries(t *testing.T) {
	small := packXZ(t, xz.WriterConfig{}, "x", 0)
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"768 MiB": {packXZ(t, xz.WriterConfig{}, "x", 35), "a dictionary of 805306368 bytes"},
		"4 GiB":   {packXZ(t, xz.WriterConfig{}, "x", 40), "a dictionary of 4294967295 bytes"},
		"no size": {packXZ(t, xz.WriterConfig{}, "x", 41), "invalid dictionary size"},
	} {
		r, err := newXZReader(bytes.NewReader(test.data))
		if err == nil {
			_, err = io.ReadAll(r)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %s", name, err, test.want)
		}
	}

	// Without the library, which would take seconds: a guard alone.
	g := &xzGuard{read: 1000}
	for range 127 {
		if err := g.checkDictionary(maxWindow); err != nil {
			t.Fatal(err)
		}
	}
	if g.checkDictionary(maxWindow) != nil || g.checkDictionary(maxWindow) == nil {
		t.Error("small blocks with large dictionaries have no bound")
	}

	other := bytes.Clone(small)
	other[12+bytes.Index(other[12:], []byte{0x21, 1})] = 4 // a filter for x86
	if _, err := io.ReadAll(readerOf(t, other)); err == nil || !strings.Contains(err.Error(), "other than LZMA2") {
		t.Errorf("another filter: error %v", err)
	}
}

func readerOf(t *testing.T, data []byte) io.Reader {
	t.Helper()
	r, err := newXZReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func FuzzXZ(f *testing.F) {
	f.Add(packXZ(f, xz.WriterConfig{}, "text", 0))
	f.Add(packXZ(f, xz.WriterConfig{BlockSize: 5}, "some text", 0))
	f.Add(bytes.Repeat(packXZ(f, xz.WriterConfig{NoCheckSum: true}, "", 0), 2))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := newXZReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		const most = 1 << 20
		got, err := io.ReadAll(io.LimitReader(r, most))
		if err != nil || len(got) == most {
			return
		}
		z, err := xz.NewReader(bytes.NewReader(data)) // no dictionary is too large
		if err != nil {
			t.Fatal(err)
		}
		if want, err := io.ReadAll(z); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the guard changed the content, or accepted what the library refuses: %v", err)
		}
	})
}
