package objecttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
)

func TestMemory(t *testing.T) {
	Run(t, func(*testing.T) object.ReadWriter { return NewMemory() })
}

func TestFaultyWithoutFaults(t *testing.T) {
	Run(t, func(*testing.T) object.ReadWriter { return NewFaulty(NewMemory()) })
}

// fails reports whether a store fails a check.
func fails(t *testing.T, c check, rw object.ReadWriter) bool {
	return Fails(t, func(tb testing.TB) { c.run(tb, rw) })
}

// mutant is a Memory with faulty methods.
type mutant struct {
	*Memory
	get     func(context.Context, object.Key) ([]byte, error)
	missing func(context.Context, []object.Key) ([]object.Key, error)
	put     func(context.Context, object.Kind, []byte) (object.ID, error)
}

func (m *mutant) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if m.get != nil {
		return m.get(ctx, key)
	}
	return m.Memory.Get(ctx, key)
}

func (m *mutant) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	if m.missing != nil {
		return m.missing(ctx, keys)
	}
	return m.Memory.Missing(ctx, keys)
}

func (m *mutant) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	if m.put != nil {
		return m.put(ctx, kind, data)
	}
	return m.Memory.Put(ctx, kind, data)
}

// TestSuiteFindsMutants checks that each mutant fails the check of the promise that it breaks.
func TestSuiteFindsMutants(t *testing.T) {
	tests := []struct {
		name  string
		check string // must fail
		spoil func(m *mutant)
	}{
		{"wrong ID", "RoundTrip", func(m *mutant) {
			m.put = func(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
				m.Memory.Put(ctx, kind, data)
				return object.Sum(append([]byte{byte(kind)}, data...)), nil
			}
		}},
		{"large objects cut", "Sizes", func(m *mutant) {
			m.get = func(ctx context.Context, key object.Key) ([]byte, error) {
				data, err := m.Memory.Get(ctx, key)
				return data[:min(len(data), 1<<20)], err
			}
		}},
		{"newline trimmed", "Bytes", func(m *mutant) {
			m.get = func(ctx context.Context, key object.Key) ([]byte, error) {
				data, err := m.Memory.Get(ctx, key)
				return bytes.TrimSuffix(data, []byte("\n")), err
			}
		}},
		{"second put is an error", "Idempotent", func(m *mutant) {
			m.put = func(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
				if missing, err := m.Memory.Missing(ctx, []object.Key{{Kind: kind, ID: object.Sum(data)}}); err == nil && missing == nil {
					return object.ID{}, errors.New("exists")
				}
				return m.Memory.Put(ctx, kind, data)
			}
		}},
		{"writes seen late", "RoundTrip", func(m *mutant) {
			var late func()
			m.put = func(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
				if late != nil {
					late()
				}
				data = bytes.Clone(data)
				late = func() { m.Memory.Put(ctx, kind, data) }
				return object.Sum(data), nil
			}
		}},
		{"kinds mixed", "KindsApart", func(m *mutant) {
			m.get = func(ctx context.Context, key object.Key) ([]byte, error) {
				for _, kind := range allKinds {
					if data, err := m.Memory.Get(ctx, object.Key{Kind: kind, ID: key.ID}); err == nil {
						return data, nil
					}
				}
				return m.Memory.Get(ctx, key)
			}
		}},
		{"plain error for an absent object", "NotFound", func(m *mutant) {
			m.get = func(ctx context.Context, key object.Key) ([]byte, error) {
				data, err := m.Memory.Get(ctx, key)
				if errors.Is(err, object.ErrNotFound) {
					err = object.ErrNotFound
				}
				return data, err
			}
		}},
		{"absent is nil, nil", "NotFound", func(m *mutant) {
			m.get = func(ctx context.Context, key object.Key) ([]byte, error) {
				data, err := m.Memory.Get(ctx, key)
				if errors.Is(err, object.ErrNotFound) {
					err = nil
				}
				return data, err
			}
		}},
		{"absent is damaged", "NotFound", func(m *mutant) {
			m.get = func(ctx context.Context, key object.Key) ([]byte, error) {
				data, err := m.Memory.Get(ctx, key)
				if errors.Is(err, object.ErrNotFound) {
					err = &object.CorruptError{Key: key, Err: err}
				}
				return data, err
			}
		}},
		{"missing out of order", "Missing", func(m *mutant) {
			m.missing = func(ctx context.Context, keys []object.Key) ([]object.Key, error) {
				missing, err := m.Memory.Missing(ctx, keys)
				slices.SortFunc(missing, object.Key.Compare)
				return missing, err
			}
		}},
		{"missing in the caller's slice", "Missing", func(m *mutant) {
			m.missing = func(ctx context.Context, keys []object.Key) ([]object.Key, error) {
				missing, err := m.Memory.Missing(ctx, keys)
				return append(keys[:0], missing...), err
			}
		}},
		{"missing returns all keys", "Missing", func(m *mutant) {
			m.missing = func(ctx context.Context, keys []object.Key) ([]object.Key, error) {
				if missing, err := m.Memory.Missing(ctx, keys); err != nil || len(missing) == len(keys) {
					return missing, err
				}
				return keys, nil
			}
		}},
		{"get returns the store's memory", "GetIsOwned", func(m *mutant) {
			m.get = func(ctx context.Context, key object.Key) ([]byte, error) {
				if _, err := m.Memory.Get(ctx, key); err != nil {
					return nil, err
				}
				return m.objects[key], nil
			}
		}},
		{"put keeps data", "PutKeepsNothing", func(m *mutant) {
			m.put = func(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
				id, err := m.Memory.Put(ctx, kind, data)
				if err == nil {
					m.mu.Lock()
					m.objects[object.Key{Kind: kind, ID: id}] = data
					m.mu.Unlock()
				}
				return id, err
			}
		}},
		{"put writes behind data", "PutKeepsNothing", func(m *mutant) {
			m.put = func(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
				_ = append(data, byte(kind))
				return m.Memory.Put(ctx, kind, data)
			}
		}},
		{"anything is stored", "Refuses", func(m *mutant) {
			m.put = func(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
				if err := ctx.Err(); err != nil {
					return object.ID{}, err
				}
				id := object.Sum(data)
				m.mu.Lock()
				defer m.mu.Unlock()
				m.objects[object.Key{Kind: kind, ID: id}] = bytes.Clone(data)
				return id, nil
			}
		}},
		{"get ignores its context", "Cancelled", func(m *mutant) {
			m.get = func(_ context.Context, key object.Key) ([]byte, error) {
				return m.Memory.Get(context.Background(), key)
			}
		}},
		{"missing ignores its context", "Cancelled", func(m *mutant) {
			m.missing = func(_ context.Context, keys []object.Key) ([]object.Key, error) {
				return m.Memory.Missing(context.Background(), keys)
			}
		}},
		{"put of a present object ignores its context", "Cancelled", func(m *mutant) {
			m.put = func(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
				if id := object.Sum(data); len(m.objects[object.Key{Kind: kind, ID: id}]) > 0 {
					return id, nil
				}
				return m.Memory.Put(ctx, kind, data)
			}
		}},
		{"busy when called concurrently", "ConcurrentSame", func(m *mutant) {
			var mu sync.Mutex
			m.put = func(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
				if !mu.TryLock() {
					return object.ID{}, errors.New("busy")
				}
				defer mu.Unlock()
				runtime.Gosched()
				return m.Memory.Put(ctx, kind, data)
			}
		}},
	}

	for _, test := range tests {
		i := slices.IndexFunc(checks, func(c check) bool { return c.name == test.check })
		m := &mutant{Memory: NewMemory()}
		test.spoil(m)
		if !fails(t, checks[i], m) {
			t.Errorf("%s: the mutant passes the check %s", test.name, test.check)
		}
		if m := (&mutant{Memory: NewMemory()}); fails(t, checks[i], m) {
			t.Errorf("a good store fails the check %s", test.check)
		}
	}
}

func TestMemoryDamage(t *testing.T) {
	ctx := context.Background()
	m := NewMemory()
	id, _ := m.Put(ctx, object.KindChunk, []byte("data"))
	key := object.Key{Kind: object.KindChunk, ID: id}
	m.Damage(key)
	var ce *object.CorruptError
	if _, err := m.Get(ctx, key); !errors.As(err, &ce) || ce.Key != key {
		t.Errorf("get of a damaged object: %v, want a CorruptError with its key", err)
	}
	if missing, err := m.Missing(ctx, []object.Key{key}); err != nil || missing != nil {
		t.Errorf("missing of a damaged object: %v, %v; want none", missing, err)
	}
	m.Put(ctx, object.KindChunk, []byte("data"))
	if data, err := m.Get(ctx, key); err != nil || string(data) != "data" {
		t.Errorf("get after a second put: %q, %v", data, err)
	}
	m.Delete(key)
	if _, err := m.Get(ctx, key); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("get of a deleted object: %v, want ErrNotFound", err)
	}
}

func TestMemoryPrefix(t *testing.T) {
	ctx := context.Background()
	m := NewMemory()
	var ids []object.ID
	for i := range 200 {
		id, _ := m.Put(ctx, object.KindChunk, fmt.Append(nil, "data ", i))
		if id[0]>>4 == 0xa {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, object.ID.Compare)
	for _, limit := range []int{1000, 2, 0} {
		got, err := m.Prefix(ctx, object.KindChunk, "a", limit)
		if want := ids[:min(limit, len(ids))]; err != nil || !slices.Equal(got, want) {
			t.Errorf("prefix a with limit %d: %v, %v; want %v", limit, got, err, want)
		}
	}
	if got, err := m.Prefix(ctx, object.KindTree, "a", 10); err != nil || got != nil {
		t.Errorf("prefix of another kind: %v, %v; want none", got, err)
	}
	if _, err := m.Prefix(ctx, object.KindChunk, "A", 10); err == nil {
		t.Error("prefix in upper case: no error")
	}
	if m.Len() != 200 || m.Size() != 10*6+90*7+100*8 || len(m.Keys()) != 200 {
		t.Errorf("Len %d, Size %d, %d keys; want 200 objects", m.Len(), m.Size(), len(m.Keys()))
	}
}
