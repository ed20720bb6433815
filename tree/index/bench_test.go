package index

import (
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/objecttest"
)

// saved returns a folder with a saved index of n files, perDir in each directory.
func saved(b *testing.B, n, perDir int) (dir string) {
	dir = b.TempDir()
	x := New()
	for i := range n {
		e := file(2)
		e.Content.ID = object.Sum(fmt.Append(nil, i))
		e.Stat.Inode = uint64(1e6 + i)
		e.Stat.MTime, e.Stat.CTime, e.Stat.ReadAt = 17e17+int64(i), 17e17+int64(2*i), 17e17+int64(1e6+i)
		must(b, x.Set(fmt.Sprintf("folder%02d/folder%04d/file-%08d.txt", i/perDir/100, i/perDir, i), e))
	}
	_, err := x.WriteTree(ctx, objecttest.NewMemory())
	must(b, err)
	must(b, x.save(dir, disk.Write))
	return dir
}

var sizes = []struct {
	name      string
	n, perDir int
}{{"200k", 200_000, 100}, {"1M", 1_000_000, 100}, {"1M-wide", 1_000_000, 1_000_000}}

func BenchmarkLoad(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			dir := saved(b, size.n, size.perDir)
			x, err := Load(dir)
			must(b, err)
			b.SetBytes(int64(x.file.base.size))
			b.ReportAllocs()
			for b.Loop() {
				if x, err := Load(dir); err != nil || x.Len() != size.n {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkUpdateOne(b *testing.B) {
	for _, size := range sizes {
		for _, reuse := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/reuse=%v", size.name, reuse), func(b *testing.B) {
				dir := saved(b, size.n, size.perDir)
				var last *Index
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					o := Options{}
					if reuse {
						o.From = last
					}
					err := UpdateWith(ctx, dir, o, func(x *Index) error {
						last = x
						i++
						return x.Set(fmt.Sprintf("folder00/folder0000/new-%d", i%50), file(3*i+1))
					})
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkWriteBase(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			dir := saved(b, size.n, size.perDir)
			x, err := Load(dir)
			must(b, err)
			b.SetBytes(int64(x.file.base.size))
			for b.Loop() {
				must(b, x.saveBase(dir))
			}
		})
	}
}

func BenchmarkWriteTreeOne(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			x, err := Load(saved(b, size.n, size.perDir))
			must(b, err)
			store := objecttest.NewMemory()
			_, err = x.WriteTree(ctx, store)
			must(b, err)
			i := 0
			for b.Loop() {
				i++
				must(b, x.Set("folder00/folder0000/new", file(3*i+1)))
				if _, err := x.WriteTree(ctx, store); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
