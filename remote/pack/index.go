package pack

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/remote"
)

// The layout of index files, see docs/format/packindex.md.
const (
	infoSize         = nameSize + 4      // of a pack in the table
	indexTrailerSize = 4 + 4 + magicSize // number of packs, checksum, magic
	indexMagic       = "kistpidx"
)

// Index searches an index file. It is safe for concurrent use. It needs 20
// bytes of memory for every pack, and for the entries as much as
// [keys.Reader].
type Index struct {
	packs []Info
	keys  *keys.Reader
}

// OpenIndex reads an index file of size bytes from r, which must stay readable
// and unchanged while the Index is used. It checks everything except the
// entries, which are checked when they are read. The error for damage
// matches [ErrDamaged].
// Memory is bounded by size.
func OpenIndex(r io.ReaderAt, size int64) (*Index, error) {
	if err := checkIndexSize(size); err != nil {
		return nil, err
	}

	var header [remote.HeaderSize]byte
	if err := readFull(r, header[:], 0); err != nil {
		return nil, damageIn(Name{}, "header", err)
	}
	if err := remote.CheckHeader(header[:], remote.TypeIndex); err != nil {
		return nil, damageIn(Name{}, "header", err)
	}

	var trailer [indexTrailerSize]byte
	if err := readFull(r, trailer[:], size-indexTrailerSize); err != nil {
		return nil, damageIn(Name{}, "trailer", err)
	}

	table, err := parseIndexTrailer(trailer[:], size)
	if err != nil {
		return nil, err
	}
	infos := make([]byte, table)
	if err := readFull(r, infos, remote.HeaderSize); err != nil {
		return nil, damageIn(Name{}, "packs", err)
	}
	packs, err := parsePacks(infos, trailer[:])
	if err != nil {
		return nil, err
	}

	length := size - leastIndex - table
	x, err := keys.Open(io.NewSectionReader(r, remote.HeaderSize+table, length), length)
	if err != nil {
		return nil, damageIn(Name{}, "index", err)
	}

	return &Index{packs: packs, keys: x}, nil
}

// leastIndex is the number of bytes of an index file beside its list of packs and its key index.
const leastIndex = remote.HeaderSize + indexTrailerSize

func checkIndexSize(size int64) error {
	if size < leastIndex+keys.Size(0) {
		return damageIn(Name{}, "size", fmt.Errorf("%d bytes are too few", size))
	}
	return nil
}

// parseIndexTrailer returns the number of bytes of the pack table in an index file of size bytes.
func parseIndexTrailer(trailer []byte, size int64) (table int64, err error) {
	table = int64(binary.BigEndian.Uint32(trailer)) * infoSize
	switch {
	case string(trailer[8:]) != indexMagic:
		return 0, damageIn(Name{}, "trailer", errEnd)
	case table > size-leastIndex-keys.Size(0):
		return 0, damageIn(Name{}, "trailer", fmt.Errorf("%d packs in %d bytes", table/infoSize, size))
	}
	return table, nil
}

// parsePacks decodes the pack table of an index file with a trailer.
func parsePacks(table, trailer []byte) ([]Info, error) {
	packs, err := decodePacks(table, trailer)
	if err != nil {
		return nil, damageIn(Name{}, "packs", err)
	}
	return packs, nil
}

func decodePacks(table, trailer []byte) ([]Info, error) {
	if crc32.Update(crc32.Checksum(table, castagnoli), castagnoli, trailer[:4]) != binary.BigEndian.Uint32(trailer[4:]) {
		return nil, errChecksum
	}

	packs := make([]Info, len(table)/infoSize)
	for i := range packs {
		b := table[i*infoSize:]
		packs[i] = Info{Name: Name(b[:nameSize]), Size: binary.BigEndian.Uint32(b[nameSize:])}
		if err := packs[i].checkInfo(); err != nil {
			return nil, err
		}
		if i > 0 && packs[i-1].Name.Compare(packs[i].Name) >= 0 {
			return nil, fmt.Errorf("pack %s is not in order", packs[i].Name)
		}
	}

	return packs, nil
}

// readFull reads all of p at off.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == io.EOF || err == nil:
		return io.ErrUnexpectedEOF
	}
	return err
}

// Len returns the number of entries.
func (x *Index) Len() int { return x.keys.Len() }

// Packs returns the packs that the index names, sorted by name. The caller
// owns the slice.
func (x *Index) Packs() []Info { return slices.Clone(x.packs) }

// Find returns the entry of key, and whether it exists. Every error matches
// [ErrDamaged].
func (x *Index) Find(key object.Key) (Entry, bool, error) {
	e, at, err := x.Search(key)
	return e, at >= 0, err
}

// Search is Find, but returns the number of the entry in the order of All, or
// -1.
func (x *Index) Search(key object.Key) (Entry, int, error) {
	rec, ok, err := x.keys.Find(key)
	if err != nil {
		return Entry{}, -1, damageIn(Name{}, "index", err)
	}
	if !ok {
		return Entry{}, -1, nil
	}
	e, err := x.entryOf(rec)
	if err != nil {
		return Entry{}, -1, err
	}
	return e, rec.Index, nil
}

// At returns entry i in the order of All, from 0 on. The error matches [ErrDamaged].
func (x *Index) At(i int) (Entry, error) {
	rec, err := x.keys.At(i)
	if err != nil {
		return Entry{}, damageIn(Name{}, "index", err)
	}
	return x.entryOf(rec)
}

// entryOf returns the entry of a record.
func (x *Index) entryOf(rec keys.Record) (Entry, error) { return entryIn(x.packs, rec) }

// entryIn returns the entry of a record of an index file with these packs.
func entryIn(packs []Info, rec keys.Record) (Entry, error) {
	if int64(rec.File) >= int64(len(packs)) {
		return Entry{}, damageIn(Name{}, "entry", fmt.Errorf("%s is in pack number %d of %d", rec.Key, rec.File, len(packs)))
	}
	e := entryOf(rec, packs[rec.File])
	if err := e.checkEntry(); err != nil {
		return Entry{}, damageIn(Name{}, "entry", fmt.Errorf("%s: %w", rec.Key, err))
	}
	return e, nil
}

// All yields every entry, sorted by key. The first error, which
// matches [ErrDamaged], ends it.
func (x *Index) All() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for rec, err := range x.keys.All() {
			if err != nil {
				yield(Entry{}, damageIn(Name{}, "index", err))
				return
			}
			if e, err := x.entryOf(rec); !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// OfKind yields every entry of a kind, sorted by key. Its errors are those of All.
func (x *Index) OfKind(k object.Kind) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for rec, err := range x.keys.Prefix(k, nil, 0) {
			if err != nil {
				yield(Entry{}, damageIn(Name{}, "index", err))
				return
			}
			if e, err := x.entryOf(rec); !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Verify reads the whole index file and checks it. It returns the first damage
// found. The error matches [ErrDamaged].
func (x *Index) Verify() error {
	if err := x.keys.Verify(); err != nil {
		return damageIn(Name{}, "index", err)
	}
	for _, err := range x.All() {
		if err != nil {
			return err
		}
	}
	return nil
}

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
	return writeMerged(w, packs, slices.Values(entries))
}

// packsOf checks entries and returns their packs, sorted by name.
func packsOf(entries []Entry) ([]Info, error) {
	sizes := map[Name]uint32{}
	for i := range entries {
		e := &entries[i]
		if err := e.checkEntry(); err != nil {
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
