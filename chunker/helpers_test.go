package chunker

import (
	"bytes"
	"io"
	"math/bits"
	"math/rand/v2"
	"testing"

	restic "github.com/restic/chunker"
)

// testPolynomial is irreducible and of degree 53.
const testPolynomial = 0x3da3358b4dc173

// small has parameters for many chunks of little data.
var small = Params{Polynomial: testPolynomial, Min: 256, Avg: 1 << 10, Max: 8 << 10}

// random returns n random bytes, the same for the same seed.
func random(seed byte, n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

// inputs returns inputs of many kinds, by name.
func inputs() map[string][]byte {
	mixed := append(random(1, 300_000), make([]byte, 300_000)...)
	mixed = append(mixed, random(2, 300_000)...)
	return map[string][]byte{
		"empty":     nil,
		"one byte":  {'x'},
		"random":    random(3, 1<<20),
		"zeros":     make([]byte, 200_000),
		"mixed":     mixed,
		"one value": bytes.Repeat([]byte{0xa5}, 100_000),
		"periodic":  bytes.Repeat([]byte("a chest in which a household keeps what it must not lose. "), 5000),
	}
}

func mustNew(t testing.TB, p Params) *Chunker {
	t.Helper()
	c, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// split returns the lengths of the chunks of r, and checks that they join to want.
func split(t testing.TB, c *Chunker, r io.Reader, want []byte) (sizes []int) {
	t.Helper()
	var joined []byte
	err := c.Split(r, func(chunk []byte) error {
		joined = append(joined, chunk...)
		sizes = append(sizes, len(chunk))
		clear(chunk) // emit may change it
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(joined, want) {
		t.Fatalf("the chunks join to %d bytes, want the %d of the input", len(joined), len(want))
	}
	return sizes
}

// splitRestic returns the lengths of the chunks that restic/chunker makes.
func splitRestic(t testing.TB, p Params, data []byte) (sizes []int) {
	t.Helper()
	c := restic.New(bytes.NewReader(data), restic.Pol(p.Polynomial),
		restic.WithBoundaries(uint(p.Min), uint(p.Max)), restic.WithAverageBits(bits.TrailingZeros(uint(p.Avg))))
	buf := make([]byte, p.Max)
	for {
		chunk, err := c.Next(buf)
		if err == io.EOF {
			return sizes
		}
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, int(chunk.Length))
	}
}
