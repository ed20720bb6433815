package object

import (
	"context"
	"fmt"
	"testing"
)

type mem map[Key][]byte

func (m mem) Put(_ context.Context, k Kind, d []byte) (ID, error) {
	id := Sum(d)
	m[Key{k, id}] = d
	return id, nil
}
func (m mem) Get(_ context.Context, k Key) ([]byte, error) {
	if d, ok := m[k]; ok {
		return d, nil
	}
	return nil, &NotFoundError{k}
}
func (m mem) Missing(_ context.Context, k []Key) ([]Key, error) { return nil, nil }

func ents(n int) []Entry {
	var es []Entry
	for i := range n {
		es = append(es, Entry{Name: fmt.Sprintf("some-file-%06d.txt", i), Type: TypeFile, Mode: 0o644, Size: 1000, MTime: Time{1700000000, 5}, Content: Key{KindChunk, Sum([]byte(fmt.Sprint(i)))}})
	}
	return es
}
func TestSmoke(t *testing.T) {
	m := mem{}
	w := NewTreeWriter(m)
	es := ents(20000)
	for _, e := range es {
		if err := w.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	root, err := w.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for e, err := range Entries(t.Context(), m, root) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Name != es[i].Name {
			t.Fatal(e)
		}
		i++
	}
	t.Log(len(m), i)
}
func BenchmarkTreeEncode(b *testing.B) {
	tr := Tree{Entries: ents(1000)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tr.Encode(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/entry")
}
func BenchmarkTreeDecode(b *testing.B) {
	tr := Tree{Entries: ents(1000)}
	d, _ := tr.Encode()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeTree(d); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/entry")
}
