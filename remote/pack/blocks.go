package pack

import (
	"slices"
	"sync"
)

// blocks caches the parts of packs with recently read bases.
type blocks struct {
	mu     sync.Mutex
	recent []block // most recently used first
}

type block struct {
	pack Name
	Part
}

// value returns n bytes of a pack at off, if they are cached.
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

// put caches a part of a pack. Its bytes must not change afterwards.
func (b *blocks) put(pack Name, p Part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recent = slices.Insert(b.recent[:min(len(b.recent), maxBlocks-1)], 0, block{pack, p})
}

// forget drops the cached parts of a pack.
func (b *blocks) forget(pack Name) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recent = slices.DeleteFunc(b.recent, func(kept block) bool { return kept.pack == pack })
}
