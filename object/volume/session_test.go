package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/objecttest"
)

func TestConformance(t *testing.T) {
	objecttest.Run(t, func(t *testing.T) object.ReadWriter {
		s := openStore(t, t.TempDir(), testOptions(t)).Begin(SessionOptions{})
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			wantSound(t, s.store)
		})
		return s
	})
}

// publishing publishes after every 20th Put, so that the suite reads sealed volumes.
type publishing struct {
	*Session
	n *atomic.Int32
}

func (p publishing) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	id, err := p.Session.Put(ctx, kind, data)
	if err == nil && p.n.Add(1)%20 == 1 {
		err = p.Publish(ctx, publishNothing)
	}
	return id, err
}

func TestConformanceSealed(t *testing.T) {
	objecttest.Run(t, func(t *testing.T) object.ReadWriter {
		s := openStore(t, t.TempDir(), testOptions(t)).Begin(SessionOptions{})
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return publishing{s, new(atomic.Int32)}
	})
}

func TestSession(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	ss := s.Begin(SessionOptions{})
	putSeries(t, ss, 1, 0, 500)
	wantSeries(t, ss, 1, 0, 500)

	key, _ := sample(1, 7)
	if ok, err := s.Has(ctx, key); ok || err != nil {
		t.Fatalf("Has before Publish: %t, %v; want false", ok, err)
	}

	called := false
	err := ss.Publish(ctx, func(context.Context) error {
		called = true
		wantSeries(t, openStore(t, dir, testOptions(t)), 1, 0, 500)
		return nil
	})
	if err != nil || !called {
		t.Fatalf("Publish: %v, called %t; want true", err, called)
	}

	putSeries(t, ss, 1, 400, 600) // the store has 100 of them
	wantSeries(t, ss, 1, 0, 600)
	var raw int64
	for i := range 600 {
		_, data := sample(1, i)
		raw += int64(len(data))
	}

	st := ss.Stats()
	if st.Objects != 700 || st.NewObjects != 600 || st.NewBytes != raw || st.Bytes <= raw || st.StoredBytes == 0 || st.StoredBytes >= raw {
		t.Errorf("stats %+v; want 700 objects, 600 of them new with %d bytes", st, raw)
	}
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	if err := ss.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := ss.Put(ctx, object.KindChunk, []byte("late")); !errors.Is(err, errSessionClosed) {
		t.Errorf("Put after Close: %v, want errSessionClosed", err)
	}

	wantSeries(t, s, 1, 0, 600)
	if done := wantSound(t, s); done.Objects != 600 || done.Volumes != 2 {
		t.Errorf("checked %+v, want 600 objects in 2 volumes", done)
	}

	wantNames(t, s)
	infos, err := s.Volumes(ctx)
	if err != nil || len(infos) != 2 || infos[0].Objects != 100 || infos[1].Objects != 500 || infos[0].Session != infos[1].Session {
		t.Errorf("volumes %+v, %v; want 100 and 500 objects of one session", infos, err)
	}
	if raw, stored, err := s.StoredSize(ctx, key); err != nil || raw == 0 || stored == 0 {
		t.Errorf("StoredSize: %d, %d, %v; want sizes above 0", raw, stored, err)
	}

	n := 0
	for _, err := range s.Keys(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 600 {
		t.Errorf("Keys yields %d keys, want 600", n)
	}

	for _, digits := range []int{0, 1, 4, 7, 64} {
		ids, err := s.Prefix(ctx, key.Kind, key.ID.String()[:digits], 3)
		if err != nil || len(ids) == 0 || len(ids) > 3 || digits > 3 && ids[0] != key.ID {
			t.Errorf("Prefix of %d digits: %s, %v; want 1 to 3 IDs", digits, ids, err)
		}
	}

	if _, err := s.Prefix(ctx, key.Kind, "xy", 0); err == nil {
		t.Error("Prefix accepts other characters than digits")
	}
}

// TestNothingPut checks that a session that stores nothing leaves no files in volumes/.
func TestNothingPut(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	ss := s.Begin(SessionOptions{})
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("an empty session leaves %v, %v", entries, err)
	}
	ss = s.Begin(SessionOptions{})
	if err := ss.Publish(context.Background(), publishNothing); err != nil {
		t.Fatal(err)
	}
	ss.Close()
	if _, err := os.Stat(filepath.Join(dir, volumesDir)); !os.IsNotExist(err) {
		t.Errorf("volumes/ after an empty Publish: %v, want ErrNotExist", err)
	}
}

func TestDryRun(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	storeSeries(t, s, 1, 0, 10)
	ss := s.Begin(SessionOptions{DryRun: true})
	putSeries(t, ss, 1, 0, 20)
	putSeries(t, ss, 1, 5, 20)
	if st := ss.Stats(); st.Objects != 35 || st.NewObjects != 10 || st.StoredBytes != 0 {
		t.Errorf("stats %+v; want 35 objects, 10 of them new, 0 stored bytes", st)
	}
	if err := ss.Publish(context.Background(), publishNothing); err == nil {
		t.Error("Publish of a dry run returned no error")
	}
	if err := ss.Close(); err != nil {
		t.Error(err)
	}
	oneVolume(t, s)
	wantNames(t, s)
}

// TestFullVolumes checks that volumes are sealed at their limits, and that a writer follows
// Badger to the next value log and memtable.
func TestFullVolumes(t *testing.T) {
	o := testOptions(t)
	o.MaxObjects = 1500
	s := openStore(t, t.TempDir(), o)
	ss := s.Begin(SessionOptions{})
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() { putSeries(t, ss, 1, w*1500, w*1500+2000) })
	}
	wg.Wait()
	if l, _ := s.lastListing(); len(l.volumes) != 3 {
		t.Errorf("%d volumes sealed, want 3", len(l.volumes))
	}
	wantSeries(t, ss, 1, 0, 5000)
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	wantSeries(t, s, 1, 0, 5000)
	wantSound(t, s)

	o = testOptions(t)
	o.ingest.LogFileSize, o.ingest.MemTableSize = 1<<20, 1<<20
	trees, logs, tables := 60_000, 8, 4
	if testing.Short() {
		trees, logs, tables = 15_000, 2, 1
	}
	s = openStore(t, t.TempDir(), o)
	ss = s.Begin(SessionOptions{})
	putSeries(t, ss, 2, 0, 1000)
	for i := range trees {
		if _, err := ss.Put(context.Background(), object.KindTree, noise(uint64(i), make([]byte, 40))); err != nil {
			t.Fatal(err)
		}
	}
	wantSeries(t, ss, 2, 0, 1000)
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	wantSeries(t, s, 2, 0, 1000)
	if done := wantSound(t, s); done.Objects != 1000+trees {
		t.Errorf("checked %+v, want %d objects", done, 1000+trees)
	}
	for suffix, least := range map[string]int{".vlog": logs, ".sst": tables} {
		if list, err := filepath.Glob(filepath.Join(oneVolume(t, s), "*"+suffix)); err != nil || len(list) < least {
			t.Errorf("%d files *%s, %v; want at least %d", len(list), suffix, err, least)
		}
	}

	o = testOptions(t)
	o.MaxBytes = 1 << 20
	s = openStore(t, t.TempDir(), o)
	ss = s.Begin(SessionOptions{})
	for i := range 5 {
		if _, err := ss.Put(context.Background(), object.KindChunk, noise(uint64(i), make([]byte, 600<<10))); err != nil {
			t.Fatal(err)
		}
	}
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	if l, _ := s.lastListing(); len(l.volumes) != 3 {
		t.Errorf("%d volumes of 5 objects and at most 1 MiB, want 3", len(l.volumes))
	}
}

// TestSideBySide checks that sessions of two stores can write concurrently, and that each
// sees the published objects of the other.
func TestSideBySide(t *testing.T) {
	dir := t.TempDir()
	a, b := openStore(t, dir, testOptions(t)), openStore(t, dir, testOptions(t))

	sa, sb := a.Begin(SessionOptions{}), b.Begin(SessionOptions{})
	var wg sync.WaitGroup
	for i, ss := range []*Session{sa, sb} {
		wg.Go(func() {
			putSeries(t, ss, i, 0, 300)
			putSeries(t, ss, 3, 0, 300)
		})
	}

	wg.Wait()
	if err := sa.Publish(context.Background(), publishNothing); err != nil {
		t.Fatal(err)
	}

	wantSeries(t, b, 0, 0, 300)
	wantSeries(t, sb, 0, 0, 300)
	for _, ss := range []*Session{sa, sb} {
		if err := ss.Close(); err != nil {
			t.Fatal(err)
		}
	}

	for i := range 4 {
		if i != 2 {
			wantSeries(t, a, i, 0, 300)
		}
	}

	wantSound(t, a)
	wantNames(t, a)
}

// TestStale checks that Publish returns a StaleError with the objects that the store had at
// their Put and that were removed since.
func TestStale(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	storeSeries(t, s, 1, 0, 100)
	ss := s.Begin(SessionOptions{})
	defer ss.Close()
	putSeries(t, ss, 1, 0, 60)
	putSeries(t, ss, 2, 0, 10)
	if st := ss.Stats(); st.NewObjects != 10 {
		t.Fatalf("stats %+v, want 10 new objects", st)
	}
	// Another process removes the volume of series 1.
	other := openStore(t, dir, testOptions(t))
	l, err := other.lastListing()
	if err != nil {
		t.Fatal(err)
	}
	if err := (trashBin{other}).removeVolumes(ctx, l.volumes); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var stale *StaleError
		err := ss.Publish(ctx, func(context.Context) error { t.Error("Publish called write"); return nil })
		if !errors.As(err, &stale) || len(stale.Keys) != 60 {
			t.Fatalf("Publish: %v, want a StaleError with 60 keys", err)
		}
	}
	putSeries(t, ss, 1, 0, 60)
	if err := ss.Publish(ctx, publishNothing); err != nil {
		t.Fatal(err)
	}
	wantSeries(t, openStore(t, dir, testOptions(t)), 1, 0, 60)

	// A removed object with a copy in another volume is not stale.
	third := openStore(t, dir, testOptions(t))
	ss3 := third.Begin(SessionOptions{})
	defer ss3.Close()
	putSeries(t, ss3, 1, 0, 50)
	l, _ = other.listVolumes()
	copied := openStore(t, t.TempDir(), testOptions(t))
	storeSeries(t, copied, 1, 0, 60)
	if err := os.Rename(oneVolume(t, copied), filepath.Join(s.path, filepath.Base(oneVolume(t, copied)))); err != nil {
		t.Fatal(err)
	}
	if err := (trashBin{other}).removeVolumes(ctx, l.volumes); err != nil {
		t.Fatal(err)
	}
	if err := ss3.Publish(ctx, publishNothing); err != nil {
		t.Fatal(err)
	}
}

// TestMissingIsStale checks that Publish also requires the objects that a session found with
// Missing and did not put.
func TestMissingIsStale(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	data := []byte("what an older command has stored")
	first := s.Begin(SessionOptions{})
	id, err := first.Put(ctx, object.KindChunk, data)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	key := object.Key{Kind: object.KindChunk, ID: id}
	ss := s.Begin(SessionOptions{})
	defer ss.Close()
	if missing, err := ss.Missing(ctx, []object.Key{key}); err != nil || len(missing) > 0 {
		t.Fatalf("Missing: %v, %v; want none", missing, err)
	}

	other := openStore(t, dir, testOptions(t))
	l, err := other.lastListing()
	if err != nil {
		t.Fatal(err)
	}
	if err := (trashBin{other}).removeVolumes(ctx, l.volumes); err != nil {
		t.Fatal(err)
	}

	var stale *StaleError
	err = ss.Publish(ctx, func(context.Context) error { t.Error("Publish called write"); return nil })
	if !errors.As(err, &stale) || len(stale.Keys) != 1 || stale.Keys[0] != key {
		t.Fatalf("Publish: %v, want a StaleError with the key", err)
	}
	if missing, err := ss.Missing(ctx, []object.Key{key}); err != nil || len(missing) != 1 {
		t.Fatalf("Missing after the removal: %v, %v; want the key", missing, err)
	}
	if _, err := ss.Put(ctx, object.KindChunk, data); err != nil {
		t.Fatal(err)
	}
	if err := ss.Publish(ctx, publishNothing); err != nil {
		t.Fatal(err)
	}
}

// TestPublishWaits checks that Publish waits for a process that removes volumes, and that
// such a process waits for Publish.
func TestPublishWaits(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	ss := s.Begin(SessionOptions{})
	defer ss.Close()
	lock, err := disk.Lock(t.Context(), filepath.Join(s.dir, gcLockFile), disk.Exclusive, 0)
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- ss.Publish(ctx, func(context.Context) error { t.Error("Publish called write"); return nil })
	}()
	cancel()

	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("Publish while the lock is held: %v, want Canceled", err)
	}
	lock.Unlock()
	err = ss.Publish(context.Background(), func(context.Context) error {
		if _, err := disk.Lock(t.Context(), filepath.Join(s.dir, gcLockFile), disk.Exclusive, 0); !errors.Is(err, disk.ErrBusy) {
			t.Errorf("exclusive lock during Publish: %v, want ErrBusy", err)
		}
		if l, err := disk.Lock(t.Context(), filepath.Join(s.dir, gcLockFile), disk.Shared, 0); err != nil {
			t.Errorf("shared lock during Publish: %v", err)
		} else {
			l.Unlock()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSealRefuses checks that a volume is not sealed if its files differ from the objects
// that were put.
func TestSealRefuses(t *testing.T) {
	tests := map[string]func(t *testing.T, w *writer){
		"memtable left":       func(t *testing.T, w *writer) { write(t, filepath.Join(w.dir, "00099.mem"), "x") },
		"unknown file":        func(t *testing.T, w *writer) { write(t, filepath.Join(w.dir, "000009.vlog"), "x") },
		"object not in a log": func(t *testing.T, w *writer) { w.table.addRecord(addedObject{kind: object.KindChunk, stored: 40}) },
		"another length":      func(t *testing.T, w *writer) { w.table.recordAt(3).stored++ },
		"another key":         func(t *testing.T, w *writer) { w.table.recordAt(3).id[0]++ },
		"object twice in a log": func(t *testing.T, w *writer) {
			key := w.table.keyOf(w.table.recordAt(3))
			b := takeBuffer(100)
			b.b = append(b.b, make([]byte, w.table.recordAt(3).stored)...)
			if err := w.addValue(key, b, 1); err != nil {
				t.Error(err)
			}
		},
	}

	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, t.TempDir(), testOptions(t))
			ss := s.Begin(SessionOptions{})
			putSeries(t, ss, 1, 0, 200)
			if err := ss.cur.commitRest(); err != nil {
				t.Fatal(err)
			}

			spoil(t, ss.cur)
			err := ss.Publish(context.Background(), func(context.Context) error { t.Error("Publish called write"); return nil })
			if err == nil {
				t.Fatal("Publish sealed the volume")
			}
			t.Log(err)

			if err2 := ss.Close(); err2 == nil || err2.Error() != err.Error() {
				t.Errorf("Close: %v, want the error of Publish", err2)
			}
			wantNames(t, s)
			if l, _ := s.listVolumes(); len(l.volumes) != 0 {
				t.Errorf("%d volumes, want none", len(l.volumes))
			}
		})
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestBadgerFails checks that all calls return an error, and none hangs, if Badger cannot
// flush.
func TestBadgerFails(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	ss := s.Begin(SessionOptions{})
	putSeries(t, ss, 1, 0, 200)
	// Badger cannot create its table, because a directory has the name.
	if err := os.Mkdir(filepath.Join(ss.cur.dir, "000001.sst"), 0o777); err != nil {
		t.Fatal(err)
	}
	err := ss.Publish(context.Background(), publishNothing)
	if err == nil || !strings.Contains(err.Error(), "000001.sst") {
		t.Fatalf("Publish: %v, want an error with the name of the table", err)
	}
	if _, err := ss.Put(context.Background(), object.KindChunk, []byte("x")); err == nil {
		t.Error("Put after a failed Publish returned no error")
	}
	if err := ss.Close(); err == nil {
		t.Error("Close after a failed Publish returned no error")
	}
	wantNames(t, s)
}
