package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// far is a remote with the chunks of series 0 to 2, except those in gone. It counts fetches.
type far struct {
	mu      sync.Mutex
	fetched int
	gone    map[object.Key]bool
	unkept  map[object.Key]bool
	down    bool // it cannot be asked
	batches int
	room    int64
}

// Get implements [object.Reader].
func (f *far) Get(_ context.Context, key object.Key) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for series := range 3 {
		for i := 0; i < 20 && !f.gone[key]; i++ {
			if k, data := sample(series, i); k == key && key.Kind == object.KindChunk {
				f.fetched++
				return data, nil
			}
		}
	}
	return nil, &object.AbsentError{Key: key}
}

// GetAll implements [object.BatchReader].
func (f *far) GetAll(ctx context.Context, keys []object.Key, take func(object.Key, []byte) error) error {
	f.batches++
	for _, key := range keys {
		if data, err := f.Get(ctx, key); err == nil {
			if err := take(key, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// Room returns the room for fetched objects.
func (f *far) Room() int64 { return f.room }

// Missing implements [object.Reader].
func (f *far) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	gone, _, err := f.FindUnkept(ctx, keys)
	return gone, err
}

// FindUnkept returns the objects of f.gone and f.unkept, all if f is down.
func (f *far) FindUnkept(_ context.Context, keys []object.Key) (gone, unkept []object.Key, err error) {
	if f.down {
		return keys, nil, errors.New("the network is down")
	}
	for _, key := range keys {
		switch {
		case f.gone[key]:
			gone = append(gone, key)
		case f.unkept[key]:
			unkept = append(unkept, key)
		}
	}
	return gone, unkept, nil
}

// Close implements [io.Closer].
func (f *far) Close() error { return nil }

// has is the function take of Evict.
func (f *far) has(_ int, rec keys.Record) bool { return !f.gone[rec.Key] }

// evictAll evicts the chunks of all volumes.
func evictAll(s *Store, f *far) error {
	w, err := s.Sweep(context.Background(), SweepOptions{})
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.EmptyTrash(context.Background()); err != nil {
		return err
	}
	return w.Evict(context.Background(), all(w.Len()), nil, f.has)
}

func init() {
	children["evict"] = func(args []string) error { return evictDir(args[0]) }
}

// evictDir is evictAll for the store in dir.
func evictDir(dir string) error {
	s, err := Open(dir, Options{Now: time.Now})
	if err != nil {
		return err
	}
	defer s.Close()
	return evictAll(s, &far{})
}

func TestEvict(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	s, f := openStore(t, dir, testOptions(t)), &far{}
	s.Elsewhere = f
	for series := range 3 {
		storeSeries(t, s, series, 0, 20)
	}
	other := openStore(t, dir, testOptions(t)) // has listed the old volumes
	other.Elsewhere = &far{down: true}
	relying := other.Begin(SessionOptions{})
	defer relying.Close()
	putSeries(t, relying, 0, 0, 20)

	if err := evictAll(s, f); err != nil {
		t.Fatal(err)
	}
	infos, err := s.Volumes(ctx)
	if i := slices.IndexFunc(infos, func(i Info) bool { return i.Evicted }); err != nil || len(infos) != 2 || i < 0 || infos[i].Objects != 12 {
		t.Fatalf("volumes: %+v, %v; want 2, one of them evicted with 12 objects", infos, err)
	}
	if err := relying.Publish(ctx, publishNothing); err != nil {
		t.Errorf("publish of evicted objects: %v", err)
	}
	for series := range 3 {
		f.fetched = 0
		wantSeries(t, s, series, 0, 20)
		if f.fetched != 4 { // four chunks, read; and read again from memory
			t.Errorf("%d fetches, want 4", f.fetched)
		}
		wantSeries(t, other, series, 0, 20)
	}
	key, data := sample(0, 5)
	if value, raw, err := s.GetStored(ctx, key, nil); err != nil || raw != len(data) || len(value) < raw {
		t.Errorf("GetStored of an evicted object: %d stored bytes, raw %d, %v; want raw %d", len(value), raw, err, len(data))
	}
	storeSeries(t, s, 0, 0, 20)
	if infos, err := s.Volumes(ctx); err != nil || len(infos) != 2 {
		t.Errorf("volumes after a put of evicted objects: %+v, %v; want 2", infos, err)
	}
	wantSound(t, s)

	// The remote loses an object. The next Put stores it here.
	f.gone = map[object.Key]bool{key: true}
	fresh := openStore(t, dir, testOptions(t)) // has fetched nothing
	fresh.Elsewhere = f
	if _, err := fresh.Get(ctx, key); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("get of an object that the remote lost: %v, want ErrNotFound", err)
	}
	if err := evictAll(s, f); err != nil {
		t.Fatal(err)
	}
	if missing, err := s.Missing(ctx, []object.Key{key}); err != nil || len(missing) != 1 {
		t.Errorf("missing: %v, %v; want %s", missing, err, key)
	}
	storeSeries(t, s, 0, 0, 20)
	wantSeries(t, s, 0, 0, 20)
	wantSound(t, s)

	// Without a remote, Get reads a local copy.
	s.Elsewhere = nil
	if _, err := s.Get(ctx, key); err != nil {
		t.Error(err)
	}
	key, _ = sample(1, 5)
	if _, err := s.Get(ctx, key); !errors.Is(err, object.ErrEvicted) {
		t.Errorf("get without a remote: %v, want ErrEvicted", err)
	}
	wantSound(t, s) // a failed fetch is no damage
}

func TestEvictKilledAtCalls(t *testing.T) {
	sweepKilled(t, "evict", evictDir, func(s *Store, _ bool) {
		s.Elsewhere = &far{}
		for series := range 3 {
			wantSeries(t, s, series, 0, 20)
		}
	}, func(s *Store) {
		for series := range 3 {
			storeSeries(t, s, series, 0, 20)
		}
	})
}

// A Put relies on an evicted copy only if a remote has the object at present.
func TestPutOfEvicted(t *testing.T) {
	key, _ := sample(0, 5)
	for name, test := range map[string]struct {
		gone, unkept, down, unasked bool
		stored                      bool // the Put stores the object here
	}{
		"there":   {},
		"gone":    {gone: true, stored: true},
		"unkept":  {unkept: true, stored: true},
		"down":    {down: true, stored: true},
		"unasked": {unasked: true, stored: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, dir := t.Context(), t.TempDir()
			s, f := openStore(t, dir, testOptions(t)), &far{}
			storeSeries(t, s, 0, 0, 20)
			if err := evictAll(s, f); err != nil {
				t.Fatal(err)
			}
			f.gone, f.unkept, f.down = map[object.Key]bool{key: test.gone}, map[object.Key]bool{key: test.unkept}, test.down
			if s.Elsewhere = f; test.unasked {
				s.Elsewhere = nil
			}

			report, err := CheckAway(ctx, s, []object.Key{key})
			if err != nil || len(report.Gone) == 1 != test.gone || len(report.Unkept) == 1 != test.unkept ||
				len(report.Unknown) == 1 != (test.down || test.unasked) || (report.Why != nil) != test.down {
				t.Errorf("CheckAway: %+v, %v", report, err)
			}
			storeSeries(t, s, 0, 0, 20)
			if report, err := CheckAway(ctx, s, []object.Key{key}); err != nil || len(report.Gone)+len(report.Unkept) > 0 {
				t.Errorf("after the put: %+v, %v", report, err)
			}
			s.Elsewhere = nil
			if _, err := s.Get(ctx, key); (err == nil) != test.stored {
				t.Errorf("get without a remote: %v, want stored %v", err, test.stored)
			}
			wantSound(t, s)
		})
	}
}

// A session does not publish if the remote has lost an evicted object on which it relies, or does not keep it. Its
// Missing does not find such an object either.
func TestPublishOfEvicted(t *testing.T) {
	key, _ := sample(0, 5)
	for name, rely := range map[string]func(*Session) error{
		"put": func(ss *Session) error { putSeries(t, ss, 0, 0, 20); return nil },
		"missing": func(ss *Session) error {
			missing, err := ss.Missing(t.Context(), []object.Key{key})
			if len(missing) > 0 {
				t.Errorf("missing %v, want none", missing)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			s, f := openStore(t, t.TempDir(), testOptions(t)), &far{}
			storeSeries(t, s, 0, 0, 20)
			if err := evictAll(s, f); err != nil {
				t.Fatal(err)
			}
			s.Elsewhere = f
			ss := s.Begin(SessionOptions{})
			defer ss.Close()
			if err := rely(ss); err != nil {
				t.Fatal(err)
			}

			f.down = true // an answer of before counts
			if err := ss.Publish(ctx, publishNothing); err != nil {
				t.Errorf("publish without an answer: %v", err)
			}
			f.down = false
			for _, lacking := range []*map[object.Key]bool{&f.unkept, &f.gone} {
				*lacking = map[object.Key]bool{key: true}
				var stale *StaleError
				if err := ss.Publish(ctx, publishNothing); !errors.As(err, &stale) || !slices.Equal(stale.Keys, []object.Key{key}) {
					t.Errorf("publish: %v, want a StaleError with %s", err, key)
				}
			}

			again := s.Begin(SessionOptions{})
			defer again.Close()
			if missing, err := again.Missing(ctx, []object.Key{key}); err != nil || len(missing) != 1 {
				t.Errorf("missing: %v, %v; want %s", missing, err, key)
			}
			putSeries(t, again, 0, 0, 20)
			if err := again.Publish(ctx, publishNothing); err != nil {
				t.Error(err)
			}
			s.Elsewhere = nil
			if _, err := s.Get(ctx, key); err != nil {
				t.Error(err)
			}
			wantSound(t, s)
		})
	}
}

// An object that was gone counts again when a remote has it.
func TestGoneComesBack(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	s, f := openStore(t, dir, testOptions(t)), &far{}
	storeSeries(t, s, 0, 0, 20)
	if err := evictAll(s, f); err != nil {
		t.Fatal(err)
	}
	key, _ := sample(0, 5)
	s.Elsewhere = f
	for _, lost := range []bool{true, true, false, true} {
		f.gone = map[object.Key]bool{key: lost}
		report, err := CheckAway(ctx, s, []object.Key{key, key})
		if err != nil || len(report.Gone) == 1 != lost {
			t.Errorf("CheckAway: %+v, %v; want lost %v", report, err, lost)
		}
		absent, err := Absent(s, []object.Key{key})
		if err != nil || len(absent) == 1 != lost {
			t.Errorf("absent: %v, %v; want lost %v", absent, err, lost)
		}
	}
}

// A dead writer's volume is kept if the store has its objects only as evicted ones.
func TestSalvageOfEvicted(t *testing.T) {
	ctx, f := t.Context(), &far{}
	s := openStore(t, t.TempDir(), testOptions(t))
	ss := s.Begin(SessionOptions{})
	putSeries(t, ss, 0, 0, 20)
	log, end := growingLog(t, ss.cur)
	data := make([]byte, end)
	if _, err := log.ReadAt(data, 0); err != nil {
		t.Fatal(err)
	}
	ss.Close()
	if err := evictAll(s, f); err != nil {
		t.Fatal(err)
	}

	dir := s.inVolumes(ingest.DirPrefix + "01ARZ3NDEKTSV4RRFFQ69G5FAV")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, ingest.LogName(1)), string(data))
	left, err := deadWriters{s}.leftovers(ctx)
	if err != nil || len(left) != 1 || left[0].Objects != 20 {
		t.Errorf("leftovers: %+v, %v; want one with 20 objects", left, err)
	}
	if n := (deadWriters{s}).salvageAll(ctx); n != 1 {
		t.Errorf("%d volumes salvaged, want 1", n)
	}

	wantSeries(t, s, 0, 0, 20) // nothing can be fetched
	wantSound(t, s)
}

// The list of damaged copies is written if it has other copies than before, but as many.
func TestDamagedListReplaced(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	s, f := openStore(t, dir, testOptions(t)), &far{}
	storeSeries(t, s, 0, 0, 20)
	if err := evictAll(s, f); err != nil {
		t.Fatal(err)
	}

	s.Elsewhere = f
	one, _ := sample(0, 5)
	for _, key := range []object.Key{one, {}} {
		if key.IsZero() {
			for i := range 20 {
				if k, _ := sample(0, i); k.Kind == object.KindChunk && k != one {
					key = k
				}
			}
		}
		f.gone = map[object.Key]bool{key: true}

		if _, err := CheckAway(ctx, s, []object.Key{one, key}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		s = openStore(t, dir, testOptions(t))
		s.Elsewhere = f
		if absent, err := Absent(s, []object.Key{key}); err != nil || len(absent) != 1 {
			t.Errorf("the next process knows %v as absent, %v; want %s", absent, err, key)
		}
	}
}

// TestUnload checks that Unload can evict chunks of a session that goes on to store more.
func TestUnload(t *testing.T) {
	ctx := t.Context()
	s, f := openStore(t, t.TempDir(), testOptions(t)), &far{}
	s.Elsewhere = f
	calls := 0
	ss := s.Begin(SessionOptions{UnloadBytes: 20_000, Unload: func(ctx context.Context, volumes []string) error {
		calls++
		w, err := s.Sweep(ctx, SweepOptions{})
		if err != nil {
			return err
		}
		defer w.Close()
		i := slices.IndexFunc(all(w.Len()), func(i int) bool { return w.Volume(i).Name == volumes[0] })
		if i < 0 || len(volumes) != 1 || w.Volume(i).InUse {
			t.Errorf("Unload of %v: number %d, want one listed volume that is not in use", volumes, i)
		}
		return w.Evict(ctx, []int{i}, nil, f.has)
	}})
	var group sync.WaitGroup
	for series := range 3 {
		group.Go(func() { putSeries(t, ss, series, 0, 20) })
	}
	group.Wait()
	putSeries(t, ss, 1, 0, 20)
	if err := ss.Publish(ctx, publishNothing); err != nil {
		t.Fatal(err)
	}
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	if calls < 3 {
		t.Errorf("%d calls of Unload, want at least 3", calls)
	}
	for series := range 3 {
		wantSeries(t, s, series, 0, 20)
	}
	if f.fetched == 0 {
		t.Error("no chunk was evicted")
	}
	wantSound(t, s)

	// An error of Unload fails the session. An object that Unload removed is stale.
	failed := errors.New("no remote")
	bad := s.Begin(SessionOptions{UnloadBytes: 1, Unload: func(context.Context, []string) error { return failed }})
	defer bad.Close()
	if _, err := bad.Put(ctx, object.KindChunk, []byte("more")); !errors.Is(err, failed) {
		t.Errorf("put: %v, want the error of Unload", err)
	}
	forgetting := s.Begin(SessionOptions{UnloadBytes: 1, Unload: func(ctx context.Context, volumes []string) error {
		w, err := s.Sweep(ctx, SweepOptions{})
		if err != nil {
			return err
		}
		defer w.Close()
		i := slices.IndexFunc(all(w.Len()), func(i int) bool { return w.Volume(i).Name == volumes[0] })
		return w.Remove(ctx, func(context.Context) (Removal, error) { return Removal{Volumes: []int{i}}, nil })
	}})
	defer forgetting.Close()
	if _, err := forgetting.Put(ctx, object.KindChunk, []byte("and more")); err != nil {
		t.Fatal(err)
	}
	var stale *StaleError
	if err := forgetting.Publish(ctx, publishNothing); !errors.As(err, &stale) || len(stale.Keys) != 1 {
		t.Errorf("publish of a removed object: %v, want a StaleError with one key", err)
	}
}
