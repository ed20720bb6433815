package transfer

import (
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// BenchmarkFetchSmall clones a repository of 20,000 files of 2 KiB in 2,000
// folders.
func BenchmarkFetchSmall(b *testing.B) {
	o := newOrigin(b)
	top := map[string]object.ID{}
	for i := range 20 {
		folders := map[string]object.ID{}
		for j := range 100 {
			files := map[string]string{}
			for k := range 10 {
				files[fmt.Sprint("f", k)] = fmt.Sprint(i, j, k) + noise(k, 1000) + string(make([]byte, 1000))
			}
			folders[fmt.Sprint("d", j)] = o.tree(files, nil)
		}
		top[fmt.Sprint("d", i)] = o.tree(nil, folders)
	}
	o.push(o.commit(o.tree(nil, top)))
	benchmarkFetch(b, o)
}

// BenchmarkFetchLarge clones 256 MiB that do not compress.
func BenchmarkFetchLarge(b *testing.B) {
	o := newOrigin(b)
	files := map[string]string{}
	for i := range 256 {
		files[fmt.Sprint("f", i)] = noise(i, 1<<20)
	}
	o.push(o.commit(o.tree(files, nil)))
	benchmarkFetch(b, o)
}

// BenchmarkFetchHistory clones 5,000 commits. Each changes one of 1,000 files.
func BenchmarkFetchHistory(b *testing.B) {
	o := newOrigin(b)
	var parents []object.ID
	folders := map[string]object.ID{}
	for i := range 5000 {
		files := map[string]string{}
		for k := range 10 {
			files[fmt.Sprint("f", k)] = fmt.Sprint(k)
		}
		files["f0"] = fmt.Sprint(i, noise(i, 100))
		folders[fmt.Sprint("d", i%100)] = o.tree(files, nil)
		parents = []object.ID{o.commit(o.tree(nil, folders), parents...)}
	}
	o.push(parents[0])
	benchmarkFetch(b, o)
}

func benchmarkFetch(b *testing.B, o *origin) {
	b.SetBytes(o.all.Size())
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		c := newClone(b, o.blob)
		head, err := c.remote.Head(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		c.skipCheck = true
		b.StartTimer()
		result, err := c.fetch(head)
		if err != nil {
			b.Fatal(err)
		}
		if result.Objects != int64(o.all.Len()) {
			b.Fatalf("%+v, want %d objects", result, o.all.Len())
		}
	}
}
