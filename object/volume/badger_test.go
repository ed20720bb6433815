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

	db, err := badger.Open(badger.DefaultOptions(copied).WithReadOnly(true).WithLogger(nil).WithExternalMagic(badgerMagic))
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

// TestLatch checks that an error that Badger only logs fails later calls.
func TestLatch(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(t)
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	db, err := openDatabase(dir, &o)
	if err != nil {
		t.Fatal(err)
	}
	entry := func() []*badger.Entry {
		return []*badger.Entry{badger.NewEntry([]byte("key"), make([]byte, 100))}
	}
	if err := db.commit(entry()); err != nil {
		t.Fatal(err)
	}
	db.log.Warningf("no error")
	if err := db.commit(entry()); err != nil {
		t.Fatal(err)
	}
	db.log.Errorf("disk %s\n", "on fire")
	db.log.Errorf("and more")
	for _, err := range []error{db.commit(entry()), db.close()} {
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte("disk on fire")) {
			t.Errorf("error %v, want the first logged one", err)
		}
	}
}

// TestEntrySize checks that entrySize predicts the size of every entry in a value log.
func TestEntrySize(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	ss := s.Begin(SessionOptions{})
	defer ss.Close()
	putSeries(t, ss, 1, 0, 300)
	w := ss.cur
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	walk := newLogWalker(w.space.log(), w.space.off, logHeaderSize)
	for n := 0; ; n++ {
		e, err := walk.next()
		if err != nil {
			if n != 300 || walk.pos != w.space.off {
				t.Errorf("%d entries, up to byte %d of %d: %v; want 300", n, walk.pos, w.space.off, err)
			}
			break
		}
		if entrySize(e.padded) != e.end()-e.start {
			t.Errorf("entrySize(%d) = %d, want %d", e.padded, entrySize(e.padded), e.end()-e.start)
		}
	}
}
