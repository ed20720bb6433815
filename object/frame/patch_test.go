package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// edited returns data with changes at some places, the same for the same seed.
func edited(seed uint64, data []byte, places int) []byte {
	rnd := rand.New(rand.NewPCG(seed, 1))
	out := bytes.Clone(data)
	for range places {
		i := rnd.IntN(len(out) + 1)
		j := min(len(out), i+rnd.IntN(50))
		out = bytes.Join([][]byte{out[:i], random(int(seed), rnd.IntN(30)), out[j:]}, nil)
	}
	return out
}

// patch returns a patch of the object id with a stored script.
func patch(size uint64, id object.ID, script []byte) []byte {
	value := append([]byte{codecPatch}, id[:]...)
	return append(binary.AppendUvarint(value, size), script...)
}

// near returns a near patch of the base at n with a stored script.
func near(size uint64, n Near, script []byte) []byte {
	value := []byte{codecNear}
	for _, v := range [...]int{n.Distance, n.Stored, n.Raw} {
		value = binary.AppendUvarint(value, uint64(v))
	}
	return append(binary.AppendUvarint(value, size), script...)
}

func TestPatchRoundTrip(t *testing.T) {
	base := text(100_000)
	moved := bytes.Join([][]byte{base[50_000:], base[:50_000]}, nil)
	tests := []struct {
		name      string
		src, base []byte
		ok        bool
		most      int
	}{
		{"the same", base, base, true, 60},
		{"one byte more", append([]byte("!"), base...), base, true, 60},
		{"cut short", base[1000:90_000], base, true, 60},
		{"halves swapped", moved, base, true, 60},
		{"edited", edited(1, base, 30), base, true, 3000},
		{"random, edited", edited(2, random(1, 100_000), 5), random(1, 100_000), true, 500},
		{"twice as long", append(bytes.Clone(base), base...), base, true, 60},
		{"largest", edited(3, random(2, MaxPatch-1000), 3), random(2, MaxPatch), true, 1000},
		{"object too large", make([]byte, MaxPatch+1), base, false, 0},
		{"base too large", base, make([]byte, MaxPatch+1), false, 0},
		{"other text", text(5000), random(1, 5000), false, 0},
		{"other random bytes", random(2, 5000), random(1, 5000), false, 0},
		{"base of a few bytes", text(500), []byte("abc"), false, 0},
		{"no base", text(500), nil, false, 0},
		{"short", text(20), text(20), false, 0},
		{"empty", nil, base, false, 0},
	}

	for _, level := range []Level{Fastest, Best} {
		enc := NewEncoder(level)
		for _, test := range tests {
			id := object.Sum(test.base)
			value, ok := enc.AppendPatch([]byte("before"), test.src, id, test.base)
			if ok != test.ok || string(value[:6]) != "before" || !ok && len(value) > 6 {
				t.Errorf("level %d, %s: %d bytes, %t; want %t", level, test.name, len(value), ok, test.ok)
			}
			if !ok {
				continue
			}

			if value = value[6:]; len(value) > test.most {
				t.Errorf("level %d, %s: %d bytes, want at most %d", level, test.name, len(value), test.most)
			}
			if got, ok := Base(value); !ok || got != id {
				t.Errorf("level %d, %s: Base = %s, %t; want %s", level, test.name, got, ok, id)
			}
			if n, err := Size(value); err != nil || n != len(test.src) {
				t.Errorf("level %d, %s: Size = %d, %v; want %d", level, test.name, n, err, len(test.src))
			}

			got, err := DecodePatch([]byte("before"), value, len(test.src), test.base)
			if err != nil || string(got) != "before"+string(test.src) {
				t.Errorf("level %d, %s: decoded %d bytes, %v; want the %d of the source", level, test.name, len(got)-6, err, len(test.src))
			}
			wantNear(t, value, id, test.src, test.base)
		}
	}
}

// wantNear checks that patch becomes a valid near patch of base for src, and that the near
// patch becomes patch again.
func wantNear(t *testing.T, patch []byte, id object.ID, src, base []byte) {
	t.Helper()
	n := Near{Distance: 5 << 20, Stored: len(base), Raw: len(base)}
	value, err := AppendNear([]byte("before"), patch, n)
	if err != nil || string(value[:6]) != "before" || len(value)-6 > len(patch)-20 {
		t.Fatalf("near patch of %d bytes for a patch of %d, %v; want at least 20 fewer", len(value)-6, len(patch), err)
	}
	value = value[6:]
	if got, err := NearBase(value); err != nil || got != n || !IsNear(value) || IsNear(patch) {
		t.Errorf("NearBase = %+v, %v; want %+v", got, err, n)
	}
	if id, ok := Base(value); ok {
		t.Errorf("Base of a near patch = %s, want none", id)
	}
	if size, err := Size(value); err != nil || size != len(src) {
		t.Errorf("Size of a near patch = %d, %v; want %d", size, err, len(src))
	}
	if got, err := DecodePatch([]byte("before"), value, len(src), base); err != nil || string(got) != "before"+string(src) {
		t.Errorf("near patch decodes to %d bytes, %v; want the %d of the source", len(got)-6, err, len(src))
	}
	if again, err := AppendFar([]byte("before"), value, id); err != nil || string(again) != "before"+string(patch) {
		t.Errorf("AppendFar returns %d bytes, %v; want the patch of %d", len(again)-6, err, len(patch))
	}
}

// TestNearRefused checks that AppendNear and AppendFar refuse values that are no patches, or
// that name their base in the other way.
func TestNearRefused(t *testing.T) {
	n := Near{44, 44, 43}
	script := []byte{codecRaw, 3, 'f', 'o', 'x'}
	far, close := patch(3, object.ID{}, script), near(3, n, script)
	for _, value := range [][]byte{nil, script, close, far[:20], far[:33], patch(MaxPatch+1, object.ID{}, script)} {
		if out, err := AppendNear([]byte("x"), value, n); !errors.Is(err, object.ErrCorrupt) || string(out) != "x" {
			t.Errorf("AppendNear(%x) = %q, %v; want ErrCorrupt", value, out, err)
		}
	}
	for _, n := range []Near{{}, {43, 44, 43}, {44, 44, 0}, {44, 44, MaxPatch + 1}, {MaxDistance + 1, 44, 43}, {-1, 44, 43}} {
		if out, err := AppendNear([]byte("x"), far, n); !errors.Is(err, object.ErrCorrupt) || string(out) != "x" {
			t.Errorf("AppendNear at %+v = %q, %v; want ErrCorrupt", n, out, err)
		}
	}
	for _, value := range [][]byte{nil, script, far, close[:3], close[:4], near(3, Near{1, 44, 43}, script)} {
		if out, err := AppendFar([]byte("x"), value, object.ID{}); !errors.Is(err, object.ErrCorrupt) || string(out) != "x" {
			t.Errorf("AppendFar(%x) = %q, %v; want ErrCorrupt", value, out, err)
		}
	}
	for _, value := range [][]byte{far, close} {
		var refused *Error
		if _, err := Decode(nil, value, 3); !errors.As(err, &refused) || refused.Reason != ReasonPatch {
			t.Errorf("Decode(%x): %v, want ReasonPatch", value, err)
		}
	}
}

func TestPatchOfAnything(t *testing.T) {
	enc := NewEncoder(Fastest)
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		base := text(1 + rnd.IntN(5000))
		src := edited(seed, base, rnd.IntN(20))
		value, ok := enc.AppendPatch(nil, src, object.ID{}, base)
		if !ok {
			if len(src) > 500 {
				t.Errorf("seed %d: AppendPatch makes no patch of %d bytes from a base of %d", seed, len(src), len(base))
			}
			continue
		}
		if got, err := DecodePatch(nil, value, len(src), base); err != nil || !bytes.Equal(got, src) {
			t.Fatalf("seed %d: round trip of %d bytes: %d bytes, %v", seed, len(src), len(got), err)
		}
	}
}

// TestPatchEncoderBug checks that AppendPatch makes no patch with a faulty zstd encoder.
func TestPatchEncoderBug(t *testing.T) {
	calls := 0
	enc := newEncoder(func() allEncoder {
		good := NewEncoder(Fastest).workers.make().zstd
		return badEncoder{good, func(f []byte) []byte { return f[:len(f)-1] }, &calls}
	})
	base := text(50_000)
	if out, ok := enc.AppendPatch([]byte("before"), edited(1, base, 200), object.ID{}, base); ok || string(out) != "before" || calls == 0 {
		t.Errorf("AppendPatch: %d bytes, %t, %d calls of the zstd encoder; want no patch", len(out), ok, calls)
	}
}

func TestDecodePatchTruncated(t *testing.T) {
	base := text(3000)
	for _, src := range [][]byte{edited(1, base, 2), edited(2, base, 40)} {
		value, ok := NewEncoder(Fastest).AppendPatch(nil, src, object.Sum(base), base)
		if !ok {
			t.Fatal("AppendPatch makes no patch")
		}
		for n := range len(value) {
			if _, err := DecodePatch(nil, value[:n], len(src), base); !errors.Is(err, object.ErrCorrupt) {
				t.Errorf("first %d of %d bytes: %v, want ErrCorrupt", n, len(value), err)
			}
		}
	}
}

// TestPatchBombMemory checks that the memory of DecodePatch depends on the wanted length, and
// not on a patch that declares or has more.
func TestPatchBombMemory(t *testing.T) {
	bomb := append([]byte{codecZstd}, zstdFrame(1<<20, 100_000, 128<<10)...)
	values := [][]byte{
		patch(1000, object.ID{}, bomb),
		patch(1<<40, object.ID{}, bomb),
		patch(1<<20, object.ID{}, bomb),
		patch(1<<20, object.ID{}, append([]byte{codecZstd}, zstdFrame(1<<62, 1, 10)...)),
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 10 {
		for _, value := range values {
			for _, n := range []int{1000, 1 << 20, 1 << 40, -1} {
				if _, err := DecodePatch(nil, value, n, make([]byte, 100)); err == nil {
					t.Fatal("DecodePatch accepts a bomb")
				}
			}
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 80<<20 {
		t.Errorf("160 bad values took %d MiB of memory, want at most 80", got>>20)
	}
}

func FuzzDecodePatch(f *testing.F) {
	enc := NewEncoder(Fastest)
	base := text(2000)
	for places := range 5 {
		src := edited(uint64(places), base, places*10)
		value, _ := enc.AppendPatch(nil, src, object.Sum(base), base)
		f.Add(value, base, len(src))
	}

	for _, v := range patchVectors() {
		f.Add(v.data, []byte(v.Base), v.Raw)
	}
	f.Fuzz(func(t *testing.T, value, base []byte, rawLen int) {
		got, err := DecodePatch([]byte("x"), value, rawLen, base)
		if err != nil {
			if !errors.Is(err, object.ErrCorrupt) || string(got) != "x" {
				t.Fatalf("DecodePatch = %q, %v; want ErrCorrupt", got, err)
			}
			return
		}
		if len(got) != 1+rawLen || rawLen > MaxPatch {
			t.Fatalf("DecodePatch: %d bytes, want %d", len(got)-1, rawLen)
		}
		if n, err := Size(value); err != nil || n != rawLen {
			t.Fatalf("Size = %d, %v; want %d", n, err, rawLen)
		}

		id, ok := Base(value)
		if n, err := NearBase(value); ok == (err == nil) || !ok && n.Raw != len(base) {
			t.Fatalf("Base = %s, %t; NearBase = %+v, %v; want exactly one", id, ok, n, err)
		}
		if value, ok = enc.AppendPatch(nil, got, id, base); ok {
			if again, err := DecodePatch(nil, value, len(got), base); err != nil || !bytes.Equal(again, got) {
				t.Fatalf("round trip of %d bytes: %d bytes, %v", len(got), len(again), err)
			}
		}
	})
}

func BenchmarkPatch(b *testing.B) {
	base := text(15_000)
	src := edited(1, base, 10)
	enc := NewEncoder(Fastest)
	value, _ := enc.AppendPatch(nil, src, object.ID{}, base)
	b.Run("append", func(b *testing.B) {
		b.SetBytes(int64(len(src)))
		b.ReportAllocs()
		for dst := []byte(nil); b.Loop(); {
			dst, _ = enc.AppendPatch(dst[:0], src, object.ID{}, base)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(src)))
		b.ReportAllocs()
		for dst := []byte(nil); b.Loop(); {
			dst, _ = DecodePatch(dst[:0], value, len(src), base)
		}
	})
}
