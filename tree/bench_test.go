package tree

import (
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// spread returns n files in folders of 100.
func spread(n int) files {
	f := files{}
	for i := range n {
		f[fmt.Sprintf("folder %02d/folder %04d/file %07d", i/10_000, i/100, i)] = inline(fmt.Sprint(i))
	}
	return f
}

func benchmarkDiff(b *testing.B, f files, path string) {
	m := memory()
	from := f.build(b, m).ID
	f[path] = inline("changed")
	to := f.build(b, m).ID
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range Diff(ctx, m, from, to, DiffOptions{}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 1 {
			b.Fatalf("%d changes, want 1", n)
		}
	}
}

// These benchmarks compare trees of 200,000 files that differ in one file.
func BenchmarkDiffFlat(b *testing.B) { benchmarkDiff(b, big(200_000), "file 0123456") }
func BenchmarkDiffSpread(b *testing.B) {
	benchmarkDiff(b, spread(200_000), "folder 12/folder 1234/file 0123456")
}

func BenchmarkDiffAll(b *testing.B) {
	m := memory()
	root := spread(200_000).build(b, m).ID
	for b.Loop() {
		for _, err := range Diff(ctx, m, object.ID{}, root, DiffOptions{Recursive: true}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkWalk(b *testing.B) {
	m := memory()
	root := spread(200_000).build(b, m).ID
	for b.Loop() {
		if err := Walk(ctx, m, root, func(string, object.Entry) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEdit(b *testing.B) {
	m := memory()
	base := big(200_000).build(b, m)
	i := 0
	for b.Loop() {
		i++
		e := NewEditor(m, base)
		if err := e.Set(ctx, "file 0123456", inline(fmt.Sprint("changed ", i))); err != nil {
			b.Fatal(err)
		}
		if _, err := e.Finish(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMerge merges one change of each side among 200,000 files.
func BenchmarkMerge(b *testing.B) {
	m := memory()
	f := spread(200_000)
	build := func(changed string) object.ID {
		was := f[changed]
		f[changed] = inline("changed")
		defer func() { f[changed] = was }()
		return f.build(b, m).ID
	}
	base := f.build(b, m).ID
	ours, theirs := build("folder 01/folder 0123/file 0012345"), build("folder 12/folder 1234/file 0123456")
	for b.Loop() {
		if _, err := Merge(ctx, m, Versions{base, ours, theirs}, MergeOptions{Split: splitEven}); err != nil {
			b.Fatal(err)
		}
	}
}
