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

// publishing publishes now and then, so that the suite reads sealed
// volumes.
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
		t.Fatalf("before Publish, the store has it: %t, %v", ok, err)
	}
	called := false
	err := ss.Publish(ctx, func(context.Context) error {
		called = true
		wantSeries(t, openStore(t, dir, testOptions(t)), 1, 0, 500)
		return nil
	})
	if err != nil || !called {
		t.Fatalf("Publish: %v, called %t", err, called)
	}
	putSeries(t, ss, 1, 400, 600) // 100 of them are there
	wantSeries(t, ss, 1, 0, 600)
	var raw int64
	for i := range 600 {
		_, data := sample(1, i)
		raw += int64(len(data))
	}
	st := ss.Stats()
	if st.Objects != 700 || st.NewObjects != 600 || st.NewBytes != raw || st.Bytes <= raw || st.StoredBytes == 0 || st.StoredBytes >= raw {
		t.Errorf("stats %+v", st)
	}
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	if err := ss.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := ss.Put(ctx, object.KindChunk, []byte("late")); !errors.Is(err, errSessionClosed) {
		t.Errorf("Put after Close: %v", err)
	}
	wantSeries(t, s, 1, 0, 600)
	if done := wantSound(t, s); done.Objects != 600 || done.Volumes != 2 {
		t.Errorf("checked %+v", done)
	}
	wantNames(t, s)
	infos, err := s.Volumes(ctx)
	if err != nil || len(infos) != 2 || infos[0].Objects != 100 || infos[1].Objects != 500 || infos[0].Session != infos[1].Session {
		t.Errorf("volumes %+v, %v", infos, err)
	}
	if raw, stored, err := s.StoredSize(ctx, key); err != nil || raw == 0 || stored == 0 {
		t.Errorf("StoredSize: %d, %d, %v", raw, stored, err)
	}
	n := 0
	for _, err := range s.Keys(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 600 {
		t.Errorf("Keys yields %d", n)
	}
	for _, digits := range []int{0, 1, 4, 7, 64} {
		ids, err := s.Prefix(ctx, key.Kind, key.ID.String()[:digits], 3)
		if err != nil || len(ids) == 0 || len(ids) > 3 || digits > 3 && ids[0] != key.ID {
			t.Errorf("Prefix of %d digits: %s, %v", digits, ids, err)
		}
	}
	if _, err := s.Prefix(ctx, key.Kind, "xy", 0); err == nil {
		t.Error("Prefix of no digits is no error")
	}
}

// TestNothingPut checks that a session that stores nothing leaves nothing.
func TestNothingPut(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	ss := s.Begin(SessionOptions{})
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
	ss = s.Begin(SessionOptions{})
	if err := ss.Publish(context.Background(), publishNothing); err != nil {
		t.Fatal(err)
	}
	ss.Close()
	if _, err := os.Stat(filepath.Join(dir, volumesDir)); !os.IsNotExist(err) {
		t.Errorf("volumes: %v", err)
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
		t.Errorf("stats %+v", st)
	}
	if err := ss.Publish(context.Background(), publishNothing); err == nil {
		t.Error("a dry run was published")
	}
	if err := ss.Close(); err != nil {
		t.Error(err)
	}
	oneVolume(t, s)
	wantNames(t, s)
}

// TestFullVolumes checks that volumes are sealed at their limits, and that
// Badger's going on to the next value log and memtable is followed.
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
	if l, _ := s.current(); len(l.volumes) != 3 {
		t.Errorf("%d volumes sealed, want 3", len(l.volumes))
	}
	wantSeries(t, ss, 1, 0, 5000)
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	wantSeries(t, s, 1, 0, 5000)
	wantSound(t, s)

	o = testOptions(t)
	o.logFileSize, o.memTableSize = 1<<20, 1<<20
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
	if n := ss.cur.space.number; int(n) < logs {
		t.Errorf("%d value logs, want more", n)
	}
	if n := ss.cur.space.memNum; int(n) < tables {
		t.Errorf("%d memtables, want more", n)
	}
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	wantSeries(t, s, 2, 0, 1000)
	if done := wantSound(t, s); done.Objects != 1000+trees {
		t.Errorf("checked %+v", done)
	}
	oneVolume(t, s)

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
	if l, _ := s.current(); len(l.volumes) != 3 {
		t.Errorf("%d volumes, want 3", len(l.volumes))
	}
}

// TestSideBySide checks that two sessions, of two stores, write at once, and
// that each sees what the other has published.
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

// TestStale checks that objects that were there when they were put, and are
// gone when they are to be published, are asked for again.
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
		t.Fatalf("stats %+v", st)
	}
	// Another process, which does not know of this session, removes a volume.
	other := openStore(t, dir, testOptions(t))
	l, err := other.current()
	if err != nil {
		t.Fatal(err)
	}
	if err := (trashBin{other}).remove(ctx, l.volumes); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var stale *StaleError
		err := ss.Publish(ctx, func(context.Context) error { t.Error("called"); return nil })
		if !errors.As(err, &stale) || len(stale.Keys) != 60 {
			t.Fatalf("Publish: %v", err)
		}
	}
	putSeries(t, ss, 1, 0, 60)
	if err := ss.Publish(ctx, publishNothing); err != nil {
		t.Fatal(err)
	}
	wantSeries(t, openStore(t, dir, testOptions(t)), 1, 0, 60)

	// What was removed but is elsewhere need not be stored again.
	third := openStore(t, dir, testOptions(t))
	ss3 := third.Begin(SessionOptions{})
	defer ss3.Close()
	putSeries(t, ss3, 1, 0, 50)
	l, _ = other.refresh()
	copied := openStore(t, t.TempDir(), testOptions(t))
	storeSeries(t, copied, 1, 0, 60)
	if err := os.Rename(oneVolume(t, copied), filepath.Join(s.path, filepath.Base(oneVolume(t, copied)))); err != nil {
		t.Fatal(err)
	}
	if err := (trashBin{other}).remove(ctx, l.volumes); err != nil {
		t.Fatal(err)
	}
	if err := ss3.Publish(ctx, publishNothing); err != nil {
		t.Fatal(err)
	}
}

// TestMissingIsStale checks that objects of which a session was told that they
// are there, without putting them, have to be there when it publishes too.
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
		t.Fatalf("missing: %v, %v", missing, err)
	}
	other := openStore(t, dir, testOptions(t))
	l, err := other.current()
	if err != nil {
		t.Fatal(err)
	}
	if err := (trashBin{other}).remove(ctx, l.volumes); err != nil {
		t.Fatal(err)
	}
	var stale *StaleError
	err = ss.Publish(ctx, func(context.Context) error { t.Error("called"); return nil })
	if !errors.As(err, &stale) || len(stale.Keys) != 1 || stale.Keys[0] != key {
		t.Fatalf("Publish: %v", err)
	}
	if missing, err := ss.Missing(ctx, []object.Key{key}); err != nil || len(missing) != 1 {
		t.Fatalf("missing afterwards: %v, %v", missing, err)
	}
	if _, err := ss.Put(ctx, object.KindChunk, data); err != nil {
		t.Fatal(err)
	}
	if err := ss.Publish(ctx, publishNothing); err != nil {
		t.Fatal(err)
	}
}

// TestPublishWaits checks that Publish waits for who removes volumes, and that
// those wait for Publish.
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
		done <- ss.Publish(ctx, func(context.Context) error { t.Error("called"); return nil })
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("Publish: %v", err)
	}
	lock.Unlock()
	err = ss.Publish(context.Background(), func(context.Context) error {
		if _, err := disk.Lock(t.Context(), filepath.Join(s.dir, gcLockFile), disk.Exclusive, 0); !errors.Is(err, disk.ErrBusy) {
			t.Errorf("exclusive lock during Publish: %v", err)
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

// TestSealRefuses checks that a volume is not sealed if Badger did not leave
// exactly what was put.
func TestSealRefuses(t *testing.T) {
	tests := map[string]func(t *testing.T, w *writer){
		"memtable left": func(t *testing.T, w *writer) {
			w.space.memName(99)
			write(t, w.space.memName(99), "x")
		},
		"unknown file": func(t *testing.T, w *writer) { write(t, filepath.Join(w.dir, "000009.vlog"), "x") },
		"one more": func(t *testing.T, w *writer) {
			w.table.add(written{kind: object.KindChunk, stored: 40})
		},
		"another length": func(t *testing.T, w *writer) { w.table.at(3).stored++ },
		"another key":    func(t *testing.T, w *writer) { w.table.at(3).id[0]++ },
		"twice": func(t *testing.T, w *writer) {
			key := w.table.key(w.table.at(3))
			b := takeBuffer(100)
			b.b = append(b.b, make([]byte, w.table.at(3).stored)...)
			if err := w.add(key, b, 1); err != nil {
				t.Error(err)
			}
		},
		"Badger reports an error": func(t *testing.T, w *writer) { w.db.log.Errorf("error in %s", "test") },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, t.TempDir(), testOptions(t))
			ss := s.Begin(SessionOptions{})
			putSeries(t, ss, 1, 0, 200)
			if err := ss.cur.flush(); err != nil {
				t.Fatal(err)
			}
			spoil(t, ss.cur)
			err := ss.Publish(context.Background(), func(context.Context) error { t.Error("called"); return nil })
			if err == nil {
				t.Fatal("was sealed")
			}
			t.Log(err)
			if err2 := ss.Close(); err2 == nil || err2.Error() != err.Error() {
				t.Errorf("Close: %v", err2)
			}
			wantNames(t, s)
			if l, _ := s.refresh(); len(l.volumes) != 0 {
				t.Error("there is a volume")
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

// TestBadgerFails checks that no call waits for a Badger that cannot flush,
// and that the error is told.
func TestBadgerFails(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	ss := s.Begin(SessionOptions{})
	putSeries(t, ss, 1, 0, 200)
	// Badger cannot make its table: the name is taken.
	if err := os.Mkdir(filepath.Join(ss.cur.dir, "000001.sst"), 0o777); err != nil {
		t.Fatal(err)
	}
	err := ss.Publish(context.Background(), publishNothing)
	if err == nil || !strings.Contains(err.Error(), "000001.sst") {
		t.Fatalf("Publish: %v", err)
	}
	if _, err := ss.Put(context.Background(), object.KindChunk, []byte("x")); err == nil {
		t.Error("Put after an error is none")
	}
	if err := ss.Close(); err == nil {
		t.Error("Close does not tell of the error")
	}
	wantNames(t, s)
}
