package pending

import (
	"context"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// memory has the objects of changes since the last checkpoint. It is safe for concurrent use.
type memory struct {
	mu      sync.RWMutex
	objects map[object.Key][]byte
	size    int
}

func newMemory() *memory { return &memory{objects: map[object.Key][]byte{}} }

func (m *memory) get(key object.Key) ([]byte, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	data, ok := m.objects[key]
	return data, ok
}

func (m *memory) bytes() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.size
}

// overlay reads objects from memory, or else from under. It writes to memory.
type overlay struct {
	*memory
	under object.Reader
}

// Get implements [object.Reader].
func (o overlay) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if data, ok := o.get(key); ok {
		return slices.Clone(data), nil
	}
	return o.under.Get(ctx, key)
}

// Missing implements [object.Reader].
func (o overlay) Missing(ctx context.Context, wanted []object.Key) ([]object.Key, error) {
	var rest []object.Key
	for _, key := range wanted {
		if _, ok := o.get(key); !ok {
			rest = append(rest, key)
		}
	}
	if len(rest) == 0 {
		return nil, nil
	}
	return o.under.Missing(ctx, rest)
}

// Put implements [object.Writer].
func (o overlay) Put(_ context.Context, kind object.Kind, data []byte) (object.ID, error) {
	key := object.Key{Kind: kind, ID: object.Sum(data)}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.objects[key]; !ok {
		o.objects[key] = slices.Clone(data)
		o.size += len(data)
	}
	return key.ID, nil
}

// copyTo stores key and everything below it that is only in memory.
func (m *memory) copyTo(ctx context.Context, w object.Writer, key object.Key) error {
	seen := map[object.Key]bool{}
	todo := []object.Key{key}
	for len(todo) > 0 {
		key := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		data, ok := m.get(key)
		if !ok || seen[key] {
			continue
		}
		seen[key] = true
		if _, err := w.Put(ctx, key.Kind, data); err != nil {
			return err
		}
		links, err := object.Links(key.Kind, data)
		if err != nil {
			return err
		}
		todo = append(todo, links...)
	}
	return nil
}
