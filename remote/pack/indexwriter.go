package pack

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// WriteIndex writes an index file of entries of any number of packs to w. It
// names every pack that has an entry. It sorts entries in place by key, if
// they are not sorted. Of several entries with one key, it writes the first.
func WriteIndex(w io.Writer, entries []Entry) error {
	if err := writeIndex(w, entries); err != nil {
		return fmt.Errorf("write pack index: %w", err)
	}
	return nil
}

func writeIndex(w io.Writer, entries []Entry) error {
	byKey := func(a, b Entry) int { return a.Key.Compare(b.Key) }
	if !slices.IsSortedFunc(entries, byKey) {
		slices.SortStableFunc(entries, byKey)
	}
	packs, err := packsOf(entries)
	if err != nil {
		return err
	}
	return merge(w, packs, slices.Values(entries))
}

// packsOf checks entries and returns their packs, sorted by name.
func packsOf(entries []Entry) ([]Info, error) {
	sizes := map[Name]uint32{}
	for i := range entries {
		e := &entries[i]
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Key, err)
		}
		if size, ok := sizes[e.Pack.Name]; !ok {
			sizes[e.Pack.Name] = e.Pack.Size
		} else if size != e.Pack.Size {
			return nil, fmt.Errorf("pack %s has %d bytes, and %d", e.Pack.Name, size, e.Pack.Size)
		}
	}

	packs := make([]Info, 0, len(sizes))
	for name, size := range sizes {
		packs = append(packs, Info{Name: name, Size: size})
	}

	slices.SortFunc(packs, func(a, b Info) int { return a.Name.Compare(b.Name) })
	return packs, nil
}

// appendPacks appends the pack table to head, and returns the trailer for it.
func appendPacks(head []byte, packs []Info) (table, trailer []byte) {
	start := len(head)
	for _, pack := range packs {
		head = append(head, pack.Name[:]...)
		head = binary.BigEndian.AppendUint32(head, pack.Size)
	}
	trailer = binary.BigEndian.AppendUint32(nil, uint32(len(packs)))
	sum := crc32.Update(crc32.Checksum(head[start:], castagnoli), castagnoli, trailer)
	trailer = binary.BigEndian.AppendUint32(trailer, sum)
	return head, append(trailer, indexMagic...)
}
