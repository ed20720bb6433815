package pack

import (
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"runtime"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// every yields the invented entries number from, from+step and so on, below n.
func every(infos []Info, from, step, n int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for i := from; i < n; i += step {
			e := Entry{Key: object.Key{Kind: object.KindChunk}, Pack: infos[i%len(infos)], Offset: 32, Stored: 10, Raw: 20}
			binary.BigEndian.PutUint64(e.Key.ID[:], uint64(i)<<30)
			binary.BigEndian.PutUint64(e.Key.ID[8:], uint64(i)*0x9e3779b97f4a7c15)
			if !yield(e, nil) {
				return
			}
		}
	}
}

func infosOf(n int) []Info {
	infos := make([]Info, n)
	for i := range infos {
		infos[i].Size = TargetSize
		binary.BigEndian.PutUint32(infos[i].Name[:], uint32(i+1))
	}
	return infos
}

// TestMergeIndexMemory checks that a merge allocates little for each entry, whatever is freed meanwhile.
func TestMergeIndexMemory(t *testing.T) {
	const n = 300_000
	infos := infosOf(10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := MergeIndex(io.Discard, infos, every(infos, 0, 2, n), every(infos, 1, 2, n), every(infos, 0, 3, n)); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	// The filter takes 1.5 bytes, and the table 0.25, which grows by copies.
	if per := float64(after.TotalAlloc-before.TotalAlloc) / n; per > 5 {
		t.Errorf("%.1f bytes allocated for each entry, want at most 5", per)
	}
}

// TestMergeIndexFails checks that an error of a source ends the merge, also if it comes only when the source is read for
// the second time.
func TestMergeIndexFails(t *testing.T) {
	infos, bad := infosOf(3), errors.New("bad source")
	for failing := range 2 {
		reads := 0
		source := func(yield func(Entry, error) bool) {
			reads++
			for e := range every(infos, 0, 1, 50) {
				if !yield(e, nil) {
					return
				}
			}
			if reads > failing {
				yield(Entry{}, bad)
			}
		}
		if err := MergeIndex(io.Discard, infos, every(infos, 1, 2, 100), source); !errors.Is(err, bad) {
			t.Errorf("read %d fails: %v, want %v", failing+1, err, bad)
		}
	}
}
