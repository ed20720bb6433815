package volume

import (
	"context"
	"errors"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// chunksOfSeries returns the keys of the chunks in a series, each twice.
func chunksOfSeries(series int) (chunks []object.Key) {
	for i := range 20 {
		if key, _ := sample(series, i); key.Kind == object.KindChunk {
			chunks = append(chunks, key, key)
		}
	}
	return chunks
}

// Evicted objects are fetched in one batch. The next process has them here, if there was room.
func TestPrefetch(t *testing.T) {
	for name, test := range map[string]struct {
		room     int64
		readOnly bool
		passing  bool
		kept     bool
	}{
		"room":      {room: 1 << 20, kept: true},
		"no room":   {},
		"read-only": {room: 1 << 20, readOnly: true},
		"passing":   {room: 1 << 20, passing: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, dir := t.Context(), t.TempDir()
			s := openStore(t, dir, testOptions(t))
			storeSeries(t, s, 0, 0, 20)
			if s.HasFar() {
				t.Error("an object is far before anything was evicted")
			}
			if err := evictAll(s, &far{}); err != nil {
				t.Fatal(err)
			}

			o := testOptions(t)
			o.ReadOnly = test.readOnly
			s, f := openStore(t, dir, o), &far{room: test.room}
			s.Elsewhere = f
			if !s.HasFar() {
				t.Error("no object is far after an eviction")
			}
			chunks := chunksOfSeries(0)
			missing, _ := sample(2, 5)
			if test.passing {
				ctx = object.Passing(ctx)
			}
			s.Prefetch(ctx, append(chunks, missing))
			s.Prefetch(ctx, chunks)
			wantSeries(t, s, 0, 0, 20)
			if f.batches != 1 || f.fetched != len(chunks)/2 {
				t.Errorf("%d batches, %d fetches; want 1 and %d", f.batches, f.fetched, len(chunks)/2)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}

			s = openStore(t, dir, testOptions(t))
			for _, key := range chunks {
				if _, err := s.Get(ctx, key); (err == nil) != test.kept || err != nil && !errors.Is(err, object.ErrEvicted) {
					t.Errorf("the next process: %v, want kept %v", err, test.kept)
				}
			}
			wantSound(t, s)
		})
	}
}

// Only a bounded number of bytes stays in memory, the last ones.
func TestRecent(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	s.Elsewhere = &far{}
	for i := range 100 {
		s.fetched.add(t.Context(), s, object.Key{Kind: object.KindChunk, ID: object.ID{byte(i)}}, make([]byte, 1<<20))
		if s.fetched.size > maxRecent || len(s.fetched.recent) != len(s.fetched.order) {
			t.Fatalf("%d bytes of %d objects, %d in order", s.fetched.size, len(s.fetched.recent), len(s.fetched.order))
		}
	}
	for _, i := range []byte{0, 99} {
		if found := s.fetched.find(object.Key{Kind: object.KindChunk, ID: object.ID{i}}) != nil; found != (i == 99) {
			t.Errorf("object %d found: %v", i, found)
		}
	}
}

// liar is a remote that returns other bytes.
type liar struct{ far }

func (l *liar) Get(ctx context.Context, key object.Key) ([]byte, error) {
	data, err := l.far.Get(ctx, key)
	if err == nil {
		data = append([]byte{1}, data[1:]...)
	}
	return data, err
}

func (l *liar) GetAll(ctx context.Context, keys []object.Key, take func(object.Key, []byte) error) error {
	for _, key := range keys {
		if data, err := l.Get(ctx, key); err == nil {
			if err := take(key, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// Wrong bytes of a remote neither come out nor are kept.
func TestPrefetchOfLies(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	s := openStore(t, dir, testOptions(t))
	storeSeries(t, s, 0, 0, 20)
	if err := evictAll(s, &far{}); err != nil {
		t.Fatal(err)
	}
	s.Elsewhere = &liar{far{room: 1 << 20}}
	chunks := chunksOfSeries(0)
	s.Prefetch(ctx, chunks)
	for _, key := range chunks {
		if _, err := s.Get(ctx, key); err == nil {
			t.Errorf("%s: no error", key)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir, testOptions(t))
	s.Elsewhere = &far{}
	wantSeries(t, s, 0, 0, 20)
	wantSound(t, s)
}

// lentFar is a remote, and files that have lent objects.
type lentFar struct {
	far
	lent map[object.Key][]byte // nil bytes: the file has changed
	read int
}

func (l *lentFar) GetLent(key object.Key) []byte {
	l.read++
	return l.lent[key]
}

func (l *lentFar) HasLent(key object.Key) bool { return l.lent[key] != nil }

func (l *lentFar) IsRecorded(key object.Key) bool {
	_, ok := l.lent[key]
	return ok
}

// Lent objects are not fetched, and not stored. Objects whose file has changed are fetched.
func TestLent(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	s := openStore(t, dir, testOptions(t))
	storeSeries(t, s, 0, 0, 20)
	lent := map[object.Key][]byte{}
	chunks, changed := chunksOfSeries(0), 0
	for i, key := range chunks {
		data, err := s.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if lent[key] = data; i/2%3 == 0 {
			lent[key] = nil
			changed += i % 2
		}
	}
	if err := evictAll(s, &far{}); err != nil {
		t.Fatal(err)
	}

	f := &lentFar{far: far{room: 1 << 20}, lent: lent}
	s = openStore(t, dir, testOptions(t))
	s.Elsewhere = f
	s.Prefetch(ctx, chunks)
	if f.fetched != changed {
		t.Errorf("%d objects were fetched, want %d", f.fetched, changed)
	}
	for _, key := range chunks {
		if _, _, err := s.GetStored(ctx, key, nil); err != nil {
			t.Error(err)
		}
	}
	wantSeries(t, s, 0, 0, 20)
	report, err := CheckLent(ctx, s)
	if err != nil || report.Objects != len(chunks)/2-changed || report.Changed != changed {
		t.Errorf("%+v, %v; want %d lent and %d changed", report, err, len(chunks)/2-changed, changed)
	}
	if f.fetched != changed || f.read == 0 {
		t.Errorf("%d objects were fetched and %d read, want %d fetched", f.fetched, f.read, changed)
	}
	for _, key := range chunks {
		if away, err := IsAway(s, key); err != nil || !away {
			t.Errorf("%s is here: %v", key, err)
		}
	}
	wantSound(t, s)
}
