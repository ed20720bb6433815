package versions

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// BenchmarkHistory reads the index of 10,000 commits over 20,000 files and makes one query: the
// life of a file, the uses of a content, or the deleted files.
func BenchmarkHistory(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := newIndex(indexFile{})
	for i := range 20_000 {
		x.paths.numberOf(fmt.Sprintf("folder%03d/file%05d.txt", i%200, i))
	}

	id := func() (id object.ID) {
		for i := range id {
			id[i] = byte(rng.Uint32())
		}
		return id
	}
	for i := range int32(10_000) {
		c := commit{id: id(), seconds: int64(i)}
		if i > 0 {
			c.parents = []int32{i - 1}
		}
		x.addCommit(c)
		for path := range int32(20_000) {
			if i == 0 || rng.IntN(2_000) == 0 {
				x.changes.add(change{commit: i, path: path, from: -1, kind: object.TypeFile, size: 1000, id: id()})
			}
		}
	}

	tip := Tip{"HEAD", x.commits[9_999].id}
	payload := x.payload(nil)
	for name, ask := range map[string]func(*Index) error{
		"file":    func(x *Index) error { _, err := x.File(b.Context(), tip, "folder007/file00007.txt"); return err },
		"deleted": func(x *Index) error { _, err := x.Deleted(b.Context(), tip); return err },
		"id":      func(x *Index) error { _, err := x.Find(b.Context(), "1234"); return err },
		"uses": func(x *Index) error {
			for range x.Uses(map[object.ID]bool{x.changes.at(777).id: true}) {
			}
			return nil
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				x := newIndex(indexFile{})
				if err := x.decodePayload(payload); err != nil {
					b.Fatal(err)
				}
				x.tips = []Tip{tip}
				x.noteReached()
				x.sortChanges()
				if err := ask(x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
