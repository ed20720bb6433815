package objecttest

import (
	"context"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// checkConcurrent starts writers that put overlapping sets of objects while
// others read existing ones.
func checkConcurrent(t testing.TB, rw object.ReadWriter) {
	const workers, each = 8, 60
	before := map[object.Key][]byte{}
	for _, kind := range allKinds {
		data := sample(t, kind, 1000)
		before[put(t, rw, kind, data)] = data
	}
	nodes := make([][]byte, each)
	for i := range nodes {
		nodes[i] = node(t, object.KindTree, i)
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				i := (i + w*each/workers) % each
				puts(t, rw, object.KindChunk, chunk(i))
				puts(t, rw, object.KindTree, nodes[i])
				own := random(byte(w+100), 2000+i)
				puts(t, rw, object.KindChunk, own)
			}
		})
		wg.Go(func() {
			for key, data := range before {
				want(t, rw, key, data)
			}
		})
	}
	wg.Wait()
	for i := range each {
		want(t, rw, object.Key{Kind: object.KindChunk, ID: object.Sum(chunk(i))}, chunk(i))
		want(t, rw, object.Key{Kind: object.KindTree, ID: object.Sum(nodes[i])}, nodes[i])
	}
}

// checkConcurrentSame lets all workers put one large object at once.
func checkConcurrentSame(t testing.TB, rw object.ReadWriter) {
	data := random(9, 1<<20)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { puts(t, rw, object.KindChunk, data) })
	}
	wg.Wait()
	want(t, rw, object.Key{Kind: object.KindChunk, ID: object.Sum(data)}, data)
}

// puts is put and want for goroutines, which must not call Fatalf.
func puts(t testing.TB, rw object.ReadWriter, kind object.Kind, data []byte) {
	id, err := rw.Put(context.Background(), kind, data)
	if err != nil || id != object.Sum(data) {
		t.Errorf("put %s of %d bytes: %s, %v", kind, len(data), id, err)
		return
	}
	want(t, rw, object.Key{Kind: kind, ID: id}, data)
}
