package keys

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// randomRecords returns n records of all kinds, sorted by key.
func randomRecords(seed uint64, n int) []Record {
	rng := rand.New(rand.NewPCG(seed, 1))
	recs := make([]Record, n)
	for i := range recs {
		recs[i] = Record{
			Key:    object.Key{Kind: object.Kind(1 + rng.IntN(5)), ID: randomID(rng)},
			File:   rng.Uint32(),
			Offset: rng.Uint32(),
			Stored: rng.Uint32(),
			Raw:    rng.Uint32(),
		}
	}
	sortRecords(recs)
	return recs
}

func randomID(rng *rand.Rand) (id object.ID) {
	for i := 0; i < len(id); i += 8 {
		binary.LittleEndian.PutUint64(id[i:], rng.Uint64())
	}
	return id
}

func sortRecords(recs []Record) {
	slices.SortFunc(recs, func(a, b Record) int { return a.Key.Compare(b.Key) })
	for i := range recs {
		recs[i].Index = i
	}
}

func encode(t testing.TB, recs []Record) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := NewWriter(&buf, len(recs))
	for _, r := range recs {
		if err := w.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func open(t testing.TB, data []byte) *Reader {
	t.Helper()
	x, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 2, 31, 32, 33, 63, 64, 65, 1000, 10_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			recs := randomRecords(uint64(n), n)
			data := encode(t, recs)
			x := open(t, data)
			if err := x.Verify(); err != nil {
				t.Fatal(err)
			}
			if x.Len() != n {
				t.Fatalf("Len = %d, want %d", x.Len(), n)
			}

			i := 0
			for r, err := range x.All() {
				if err != nil {
					t.Fatal(err)
				}
				if r != recs[i] {
					t.Fatalf("record %d = %+v, want %+v", i, r, recs[i])
				}
				i++
			}
			if i != n {
				t.Fatalf("All yields %d records, want %d", i, n)
			}

			// Search for present and absent keys, before and after the filter is loaded.
			rng := rand.New(rand.NewPCG(2, 2))
			for range 2 {
				for i, want := range recs {
					got, ok, err := x.Find(want.Key)
					if err != nil || !ok || got != want {
						t.Fatalf("Find(%s) = %+v, %t, %v; want %+v", want.Key, got, ok, err, want)
					}
					if got, err := x.At(i); err != nil || got != want {
						t.Fatalf("At(%d) = %+v, %v; want %+v", i, got, err, want)
					}
				}

				for range 200 {
					key := object.Key{Kind: object.Kind(rng.IntN(8)), ID: randomID(rng)}
					if _, ok, err := x.Find(key); ok || err != nil {
						t.Fatalf("Find(%s) = %t, %v; want it absent", key, ok, err)
					}
				}
			}
		})
	}
}

// TestEqualPrefixes checks searches among blocks whose first keys have equal prefixes in the
// table.
func TestEqualPrefixes(t *testing.T) {
	var recs []Record
	for k := object.KindChunk; k <= object.KindTag; k++ {
		for i := range 150 {
			key := object.Key{Kind: k}
			key.ID[0] = byte(i / 75)
			key.ID[31] = byte(2 * (i % 75))
			recs = append(recs, Record{Key: key, Raw: uint32(i)})
		}
	}
	sortRecords(recs)
	x := open(t, encode(t, recs))
	for range 2 {
		for _, want := range recs {
			if got, ok, err := x.Find(want.Key); err != nil || !ok || got != want {
				t.Fatalf("Find(%v) = %+v, %t, %v; want %+v", want.Key, got, ok, err, want)
			}
			absent := want.Key
			absent.ID[31]++
			if _, ok, err := x.Find(absent); ok || err != nil {
				t.Fatalf("Find(%s) = %t, %v; want it absent", absent, ok, err)
			}
		}
	}
	if err := x.Verify(); err != nil {
		t.Fatal(err)
	}
}

func TestPrefix(t *testing.T) {
	recs := randomRecords(3, 5000)
	x := open(t, encode(t, recs))
	rng := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		kind, id, nbits := object.Kind(1+rng.IntN(5)), randomID(rng), rng.IntN(20)
		if rng.IntN(2) == 0 {
			r := recs[rng.IntN(len(recs))]
			kind, id, nbits = r.Key.Kind, r.Key.ID, rng.IntN(257)
		}
		var want, got []Record
		for _, r := range recs {
			if r.Key.Kind == kind && hasPrefixSlow(r.Key.ID, id, nbits) {
				want = append(want, r)
			}
		}
		for r, err := range x.Prefix(kind, id[:], nbits) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("Prefix(%s, %s, %d) yields %d records, want %d", kind, id, nbits, len(got), len(want))
		}
	}
}

func hasPrefixSlow(a, b object.ID, nbits int) bool {
	for i := range nbits {
		if (a[i/8]^b[i/8])>>(7-i%8)&1 != 0 {
			return false
		}
	}
	return true
}

func TestWriterRefuses(t *testing.T) {
	recs := randomRecords(5, 2)
	tests := map[string][]Record{
		"unsorted":     {recs[1], recs[0]},
		"duplicate":    {recs[0], recs[0]},
		"invalid kind": {{Key: object.Key{Kind: 6}}},
	}
	for name, recs := range tests {
		w := NewWriter(&bytes.Buffer{}, len(recs))
		var err error
		for _, r := range recs {
			err = errors.Join(err, w.Add(r))
		}
		if err == nil {
			t.Errorf("Add of %s records: no error", name)
		}
	}
}

// TestDamage checks that Open or Verify detects each flipped bit and each cut of a small
// index.
func TestDamage(t *testing.T) {
	data := encode(t, randomRecords(6, 70))
	check := func(data []byte) error {
		x, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return err
		}
		return x.Verify()
	}
	if err := check(data); err != nil {
		t.Fatal(err)
	}
	for i := range len(data) * 8 {
		data[i/8] ^= 1 << (i % 8)
		var damage *CorruptError
		if err := check(data); !errors.As(err, &damage) || !errors.Is(err, object.ErrCorrupt) {
			t.Fatalf("bit %d flipped: %v, want a CorruptError", i, err)
		}
		data[i/8] ^= 1 << (i % 8)
	}
	for n := range data {
		if err := check(data[:n]); !errors.Is(err, object.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v, want ErrCorrupt", n, err)
		}
	}
	if err := check(append(data, 0)); !errors.Is(err, object.ErrCorrupt) {
		t.Fatalf("one byte longer: %v, want ErrCorrupt", err)
	}
}

// TestDamagedBlock checks that a damaged block hides only its own records, and a damaged
// filter none.
func TestDamagedBlock(t *testing.T) {
	recs := randomRecords(7, 500)
	data := encode(t, recs)
	data[headerSize+3*blockSize+100] ^= 4
	_, _, filter, _, _ := sections(int64(len(recs)))
	data[filter+5] ^= 8
	x := open(t, data)
	for range 2 {
		for i, r := range recs {
			got, ok, err := x.Find(r.Key)
			var damage *CorruptError
			if i/blockRecords == 3 {
				if !errors.As(err, &damage) || damage.Block != 3 {
					t.Fatalf("Find of record %d: %v, want damage of block 3", i, err)
				}
			} else if err != nil || !ok || got != r {
				t.Fatalf("Find of record %d: %+v, %t, %v; want %+v", i, got, ok, err, r)
			}
		}
	}
}

// FuzzOpen checks that hostile bytes cause no panic, and that Find finds all records of an
// index that passes Verify.
func FuzzOpen(f *testing.F) {
	for _, n := range []int{0, 1, 40, 100} {
		f.Add(encode(f, randomRecords(uint64(n), n)), []byte{3, 1, 2, 3})
	}
	f.Fuzz(func(t *testing.T, data, probe []byte) {
		x, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			if !errors.Is(err, object.ErrCorrupt) {
				t.Fatalf("Open: %v, want ErrCorrupt", err)
			}
			return
		}

		intact := x.Verify() == nil
		var key object.Key
		if len(probe) > 0 {
			key.Kind = object.Kind(probe[0])
			copy(key.ID[:], probe[1:])
		}

		for range filterAfter + 1 {
			x.Find(key)
		}
		for range x.Prefix(key.Kind, key.ID[:], 8*len(probe)) {
		}

		for r, err := range x.All() {
			if err != nil {
				break
			}
			got, ok, err := x.Find(r.Key)
			if intact && (err != nil || !ok || got != r) {
				t.Fatalf("Find(%s) = %+v, %t, %v; want %+v", r.Key, got, ok, err, r)
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	recs := randomRecords(8, 1_000_000)
	x := open(b, encode(b, recs))
	rng := rand.New(rand.NewPCG(9, 9))
	b.Run("hit", func(b *testing.B) {
		for b.Loop() {
			if _, ok, _ := x.Find(recs[rng.IntN(len(recs))].Key); !ok {
				b.Fatal("Find does not find a record")
			}
		}
	})
	b.Run("miss", func(b *testing.B) {
		for b.Loop() {
			if _, ok, _ := x.Find(object.Key{Kind: 1, ID: randomID(rng)}); ok {
				b.Fatal("Find finds an absent key")
			}
		}
	})
}

// readCounter counts reads.
type readCounter struct {
	io.ReaderAt
	reads int
}

func (c *readCounter) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	return c.ReaderAt.ReadAt(p, off)
}

// TestKeptBlocks checks that repeated searches read no kept blocks.
func TestKeptBlocks(t *testing.T) {
	for _, n := range []int{5000, (maxKept + 10) * blockRecords} {
		recs := randomRecords(3, n)
		data := encode(t, recs)
		r := &readCounter{ReaderAt: bytes.NewReader(data)}
		x, err := Open(r, int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		all := func() int {
			before := r.reads
			for _, want := range recs {
				if got, ok, err := x.Find(want.Key); !ok || err != nil || got != want {
					t.Fatalf("Find(%s) = %+v, %t, %v; want %+v", want.Key, got, ok, err, want)
				}
			}
			return r.reads - before
		}
		all()
		all() // the first pass began without the filter
		if reads, limit := all(), 2*max(0, n-maxKept*blockRecords); reads > limit {
			t.Errorf("%d reads of %d records, want at most %d", reads, n, limit)
		}
	}
}
