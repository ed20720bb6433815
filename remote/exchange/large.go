package exchange

import (
	"context"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree/lent"
)

// findLarge finds the chunks of large files, from their manifests. The content of smaller files stays here, unless a caller
// names it: it takes little space, and commands that compare texts need it.
func (e *evictor) findLarge(ctx context.Context) error {
	store := e.repo.Objects()
	inventory, err := store.Inventory(ctx)
	if err != nil {
		return err
	}
	var from []object.Key
	for i := range inventory.Len() {
		for rec, err := range inventory.Keys(i, object.KindManifest) {
			if err != nil {
				return err
			}
			m, err := object.ReadManifest(ctx, store, rec.Key.ID)
			if err == nil && sizeOf(m) >= lent.MinSize {
				from = append(from, rec.Key)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	e.large, err = gc.NewReach(ctx, store, (&record.Set{}).View(), from...)
	return err
}

// sizeOf returns the number of bytes below a manifest.
func sizeOf(m *object.Manifest) (size uint64) {
	for _, c := range m.Chunks {
		size += uint64(c.Size)
	}
	for _, c := range m.Children {
		size = max(size, c.End)
	}
	return size
}

// withoutSmall returns those of the chunks, in their order, that are in large files. It counts the others.
func (e *evictor) withoutSmall(ctx context.Context, chunks []object.Key) (large []object.Key, err error) {
	if e.large == nil {
		return chunks, nil
	}
	for _, chunk := range chunks {
		has, err := e.large.Has(chunk)
		if err != nil {
			return nil, err
		}
		if !has { // it may be a file of its own
			raw, stored, err := e.repo.Objects().StoredSize(ctx, chunk)
			if err != nil {
				return nil, err
			}
			if has = raw >= lent.MinSize; !has {
				e.result.Small += stored
			}
		}
		if has {
			large = append(large, chunk)
		}
	}
	return large, nil
}
