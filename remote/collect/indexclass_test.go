package collect

import (
	"testing"

	"github.com/kist-vcs/kist/remote/rootlog"
)

func TestIndexClass(t *testing.T) {
	for size, want := range map[int64]int{1: 0, 256 << 10: 0, 256<<10 + 1: 1, 2 << 20: 1, 16 << 20: 2, 16<<20 + 1: 3, 128 << 20: 3, 1 << 30: 4, 9 << 30: 4} {
		if got := indexClass(size); got != want {
			t.Errorf("a file of %d bytes is in class %d, want %d", size, got, want)
		}
	}

	var files []rootlog.File
	for class, n := range []int{5, 4, 6, 5, 9} {
		for range n {
			files = append(files, rootlog.File{Size: smallIndex << (3 * class)})
		}
	}
	for classes, want := range map[int]int{pushedClasses: 2, indexClasses: 3} {
		if got := crowdedIndexes(files, classes); len(got) != want || len(got[0]) != 5 || len(got[1]) != 6 {
			t.Errorf("%d of %d classes are crowded, want %d", len(got), classes, want)
		}
	}
}
