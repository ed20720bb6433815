package transfer_test

import (
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// BenchmarkFetchSmall clones a repository of 20,000 files of 2 KiB in 2,000
// folders.
func BenchmarkFetchSmall(b *testing.B) {
	o := transfertest.NewOrigin(b)
	top := map[string]object.ID{}
	for i := range 20 {
		folders := map[string]object.ID{}
		for j := range 100 {
			files := map[string]string{}
			for k := range 10 {
				files[fmt.Sprint("f", k)] = fmt.Sprint(i, j, k) + objecttest.Noise(k, 1000) + string(make([]byte, 1000))
			}
			folders[fmt.Sprint("d", j)] = o.MakeTree(files, nil)
		}
		top[fmt.Sprint("d", i)] = o.MakeTree(nil, folders)
	}
	o.PushMain(o.MakeCommit(o.MakeTree(nil, top)))
	benchmarkFetch(b, o)
}

// BenchmarkFetchLarge clones 256 MiB that do not compress.
func BenchmarkFetchLarge(b *testing.B) {
	o := transfertest.NewOrigin(b)
	files := map[string]string{}
	for i := range 256 {
		files[fmt.Sprint("f", i)] = objecttest.Noise(i, 1<<20)
	}
	o.PushMain(o.MakeCommit(o.MakeTree(files, nil)))
	benchmarkFetch(b, o)
}

// BenchmarkFetchHistory clones 5,000 commits. Each changes one of 1,000 files.
func BenchmarkFetchHistory(b *testing.B) {
	o := transfertest.NewOrigin(b)
	var parents []object.ID
	folders := map[string]object.ID{}
	for i := range 5000 {
		files := map[string]string{}
		for k := range 10 {
			files[fmt.Sprint("f", k)] = fmt.Sprint(k)
		}
		files["f0"] = fmt.Sprint(i, objecttest.Noise(i, 100))
		folders[fmt.Sprint("d", i%100)] = o.MakeTree(files, nil)
		parents = []object.ID{o.MakeCommit(o.MakeTree(nil, folders), parents...)}
	}
	o.PushMain(parents[0])
	benchmarkFetch(b, o)
}

func benchmarkFetch(b *testing.B, o *transfertest.Origin) {
	b.SetBytes(o.All.Size())
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		c := transfertest.NewClone(b, o.Blob)
		head, err := c.Remote.Head(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		c.SkipCheck = true
		b.StartTimer()
		result, err := c.FetchAt(head)
		if err != nil {
			b.Fatal(err)
		}
		if result.Objects != int64(o.All.Len()) {
			b.Fatalf("%+v, want %d objects", result, o.All.Len())
		}
	}
}
