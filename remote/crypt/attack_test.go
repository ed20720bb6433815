package crypt

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// Each flipped byte of a blob is found, by a client that reads it for the first time and by one that knows its
// header.
func TestEveryByteFlipped(t *testing.T) {
	for _, name := range []string{packName, rootName1, "index/404142434445464748494a4b4c4d4e4f", "state/404142434445464748494a4b4c4d4e4f"} {
		s, m := newStore(t)
		data := sample(1, 17_000)
		put(t, s, name, data)
		stored := m.Data(name)
		step := 1
		if typeOf(name) != remote.TypePack {
			step = 11
		}
		for at := 0; at < len(stored); at += step {
			s.headers.drop(name)
			m.Damage(name, at)
			_, err := readAll(s, name)
			wantDamaged(t, fmt.Sprintf("%s: byte %d flipped", name, at), err)

			m.Set(name, stored)
			segment := (int64(at) - headerSizeOf(typeOf(name))) / storedSegment
			if segment < 1 || at%5 != 0 {
				continue
			}
			wantAll(t, s, name, data)
			m.Damage(name, at)
			_, err = s.Get(t.Context(), name, make([]byte, 20_000), segment*segmentSize)
			wantDamaged(t, fmt.Sprintf("%s: byte %d flipped, header known", name, at), err)
			if s.headers.get(name) != nil {
				t.Fatal("the header is kept after a failure")
			}
			m.Set(name, stored)
		}
	}
}

// The versions in a header are the only bytes that may look like a newer format, and the first client says so.
func TestFlippedVersion(t *testing.T) {
	for _, at := range []int{9, 10} {
		for bit := range 8 {
			s, m := newStore(t)
			put(t, s, packName, []byte("text"))
			data := m.Data(packName)
			data[at] ^= 1 << bit
			m.Set(packName, data)
			if _, err := readAll(s, packName); !errors.Is(err, remote.ErrDamaged) && !errors.Is(err, remote.ErrNewerFormat) {
				t.Errorf("bit %d of byte %d flipped: %v", bit, at, err)
			}
		}
	}
}

// Each truncation is found by a read to the end, and each addition, too.
func TestEveryTruncation(t *testing.T) {
	for _, size := range []int{0, 300, 16_384, 40_000} {
		s, m := newStore(t)
		put(t, s, packName, sample(1, size))
		stored := m.Data(packName)
		longer := append(bytes.Clone(stored), sample(2, 40_000)...)
		for length := 0; length <= len(longer); length += 1 + length/20 {
			if length == len(stored) {
				continue
			}
			m.Set(packName, longer[:length])
			for _, known := range []bool{false, true} {
				fresh := New(m, Options{Keys: testKeys(t, 1)})
				if known {
					now := m.Data(packName)
					m.Set(packName, stored)
					wantAll(t, fresh, packName, sample(1, size))
					m.Set(packName, now)
				}
				_, err := readAll(fresh, packName)
				wantDamaged(t, fmt.Sprintf("%d of %d bytes", length, len(stored)), err)
			}
		}

		// So are the ends of segments.
		for _, length := range []int{headerSize, headerSize + storedSegment, headerSize + 2*storedSegment, len(stored) - 1, len(stored) + 1} {
			if length == len(stored) || length > len(stored)+1 {
				continue
			}
			m.Set(packName, append(bytes.Clone(stored), 0)[:length])
			_, err := readAll(New(m, Options{Keys: testKeys(t, 1)}), packName)
			wantDamaged(t, fmt.Sprintf("%d of %d bytes", length, len(stored)), err)
		}
	}
}

// Segments that are moved, repeated or taken from another blob are found.
func TestMovedSegments(t *testing.T) {
	s, m := newStore(t)
	data := pattern(4 * segmentSize) // equal segments
	put(t, s, "packs/00/1", data)
	put(t, s, "packs/00/2", data)
	one, two := m.Data("packs/00/1"), m.Data("packs/00/2")
	segment := func(data []byte, i int) []byte { return data[headerSize+i*storedSegment:][:storedSegment] }
	for what, change := range map[string]func(data []byte){
		"two swapped":                 func(data []byte) { copy(segment(data, 0), segment(one, 1)); copy(segment(data, 1), segment(one, 0)) },
		"one repeated":                func(data []byte) { copy(segment(data, 1), segment(one, 0)) },
		"the last one in the middle":  func(data []byte) { copy(segment(data, 1), segment(one, 3)) },
		"one from another blob":       func(data []byte) { copy(segment(data, 2), segment(two, 2)) },
		"the length of another blob":  func(data []byte) { copy(data[lengthAt:keysetAt], two[lengthAt:keysetAt]) },
		"the salt of another blob":    func(data []byte) { copy(data[saltAt:commitAt], two[saltAt:commitAt]) },
		"the header of another blob":  func(data []byte) { copy(data, two[:keysetAt]) },
		"the segments of another one": func(data []byte) { copy(data[keysetAt:], two[keysetAt:]) },
		"a commitment of zeros":       func(data []byte) { clear(data[commitAt:lengthAt]) },
	} {
		changed := bytes.Clone(one)
		change(changed)
		m.Set("packs/00/1", changed)
		_, err := readAll(New(m, Options{Keys: testKeys(t, 1)}), "packs/00/1")
		wantDamaged(t, what, err)
	}
}

// Each swap of two names is found, and each blob of another remote or another keyset.
func TestEverySwap(t *testing.T) {
	s, m := newStore(t)
	names := []string{"packs/00/1", "packs/00/2", "index/1", "index/2", "state/1", "state/2", "root/1", "root/2", "root/00000000000000000002"}
	for i, name := range names {
		put(t, s, name, sample(byte(i), 300)) // of one size
	}
	for i, a := range names {
		for _, b := range names[:i] {
			fresh := New(m, Options{Keys: testKeys(t, 1)})
			m.Swap(a, b)
			for _, name := range []string{a, b} {
				_, err := readAll(fresh, name)
				wantDamaged(t, fmt.Sprintf("%s swapped with %s", a, b), err)
			}
			m.Swap(a, b)
		}
		elsewhere := testKeys(t, 1)
		elsewhere.Remote[15]++
		_, err := readAll(New(m, Options{Keys: elsewhere}), a)
		wantDamaged(t, a+" on another remote", err)
		_, err = readAll(New(m, Options{Keys: &Keys{Remote: elsewhere.Remote, Epochs: []Key{NewKey()}}}), a)
		wantDamaged(t, a+" with another key", err)
	}

	// The root names its keyset in clear. Another name of a keyset is found.
	for at := keysetAt; at < rootHeaderSize; at++ {
		fresh := New(m, Options{Keys: testKeys(t, 1)})
		m.Damage("root/1", at)
		_, err := readAll(fresh, "root/1")
		wantDamaged(t, "another name of a keyset", err)
		m.Damage("root/1", at)
		m.Set("root/1", m.Data("root/1"))
	}
	wantAll(t, s, "root/1", sample(6, 300))
}

// The padding must be zero: nothing can be hidden in it.
func TestPaddingIsZero(t *testing.T) {
	for _, at := range []int{300, 4000, 4095} {
		m := remotetest.NewMemory()
		b, err := newBlob(testKeys(t, 1), packName, 300, first)
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, b.padded)
		copy(text, sample(1, 300))
		text[at] = 1
		m.Set(packName, b.aead.Seal(bytes.Clone(b.header), b.nonce(0), text, nil))
		_, err = readAll(New(m, Options{Keys: testKeys(t, 1)}), packName)
		wantDamaged(t, "padding", err)
	}
}

// A writer with the keys cannot make a reader allocate memory: a length that the stored size refutes is damage.
func TestHugeLength(t *testing.T) {
	for _, plain := range []int64{1 << 20, 1 << 39, maxPlain} {
		m := remotetest.NewMemory()
		b, err := newBlob(testKeys(t, 1), packName, plain, first)
		if err != nil {
			t.Fatal(err)
		}
		m.Set(packName, append(bytes.Clone(b.header), sample(1, 50_000)...))
		s := New(m, Options{Keys: testKeys(t, 1)})
		_, err = readAll(s, packName)
		wantDamaged(t, "length", err)
		_, err = s.Get(t.Context(), packName, make([]byte, 100), plain-50)
		wantDamaged(t, "length", err)
		if got := s.StoredSize(packName, plain); got == int64(len(m.Data(packName))) {
			t.Error("the stored size fits")
		}
	}
	if _, err := newBlob(testKeys(t, 1), packName, maxPlain+1, first); err == nil {
		t.Error("a blob that is too long was made")
	}
	if _, err := newBlob(testKeys(t, 1), packName, -1, first); err == nil {
		t.Error("a blob of -1 bytes was made")
	}
}

// An older version of a root under its name is authentic: the log detects it, not this package. But no blob
// of one name can be read under another one, even with the same salt.
func TestSaltIsNoIdentity(t *testing.T) {
	one := vector(t, packName, 300)
	m := remotetest.NewMemory()
	m.Set("packs/40/other", one)
	_, err := readAll(New(m, Options{Keys: testKeys(t, 1)}), "packs/40/other")
	wantDamaged(t, "another name", err)
	two := vector(t, "packs/40/other", 300)
	for i := commitAt; i+16 <= len(one); i += 16 {
		if bytes.Equal(one[i:i+16], two[i:i+16]) {
			t.Errorf("two names and one salt give equal bytes at %d", i)
		}
	}
}
