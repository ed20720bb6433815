package crypt

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// testKeys returns the keys of so many epochs.
func testKeys(t testing.TB, epochs int) *Keys {
	k := &Keys{Remote: counted[[16]byte](0x10)}
	for i := range epochs {
		k.Epochs = append(k.Epochs, testKey(t, byte(32*i)))
	}
	return k
}

// counted returns the bytes first, first+1, ….
func counted[T [16]byte | [32]byte](first byte) (a T) {
	for i := range len(a) {
		a[i] = first + byte(i)
	}
	return a
}

// pattern returns n bytes that repeat after 256.
func pattern(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(7 * i)
	}
	return data
}

func sample(seed byte, n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

// first is the keyset of epoch 1.
var first = remote.KeysetRef{Epoch: 1, Names: [2][16]byte{counted[[16]byte](0x50), counted[[16]byte](0x60)}}

// second is the keyset of epoch 2.
var second = remote.KeysetRef{Epoch: 2, Names: [2][16]byte{counted[[16]byte](0x70), counted[[16]byte](0x80)}}

// newStore returns a store over memory, with one epoch and without other keysets.
func newStore(t testing.TB) (*Store, *remotetest.Memory) {
	m := remotetest.NewMemory()
	return New(remotetest.NewGuard(t, m), Options{Keys: testKeys(t, 1)}), m
}

// put stores a blob, or a root of epoch 1.
func put(t testing.TB, s *Store, name string, data []byte) {
	t.Helper()
	var err error
	if typeOf(name) == remote.TypeRoot {
		err = s.CreateRoot(context.Background(), name, data, first)
	} else {
		err = s.Put(context.Background(), name, bytes.NewReader(data), int64(len(data)))
	}
	if err != nil {
		t.Fatalf("store %s: %v", name, err)
	}
}

// readAll reads a blob to its end.
func readAll(s remote.Backend, name string) ([]byte, error) {
	info, err := s.Stat(context.Background(), name)
	if err != nil {
		return nil, err
	}
	p := make([]byte, info.Size+20_000) // the blob may be too short
	n, err := s.Get(context.Background(), name, p, 0)
	return p[:n], err
}

func wantAll(t testing.TB, s remote.Backend, name string, want []byte) {
	t.Helper()
	if got, err := readAll(s, name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, %v; want the %d stored bytes", name, len(got), err, len(want))
	}
}

func wantDamaged(t testing.TB, what string, err error) {
	t.Helper()
	e, ok := errors.AsType[*remote.Error](err)
	if !ok || !errors.Is(err, remote.ErrDamaged) || e.Name == "" {
		t.Errorf("%s: error %v, want damage", what, err)
	}
}

// The blobs of docs/format/encrypted.md.
const (
	packName  = "packs/40/404142434445464748494a4b4c4d4e4f"
	rootName1 = "root/00000000000000000001"
)

// vectors are the examples of docs/format/encrypted.md.
var vectors = []struct {
	name   string
	plain  int
	stored int
	sum    string
}{
	{packName, 40_000, 41_096, "c0618303e00eadaf64a2066b9c05d44c7b7024e4149db118fd5fb592e89806c9"},
	{rootName1, 300, 4_232, "8535aa7e8b7d9b8ca93dff61bc2b4d301368378028c0dae1ceb1044e820f9465"},
}

// vector returns the stored bytes of an example.
func vector(t testing.TB, name string, plain int) []byte {
	t.Helper()
	b, err := newSalted(testKeys(t, 1), name, int64(plain), first, counted[[16]byte](0x30))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := sealAll(b, pattern(plain))
	if err != nil {
		t.Fatal(err)
	}
	return stored
}
