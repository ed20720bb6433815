package index

import (
	"iter"
	"slices"
	"sort"
)

// blockSize is the most entries a block of a list holds.
const blockSize = 256

// list holds a directory's entries sorted by name, in blocks, so that putting
// one among a million moves a few hundred. No block is empty.
type list struct {
	blocks [][]Entry
	n      int
}

// find returns where name is, or where it would be put: the block, the place
// in it, and whether it is there. The block may be len(blocks) only if there
// are none.
func (l *list) find(name string) (b, i int, ok bool) {
	b = sort.Search(len(l.blocks), func(b int) bool {
		block := l.blocks[b]
		return block[len(block)-1].Name >= name
	})
	if b == len(l.blocks) {
		if b == 0 {
			return 0, 0, false
		}
		b--
		return b, len(l.blocks[b]), false
	}
	block := l.blocks[b]
	i = sort.Search(len(block), func(i int) bool { return block[i].Name >= name })
	return b, i, block[i].Name == name
}

// get returns the entry called name, or nil.
func (l *list) get(name string) *Entry {
	if b, i, ok := l.find(name); ok {
		return &l.blocks[b][i]
	}
	return nil
}

// put adds e, or replaces the entry of its name.
func (l *list) put(e Entry) {
	b, i, ok := l.find(e.Name)
	if ok {
		l.blocks[b][i] = e
		return
	}
	l.n++
	switch {
	case len(l.blocks) == 0:
		l.blocks = append(l.blocks, []Entry{e})
		return
	case len(l.blocks[b]) < blockSize:
	case b == len(l.blocks)-1 && i == blockSize: // appended in order: leave full blocks behind
		l.blocks = append(l.blocks, []Entry{e})
		return
	default:
		half := blockSize / 2
		l.blocks = slices.Insert(l.blocks, b+1, slices.Clone(l.blocks[b][half:]))
		clear(l.blocks[b][half:])
		l.blocks[b] = l.blocks[b][:half]
		if i > half {
			b, i = b+1, i-half
		}
	}
	l.blocks[b] = slices.Insert(l.blocks[b], i, e)
}

// remove removes the entry called name and reports whether there was one.
func (l *list) remove(name string) bool {
	b, i, ok := l.find(name)
	if !ok {
		return false
	}
	l.n--
	if len(l.blocks[b]) == 1 {
		l.blocks = slices.Delete(l.blocks, b, b+1)
	} else {
		l.blocks[b] = slices.Delete(l.blocks[b], i, i+1)
	}
	return true
}

// all goes through the entries in order.
func (l *list) all() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, block := range l.blocks {
			for i := range block {
				if !yield(&block[i]) {
					return
				}
			}
		}
	}
}
