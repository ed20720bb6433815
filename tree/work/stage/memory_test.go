package stage

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// TestMemoryOfNewFiles bounds the memory that add keeps for each new file: in its edits and its result until the index is
// written, and in the index afterwards.
func TestMemoryOfNewFiles(t *testing.T) {
	const (
		files     = 100_000
		perEdit   = 130 // bytes
		perStaged = 270
	)
	var l edits
	edited := growth(func() {
		for i := range files {
			name := fmt.Sprintf("file-%09d.txt", i)
			entry := index.Entry{Name: name, Type: object.TypeFile, Mode: 0o644, Size: 90, Content: object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(name))}}
			entry.Stat = index.Stat{Size: 90, MTime: 17e17 + int64(i), CTime: 18e17 + int64(i), ReadAt: 19e17, Inode: uint64(1e9 + i), Mode: 0o100644}
			l.addStored(&edit{path: fmt.Sprintf("some/folder-%d/%s", i/1000, name), state: worktree.Untracked, kind: editSet, entry: &entry})
		}
	})
	if len(l.list) > 0 || l.newFiles.Len() != files {
		t.Fatalf("%d edits, and %d of new files, want 0 and %d", len(l.list), l.newFiles.Len(), files)
	}

	idx := index.New()
	var result *AddResult
	summed := growth(func() { result = l.summarize(idx) })
	if per := (edited + summed) / files; per > perEdit {
		t.Errorf("the edit of a new file takes %d bytes, want %d at most", per, perEdit)
	}
	if result.Added.Len() != files || result.Read.Files != files {
		t.Errorf("%d files added, %d read, want %d", result.Added.Len(), result.Read.Files, files)
	}

	var err error
	applied := growth(func() { err = l.applyTo(idx) })
	if per := (edited + summed + applied) / files; err != nil || idx.Len() != files || per > perStaged {
		t.Errorf("a staged file takes %d bytes, want %d at most; the index has %d entries: %v", per, perStaged, idx.Len(), err)
	}
	runtime.KeepAlive(result)
}

// growth returns the bytes by which the memory in use grows in a call.
func growth(call func()) int64 {
	inUse := func() int64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := inUse()
	call()
	return inUse() - before
}
