package object_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
)

// seeds returns valid and almost valid encodings of a kind, and its test vectors.
func seeds(f *testing.F, kind object.Kind) [][]byte {
	var nodes []interface{ Encode() ([]byte, error) }
	switch kind {
	case object.KindTree:
		nodes = append(nodes, &object.Tree{}, &object.Tree{Entries: allEntries()}, innerTree(), splitTree(17, 15))
	case object.KindManifest:
		nodes = append(nodes, fullManifest(), innerManifest())
	case object.KindCommit:
		nodes = append(nodes, fullCommit(), &object.Commit{Tree: sum("a")}, sign(f, fullCommit()))
	case object.KindTag:
		nodes = append(nodes, fullTag(), sign(f, fullTag()))
	}
	var data [][]byte
	for _, node := range nodes {
		enc := mustEncode(f, node)
		data = append(data, enc, enc[:len(enc)-1], append(bytes.Clone(enc), 0))
	}
	for _, v := range readVectors(f, kind) {
		if len(v.data) < 4000 {
			data = append(data, v.data)
		}
	}
	return data
}

// fuzzDecoder checks that a decoder accepts only canonical bytes, for which Links succeeds,
// and that the node does not share memory with them.
func fuzzDecoder[T any, P interface {
	*T
	Encode() ([]byte, error)
}](f *testing.F, kind object.Kind, decode func([]byte) (P, error)) {
	for _, data := range seeds(f, kind) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		input := bytes.Clone(data)
		node, err := decode(input)
		if !bytes.Equal(input, data) {
			t.Fatal("the decoder changed its input")
		}

		links, linksErr := object.Links(kind, data)
		if err != nil {
			if object.Check(kind, data) == nil {
				t.Fatalf("Check accepts bytes that the decoder refuses: %v", err)
			}
			return
		}
		if linksErr != nil {
			t.Fatalf("Links of a valid node: %v", linksErr)
		}

		clear(input)
		again, err := node.Encode()
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("decoded node encodes to %x, %v; want %x", again, err, data)
		}

		// The encoder takes the links from the fields alone.
		if more, err := object.Links(kind, again); err != nil || !cmp.Equal(links, more) {
			t.Fatalf("Links = %v, after encoding again %v, %v", links, more, err)
		}
	})
}

func FuzzDecodeTree(f *testing.F)     { fuzzDecoder(f, object.KindTree, object.DecodeTree) }
func FuzzDecodeManifest(f *testing.F) { fuzzDecoder(f, object.KindManifest, object.DecodeManifest) }
func FuzzDecodeCommit(f *testing.F)   { fuzzDecoder(f, object.KindCommit, object.DecodeCommit) }
func FuzzDecodeTag(f *testing.F)      { fuzzDecoder(f, object.KindTag, object.DecodeTag) }

func FuzzLinks(f *testing.F) {
	for kind := object.KindManifest; kind <= object.KindTag; kind++ {
		for _, data := range seeds(f, kind) {
			f.Add(byte(kind), data)
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		links, err := object.Links(object.Kind(kind), data)
		if err != nil {
			if links != nil {
				t.Fatalf("Links returns %d links and error %v", len(links), err)
			}
			return
		}
		if len(links) > object.MaxLinks || len(links)*33 > len(data) {
			t.Fatalf("Links returns %d links from %d bytes", len(links), len(data))
		}
		seen := map[object.Key]bool{}
		for _, key := range links {
			if seen[key] || !key.Kind.Valid() || key.ID.IsZero() {
				t.Fatalf("repeated or invalid link %v", key)
			}
			seen[key] = true
		}
	})
}

// TestHostileInputsAllocateLittle checks that the memory of decoders is bounded by the size
// of the input, whatever counts and lengths are in it.
func TestHostileInputsAllocateLittle(t *testing.T) {
	for kind := object.KindManifest; kind <= object.KindTag; kind++ {
		for _, v := range readVectors(t, kind) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := object.Check(kind, v.data)
			runtime.ReadMemStats(&after)
			limit := uint64(2<<20 + 50*len(v.data))
			if used := after.TotalAlloc - before.TotalAlloc; used > limit {
				t.Errorf("%s %s: %d bytes allocated for an input of %d (%v)", kind, v.Name, used, len(v.data), err)
			}
		}
	}
}
