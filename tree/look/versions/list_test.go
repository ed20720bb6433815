package versions

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/kist-vcs/kist/object"
)

func TestPathList(t *testing.T) {
	var l pathList
	if _, ok := l.number("a"); ok {
		t.Error("an empty list has a path")
	}
	const paths = 3 * listBlock
	name := func(i int32) string { return fmt.Sprintf("folder/%d", i) }
	compare := func(want int32) {
		t.Helper()
		if l.len() != want {
			t.Fatalf("%d paths, want %d", l.len(), want)
		}
		for i := range int32(paths) {
			if number, ok := l.number(name(i)); ok != (i < want) || ok && (number != i || l.path(i) != name(i)) {
				t.Fatalf("of %d paths, number %d is %d, %t", want, i, number, ok)
			}
		}
	}
	for _, most := range []int32{paths, listBlock + 7, listBlock, paths, 3, 0, listBlock} {
		l.cutPaths(most)
		for i := l.len(); i < most; i++ {
			if number := l.numberOf(name(i)); number != i || l.numberOf(name(i/2)) != i/2 {
				t.Fatalf("path %d is number %d", i, number)
			}
		}
		compare(most)
	}
}

// TestIndexMemory bounds the memory of an index by the number of its changes: history has millions.
func TestIndexMemory(t *testing.T) {
	const files, most = 100_000, 200 // bytes of each change, with a path of its own
	x := newIndex(indexFile{})
	x.addCommit(commit{id: object.Sum([]byte("commit"))})
	for i := range int32(files) {
		path := x.paths.numberOf(fmt.Sprintf("folder%03d/file%06d.txt", i/1000, i))
		x.changes.add(change{path: path, from: -1, kind: object.TypeFile, size: 1000, id: object.Sum([]byte{byte(i), byte(i >> 8)})})
	}
	payload := x.payload(nil)
	x = nil

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	again := newIndex(indexFile{})
	if err := again.decodePayload(payload); err != nil {
		t.Fatal(err)
	}
	again.noteReached()
	again.sortChanges()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / files; got > most {
		t.Errorf("%d bytes for each change, want %d at most", got, most)
	}
	if len(again.changesAt(files-1)) != 1 {
		t.Error("the last path has no change")
	}
	runtime.KeepAlive(payload)
}
