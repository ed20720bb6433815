package kist

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
)

func lostKeys() []object.Key {
	return []object.Key{
		{Kind: object.KindChunk, ID: object.Sum([]byte("a"))},
		{Kind: object.KindTree, ID: object.Sum([]byte("b"))},
		{Kind: object.KindCommit, ID: object.Sum([]byte("c"))},
	}
}

func TestLostList(t *testing.T) {
	keys := lostKeys()
	file := EncodeLost(keys)
	slices.SortFunc(keys, object.Key.Compare)
	if got, err := DecodeLost(file); err != nil || !slices.Equal(got, keys) {
		t.Fatalf("decoded %v, %v, want %v", got, err, keys)
	}
	for bit := range 8 * len(file) {
		flipped := bytes.Clone(file)
		flipped[bit/8] ^= 1 << (bit % 8)
		if got, err := DecodeLost(flipped); !errors.Is(err, ErrLostList) || !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("bit %d flipped: %v, %v, want ErrLostList", bit, got, err)
		}
	}
}

func FuzzDecodeLost(f *testing.F) {
	f.Add(EncodeLost(lostKeys()))
	f.Add(EncodeLost(nil))
	f.Fuzz(func(t *testing.T, file []byte) {
		if keys, err := DecodeLost(file); err == nil && !bytes.Equal(EncodeLost(keys), file) {
			t.Error("encoding the decoded list gives other bytes")
		}
	})
}
