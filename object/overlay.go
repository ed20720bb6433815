package object

import (
	"context"
	"slices"
	"sync"
)

// Memory keeps objects in memory. It is safe for concurrent use.
type Memory struct {
	mu      sync.RWMutex
	objects map[Key][]byte
	size    int
}

// NewMemory returns a memory without objects.
func NewMemory() *Memory { return &Memory{objects: map[Key][]byte{}} }

// Find returns the bytes of an object, if it is in memory. The caller does not change them.
func (m *Memory) Find(key Key) (data []byte, found bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	data, found = m.objects[key]
	return data, found
}

// Size returns the number of bytes of all objects.
func (m *Memory) Size() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.size
}

func (m *Memory) keepObject(key Key, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, found := m.objects[key]; !found {
		m.objects[key] = slices.Clone(data)
		m.size += len(data)
	}
}

// Over returns an overlay that keeps all new objects in m.
func (m *Memory) Over(under Reader) *Overlay { return &Overlay{kept: m, under: under, chunks: true} }

// Overlay keeps new objects in memory, over a store that it does not change. So
// uncommitted trees can be compared like committed ones.
type Overlay struct {
	kept   *Memory
	under  Reader
	chunks bool // it keeps chunks, and not only nodes
}

// NewOverlay returns an empty overlay over a store. It drops chunks.
func NewOverlay(under Reader) *Overlay { return &Overlay{kept: NewMemory(), under: under} }

// Put implements [object.Writer].
func (o *Overlay) Put(ctx context.Context, kind Kind, data []byte) (ID, error) {
	id := Sum(data)
	if o.chunks || kind.IsNode() {
		o.kept.keepObject(Key{Kind: kind, ID: id}, data)
	}
	return id, ctx.Err()
}

// Get implements [object.Reader].
func (o *Overlay) Get(ctx context.Context, key Key) ([]byte, error) {
	if data, found := o.kept.Find(key); found {
		return slices.Clone(data), nil
	}
	return o.under.Get(ctx, key)
}

// Below implements [Layer].
func (o *Overlay) Below() Reader { return o.under }

// PassOver implements [Lenient], if the reader below does.
func (o *Overlay) PassOver(path string, key Key, err error) bool {
	return PassOver(o.under, path, key, err)
}

// Missing implements [object.Reader].
func (o *Overlay) Missing(ctx context.Context, keys []Key) ([]Key, error) {
	var rest []Key
	for _, key := range keys {
		if _, found := o.kept.Find(key); !found {
			rest = append(rest, key)
		}
	}
	if len(rest) == 0 {
		return nil, nil
	}
	return o.under.Missing(ctx, rest)
}
