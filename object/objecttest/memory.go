package objecttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// Memory is an [object.ReadWriter] that keeps objects in memory. It is safe
// for concurrent use. As a test double it can also lose and damage objects.
type Memory struct {
	mu      sync.RWMutex
	objects map[object.Key][]byte
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{objects: make(map[object.Key][]byte)}
}

// Get implements [object.Reader].
func (m *Memory) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	data, ok := m.objects[key]
	m.mu.RUnlock()
	if !ok {
		return nil, &object.AbsentError{Key: key}
	}
	if got := object.Sum(data); got != key.ID {
		return nil, &object.CorruptError{Key: key, Where: "memory", Err: fmt.Errorf("its bytes hash to %s", got)}
	}
	return bytes.Clone(data), nil
}

// Missing implements [object.Reader].
func (m *Memory) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	var missing []object.Key
	for _, key := range keys {
		if _, ok := m.objects[key]; !ok {
			missing = append(missing, key)
		}
	}
	return missing, nil
}

// Put implements [object.Writer]. It replaces a damaged object, which becomes intact.
func (m *Memory) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	if err := ctx.Err(); err != nil {
		return object.ID{}, err
	}
	if err := object.CheckSize(kind, len(data)); err != nil {
		return object.ID{}, err
	}
	id := object.Sum(data)
	key := object.Key{Kind: kind, ID: id}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.objects[key]; !ok || !bytes.Equal(old, data) {
		m.objects[key] = bytes.Clone(data)
	}
	return id, nil
}

// Prefix returns the IDs of objects of a kind that begin with hexPrefix: sorted, and at most
// limit of them.
func (m *Memory) Prefix(ctx context.Context, kind object.Kind, hexPrefix string, limit int) ([]object.ID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if strings.Trim(hexPrefix, "0123456789abcdef") != "" {
		return nil, errors.New("prefix is not lower-case hexadecimal")
	}
	var ids []object.ID
	for _, key := range m.Keys() {
		if len(ids) < limit && key.Kind == kind && strings.HasPrefix(key.ID.String(), hexPrefix) {
			ids = append(ids, key.ID)
		}
	}
	return ids, nil
}

// Keys returns the keys of all objects, sorted.
func (m *Memory) Keys() []object.Key {
	m.mu.RLock()
	defer m.mu.RUnlock()
	keys := make([]object.Key, 0, len(m.objects))
	for key := range m.objects {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, object.Key.Compare)
	return keys
}

// Len returns the number of objects.
func (m *Memory) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.objects)
}

// Size returns the number of bytes of all objects together.
func (m *Memory) Size() (bytes int64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, data := range m.objects {
		bytes += int64(len(data))
	}
	return bytes
}

// Delete removes an object, if it is there.
func (m *Memory) Delete(key object.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
}

// Damage flips a bit of an object, if it is there: Get then returns a
// [*object.CorruptError].
func (m *Memory) Damage(key object.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if data, ok := m.objects[key]; ok {
		data = bytes.Clone(data)
		data[len(data)/2] ^= 1
		m.objects[key] = data
	}
}
