package ingest

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

func testOptions() *Options {
	o := &Options{BatchEntries: 16}
	o.SetDefaults()
	return o
}

// TestLatch checks that an error that Badger only logs fails later calls.
func TestLatch(t *testing.T) {
	db, err := openDatabase(t.TempDir(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	entry := func() []*badger.Entry {
		return []*badger.Entry{badger.NewEntry([]byte("key"), make([]byte, 100))}
	}
	if err := db.commitEntries(entry()); err != nil {
		t.Fatal(err)
	}
	db.log.Warningf("no error")
	if err := db.commitEntries(entry()); err != nil {
		t.Fatal(err)
	}
	db.log.Errorf("disk %s\n", "on fire")
	db.log.Errorf("and more")
	for _, err := range []error{db.commitEntries(entry()), db.closeInTime()} {
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte("disk on fire")) {
			t.Errorf("error %v, want the first logged one", err)
		}
	}
}

// newTestWriter returns a writer for a new directory, and the places that it reported.
func newTestWriter(t *testing.T) (*Writer, map[object.Key]Entry) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "volumes", DirPrefix+"1")
	if err := disk.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	places := map[object.Key]Entry{}
	w := NewWriter(dir, testOptions(), func(_ uint16, e Entry) error {
		places[e.Key] = e
		return nil
	})
	return w, places
}

// writeValues writes a batch with a value of each size from first to last.
func writeValues(t *testing.T, w *Writer, first, last int) {
	t.Helper()
	b := &Batch{}
	for n := first; n <= last; n++ {
		value := bytes.Repeat([]byte{byte(n)}, n)
		b.Add(object.Key{Kind: object.KindChunk, ID: object.Sum(value)}, Pad(value), n)
	}
	if _, err := w.WriteBatch(b); err != nil {
		t.Fatal(err)
	}
}

// TestEntrySize checks that EntrySize predicts the size of every entry in a value log, and that
// NewEntry predicts its place.
func TestEntrySize(t *testing.T) {
	w, places := newTestWriter(t)
	defer w.Abandon()

	for from := 1; from <= 300; from += 50 {
		writeValues(t, w, from, from+49)
	}
	if err := w.FindPlaces(); err != nil {
		t.Fatal(err)
	}

	if len(places) != 300 || w.walks[0].Pos() != w.space.off {
		t.Errorf("%d places, up to byte %d of %d; want 300", len(places), w.walks[0].Pos(), w.space.off)
	}
	for _, e := range places {
		if size := EntrySize(e.Stored()); size != e.End()-e.Start {
			t.Errorf("EntrySize(%d) = %d, want %d", e.Stored(), size, e.End()-e.Start)
		}
		if got := NewEntry(e.Key, e.Value, e.Stored()); got != e {
			t.Errorf("NewEntry = %+v, want %+v", got, e)
		}
	}
}

// TestWriterFails checks that an error that Badger only logs fails the writer, with the first
// error in every later call.
func TestWriterFails(t *testing.T) {
	w, _ := newTestWriter(t)
	defer w.Abandon()
	writeValues(t, w, 1, 10)
	w.db.log.Errorf("error in %s", "test")

	for range 2 {
		b := &Batch{}
		b.Add(object.Key{Kind: object.KindChunk}, Pad([]byte("x")), 1)
		if _, err := w.WriteBatch(b); err == nil || !strings.Contains(err.Error(), "error in test") {
			t.Errorf("WriteBatch: %v, want the logged error", err)
		}
	}
	if _, _, err := w.Finish(func() {}); err == nil || !strings.Contains(err.Error(), "error in test") {
		t.Errorf("Finish: %v, want the logged error", err)
	}
}
