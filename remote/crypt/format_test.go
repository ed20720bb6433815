package crypt

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/kist-vcs/kist/remote"
)

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		stored := vector(t, v.name, v.plain)
		sum := sha256.Sum256(stored)
		if got := hex.EncodeToString(sum[:]); len(stored) != v.stored || got != v.sum {
			t.Errorf("%s: %d bytes with SHA-256 %s, want %d with %s", v.name, len(stored), got, v.stored, v.sum)
		}
		s, m := newStore(t)
		m.Set(v.name, stored)
		wantAll(t, s, v.name, pattern(v.plain))
		if got := s.StoredSize(v.name, int64(v.plain)); got != int64(v.stored) {
			t.Errorf("%s: StoredSize %d, want %d", v.name, got, v.stored)
		}
		if got, err := s.PlainSize(t.Context(), v.name); err != nil || got != int64(v.plain) {
			t.Errorf("%s: PlainSize %d, %v; want %d", v.name, got, err, v.plain)
		}
	}
}

// padme is the class of a size as the paper about Padmé defines it.
func padme(n int64) int64 {
	e := int64(math.Floor(math.Log2(float64(n))))
	s := int64(math.Floor(math.Log2(float64(e)))) + 1
	class := int64(1) << (e - s)
	return int64(math.Ceil(float64(n)/float64(class))) * class
}

func TestPad(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ n, want int64 }{
		{0, 4096}, {1, 4096}, {4096, 4096}, {4097, 4352}, {4352, 4352}, {4353, 4608}, {40_000, 40_960}, {65_536, 65_536}, {65_537, 67_584},
		{6 * mib, 6 * mib}, {6*mib + 1, 8 * mib}, {8 * mib, 8 * mib}, {8*mib + 1, 8*mib + 256<<10},
		{14 * mib, 14 * mib}, {14*mib + 1, 16 * mib}, {16 * mib, 16 * mib}, {16*mib + 1, 16*mib + 512<<10},
		{30 * mib, 30 * mib}, {30*mib + 1, 32 * mib}, {31*mib + 5, 32 * mib}, {32 * mib, 32 * mib}, {32*mib + 1, 33 * mib}, {64 * mib, 64 * mib},
		{maxPlain, maxPlain}, {maxPlain - 1, maxPlain},
	} {
		if got := Pad(c.n); got != c.want {
			t.Errorf("Pad(%d) = %d, want %d", c.n, got, c.want)
		}
	}
}

// Pad never shrinks a blob, is monotonic, and is the class of Padmé except near full packs. The padding
// is bounded.
func TestPadOfManySizes(t *testing.T) {
	before := int64(0)
	for n := int64(4097); n < 1<<33; n += n/1000 + 1 {
		got := Pad(n)
		full := got == 8<<20 || got == 16<<20 || got == 32<<20
		switch {
		case got < n, got < before, got != Pad(got):
			t.Fatalf("Pad(%d) = %d, before that %d, again %d", n, got, before, Pad(got))
		case got != padme(n) && !full:
			t.Fatalf("Pad(%d) = %d, Padmé is %d", n, got, padme(n))
		case full && got-n >= 2<<20, !full && float64(got-n) > 0.0625*float64(n), !full && n >= 64<<10 && float64(got-n) > 0.0313*float64(n):
			t.Fatalf("Pad(%d) = %d adds too much", n, got)
		}
		before = got
	}
}

// reader reads at offsets, in the odd ways that io.ReaderAt allows.
type reader struct {
	io.ReaderAt
	reads int
}

func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	r.reads++
	return r.ReaderAt.ReadAt(p, off)
}

// The body of one Put gives the same bytes in any number of passes, from any offset, in pieces of any size.
func TestSealedReadsAlike(t *testing.T) {
	for _, size := range []int{0, 1, 4096, 16_383, 16_384, 16_385, 40_000, 200_000} {
		data := sample(1, size)
		b, err := newBlob(testKeys(t, 1), packName, int64(size), first)
		if err != nil {
			t.Fatal(err)
		}
		body := newSealed(b, bytes.NewReader(data))

		whole := make([]byte, b.end(b.last()))
		if n, err := body.ReadAt(whole, 0); n != len(whole) || err != nil && err != io.EOF {
			t.Fatalf("read %d of %d bytes: %v", n, len(whole), err)
		}

		for _, piece := range []int{1, 7, 1000, 16_383, 16_384, 16_400, 16_401, 50_000} {
			if piece == 1 && size > 20_000 {
				continue
			}
			for off := 0; off < len(whole); off += piece {
				p := make([]byte, piece)
				n, err := body.ReadAt(p, int64(off))
				if want := whole[off:min(off+piece, len(whole))]; !bytes.Equal(p[:n], want) || n < piece && err != io.EOF || n == piece && err != nil && err != io.EOF {
					t.Fatalf("size %d: %d bytes at %d: %d, %v", size, piece, off, n, err)
				}
			}
		}

		for _, off := range []int{len(whole) - 1, 100, 87, 88, 16_488, 0} {
			p := make([]byte, 300)
			if n, _ := body.ReadAt(p, int64(off)); !bytes.Equal(p[:n], whole[min(off, len(whole)):min(off+300, len(whole))]) {
				t.Errorf("size %d: other bytes at %d", size, off)
			}
		}
		for _, off := range []int64{int64(len(whole)), int64(len(whole)) + 1, 1 << 40} {
			if n, err := body.ReadAt(make([]byte, 10), off); n != 0 || err != io.EOF {
				t.Errorf("size %d: %d bytes at %d behind the end, %v", size, n, off, err)
			}
		}
		if err := iotest.TestReader(io.NewSectionReader(body, 0, int64(len(whole))), whole); err != nil {
			t.Error(err)
		}
	}
}

// One pass reads each byte of the body once.
func TestSealedReadsOnce(t *testing.T) {
	b, err := newBlob(testKeys(t, 1), packName, 1<<20, first)
	if err != nil {
		t.Fatal(err)
	}
	body := &reader{ReaderAt: bytes.NewReader(sample(1, 1<<20))}
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{io.NewSectionReader(newSealed(b, body), 0, b.end(b.last()))}, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if body.reads != 64 {
		t.Errorf("%d reads, want 64", body.reads)
	}
}

// changing gives other bytes from the second pass on.
type changing struct {
	data []byte
	seen bool
}

func (c *changing) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, c.data[min(off, int64(len(c.data))):])
	if c.seen && n > 0 {
		p[0] ^= 1
	}
	c.seen = c.seen || off+int64(n) == int64(len(c.data))
	return n, nil
}

// A body that changes between two passes is an error: a nonce would encrypt two texts.
func TestSealedBodyChanges(t *testing.T) {
	b, err := newBlob(testKeys(t, 1), packName, 40_000, first)
	if err != nil {
		t.Fatal(err)
	}
	body := newSealed(b, &changing{data: sample(1, 40_000)})
	one := make([]byte, b.end(b.last()))
	if _, err := body.ReadAt(one, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	two := make([]byte, len(one))
	if n, err := body.ReadAt(two, 0); !errors.Is(err, errChanged) || n != headerSize {
		t.Errorf("%d bytes, error %v; want only the header", n, err)
	}
	if !bytes.Equal(two[headerSize:headerSize+storedSegment], make([]byte, storedSegment)) {
		t.Error("the second text was given out")
	}
}

// A nonce is used once in a blob, and the lengths of two types of header cannot be mistaken.
func TestNonces(t *testing.T) {
	b := &blob{plain: 100_000, padded: Pad(100_000)}
	seen := map[string]bool{string(nonceOf(0, nonceLength)): true}
	for i := range b.last() + 1 {
		n := b.nonce(i)
		if seen[string(n)] || len(n) != 12 || (n[11] == 1) != (i == b.last()) {
			t.Errorf("nonce %x of segment %d", n, i)
		}
		seen[string(n)] = true
	}
	if got, want := nonceOf(0x0102030405060708, 1), "000000010203040506070801"; hex.EncodeToString(got) != want {
		t.Errorf("nonce %x, want %s", got, want)
	}
}

// A million salts differ, and each Put has another one. Halves of salts are compared, which saves memory: by
// chance, two would be equal in one of thirty million runs.
func TestSaltsDiffer(t *testing.T) {
	halves := make([]uint64, 0, 1<<20)
	s, m := newStore(t)
	for range 1000 {
		m.Remove(packName)
		put(t, s, packName, []byte("the same"))
		halves = append(halves, binary.BigEndian.Uint64(m.Data(packName)[saltAt:]))
	}
	for len(halves) < cap(halves) {
		salt := newSalt()
		halves = append(halves, binary.BigEndian.Uint64(salt[:]))
	}

	slices.Sort(halves)
	if n := len(slices.Compact(halves)); n != 1<<20 {
		t.Errorf("%d of %d salts repeat", 1<<20-n, 1<<20)
	}
}

func TestTypeOf(t *testing.T) {
	for name, want := range map[string]remote.Type{
		packName: remote.TypePack, "index/0": remote.TypeIndex, "root/1": remote.TypeRoot, "state/1": remote.TypeState,
		"kist.json": 0, "keys/0": 0, "probe/0/packs/1": 0, "probe/0/root/1": 0, "packs": 0, "root": 0, "roots/1": 0, "a/packs/1": 0, "": 0, "/": 0,
	} {
		if got := typeOf(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]bool{"kist.json": true, "keys/0": true, "probe/1/root/2": true, "keys": false, "probe": false, "kist.json/1": false, "a/kist.json": false, packName: false} {
		if got := isClear(name); got != want {
			t.Errorf("%q: clear %t, want %t", name, got, want)
		}
	}
}

func ExamplePad() {
	for _, n := range []int64{300, 40_000, 31 << 20, 32<<20 + 1} {
		fmt.Println(Pad(n))
	}
	// Output:
	// 4096
	// 40960
	// 33554432
	// 34603008
}
