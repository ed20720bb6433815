package frame

import (
	"bytes"
	"fmt"
	"testing"
)

// badEncoder is a zstd encoder with a bug.
type badEncoder struct {
	allEncoder
	spoil func(frame []byte) []byte
	calls *int
}

func (e badEncoder) EncodeAll(src, dst []byte) []byte {
	*e.calls++
	n := len(dst)
	return append(dst, e.spoil(e.allEncoder.EncodeAll(src, dst)[n:])...)
}

// TestEncoderBug checks that Append keeps data raw if the zstd encoder makes wrong frames.
func TestEncoderBug(t *testing.T) {
	data := text(50_000)
	other := NewEncoder(Fastest).Append(nil, append([]byte("X"), data[1:]...))
	tests := []struct {
		name  string
		spoil func([]byte) []byte
	}{
		{"flipped bit", func(f []byte) []byte { f[len(f)/2] ^= 4; return f }},
		{"cut short", func(f []byte) []byte { return f[:len(f)-1] }},
		{"empty frame", func(f []byte) []byte { return nil }},
		{"other data of the same length", func([]byte) []byte { return other[1:] }},
		{"panic", func([]byte) []byte { panic("index out of range") }},
	}

	for _, test := range tests {
		var calls int
		enc := newEncoder(func() allEncoder {
			good := NewEncoder(Fastest).workers.make().zstd
			return badEncoder{good, test.spoil, &calls}
		})

		for range 2 {
			value := enc.Append([]byte("before"), data)
			if string(value[:6]) != "before" || value[6] != codecRaw || !bytes.Equal(value[7:], data) {
				t.Errorf("%s: value of %d bytes, codec %d; want the data raw", test.name, len(value)-6, value[6])
			}
		}
		if calls < 2 {
			t.Errorf("%s: %d calls of the zstd encoder, want one for each Append", test.name, calls)
		}
	}
}

func TestProbe(t *testing.T) {
	w := NewEncoder(Fastest).workers.make()
	mostly := random(1, 1<<20)
	copy(mostly[300<<10:], make([]byte, 300<<10))
	tests := []struct {
		name string
		data []byte
		want bool
	}{
		{"random", random(2, 256<<10), false},
		{"random 8 MiB", random(3, 8<<20), false},
		{"below the probe's size", random(4, probeFrom-1), true},
		{"text", text(256 << 10), true},
		{"zeros", make([]byte, 256<<10), true},
		{"random with a run of zeros", mostly, true},
	}
	for _, test := range tests {
		if got := w.isWorthIt(test.data); got != test.want {
			t.Errorf("probe of %s = %t, want %t", test.name, got, test.want)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, set := range []struct {
		name string
		data []byte
	}{
		{"text/2KiB", text(2 << 10)}, {"text/256KiB", text(256 << 10)}, {"text/1MiB", text(1 << 20)},
		{"random/2KiB", random(1, 2<<10)}, {"random/256KiB", random(1, 256<<10)}, {"random/1MiB", random(1, 1<<20)},
	} {
		b.Run(set.name, func(b *testing.B) {
			enc := NewEncoder(Fastest)
			dst := make([]byte, 0, len(set.data)+AppendSlack(len(set.data)))
			b.SetBytes(int64(len(set.data)))
			b.ReportAllocs()
			for b.Loop() {
				dst = enc.Append(dst[:0], set.data)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{2 << 10, 256 << 10} {
		data := text(n)
		value := NewEncoder(Fastest).Append(nil, data)
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			dst := make([]byte, 0, n+DecodeSlack)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = Decode(dst[:0], value, n)
			}
		})
	}
}
