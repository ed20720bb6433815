package remotetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist/remote"
)

// Memory is a [remote.Backend] that keeps blobs in memory. It is safe for
// concurrent use and still works after Close. It counts calls and bytes, can
// lose and damage blobs, and can return to an earlier state.
type Memory struct {
	// Now is the store's clock. If it is nil, each write is a second after
	// the one before. Set it before the first use.
	Now func() time.Time

	mu    sync.Mutex
	blobs map[string]blob
	tick  time.Time
	calls [ops]int
	bytes [ops]int64
}

type blob struct {
	data     []byte // never changed
	modified time.Time
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{blobs: map[string]blob{}, tick: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// begin counts a call and returns check or the error of the context.
func (m *Memory) begin(ctx context.Context, op Op, check error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[Any]++
	m.calls[op]++
	if check != nil {
		return check
	}
	return ctx.Err()
}

// moved counts bytes. The caller holds m.mu.
func (m *Memory) moved(op Op, n int) {
	m.bytes[Any] += int64(n)
	m.bytes[op] += int64(n)
}

func (m *Memory) find(op Op, name string) (blob, error) {
	b, ok := m.blobs[name]
	if !ok {
		return blob{}, &remote.Error{Op: op.String(), Name: name, Kind: remote.ErrNotFound}
	}
	return b, nil
}

// Get implements [remote.Blobs].
func (m *Memory) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if err := m.begin(ctx, Get, remote.CheckName(name)); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.find(Get, name)
	if err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &remote.Error{Op: "get", Name: name, Err: errors.New("negative offset")}
	}
	n := copy(p, b.data[min(off, int64(len(b.data))):])
	m.moved(Get, n)
	return n, nil
}

// Put implements [remote.Blobs].
func (m *Memory) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if err := m.begin(ctx, Put, remote.CheckBlob(name)); err != nil {
		return err
	}
	data := make([]byte, size)
	if n, err := body.ReadAt(data, 0); int64(n) < size {
		return &remote.Error{Op: "put", Name: name, Err: err}
	}
	return m.store(Put, name, data)
}

// Create implements [remote.Creator].
func (m *Memory) Create(ctx context.Context, name string, data []byte) error {
	if err := m.begin(ctx, Create, remote.CheckRecord(name, len(data))); err != nil {
		return err
	}
	return m.store(Create, name, bytes.Clone(data))
}

// Replace implements [remote.Replacer].
func (m *Memory) Replace(ctx context.Context, name string, data []byte) error {
	if err := m.begin(ctx, Create, remote.CheckRecord(name, len(data))); err != nil {
		return err
	}
	m.Set(name, data)
	return nil
}

func (m *Memory) store(op Op, name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved(op, len(data))
	if _, ok := m.blobs[name]; ok {
		return &remote.Error{Op: op.String(), Name: name, Kind: remote.ErrExists}
	}
	m.tick = m.tick.Add(time.Second)
	if m.Now != nil {
		m.tick = m.Now()
	}
	m.blobs[name] = blob{data, m.tick}
	return nil
}

// Stat implements [remote.Blobs].
func (m *Memory) Stat(ctx context.Context, name string) (remote.Info, error) {
	if err := m.begin(ctx, Stat, remote.CheckName(name)); err != nil {
		return remote.Info{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.find(Stat, name)
	if err != nil {
		return remote.Info{}, err
	}
	return remote.Info{Name: name, Size: int64(len(b.data)), Modified: b.modified}, nil
}

// List implements [remote.Blobs]. It yields the blobs of the moment of the call.
func (m *Memory) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		if err := m.begin(ctx, List, remote.CheckPrefix(prefix)); err != nil {
			yield(remote.Info{}, err)
			return
		}
		for _, info := range m.infos(prefix) {
			if err := ctx.Err(); err != nil {
				yield(remote.Info{}, err)
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (m *Memory) infos(prefix string) (infos []remote.Info) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.blobs)) {
		if b := m.blobs[name]; strings.HasPrefix(name, prefix) {
			infos = append(infos, remote.Info{Name: name, Size: int64(len(b.data)), Modified: b.modified})
		}
	}
	return infos
}

// Delete implements [remote.Blobs].
func (m *Memory) Delete(ctx context.Context, name string) error {
	if err := m.begin(ctx, Delete, remote.CheckName(name)); err != nil {
		return err
	}
	m.Remove(name)
	return nil
}

// Close implements [remote.Backend].
func (m *Memory) Close() error { return nil }
