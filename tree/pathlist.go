package tree

import (
	"encoding/binary"
	"iter"
)

// PathList lists paths, each with some bytes, in little memory. It has no pointer for each
// path, and neighbours share the path of their directory. The zero PathList is empty.
type PathList struct {
	blocks [][]byte // of records; the first record of each names its directory
	dir    string   // of the last path
	n      int
}

// maxPathBlock is the capacity of a block, in bytes, unless one record needs more. The first
// blocks are smaller.
const maxPathBlock = 64 << 10

// The first byte of a record.
const (
	sameDir byte = iota // the directory is that of the record before
	nextDir             // the record names its directory
)

// Add appends a path and a copy of data.
func (l *PathList) Add(path string, data []byte) {
	dir, name := Split(path)
	need := 1 + 3*binary.MaxVarintLen64 + len(path) + len(data)
	last := len(l.blocks) - 1
	if last < 0 || cap(l.blocks[last])-len(l.blocks[last]) < need {
		last++
		usual := min(256<<(2*min(last, 8)), maxPathBlock)
		l.blocks = append(l.blocks, make([]byte, 0, max(usual, need)))
	}

	b := l.blocks[last]
	if len(b) == 0 || dir != l.dir {
		b = appendSized(append(b, nextDir), dir)
		l.dir = dir
	} else {
		b = append(b, sameDir)
	}
	l.blocks[last] = appendSized(appendSized(b, name), data)
	l.n++
}

func appendSized[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// cutSized returns the bytes that appendSized put at the beginning of b, and the rest.
func cutSized(b []byte) (s, rest []byte) {
	n, size := binary.Uvarint(b)
	b = b[size:]
	return b[:n:n], b[n:]
}

// Len returns the number of paths.
func (l *PathList) Len() int { return l.n }

// Paths returns the paths as a slice.
func (l *PathList) Paths() []string {
	paths := make([]string, 0, l.n)
	for path := range l.All() {
		paths = append(paths, path)
	}
	return paths
}

// All yields the paths in the order of Add, with their bytes. The caller must not change these.
func (l *PathList) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, b := range l.blocks {
			if !yieldPaths(b, yield) {
				return
			}
		}
	}
}

// Drain yields the same as All, and empties the list meanwhile: it frees a block once all paths
// in it have been yielded.
func (l *PathList) Drain() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		blocks := l.blocks
		*l = PathList{}
		for i, b := range blocks {
			blocks[i] = nil
			if !yieldPaths(b, yield) {
				return
			}
		}
	}
}

// yieldPaths yields the paths of a block. It reports whether yield wants more.
func yieldPaths(b []byte, yield func(string, []byte) bool) bool {
	dir := ""
	for len(b) > 0 {
		var name, data []byte
		if first := b[0]; first == nextDir {
			name, b = cutSized(b[1:])
			dir = string(name)
			name, b = cutSized(b)
		} else {
			name, b = cutSized(b[1:])
		}
		data, b = cutSized(b)
		if !yield(Join(dir, string(name)), data) {
			return false
		}
	}
	return true
}
