package objecttest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// random returns n bytes that do not compress, the same for the same seed.
func random(seed byte, n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

// chunk returns a different chunk for each i below 256, some tiny, some compressible.
func chunk(i int) []byte {
	switch i % 4 {
	case 0:
		return []byte{byte(i)}
	case 1:
		return random(byte(i), 1000+i)
	case 2:
		return bytes.Repeat([]byte(fmt.Sprintf("chunk %d ", i)), 500)
	default:
		return append(make([]byte, 70_000), byte(i), byte(i>>8))
	}
}

// node returns the encoding of a different node for each i.
func node(t testing.TB, kind object.Kind, i int) []byte {
	t.Helper()
	id := object.Sum(fmt.Append(nil, i))
	who := object.Stamp{Name: "A", Email: "a@example.org", Time: object.Time{Sec: 1_700_000_000}}
	var n interface{ Encode() ([]byte, error) }
	switch kind {
	case object.KindManifest:
		n = &object.Manifest{Chunks: []object.ChunkRef{{ID: id, Size: 5}, {ID: object.Sum(id[:]), Size: 7}}}
	case object.KindTree:
		n = &object.Tree{Entries: []object.Entry{{Name: fmt.Sprint("link ", i), Type: object.TypeSymlink, Mode: 0o777, Target: "to"}}}
	case object.KindCommit:
		n = &object.Commit{Tree: id, Author: who, Committer: who, Message: fmt.Sprint("message ", i, "\n")}
	default:
		n = &object.Tag{Target: id, Name: fmt.Sprint("v", i), Tagger: who, Message: "message\n"}
	}
	data, err := n.Encode()
	if err != nil {
		t.Fatalf("encode %s: %v", kind, err)
	}
	return data
}

// sample returns an object of any kind.
func sample(t testing.TB, kind object.Kind, i int) []byte {
	t.Helper()
	if kind == object.KindChunk {
		return chunk(i)
	}
	return node(t, kind, i)
}

var allKinds = []object.Kind{object.KindChunk, object.KindManifest, object.KindTree, object.KindCommit, object.KindTag}
