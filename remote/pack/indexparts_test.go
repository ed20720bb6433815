package pack

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
)

// openParts opens an index file in memory in parts.
func openParts(data []byte) (*IndexParts, error) {
	size := int64(len(data))
	tail := data[size-IndexTail:]
	head, err := IndexHead(tail, size)
	if err != nil {
		return nil, err
	}
	return OpenIndexParts(data[:head], tail, size, func(_ context.Context, parts []keys.Part) ([][]byte, error) {
		pieces := make([][]byte, len(parts))
		for i, p := range parts {
			pieces[i] = data[p.Off:][:p.Size]
			if err := p.Check(pieces[i]); err != nil {
				return nil, err
			}
		}
		return pieces, nil
	})
}

// TestIndexParts checks the entries of an intact index file, and that each flipped bit changes no answer: it is an error, or
// without effect.
func TestIndexParts(t *testing.T) {
	entries, infos := packed(t, 1, 100, 3)
	data := writeIndexFile(t, entries)
	keys := []object.Key{{Kind: object.KindChunk, ID: object.ID{1}}, {Kind: object.KindTag, ID: object.ID{2}}}
	want := map[object.Key]Entry{}
	for _, e := range entries[:20] {
		keys, want[e.Key] = append(keys, e.Key), e
	}
	slices.SortFunc(keys, object.Key.Compare)
	check := func() (found []Entry, err error) {
		x, err := openParts(data)
		if err == nil {
			found, err = x.Find(t.Context(), keys)
		}
		for i, e := range found {
			if e != want[keys[i]] {
				t.Fatalf("Find(%s) = %+v, want %+v", keys[i], e, want[keys[i]])
			}
		}
		return found, err
	}

	x, err := openParts(data)
	if err != nil || x.Len() != len(entries) || !slices.Equal(x.Packs(), infos) {
		t.Fatalf("packs %v, %v", x.Packs(), err)
	}
	if found, err := check(); err != nil || len(found) != len(keys) {
		t.Fatal(err)
	}
	for i := range len(data) * 8 {
		data[i/8] ^= 1 << (i % 8)
		if _, err := check(); err != nil && !errors.Is(err, object.ErrCorrupt) {
			t.Fatalf("bit %d flipped: %v, want ErrCorrupt", i, err)
		}
		data[i/8] ^= 1 << (i % 8)
	}
}
