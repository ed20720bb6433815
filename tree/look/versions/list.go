package versions

import "hash/maphash"

// list is a sequence that grows without copying its items. A slice of millions would take twice its memory while it grows.
type list[T any] struct {
	blocks [][]T // each but the last has listBlock items
}

const listBlock = 4096

func (l *list[T]) len() int32 {
	if len(l.blocks) == 0 {
		return 0
	}
	last := len(l.blocks) - 1
	return int32(last*listBlock + len(l.blocks[last]))
}

// at returns an item, until the next add.
func (l *list[T]) at(i int32) *T { return &l.blocks[i/listBlock][i%listBlock] }

func (l *list[T]) add(item T) {
	last := len(l.blocks) - 1
	if last < 0 || len(l.blocks[last]) == listBlock {
		var block []T // the first one grows, for a short list
		if last++; last > 0 {
			block = make([]T, 0, listBlock)
		}
		l.blocks = append(l.blocks, block)
	}
	l.blocks[last] = append(l.blocks[last], item)
}

// cut removes all items from number n on.
func (l *list[T]) cut(n int32) {
	for last := len(l.blocks) - 1; last >= 0 && l.len() > n; last-- {
		block := l.blocks[last]
		keep := max(0, int(n)-last*listBlock)
		clear(block[keep:])
		if l.blocks[last] = block[:keep]; keep == 0 {
			l.blocks = l.blocks[:last]
		}
	}
}

// pathList has paths by number, each once. It finds the number of a path in 8 bytes beside the path, on average; a map would
// take 40.
type pathList struct {
	list[string]
	slots []int32 // 1 + the number of a path, at or behind the place of its hash; 0: free. The length is a power of two
	seed  maphash.Seed
}

func (l *pathList) path(number int32) string { return *l.at(number) }

// number returns the number of a path that the list has.
func (l *pathList) number(path string) (number int32, ok bool) {
	if len(l.slots) == 0 {
		return 0, false
	}
	number = l.slots[l.slot(path)] - 1
	return max(number, 0), number >= 0
}

// slot returns the place of a path in slots, or the free one for it.
func (l *pathList) slot(path string) int {
	mask := len(l.slots) - 1
	at := int(maphash.String(l.seed, path)) & mask
	for l.slots[at] != 0 && l.path(l.slots[at]-1) != path {
		at = (at + 1) & mask
	}
	return at
}

// numberOf returns the number of a path. It adds a new path.
func (l *pathList) numberOf(path string) int32 {
	if number, ok := l.number(path); ok {
		return number
	}
	number := l.len()
	l.add(path)
	if 4*int(number) >= 3*len(l.slots) {
		l.fillSlots(max(16, 2*len(l.slots)))
	} else {
		l.slots[l.slot(path)] = number + 1
	}
	return number
}

// fillSlots makes n slots for the paths.
func (l *pathList) fillSlots(n int) {
	if len(l.slots) == 0 {
		l.seed = maphash.MakeSeed()
	}
	l.slots = nil // the collector may take it before there are new ones
	l.slots = make([]int32, n)
	for i := range l.len() {
		l.slots[l.slot(l.path(i))] = i + 1
	}
}

// cutPaths removes all paths from number n on.
func (l *pathList) cutPaths(n int32) {
	if n < l.len() {
		l.cut(n)
		l.fillSlots(len(l.slots))
	}
}
