package frame

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// random returns n bytes that do not compress, the same for the same seed.
func random(seed, n int) []byte {
	var key [32]byte
	key[0] = byte(seed)
	data := make([]byte, n)
	rand.NewChaCha8(key).Read(data)
	return data
}

// text returns n bytes that compress well.
func text(n int) []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("a chest in which one household keeps what it must not lose and much else besides")
	var b bytes.Buffer
	for b.Len() < n {
		b.WriteString(words[rnd.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.Bytes()[:n]
}

// zstdFrame builds a zstd frame without the library: a single segment that declares size
// bytes, and count blocks that each repeat one byte n times.
func zstdFrame(size uint64, count, n int) []byte {
	f := []byte{0x28, 0xb5, 0x2f, 0xfd, 3<<6 | 1<<5}
	f = binary.LittleEndian.AppendUint64(f, size)
	return append(f, rleBlocks(count, n)...)
}

func rleBlocks(count, n int) (blocks []byte) {
	for i := range count {
		head := uint32(n)<<3 | 1<<1 // a block that repeats a byte
		if i == count-1 {
			head |= 1
		}
		blocks = append(blocks, byte(head), byte(head>>8), byte(head>>16), 'x')
	}
	return blocks
}

func TestRoundTrip(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and the race detector finds nothing in one goroutine")
	}
	half := append(random(1, 200_000), text(200_000)...)
	tests := []struct {
		name  string
		data  []byte
		codec byte
	}{
		{"empty", nil, codecRaw},
		{"one byte", []byte{0}, codecRaw},
		{"short", text(minCompress - 1), codecRaw},
		{"short text", text(300), codecZstd},
		{"shorter text", text(255), codecZstd},
		{"shortest text", bytes.Repeat([]byte("a chest "), minCompress/8), codecZstd},
		{"text", text(100_000), codecZstd},
		{"text above the window", bytes.Repeat(text(1<<20), 9), codecZstd},
		{"largest", make([]byte, MaxSize), codecZstd},
		{"too large to compress", make([]byte, MaxSize+1), codecRaw},
		{"random 100", random(2, 100), codecRaw},
		{"random 5000", random(2, 5000), codecRaw},
		{"random", random(3, 1<<20), codecRaw},
		{"half random", half, codecZstd},
		{"hexadecimal", []byte(hex.EncodeToString(random(4, 50_000))), codecZstd},
	}

	for _, level := range []Level{Fastest, Default, Better, Best} {
		enc := NewEncoder(level)
		for _, test := range tests {
			value := enc.Append([]byte("before"), test.data)
			value = value[len("before"):]
			if value[0] != test.codec {
				t.Errorf("level %d, %s: codec %d, want %d", level, test.name, value[0], test.codec)
			}
			if len(value) > len(test.data)+MaxOverhead {
				t.Errorf("level %d, %s: value of %d bytes for %d", level, test.name, len(value), len(test.data))
			}

			got, err := Decode([]byte("before"), value, len(test.data))
			if err != nil || string(got) != "before"+string(test.data) {
				t.Errorf("level %d, %s: decoded %d bytes, %v; want the %d of the data", level, test.name, len(got)-len("before"), err, len(test.data))
			}
			raw, ok := Raw(value)
			if ok != (test.codec == codecRaw) || ok && !bytes.Equal(raw, test.data) {
				t.Errorf("level %d, %s: Raw = %d bytes, %t", level, test.name, len(raw), ok)
			}
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	data := text(100_000)
	good := NewEncoder(Fastest).Append(nil, data)
	value := func(payload []byte) []byte { return append([]byte{codecZstd}, payload...) }
	tests := []struct {
		name   string
		value  []byte
		rawLen int
		reason string
	}{
		{"empty value", nil, 0, ReasonEmpty},
		{"patch", []byte{2, 'x'}, 1, ReasonPatch},
		{"codec 4", []byte{4, 'x'}, 1, ReasonCodec},
		{"codec 255", []byte{255}, 0, ReasonCodec},
		{"raw too short", []byte{codecRaw, 'x'}, 2, ReasonLength},
		{"raw too long", []byte{codecRaw, 'x', 'y'}, 1, ReasonLength},
		{"raw, length below 0", []byte{codecRaw}, -1, ReasonLength},
		{"no frame", value(nil), 0, ReasonHeader},
		{"not a frame", value([]byte("not a frame at all")), 18, ReasonHeader},
		{"want fewer bytes", good, len(data) - 1, ReasonLength},
		{"want more bytes", good, len(data) + 1, ReasonLength},
		{"want none", good, 0, ReasonLength},
		{"want less than none", good, -1, ReasonLength},
		{"header says a terabyte", value(zstdFrame(1<<40, 1, 100)), 100, ReasonWindow},
		{"header and caller say a terabyte", value(zstdFrame(1<<40, 1, 100)), 1 << 40, ReasonWindow},
		{"window of 9 MiB", value(zstdFrame(9<<20, 72, 128<<10)), 9 << 20, ReasonWindow},
		{"more than it says", value(zstdFrame(1000, 1000, 128<<10)), 1000, ReasonPayload},
		{"one byte more than it says", value(zstdFrame(1000, 1, 1001)), 1000, ReasonPayload},
		{"less than it says", value(zstdFrame(1000, 1, 999)), 1000, ReasonPayload},
		{"a second frame", value(append(zstdFrame(10, 1, 10), zstdFrame(10, 1, 10)...)), 10, ReasonLength},
		{"a second frame that does not fit", value(append(zstdFrame(10, 1, 10), zstdFrame(1000, 1, 1000)...)), 10, ReasonPayload},
		{"bytes after the frame", value(append(zstdFrame(10, 1, 10), "junk"...)), 10, ReasonPayload},
		{"skippable frame", value([]byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 'x'}), 0, ReasonHeader},
		{"no declared length", value(append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0}, rleBlocks(1, 10)...)), 10, ReasonHeader},
		{"dictionary", value(append([]byte{0x28, 0xb5, 0x2f, 0xfd, 1<<5 | 1, 7, 10}, rleBlocks(1, 10)...)), 10, ReasonHeader},
		{"window of 64 MiB", value(append([]byte{0x28, 0xb5, 0x2f, 0xfd, 2 << 6, 16 << 3, 10, 0, 0, 0}, rleBlocks(1, 10)...)), 10, ReasonWindow},
	}

	for _, test := range tests {
		got, err := Decode([]byte("before"), test.value, test.rawLen)
		var fe *Error
		if !errors.As(err, &fe) || fe.Reason != test.reason {
			t.Errorf("%s: error %v, want reason %s", test.name, err, test.reason)
		}
		if !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: %v does not match ErrCorrupt", test.name, err)
		}
		if string(got) != "before" {
			t.Errorf("%s: Decode changed dst to %q", test.name, got)
		}
	}

	// The frames of zstdFrame are well-formed: Decode accepts them with right sizes.
	for _, n := range []int{10, 1000} {
		if got, err := Decode(nil, value(zstdFrame(uint64(n), 1, n)), n); err != nil || len(got) != n {
			t.Errorf("frame of %d bytes: decoded %d, %v", n, len(got), err)
		}
	}
}

func TestDecodeTruncated(t *testing.T) {
	for _, data := range [][]byte{text(2000), random(1, 2000)} {
		value := NewEncoder(Fastest).Append(nil, data)
		for n := range len(value) {
			if _, err := Decode(nil, value[:n], len(data)); !errors.Is(err, object.ErrCorrupt) {
				t.Errorf("codec %d, first %d of %d bytes: %v, want ErrCorrupt", value[0], n, len(value), err)
			}
		}
	}
}

// TestDecodeBombMemory checks that the memory of Decode depends on the wanted length, and not
// on a value that declares or has more.
func TestDecodeBombMemory(t *testing.T) {
	bomb := append([]byte{codecZstd}, zstdFrame(1<<20, 100_000, 128<<10)...) // 12 GiB
	liar := append([]byte{codecZstd}, zstdFrame(1<<62, 1, 10)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 10 {
		if _, err := Decode(nil, bomb, 1<<20); err == nil {
			t.Fatal("Decode accepts a bomb")
		}
		if _, err := Decode(nil, liar, 1<<20); err == nil {
			t.Fatal("Decode accepts a false size")
		}
		if _, err := Decode(nil, liar, 1<<62); err == nil {
			t.Fatal("Decode accepts a false size")
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 40<<20 {
		t.Errorf("30 bad values took %d MiB of memory, want at most 40", got>>20)
	}
}

func TestConcurrent(t *testing.T) {
	enc := NewEncoder(Fastest)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var value, back []byte
			var err error
			for j := range 12 {
				data := text(1000 * (1 + (i+j)%7*20))
				if j%3 == 0 {
					data = random(i, len(data))
				}
				value = enc.Append(value[:0], data)
				back, err = Decode(back[:0], value, len(data))
				if err != nil || !bytes.Equal(back, data) {
					t.Errorf("round trip of %d bytes: %d bytes, %v", len(data), len(back), err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzDecode(f *testing.F) {
	enc := NewEncoder(Fastest)
	f.Add(enc.Append(nil, text(500)), 500)
	f.Add(enc.Append(nil, random(1, 100)), 100)
	f.Add(append([]byte{codecZstd}, zstdFrame(1000, 3, 1000)...), 1000)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, value []byte, rawLen int) {
		got, err := Decode(nil, value, rawLen)
		if err != nil {
			if !errors.Is(err, object.ErrCorrupt) {
				t.Fatalf("Decode: %v, want ErrCorrupt", err)
			}
			return
		}
		if len(got) != rawLen {
			t.Fatalf("Decode: %d bytes, want %d", len(got), rawLen)
		}
		again, err := Decode(nil, enc.Append(nil, got), rawLen)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("round trip of %d bytes: %d bytes, %v", len(got), len(again), err)
		}
	})
}
