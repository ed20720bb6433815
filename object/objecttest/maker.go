package objecttest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// Maker makes objects in a store.
type Maker struct {
	T testing.TB
	object.ReadWriter
	Date int64
}

func (m *Maker) PutNode(kind object.Kind, n interface{ Encode() ([]byte, error) }) object.ID {
	m.T.Helper()
	data, err := n.Encode()
	if err != nil {
		m.T.Fatal(err)
	}
	return m.PutData(kind, data)
}

func (m *Maker) PutData(kind object.Kind, data []byte) object.ID {
	m.T.Helper()
	id, err := m.Put(context.Background(), kind, data)
	if err != nil {
		m.T.Fatal(err)
	}
	return id
}

// MakeTree makes a folder of files and folders, by name.
func (m *Maker) MakeTree(files map[string]string, folders map[string]object.ID) object.ID {
	m.T.Helper()
	ctx := context.Background()
	w := object.NewTreeWriter(m)
	entries := map[string]object.Entry{}
	for name, content := range files {
		e := object.Entry{Name: name, Type: object.TypeFile, Mode: 0o644, Size: uint64(len(content)), MTime: object.Time{Sec: 1}}
		if len(content) <= object.MaxInline {
			e.Inline = []byte(content)
		} else {
			e.Content = object.Key{Kind: object.KindChunk, ID: m.PutData(object.KindChunk, []byte(content))}
		}
		entries[name] = e
	}
	for name, id := range folders {
		entries[name] = object.Entry{Name: name, Type: object.TypeDir, Mode: 0o755, Content: object.Key{Kind: object.KindTree, ID: id}}
	}
	for _, name := range SortedKeys(entries) {
		if err := w.Add(ctx, entries[name]); err != nil {
			m.T.Fatal(err)
		}
	}
	id, err := w.Finish(ctx)
	if err != nil {
		m.T.Fatal(err)
	}
	return id
}

// MakeCommit makes a commit one second younger than the one before.
func (m *Maker) MakeCommit(tree object.ID, parents ...object.ID) object.ID {
	m.T.Helper()
	m.Date++
	who := object.Stamp{Name: "A", Email: "a@example.org", Time: object.Time{Sec: m.Date}}
	return m.PutNode(object.KindCommit, &object.Commit{Tree: tree, Parents: parents, Author: who, Committer: who, Message: fmt.Sprint(m.Date)})
}

// Closure returns all objects that some objects reach, including these.
func Closure(t testing.TB, r object.Reader, from ...object.Key) map[object.Key]bool {
	t.Helper()
	seen := map[object.Key]bool{}
	for stack := from; len(stack) > 0; {
		key := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[key] {
			continue
		}
		seen[key] = true
		data, err := r.Get(context.Background(), key)
		if err != nil {
			t.Fatal(err)
		}
		links, err := object.Links(key.Kind, data)
		if err != nil {
			t.Fatal(err)
		}
		stack = append(stack, links...)
	}
	return seen
}

func CommitKeys(ids ...object.ID) []object.Key {
	var keys []object.Key
	for _, id := range ids {
		keys = append(keys, object.Key{Kind: object.KindCommit, ID: id})
	}
	return keys
}

func AppendNew(ids []object.ID, id object.ID) []object.ID {
	for _, other := range ids {
		if other == id {
			return ids
		}
	}
	return append(ids, id)
}

func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Noise returns n bytes that do not compress.
func Noise(seed, n int) string {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1}).Read(data)
	return string(data)
}
