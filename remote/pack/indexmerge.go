package pack

import (
	"container/heap"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/remote"
)

// MergeIndex writes an index file to w with the given packs, which it sorts,
// and the entries of sources. Each source must yield its entries sorted by
// key. Entries of other packs are left out. Of several entries with one key,
// one is written. It reads each source twice: the first time, it counts. It needs 1.75 bytes
// of memory for each entry. An error of a source ends it, and is wrapped.
func MergeIndex(w io.Writer, packs []Info, sources ...iter.Seq2[Entry, error]) error {
	slices.SortFunc(packs, func(a, b Info) int { return a.Name.Compare(b.Name) })
	for i, p := range packs {
		if err := p.checkInfo(); err != nil {
			return fmt.Errorf("merge pack indexes: %w", err)
		}
		if i > 0 && p.Name == packs[i-1].Name {
			return fmt.Errorf("merge pack indexes: pack %s is there twice", p.Name)
		}
	}

	var failed error
	err := writeMerged(w, packs, func(yield func(Entry) bool) {
		if failed == nil {
			failed = mergeSources(sources, yield)
		}
	})
	if failed != nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("merge pack indexes: %w", err)
	}

	return nil
}

// writeMerged writes an index file of packs and entries, both sorted, and reads entries twice. It leaves out
// entries of other packs. Of several entries with one key, it writes the
// first.
func writeMerged(w io.Writer, packs []Info, entries iter.Seq[Entry]) error {
	head, tail := appendPacks(remote.AppendHeader(nil, remote.TypeIndex, remote.Version1), packs)
	if _, err := w.Write(head); err != nil {
		return err
	}

	numbers := make(map[Name]uint32, len(packs))
	for i, pack := range packs {
		numbers[pack.Name] = uint32(i)
	}

	records := func(yield func(keys.Record) bool) {
		var last object.Key
		for e := range entries {
			number, ok := numbers[e.Pack.Name]
			if !ok || e.Key == last {
				continue
			}
			last = e.Key
			if !yield(keys.Record{Key: e.Key, File: number, Offset: e.Offset, Stored: e.Stored, Raw: e.Raw}) {
				return
			}
		}
	}
	n := 0
	for range records {
		n++
	}
	if err := keys.Write(w, n, records); err != nil {
		return err
	}

	_, err := w.Write(tail)
	return err
}

// mergeSources yields the entries of all sources, sorted by key.
func mergeSources(sources []iter.Seq2[Entry, error], yield func(Entry) bool) error {
	var queue byNextKey
	for _, s := range sources {
		next, stop := iter.Pull2(s)
		defer stop()
		e, err, ok := next()
		if err != nil {
			return err
		}
		if ok {
			queue = append(queue, &source{next, e})
		}
	}

	heap.Init(&queue)
	for len(queue) > 0 {
		first := queue[0]
		if !yield(first.entry) {
			return nil
		}
		e, err, ok := first.next()
		if err != nil {
			return err
		}
		if first.entry = e; ok {
			heap.Fix(&queue, 0)
		} else {
			heap.Pop(&queue)
		}
	}

	return nil
}

// source is a source of entries with its next entry.
type source struct {
	next  func() (Entry, error, bool)
	entry Entry
}

// byNextKey is a heap of sources.
type byNextKey []*source

func (q byNextKey) Len() int           { return len(q) }
func (q byNextKey) Less(i, j int) bool { return q[i].entry.Key.Compare(q[j].entry.Key) < 0 }
func (q byNextKey) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *byNextKey) Push(s any)        { *q = append(*q, s.(*source)) }
func (q *byNextKey) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	*q = (*q)[:last]
	return s
}
