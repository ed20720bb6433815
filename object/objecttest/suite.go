package objecttest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// Run checks that a store follows the comments of [object.Reader], [object.Writer]
// and [object.ReadWriter]. The store must also refuse invalid objects: an unknown
// kind, an empty chunk or node, a chunk above [object.MaxChunkSize], a node above
// [object.MaxNodeSize]. Open is called for each check and returns an empty store.
// Run it also with -race.
func Run(t *testing.T, open func(t *testing.T) object.ReadWriter) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

type check struct {
	name string
	run  func(t testing.TB, rw object.ReadWriter)
}

var checks = []check{
	{"RoundTrip", checkRoundTrip},
	{"Sizes", checkSizes},
	{"Bytes", checkBytes},
	{"Idempotent", checkIdempotent},
	{"KindsApart", checkKindsApart},
	{"NotFound", checkNotFound},
	{"Missing", checkMissing},
	{"GetIsOwned", checkGetIsOwned},
	{"PutKeepsNothing", checkPutKeepsNothing},
	{"Refuses", checkRefuses},
	{"Cancelled", checkCancelled},
	{"Concurrent", checkConcurrent},
	{"ConcurrentSame", checkConcurrentSame},
}

// put stores data and checks the ID.
func put(t testing.TB, rw object.ReadWriter, kind object.Kind, data []byte) object.Key {
	t.Helper()
	id, err := rw.Put(context.Background(), kind, data)
	if err != nil {
		t.Fatalf("put %s of %d bytes: %v", kind, len(data), err)
	}
	if want := object.Sum(data); id != want {
		t.Fatalf("put %s of %d bytes gave ID %s, want %s", kind, len(data), id, want)
	}
	return object.Key{Kind: kind, ID: id}
}

// want checks that an object is there and has the bytes of data.
func want(t testing.TB, rw object.ReadWriter, key object.Key, data []byte) {
	t.Helper()
	got, err := rw.Get(context.Background(), key)
	if err != nil {
		t.Errorf("get %s: %v", key, err)
	} else if !bytes.Equal(got, data) {
		t.Errorf("get %s gave other bytes (%d) than were put (%d)", key, len(got), len(data))
	}
	wantMissing(t, rw, []object.Key{key}, nil)
}

// wantNone checks that an object is not there.
func wantNone(t testing.TB, rw object.ReadWriter, key object.Key) {
	t.Helper()
	got, err := rw.Get(context.Background(), key)
	if got != nil {
		t.Errorf("get of absent %s gave %d bytes", key, len(got))
	}
	var nf *object.AbsentError
	if !errors.As(err, &nf) || nf.Key != key || !errors.Is(err, object.ErrNotFound) {
		t.Errorf("get of absent %s: error %v, want a NotFoundError with its key", key, err)
	}
	if errors.Is(err, object.ErrCorrupt) {
		t.Errorf("get of absent %s: error %v matches ErrCorrupt", key, err)
	}
	wantMissing(t, rw, []object.Key{key}, []object.Key{key})
}

func wantMissing(t testing.TB, rw object.ReadWriter, ask, want []object.Key) {
	t.Helper()
	asked := slices.Clone(ask)
	got, err := rw.Missing(context.Background(), ask)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("missing of %d keys: %v, %v; want %v", len(ask), got, err, want)
	}
	if !slices.Equal(ask, asked) {
		t.Error("Missing changed the keys it was given")
	}
}

func checkRoundTrip(t testing.TB, rw object.ReadWriter) {
	objects := map[object.Key][]byte{}
	for _, kind := range allKinds {
		for i := range 20 {
			data := sample(t, kind, i)
			key := put(t, rw, kind, data)
			want(t, rw, key, data) // at once
			objects[key] = data
		}
	}
	for key, data := range objects {
		want(t, rw, key, data)
	}
}

func checkSizes(t testing.TB, rw object.ReadWriter) {
	for _, n := range []int{1, 2, 31, 32, 33, 63, 64, 65, 1023, 64 << 10, 1<<20 + 1, object.MaxChunkSize - 1, object.MaxChunkSize} {
		for _, data := range [][]byte{make([]byte, n), random(1, n)} {
			want(t, rw, put(t, rw, object.KindChunk, data), data)
		}
	}
}

// checkBytes stores chunks that look like stored values, nodes or files of other formats.
func checkBytes(t testing.TB, rw object.ReadWriter) {
	for _, s := range []string{"\x00", "\x01", "\xff", "\n", "\x00\x00\x00", "\x01\x28\xb5\x2f\xfd", "\x28\xb5\x2f\xfd\x00\x00", "kn\x03\x01", "deleted", "PK\x03\x04"} {
		want(t, rw, put(t, rw, object.KindChunk, []byte(s)), []byte(s))
	}
}

func checkIdempotent(t testing.TB, rw object.ReadWriter) {
	for _, kind := range allKinds {
		data := sample(t, kind, 5)
		first := put(t, rw, kind, data)
		for range 3 {
			if key := put(t, rw, kind, data); key != first {
				t.Errorf("put twice: %s and %s", first, key)
			}
			want(t, rw, first, data)
		}
	}
}

func checkKindsApart(t testing.TB, rw object.ReadWriter) {
	for _, kind := range allKinds[1:] {
		data := node(t, kind, 1)
		asChunk := put(t, rw, object.KindChunk, data)
		for _, other := range allKinds[1:] {
			wantNone(t, rw, object.Key{Kind: other, ID: asChunk.ID})
		}
		asNode := put(t, rw, kind, data)
		for _, other := range allKinds[1:] {
			if other != kind {
				wantNone(t, rw, object.Key{Kind: other, ID: asNode.ID})
			}
		}
		want(t, rw, asChunk, data)
		want(t, rw, asNode, data)

		data = node(t, kind, 2) // and the node alone is no chunk
		key := put(t, rw, kind, data)
		wantNone(t, rw, object.Key{Kind: object.KindChunk, ID: key.ID})
	}
}
