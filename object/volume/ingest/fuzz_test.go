package ingest

import (
	"bytes"
	"io"
	"testing"
)

// FuzzValueLog checks that a walk through a hostile value log ends, and stays in the file.
func FuzzValueLog(f *testing.F) {
	entry := []byte{0, 0, 41, 40, 0, 1}
	entry = append(entry, make([]byte, 40+40+4)...)
	f.Add(append(make([]byte, LogHeaderSize), entry...))
	f.Add(append(make([]byte, LogHeaderSize), bytes.Repeat(entry, 3)...))
	f.Add(append(make([]byte, LogHeaderSize), 0, 31, 41, 32, 0, 5))
	f.Add(append(make([]byte, LogHeaderSize), 0, 0, 41, 0xff, 0xff, 0xff, 0x7f, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		walk, err := NewHashingWalker(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		for {
			e, err := walk.NextEntry()
			if err != nil {
				if err == io.EOF && walk.Pos() != int64(len(data)) {
					t.Errorf("walk ends at byte %d of %d without an error", walk.Pos(), len(data))
				}
				return
			}
			if e.End() > int64(len(data)) || e.End() != walk.Pos() || e.Stored() < 1 || e.End()-e.Start != EntrySize(e.Stored()) {
				t.Errorf("impossible entry %+v in a log of %d bytes", e, len(data))
			}
			ReadEntry(bytes.NewReader(data), e, nil)
		}
	})
}
