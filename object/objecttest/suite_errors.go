package objecttest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/kist-vcs/kist/object"
)

func checkNotFound(t testing.TB, rw object.ReadWriter) {
	for range 2 { // in an empty store, and beside other objects
		for _, kind := range allKinds {
			wantNone(t, rw, object.Key{Kind: kind, ID: object.Sum([]byte("not there"))})
			wantNone(t, rw, object.Key{Kind: kind, ID: object.ID{}})
		}
		put(t, rw, object.KindChunk, []byte("there"))
	}
	near := object.Sum([]byte("there"))
	near[31] ^= 1
	wantNone(t, rw, object.Key{Kind: object.KindChunk, ID: near})
}

func checkMissing(t testing.TB, rw object.ReadWriter) {
	wantMissing(t, rw, nil, nil)
	var all, absent []object.Key
	for i := range 300 {
		kind := allKinds[(i+i/7)%len(allKinds)]
		data := sample(t, kind, i)
		key := object.Key{Kind: kind, ID: object.Sum(data)}
		if i%3 == 1 {
			put(t, rw, kind, data)
		} else {
			absent = append(absent, key)
		}
		all = append(all, key)
	}
	wantMissing(t, rw, all, absent)
	wantMissing(t, rw, absent, absent)
}

func checkGetIsOwned(t testing.TB, rw object.ReadWriter) {
	for i := range 8 {
		data := chunk(i)
		key := put(t, rw, object.KindChunk, data)
		first, err := rw.Get(context.Background(), key)
		if err != nil {
			t.Fatalf("get %s: %v", key, err)
		}
		second, err := rw.Get(context.Background(), key)
		if err != nil {
			t.Fatalf("get %s: %v", key, err)
		}
		overwrite(first) // with its spare capacity
		if !bytes.Equal(second, data) {
			t.Errorf("two calls of Get of %d bytes gave the same memory", len(data))
		}
		want(t, rw, key, data)
	}
}

func checkPutKeepsNothing(t testing.TB, rw object.ReadWriter) {
	objects := map[object.Key][]byte{}
	for i := range 40 {
		data := chunk(i)
		padded := append(bytes.Clone(data), "what follows"...)
		given := padded[:len(data)]
		key := put(t, rw, object.KindChunk, given)
		if !bytes.Equal(given, data) || string(padded[len(data):]) != "what follows" {
			t.Errorf("Put changed the %d bytes it was given, or those after them", len(data))
		}
		overwrite(padded)
		objects[key] = data
	}
	for key, data := range objects {
		want(t, rw, key, data)
	}
}

func overwrite(data []byte) {
	data = data[:cap(data)]
	for i := range data {
		data[i] ^= 0xff
	}
}

func checkRefuses(t testing.TB, rw object.ReadWriter) {
	tests := []struct {
		name string
		kind object.Kind
		data []byte
	}{
		{"an empty chunk", object.KindChunk, nil},
		{"an empty chunk that is not nil", object.KindChunk, []byte{}},
		{"an empty tree", object.KindTree, nil},
		{"kind 0", 0, []byte("data")},
		{"kind 6", 6, []byte("data")},
		{"a chunk that is too large", object.KindChunk, make([]byte, object.MaxChunkSize+1)},
		{"a node that is too large", object.KindTree, make([]byte, object.MaxNodeSize+1)},
	}
	for _, test := range tests {
		if id, err := rw.Put(context.Background(), test.kind, test.data); err == nil {
			t.Errorf("put %s: no error", test.name)
		} else if !id.IsZero() {
			t.Errorf("put %s: an error (%v) and ID %s", test.name, err, id)
		}
		if test.kind.Valid() {
			wantNone(t, rw, object.Key{Kind: test.kind, ID: object.Sum(test.data)})
		}
	}
	want(t, rw, put(t, rw, object.KindChunk, []byte("after")), []byte("after"))
}

func checkCancelled(t testing.TB, rw object.ReadWriter) {
	key := put(t, rw, object.KindChunk, []byte("there"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got, err := rw.Get(ctx, key); !errors.Is(err, context.Canceled) || got != nil {
		t.Errorf("get with a cancelled context: %d bytes, %v", len(got), err)
	}
	if _, err := rw.Get(ctx, object.Key{Kind: object.KindTree, ID: key.ID}); !errors.Is(err, context.Canceled) {
		t.Errorf("get of an absent object with a cancelled context: %v", err)
	}
	if got, err := rw.Missing(ctx, []object.Key{key}); !errors.Is(err, context.Canceled) || got != nil {
		t.Errorf("missing with a cancelled context: %v, %v", got, err)
	}
	for _, data := range []string{"there", "another"} {
		if _, err := rw.Put(ctx, object.KindChunk, []byte(data)); !errors.Is(err, context.Canceled) {
			t.Errorf("put of %q with a cancelled context: %v", data, err)
		}
	}
	// The store can still be used.
	want(t, rw, key, []byte("there"))
	want(t, rw, put(t, rw, object.KindChunk, []byte("another")), []byte("another"))
}
