package pack

import (
	"context"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/remote"
)

// IndexParts searches an index file and reads only parts of it. It is safe for concurrent use if its
// [keys.PartReader] is. It needs 20 bytes of memory for every pack.
type IndexParts struct {
	packs []Info
	keys  *keys.Parts
}

// IndexTail is the number of bytes at the end of an index file that [IndexHead] and [OpenIndexParts] need.
const IndexTail = keys.TrailerSize + indexTrailerSize

// IndexHead returns the number of bytes at the beginning of an index file of size bytes that [OpenIndexParts]
// needs: less than size. Tail has the last [IndexTail] bytes. The error matches [ErrDamaged].
func IndexHead(tail []byte, size int64) (int64, error) {
	if err := checkIndexSize(size); err != nil {
		return 0, err
	}
	table, err := parseIndexTrailer(tail[keys.TrailerSize:], size)
	return remote.HeaderSize + table + keys.HeaderSize, err
}

// OpenIndexParts returns an IndexParts, which reads by read. Head and tail are the first and the last bytes of an
// index file of size bytes. The checks and errors are those of [OpenIndex], except that it does not check the table of the
// key index.
func OpenIndexParts(head, tail []byte, size int64, read keys.PartReader) (*IndexParts, error) {
	if err := remote.CheckHeader(head[:remote.HeaderSize], remote.TypeIndex); err != nil {
		return nil, damageIn(Name{}, "header", err)
	}
	trailer := tail[keys.TrailerSize:]
	base := int64(len(head)) - keys.HeaderSize
	packs, err := parsePacks(head[remote.HeaderSize:base], trailer)
	if err != nil {
		return nil, err
	}
	x, err := keys.OpenParts(head[base:], tail[:keys.TrailerSize], base, size-base-indexTrailerSize, read)
	if err != nil {
		return nil, damageIn(Name{}, "index", err)
	}
	return &IndexParts{packs, x}, nil
}

// Len returns the number of entries.
func (x *IndexParts) Len() int { return x.keys.Len() }

// Packs returns the packs that the index names, sorted by name. The caller owns the slice.
func (x *IndexParts) Packs() []Info { return slices.Clone(x.packs) }

// Find returns an entry for each of keys, which are sorted. The entry of an absent key is zero. The error for damage
// matches [ErrDamaged] or is that of the [keys.PartReader].
func (x *IndexParts) Find(ctx context.Context, keys []object.Key) ([]Entry, error) {
	records, err := x.keys.Find(ctx, keys)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(keys))
	for i, rec := range records {
		if rec.Index < 0 {
			continue
		}
		if entries[i], err = entryIn(x.packs, rec); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// ReadNodes reads what later look-ups of nodes need, and the table: see [keys.Parts.ReadNodes].
func (x *IndexParts) ReadNodes(ctx context.Context, most int) error {
	return x.keys.ReadNodes(ctx, most)
}

// OfKind returns the entries of all objects of a kind. Complete is false, and there are none, if there are too many.
func (x *IndexParts) OfKind(ctx context.Context, k object.Kind) (entries []Entry, complete bool, err error) {
	records, complete, err := x.keys.OfKind(ctx, k)
	if err != nil || !complete {
		return nil, false, err
	}
	entries = make([]Entry, len(records))
	for i, rec := range records {
		if entries[i], err = entryIn(x.packs, rec); err != nil {
			return nil, false, err
		}
	}
	return entries, true, nil
}
