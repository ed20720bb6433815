package remotetest

import (
	"bytes"
	"maps"
)

// Calls returns the number of calls of op since the last ResetCounts, failed
// calls included.
func (m *Memory) Calls(op Op) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[op]
}

// Bytes returns the number of bytes that calls of op moved since the last
// ResetCounts.
func (m *Memory) Bytes(op Op) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes[op]
}

// ResetCounts sets Calls and Bytes to 0.
func (m *Memory) ResetCounts() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls, m.bytes = [ops]int{}, [ops]int64{}
}

// Names returns the names of all blobs and records that begin with prefix,
// sorted.
func (m *Memory) Names(prefix string) (names []string) {
	for _, info := range m.infos(prefix) {
		names = append(names, info.Name)
	}
	return names
}

// Data returns a copy of a blob's bytes, nil if the blob is missing.
func (m *Memory) Data(name string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.blobs[name]
	if !ok {
		return nil
	}
	return append([]byte{}, b.data...)
}

// Set creates or replaces a blob with a copy of data. An existing blob keeps its
// time.
func (m *Memory) Set(name string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.blobs[name]
	if !ok {
		old.modified = m.tick
	}
	m.blobs[name] = blob{bytes.Clone(data), old.modified}
}

// Remove removes a blob, if it exists.
func (m *Memory) Remove(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blobs, name)
}

// Damage flips a bit of the byte at offset off of a blob, counted from its end
// if off is negative. It reports whether there is such a byte.
func (m *Memory) Damage(name string, off int) bool {
	data := m.Data(name)
	if off < 0 {
		off += len(data)
	}
	if off < 0 || off >= len(data) {
		return false
	}
	data[off] ^= 1
	m.Set(name, data)
	return true
}

// Truncate cuts a blob after size bytes. It reports whether it had more.
func (m *Memory) Truncate(name string, size int) bool {
	data := m.Data(name)
	if size < 0 || size >= len(data) {
		return false
	}
	m.Set(name, data[:size])
	return true
}

// Swap exchanges the blobs of two names. It reports whether both exist.
func (m *Memory) Swap(a, b string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	one, okA := m.blobs[a]
	two, okB := m.blobs[b]
	if okA && okB {
		m.blobs[a], m.blobs[b] = two, one
	}
	return okA && okB
}

// A Snapshot is the state of a [Memory] at a moment.
type Snapshot struct{ blobs map[string]blob }

// Snapshot returns the state of the store as it is now.
func (m *Memory) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Snapshot{maps.Clone(m.blobs)}
}

// Restore gives the store a former state of this or another store, as a restore
// from a backup would.
func (m *Memory) Restore(s Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blobs = maps.Clone(s.blobs)
}
