package volume

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/kist-vcs/kist/object"
)

// TestBadgerOpensCopy checks that Badger can open a copy of a sealed volume, and finds all
// keys with their values.
func TestBadgerOpensCopy(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	storeSeries(t, s, 1, 0, 400)
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(oneVolume(t, s))); err != nil {
		t.Fatal(err)
	}

	db, err := badger.Open(badger.DefaultOptions(copied).WithReadOnly(true).WithLogger(nil).WithExternalMagic(0x4b53))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	n := 0
	err = db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()

		for it.Rewind(); it.Valid(); it.Next() {
			value, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			var key object.Key
			key.Kind = object.Kind(it.Item().Key()[0])
			copy(key.ID[:], it.Item().Key()[1:])
			raw, _, err := s.StoredSize(t.Context(), key)
			if err != nil {
				return err
			}
			got, err := decode(key, value[:len(value)-int(it.Item().UserMeta())], int(raw))
			if err != nil {
				return err
			}

			if want, err := s.Get(t.Context(), key); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: Badger and Get return different bytes, error %v", key, err)
			}
			n++
		}
		return nil
	})
	if err != nil || n != 400 {
		t.Fatalf("Badger has %d keys, error %v; want 400", n, err)
	}
}
