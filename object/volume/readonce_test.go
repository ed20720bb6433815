package volume

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestReadOnce checks that readOnce reads as ReadAt does, also past the end and from a
// closed file.
func TestReadOnce(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	name := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ off, n, want int }{
		{0, len(data), len(data)}, {4099, 100_000, 100_000}, {len(data) - 10, 20, 10}, {len(data) + 5, 1, 0},
	} {
		buf := make([]byte, tt.n)
		n, err := readOnce(f, buf, int64(tt.off))
		if n != tt.want || n < tt.n && err != io.EOF || n == tt.n && err != nil {
			t.Errorf("readOnce of %d bytes at %d = %d, %v; want %d", tt.n, tt.off, n, err, tt.want)
		}
		if n > 0 && !bytes.Equal(buf[:n], data[tt.off:][:n]) {
			t.Errorf("readOnce of %d bytes at %d: wrong bytes", tt.n, tt.off)
		}
	}
	f.Close()
	if n, err := readOnce(f, make([]byte, 10), 0); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("readOnce of a closed file = %d, %v; want 0, ErrClosed", n, err)
	}
}

func TestReadBefore(t *testing.T) {
	var r readBefore
	confused := 0
	for i := range 1000 {
		off := int64(20 + i*300_000)
		if r.noteRead(uint32(1+i%3), off) {
			confused++
		}
		if !r.noteRead(uint32(1+i%3), off) {
			t.Errorf("value %d: second note = false, want true", i)
		}
	}
	if confused > 10 {
		t.Errorf("first note = true for %d of 1000 values, want at most 10", confused)
	}
}
