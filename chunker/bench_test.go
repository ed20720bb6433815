package chunker

import (
	"bytes"
	"testing"
)

func BenchmarkSplit(b *testing.B) {
	data := random(1, 32<<20)
	c := mustNew(b, DefaultParams(testPolynomial))

	b.Run("kist", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if err := c.Split(bytes.NewReader(data), func([]byte) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})

	b.Run("restic", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			splitRestic(b, c.params, data)
		}
	})

	b.Run("below Min", func(b *testing.B) {
		b.ReportAllocs()
		r := bytes.NewReader(nil)
		for b.Loop() {
			r.Reset(data[:2000])
			if err := c.Split(r, func([]byte) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}
