package index

import (
	"iter"
	"slices"
	"sort"
	"strings"
)

// blockSize is the largest number of entries in a block of a list.
const blockSize = 256

// list has the entries of a directory, sorted by name. It keeps them in blocks, so
// that adding one to a million moves only a few hundred. No block is empty.
type list struct {
	blocks [][]Entry
	n      int
}

// find returns the block of a name, the place in the block, and whether the list has
// the name. If not, they are the place to insert it. Without blocks, b is 0.
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

// put adds e, or replaces the entry with its name.
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
	case b == len(l.blocks)-1 && i == blockSize: // names arrive in order: keep full blocks
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

// remove removes the entry called name, and reports whether there was one.
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

// all yields the entries in order.
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

// arena copies short strings into a few large allocations. The copies do not keep
// alive the longer strings that they were cut from.
type arena struct{ b *strings.Builder }

const arenaSize = 64 << 10

// grow makes room for at least n bytes. New room has size bytes, or n if that is more.
func (a *arena) grow(n, size int) {
	if a.b == nil || a.b.Cap()-a.b.Len() < n {
		a.b = new(strings.Builder)
		a.b.Grow(max(n, size))
	}
}

// keep returns a copy of s.
func (a *arena) keep(s string) string {
	a.grow(len(s), arenaSize)
	off := a.b.Len()
	a.b.WriteString(s)
	return a.b.String()[off:]
}

// keepBytes returns s as a string.
func (a *arena) keepBytes(s []byte) string {
	a.grow(len(s), arenaSize)
	off := a.b.Len()
	a.b.Write(s)
	return a.b.String()[off:]
}
