package kist

import (
	"context"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// overlay holds nodes in memory over a store that it does not change, so that
// trees which were never committed can be compared like those that were. The
// chunks put into it are hashed and dropped.
type overlay struct {
	under object.Reader

	mu    sync.Mutex
	nodes map[object.Key][]byte
}

func newOverlay(under object.Reader) *overlay {
	return &overlay{under: under, nodes: map[object.Key][]byte{}}
}

// Put implements [object.Writer].
func (o *overlay) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	id := object.Sum(data)
	if kind.IsNode() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if key := (object.Key{Kind: kind, ID: id}); o.nodes[key] == nil {
			o.nodes[key] = append([]byte(nil), data...)
		}
	}
	return id, ctx.Err()
}

// Get implements [object.Reader].
func (o *overlay) Get(ctx context.Context, key object.Key) ([]byte, error) {
	o.mu.Lock()
	data, ok := o.nodes[key]
	o.mu.Unlock()
	if ok {
		return append([]byte(nil), data...), nil
	}
	return o.under.Get(ctx, key)
}

// Missing implements [object.Reader].
func (o *overlay) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	var rest []object.Key
	o.mu.Lock()
	for _, key := range keys {
		if o.nodes[key] == nil {
			rest = append(rest, key)
		}
	}
	o.mu.Unlock()
	return o.under.Missing(ctx, rest)
}
