package crypt

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

var update = flag.Bool("update", false, "rewrite the vectors")

const vectorFile = "../../testdata/vectors/encryptedblob.json"

// vectorSet is the content of the file. testdata/readers/encryptedblob.mjs reads it, too.
type vectorSet struct {
	Remote string            `json:"remote"`
	Epochs map[uint32]string `json:"epochs"`
	Pads   [][2]int64        `json:"pads"`
	Blobs  []blobVector      `json:"blobs"`
}

// blobVector is a blob, or a change of an earlier one. Byte i of the plain blob is 7i mod 256.
type blobVector struct {
	Name   string   `json:"name"`
	Blob   string   `json:"blob"`             // its name
	Plain  int      `json:"plain,omitempty"`  // bytes
	Error  string   `json:"error,omitempty"`  // damaged, newer
	Of     string   `json:"of,omitempty"`     // the vector that is changed
	Flip   [][2]int `json:"flip,omitempty"`   // offset of a byte, and the bits to flip
	Length *int     `json:"length,omitempty"` // the rest is cut
	Hex    string   `json:"hex,omitempty"`
}

// makeVectors returns the vectors as this code makes them.
func makeVectors(t *testing.T) (set vectorSet) {
	keys := testKeys(t, 1)
	set.Remote = hex.EncodeToString(keys.Remote[:])
	set.Epochs = map[uint32]string{1: hex.EncodeToString(keys.Of(1).Secret())}
	for _, n := range []int64{0, 4096, 4097, 40_000, 65_536, 65_537, 1_000_000, 6 << 20, 6<<20 + 1, 8 << 20, 8<<20 + 1, 15 << 20, 30<<20 + 1, 32<<20 + 1, 100_000_000_000} {
		set.Pads = append(set.Pads, [2]int64{n, Pad(n)})
	}

	const state = "state/404142434445464748494a4b4c4d4e4f"
	for _, v := range []blobVector{
		{Name: "a pack", Blob: packName, Plain: 40_000},
		{Name: "a root", Blob: rootName1, Plain: 300},
		{Name: "an empty state file", Blob: state},
	} {
		v.Hex = hex.EncodeToString(vector(t, v.Blob, v.Plain))
		set.Blobs = append(set.Blobs, v)
	}
	length := func(n int) *int { return &n }
	return vectorSet{set.Remote, set.Epochs, set.Pads, append(set.Blobs, []blobVector{
		{Name: "another name", Blob: "packs/40/other", Of: "a pack", Error: "damaged"},
		{Name: "another folder", Blob: "index/404142434445464748494a4b4c4d4e4f", Of: "an empty state file", Error: "damaged"},
		{Name: "another number of a root", Blob: "root/00000000000000000002", Of: "a root", Error: "damaged"},
		{Name: "a newer layout", Blob: packName, Of: "a pack", Flip: [][2]int{{9, 3}}, Error: "newer"},
		{Name: "a newer scheme", Blob: packName, Of: "a pack", Flip: [][2]int{{10, 3}}, Error: "newer"},
		{Name: "scheme 0", Blob: packName, Of: "a pack", Flip: [][2]int{{10, 1}}, Error: "damaged"},
		{Name: "a reserved byte", Blob: packName, Of: "a pack", Flip: [][2]int{{11, 1}}, Error: "damaged"},
		{Name: "epoch 0", Blob: packName, Of: "a pack", Flip: [][2]int{{15, 1}}, Error: "damaged"},
		{Name: "a later epoch of the same key", Blob: packName, Of: "a pack", Flip: [][2]int{{15, 3}}, Error: "damaged"},
		{Name: "another salt", Blob: packName, Of: "a pack", Flip: [][2]int{{16, 1}}, Error: "damaged"},
		{Name: "another name of a keyset", Blob: rootName1, Of: "a root", Flip: [][2]int{{119, 128}}, Error: "damaged"},
		{Name: "no segments", Blob: rootName1, Of: "a root", Length: length(120), Error: "damaged"},
		{Name: "without the last segment", Blob: packName, Of: "a pack", Length: length(88 + 2*16_400), Error: "damaged"},
		{Name: "cut in the header", Blob: packName, Of: "a pack", Length: length(87), Error: "damaged"},
	}...)}
}

// The file has these vectors, and the design's, which another program made. Each opens as it says.
func TestVectorFile(t *testing.T) {
	want, err := json.MarshalIndent(makeVectors(t), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(vectorFile, want, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, want) {
		t.Errorf("%s differs from the vectors that this code makes", vectorFile)
	}

	var set vectorSet
	if err := json.Unmarshal(data, &set); err != nil {
		t.Fatal(err)
	}
	known := map[string][]byte{}
	for _, v := range set.Blobs {
		stored := bytes.Clone(known[v.Of])
		if v.Hex != "" {
			if stored, err = hex.DecodeString(v.Hex); err != nil {
				t.Fatal(err)
			}
			known[v.Name] = bytes.Clone(stored)
		}
		for _, f := range v.Flip {
			stored[f[0]] ^= byte(f[1])
		}
		if v.Length != nil {
			stored = stored[:*v.Length]
		}

		m := remotetest.NewMemory()
		m.Set(v.Blob, stored)
		got, err := readAll(New(m, Options{Keys: testKeys(t, 1)}), v.Blob)
		switch {
		case v.Error == "" && (err != nil || !bytes.Equal(got, pattern(v.Plain))):
			t.Errorf("%s: %d bytes, %v", v.Name, len(got), err)
		case v.Error == "damaged" && !errors.Is(err, remote.ErrDamaged), v.Error == "newer" && !errors.Is(err, remote.ErrNewerFormat):
			t.Errorf("%s: %v, want %s", v.Name, err, v.Error)
		}
	}
}
