package pack

import (
	"slices"
	"sync"
)

// blocks keeps the parts of packs in which bases were read lately.
type blocks struct {
	mu     sync.Mutex
	recent []block // the last used first
}

type block struct {
	pack Name
	Part
}

// value returns what is in a pack at off, n bytes, if that is kept.
func (b *blocks) value(pack Name, off int64, n int) ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, kept := range b.recent {
		if kept.pack != pack {
			continue
		}
		if value, ok := kept.value(off, n); ok {
			copy(b.recent[1:i+1], b.recent[:i])
			b.recent[0] = kept
			return value, true
		}
	}
	return nil, false
}

// put keeps a part of a pack, whose bytes nobody changes any more.
func (b *blocks) put(pack Name, p Part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recent = slices.Insert(b.recent[:min(len(b.recent), maxBlocks-1)], 0, block{pack, p})
}

// forget drops what is kept of a pack.
func (b *blocks) forget(pack Name) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recent = slices.DeleteFunc(b.recent, func(kept block) bool { return kept.pack == pack })
}
