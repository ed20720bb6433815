package worktree

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kist-vcs/kist/chunker"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// benchFiles is the number of small files in benchmarks, in folders of 100. With -short it is a
// tenth.
const benchFiles = 200_000

func newBench(b *testing.B) *fixture {
	f := newReal(b)
	c, err := chunker.New(chunker.DefaultParams(0x3DA3358B4DC173))
	f.check(err)
	f.w.opt.Chunker = c
	return f
}

func benchOps(f *fixture) []Op {
	n := benchFiles
	if testing.Short() {
		n /= 10
	}
	ops := make([]Op, 0, n)
	for i := range n {
		content := fmt.Appendf(nil, "file %d, with some text that is more than what is kept inline, %d\n", i, i*i)
		id, err := f.store.Put(ctx, object.KindChunk, content)
		f.check(err)
		e := &object.Entry{Type: object.TypeFile, Mode: 0o644, Size: uint64(len(content)), Content: object.Key{Kind: object.KindChunk, ID: id}}
		ops = append(ops, Op{Path: fmt.Sprintf("d%03d/e%02d/file-%05d.txt", i/2000, i/100%20, i), New: e})
	}
	return ops
}

func BenchmarkMany(b *testing.B) {
	f := newBench(b)
	ops := benchOps(f)

	b.Run("apply", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			entries, err := os.ReadDir(f.root)
			f.check(err)
			for _, e := range entries {
				if e.Name() != ".kist" {
					f.check(os.RemoveAll(filepath.Join(f.root, e.Name())))
				}
			}

			b.StartTimer()
			applied, err := f.w.Apply(ctx, f.store, ops, ApplyOptions{})
			f.check(err)
			b.StopTimer()

			for _, a := range applied {
				a.Stat.ReadAt += 2 * index.RacyWindow
				f.check(f.idx.Set(a.Path, index.NewEntry(*a.New, a.Stat)))
			}

			b.StartTimer()
		}

		perFile(b, len(ops))
	})

	for path := range f.idx.Dirs() {
		if path != "" {
			f.check(f.idx.SetDir(path, object.Entry{Mode: 0o755}))
		}
	}

	b.Run("scan unchanged", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			found, err := f.w.Scan(ctx, f.idx, ScanOptions{})
			f.check(err)
			if len(found) > 0 {
				b.Fatalf("%d found, %v", len(found), lines(found[:1]))
			}
		}
		perFile(b, len(ops))
	})

	var found []*Found
	b.Run("scan untracked", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var err error
			found, err = f.w.Scan(ctx, nil, ScanOptions{})
			f.check(err)
		}
		perFile(b, len(ops))
	})

	files := found[:0]
	for _, x := range found {
		if !x.Dir {
			files = append(files, x)
		}
	}

	b.Run("store", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.check(f.w.StoreAll(ctx, object.Discard, files, func(_ int, _ Stored, err error) error { return err }, nil))
		}
		perFile(b, len(ops))
	})

	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			obstacles, err := f.w.Check(ctx, f.idx, ops)
			f.check(err)
			if len(obstacles) > 0 {
				b.Fatal(obstacles[0])
			}
		}
		perFile(b, len(ops))
	})
}

func perFile(b *testing.B, files int) {
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(files)/float64(time.Microsecond), "µs/file")
}

func BenchmarkLarge(b *testing.B) {
	f := newBench(b)
	const size = 256 << 20
	f.write("large", random(1, size))
	for _, jobs := range []int{1, 2} {
		f.w.opt.Jobs = jobs
		b.Run(fmt.Sprintf("store jobs=%d", jobs), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				_, err := f.w.Store(ctx, object.Discard, "large")
				f.check(err)
			}
		})
	}
	s, err := f.w.Store(ctx, f.store, "large")
	f.check(err)
	for _, jobs := range []int{1, 2} {
		f.w.opt.Jobs = jobs
		b.Run(fmt.Sprintf("apply jobs=%d", jobs), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				_, err := f.w.Apply(ctx, f.store, []Op{{Path: "copy", New: &s.Entry}}, ApplyOptions{})
				f.check(err)
			}
		})
	}
}
