package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// copyStored copies objects [start, end) of a series by their stored values.
func copyStored(t testing.TB, from *Store, to *Session, series, start, end int) {
	t.Helper()
	ctx := context.Background()
	var buf []byte
	for i := start; i < end; i++ {
		key, _ := chunk(series, i)
		value, raw, err := from.GetStored(ctx, key, buf)
		if err == nil {
			err = to.PutStored(ctx, key, value, raw, nil)
		}
		if err != nil {
			t.Fatalf("copy object %d/%d: %v", series, i, err)
		}
		buf = value
		clear(buf) // PutStored must not keep it
	}
}

// chunk returns sample i as a chunk. The nodes of sample are invalid.
func chunk(series, i int) (object.Key, []byte) {
	key, data := sample(series, i)
	key.Kind = object.KindChunk
	return key, data
}

func putChunks(t testing.TB, ss *Session, series, start, end int) {
	t.Helper()
	for i := start; i < end; i++ {
		_, data := chunk(series, i)
		if _, err := ss.Put(context.Background(), object.KindChunk, data); err != nil {
			t.Fatal(err)
		}
	}
}

func storeChunks(t testing.TB, s *Store, series, start, end int) {
	t.Helper()
	ss := s.Begin(SessionOptions{})
	putChunks(t, ss, series, start, end)
	if err := errors.Join(ss.Publish(context.Background(), publishNothing), ss.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestStored(t *testing.T) {
	ctx := context.Background()
	from, to := openStore(t, t.TempDir(), testOptions(t)), openStore(t, t.TempDir(), testOptions(t))
	storeChunks(t, from, 1, 0, 300)

	ss := to.Begin(SessionOptions{})
	var wg sync.WaitGroup
	for range 3 { // the same objects
		wg.Go(func() { copyStored(t, from, ss, 1, 0, 300) })
	}
	wg.Wait()

	if st := ss.Stats(); st.Objects != 900 || st.NewObjects != 300 || st.StoredBytes == 0 || st.StoredBytes >= st.NewBytes {
		t.Errorf("stats %+v; want 900 objects, 300 of them new and compressed", st)
	}

	check := func(r object.Reader) {
		t.Helper()
		for i := range 300 {
			key, data := chunk(1, i)
			if got, err := r.Get(ctx, key); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("get object %d: %d bytes, %v; want %d", i, len(got), err, len(data))
			}
		}
	}

	check(ss)
	if err := errors.Join(ss.Publish(ctx, publishNothing), ss.Close()); err != nil {
		t.Fatal(err)
	}

	check(to)
	wantSound(t, to)

	for i := range 300 {
		key, data := chunk(1, i)
		raw1, stored1, err1 := from.StoredSize(ctx, key)
		raw2, stored2, err2 := to.StoredSize(ctx, key)
		if err1 != nil || err2 != nil || raw1 != raw2 || stored1 != stored2 {
			t.Fatalf("object %d: %d and %d stored bytes, errors %v, %v; want equal sizes", i, stored1, stored2, err1, err2)
		}
		v1, n1, err1 := from.GetStored(ctx, key, nil)
		v2, n2, err2 := to.GetStored(ctx, key, nil)
		if err1 != nil || err2 != nil || !bytes.Equal(v1, v2) || n1 != len(data) || n2 != len(data) || int64(len(v1)) != stored1 {
			t.Fatalf("object %d: the stored values differ, errors %v, %v", i, err1, err2)
		}
	}
}

func TestGetStored(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, t.TempDir(), testOptions(t))
	key, _ := chunk(1, 7)
	var absent *object.AbsentError
	if _, _, err := s.GetStored(ctx, key, nil); !errors.As(err, &absent) || absent.Key != key {
		t.Errorf("GetStored of a missing object: %v, want a NotFoundError with its key", err)
	}
	storeChunks(t, s, 1, 0, 10)
	want, _, err := s.GetStored(ctx, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	storage := make([]byte, 0, len(want))
	if got, _, err := s.GetStored(ctx, key, storage); err != nil || &got[0] != &storage[:1][0] || !bytes.Equal(got, want) {
		t.Errorf("GetStored with storage: %d bytes, %v; want the value in the storage", len(got), err)
	}
	small := make([]byte, 3, len(want)-1)
	if got, _, err := s.GetStored(ctx, key, small); err != nil || !bytes.Equal(got, want) || !bytes.Equal(small, []byte{0, 0, 0}) {
		t.Errorf("GetStored with small storage: %d bytes, %v; want a new slice", len(got), err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := s.GetStored(over, key, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("GetStored with a cancelled context: %v", err)
	}
}

// TestGetStoredDamaged checks that GetStored returns no damaged copy, records the damage,
// and reads a copy in another volume.
func TestGetStoredDamaged(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, t.TempDir(), testOptions(t))
	storeChunks(t, s, 1, 0, 10)
	dir := oneVolume(t, s)
	key, data := chunk(1, 5) // stored uncompressed
	path := filepath.Join(dir, ingest.LogName(1))
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	at := bytes.Index(log, data)
	if at < 0 {
		t.Fatal("the object is not in the value log")
	}

	log[at+3] ^= 1
	if err := errors.Join(os.Chmod(path, 0o666), os.WriteFile(path, log, 0o666)); err != nil {
		t.Fatal(err)
	}

	var damage *object.CorruptError
	value, _, err := s.GetStored(ctx, key, nil)
	if !errors.As(err, &damage) || damage.Key != key || damage.Where == "" || value != nil {
		t.Fatalf("GetStored of a damaged object: %v, want a CorruptError with its key", err)
	}

	// The damage is recorded, so the next put stores the object.
	from := openStore(t, t.TempDir(), testOptions(t))
	storeChunks(t, from, 1, 0, 10)
	ss := s.Begin(SessionOptions{})
	copyStored(t, from, ss, 1, 0, 10)

	if st := ss.Stats(); st.NewObjects != 1 {
		t.Errorf("stats %+v, want one new object", st)
	}
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}

	for range 3 {
		if value, raw, err := s.GetStored(ctx, key, value); err != nil || raw != len(data) || !bytes.Equal(value[1:], data) {
			t.Errorf("GetStored with a copy in another volume: %v", err)
		}
	}
}

// TestPutStoredRefuses checks that PutStored refuses a value that does not match its key,
// and that the session can go on.
func TestPutStoredRefuses(t *testing.T) {
	ctx := context.Background()
	encoder := frame.NewEncoder(frame.Better)
	tree, err := (&object.Tree{}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	data := text(1, make([]byte, 5000))
	zstd, raw := encoder.Append(nil, data), append([]byte{0}, data...)
	key := object.Key{Kind: object.KindChunk, ID: object.Sum(data)}
	other := object.Key{Kind: object.KindChunk, ID: object.ID{1}}
	as := func(kind object.Kind, data []byte) object.Key { return object.Key{Kind: kind, ID: object.Sum(data)} }
	flipped := bytes.Clone(zstd)
	flipped[len(flipped)/2] ^= 4
	long := slices.Concat(encoder.Append(nil, tree), bytes.Repeat([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, 100)) // skippable frames

	s := openStore(t, t.TempDir(), testOptions(t))
	ss := s.Begin(SessionOptions{})
	for what, put := range map[string]struct {
		key   object.Key
		value []byte
		raw   int
	}{
		"wrong key":                 {other, zstd, len(data)},
		"wrong key, raw":            {other, raw, len(data)},
		"raw length less":           {key, zstd, len(data) - 1},
		"raw length greater":        {key, zstd, len(data) + 1},
		"raw length less, raw":      {key, raw, len(data) - 1},
		"raw length greater, raw":   {key, raw, len(data) + 1},
		"flipped":                   {key, flipped, len(data)},
		"cut":                       {key, zstd[:len(zstd)-1], len(data)},
		"cut, raw":                  {key, raw[:len(raw)-1], len(data)},
		"longer":                    {key, append(bytes.Clone(zstd), 0), len(data)},
		"empty":                     {key, nil, len(data)},
		"unknown codec":             {key, append([]byte{2}, data...), len(data)},
		"skippable frames":          {as(object.KindTree, tree), long, len(tree)},
		"text as a tree":            {as(object.KindTree, data), zstd, len(data)},
		"a tree as a commit":        {as(object.KindCommit, tree), append([]byte{0}, tree...), len(tree)},
		"a tree as a manifest":      {as(object.KindManifest, tree), append([]byte{0}, tree...), len(tree)},
		"zeros under a tree's hash": {as(object.KindTag, tree), append([]byte{0}, make([]byte, 9)...), 9},
	} {
		var damage *object.CorruptError
		if err := ss.PutStored(ctx, put.key, put.value, put.raw, nil); !errors.As(err, &damage) || damage.Key != put.key {
			t.Errorf("%s: %v, want a CorruptError with the key", what, err)
		}
		if missing, err := ss.Missing(ctx, []object.Key{put.key}); len(missing) != 1 || err != nil {
			t.Errorf("%s: Missing returns %v, %v; want the key", what, missing, err)
		}
	}
	for what, put := range map[string]struct {
		key object.Key
		raw int
	}{
		"invalid kind":    {as(9, data), len(data)},
		"empty object":    {key, 0},
		"negative":        {key, -1},
		"chunk too large": {key, object.MaxChunkSize + 1},
		"node too large":  {as(object.KindTree, data), object.MaxNodeSize + 1},
	} {
		if err := ss.PutStored(ctx, put.key, zstd, put.raw, nil); err == nil {
			t.Errorf("PutStored of %s: no error", what)
		}
	}
	if st := ss.Stats(); st != (Stats{}) {
		t.Errorf("stats %+v, want zeros", st)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := ss.PutStored(over, key, zstd, len(data), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("PutStored with a cancelled context: %v", err)
	}
	if err := errors.Join(
		ss.PutStored(ctx, key, zstd, len(data), nil),
		ss.PutStored(ctx, as(object.KindTree, tree), append([]byte{0}, tree...), len(tree), nil),
		ss.Publish(ctx, publishNothing), ss.Close()); err != nil {
		t.Fatal(err)
	}
	if err := ss.PutStored(ctx, other, zstd, len(data), nil); !errors.Is(err, errSessionClosed) {
		t.Errorf("PutStored after Close: %v, want errSessionClosed", err)
	}
	if done := wantSound(t, s); done.Objects != 2 {
		t.Errorf("checked %+v, want 2 objects", done)
	}
}

// TestPutStoredLevels checks that PutStored stores the values of every encoder unchanged.
func TestPutStoredLevels(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, t.TempDir(), testOptions(t))

	ss := s.Begin(SessionOptions{})
	values := map[object.Key][]byte{}
	for i, level := range []frame.Level{frame.Fastest, frame.Default, frame.Better, 99} {
		data := text(uint64(i), make([]byte, 100_000))
		value := frame.NewEncoder(level).Append(nil, data)
		if level == 99 {
			value = append([]byte{0}, data...) // uncompressed
		}
		key := object.Key{Kind: object.KindChunk, ID: object.Sum(data)}
		values[key] = value

		if err := ss.PutStored(ctx, key, value, len(data), nil); err != nil {
			t.Fatal(err)
		}
		if got, err := ss.Get(ctx, key); err != nil || !bytes.Equal(got, data) {
			t.Errorf("level %d: Get: %v", level, err)
		}
	}

	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	for key, want := range values {
		if got, _, err := s.GetStored(ctx, key, nil); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: GetStored returns another value, error %v", key, err)
		}
	}

	wantSound(t, s)
}

// TestPutStoredThere checks that PutStored ignores the value of an object that the store
// has, and that a dry run ignores all values.
func TestPutStoredThere(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, t.TempDir(), testOptions(t))
	storeChunks(t, s, 1, 0, 10)
	ss := s.Begin(SessionOptions{})
	defer ss.Close()
	putChunks(t, ss, 1, 10, 20)
	for i := range 20 {
		key, data := chunk(1, i)
		if err := ss.PutStored(ctx, key, []byte("not looked at"), len(data), nil); err != nil {
			t.Errorf("PutStored of object %d: %v", i, err)
		}
	}
	if st := ss.Stats(); st.Objects != 30 || st.NewObjects != 10 {
		t.Errorf("stats %+v; want 30 objects, 10 of them new", st)
	}
	dry := s.Begin(SessionOptions{DryRun: true})
	defer dry.Close()
	for i := range 30 {
		key, data := chunk(1, i)
		if err := dry.PutStored(ctx, key, nil, len(data), nil); err != nil {
			t.Errorf("PutStored of object %d in a dry run: %v", i, err)
		}
	}
	if st := dry.Stats(); st.Objects != 30 || st.NewObjects != 20 || st.StoredBytes != 0 {
		t.Errorf("stats of the dry run %+v; want 30 objects, 20 of them new, 0 stored bytes", st)
	}
}

// TestPutStoredUse checks that PutStored calls use with the verified bytes of a new object,
// and for no other object.
func TestPutStoredUse(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, t.TempDir(), testOptions(t))
	storeChunks(t, s, 1, 0, 1)
	ss := s.Begin(SessionOptions{})
	defer ss.Close()
	there, thereData := chunk(1, 0)
	key, data := chunk(1, 1)
	value := s.frame.Append(nil, data)
	flipped := bytes.Clone(value)
	flipped[len(flipped)/2] ^= 1
	var used [][]byte
	use := func(data []byte) { used = append(used, bytes.Clone(data)) }
	var damage *object.CorruptError
	if err := ss.PutStored(ctx, key, flipped, len(data), use); !errors.As(err, &damage) {
		t.Errorf("PutStored of a damaged value: %v, want a CorruptError", err)
	}
	err := errors.Join(
		ss.PutStored(ctx, there, s.frame.Append(nil, thereData), len(thereData), use),
		ss.PutStored(ctx, key, value, len(data), use),
		ss.PutStored(ctx, key, value, len(data), use))
	if err != nil || len(used) != 1 || !bytes.Equal(used[0], data) {
		t.Errorf("PutStored called use %d times, error %v; want once with the new object", len(used), err)
	}
}

// TestPutStoredStale is TestStale for stored values.
func TestPutStoredStale(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	from := openStore(t, t.TempDir(), testOptions(t))
	storeChunks(t, s, 1, 0, 100)
	storeChunks(t, from, 1, 0, 100)
	ss := s.Begin(SessionOptions{})
	defer ss.Close()
	copyStored(t, from, ss, 1, 0, 60)

	if st := ss.Stats(); st.NewObjects != 0 {
		t.Fatalf("stats %+v, want no new objects", st)
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
	if !errors.As(err, &stale) || len(stale.Keys) != 60 {
		t.Fatalf("Publish: %v, want a StaleError with 60 keys", err)
	}
	copyStored(t, from, ss, 1, 0, 60)

	if err := ss.Publish(ctx, publishNothing); err != nil {
		t.Fatal(err)
	}
	if missing, err := openStore(t, dir, testOptions(t)).Missing(ctx, stale.Keys); len(missing) > 0 || err != nil {
		t.Errorf("Missing after Publish: %v, %v; want none", missing, err)
	}
}

// storing puts objects with PutStored and the values of its own encoder.
type storing struct {
	*Session
	frame *frame.Encoder
}

func (s storing) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	key := object.Key{Kind: kind, ID: object.Sum(data)}
	if object.Check(kind, data) != nil { // the suite puts invalid nodes
		return s.Session.Put(ctx, kind, data)
	}
	return key.ID, s.PutStored(ctx, key, s.frame.Append(nil, data), len(data), nil)
}

func TestConformanceStored(t *testing.T) {
	encoder := frame.NewEncoder(frame.Better)
	objecttest.Run(t, func(t *testing.T) object.ReadWriter {
		s := openStore(t, t.TempDir(), testOptions(t)).Begin(SessionOptions{})
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			wantSound(t, s.store)
		})
		return storing{s, encoder}
	})
}

// FuzzPutStored checks that PutStored stores an object only under its hash.
func FuzzPutStored(f *testing.F) {
	encoder := frame.NewEncoder(frame.Fastest)
	for i := range 6 {
		key, data := chunk(1, i)
		f.Add(encoder.Append(nil, data), byte(key.Kind), key.ID[:], len(data))
	}
	dir := f.TempDir()
	s := openStore(f, dir, testOptions(f))
	ss := s.Begin(SessionOptions{})
	defer ss.Close()
	f.Fuzz(func(t *testing.T, value []byte, kind byte, id []byte, raw int) {
		key := object.Key{Kind: object.Kind(kind)}
		copy(key.ID[:], id)
		before := ss.Stats()
		err := ss.PutStored(context.Background(), key, value, raw, nil)
		after := ss.Stats()
		if err != nil {
			if after != before {
				t.Fatalf("Stats counts a refused object: %v", err)
			}
			return
		}
		data, err := ss.Get(context.Background(), key)
		isNew := after.NewObjects > before.NewObjects
		if err != nil || object.Sum(data) != key.ID || isNew && len(data) != raw {
			t.Fatalf("get %s: %d bytes, %v; want %d with this hash", key, len(data), err, raw)
		}
	})
}

func BenchmarkStored(b *testing.B) {
	ctx := context.Background()
	for _, bench := range []struct {
		name  string
		size  int
		count int
		fill  func(uint64, []byte) []byte
	}{{"1MiB-noise", 1 << 20, 256, noise}, {"1MiB-text", 1 << 20, 256, text}, {"2KiB-text", 2048, 100_000, text}} {
		s := openStore(b, b.TempDir(), testOptions(b))
		ss := s.Begin(SessionOptions{})
		ids := make([]object.Key, bench.count)
		raw := 0
		buf := bench.fill(1, make([]byte, bench.size))

		for i := range ids {
			copy(buf, fmt.Sprintf("%d.", i))
			id, err := ss.Put(ctx, object.KindChunk, buf)
			if err != nil {
				b.Fatal(err)
			}
			ids[i] = object.Key{Kind: object.KindChunk, ID: id}
			raw += len(buf)
		}

		if err := ss.Close(); err != nil {
			b.Fatal(err)
		}
		values := make([][]byte, len(ids))

		b.Run("get-"+bench.name, func(b *testing.B) {
			b.SetBytes(int64(raw))
			b.ReportAllocs()
			var value []byte
			for b.Loop() {
				for _, key := range ids {
					var err error
					if value, _, err = s.GetStored(ctx, key, value); err != nil {
						b.Fatal(err)
					}
				}
			}
		})

		for i, key := range ids {
			var err error
			if values[i], _, err = s.GetStored(ctx, key, nil); err != nil {
				b.Fatal(err)
			}
		}

		b.Run("put-"+bench.name, func(b *testing.B) {
			b.SetBytes(int64(raw))
			b.ReportAllocs()

			for b.Loop() {
				to := openStore(b, b.TempDir(), testOptions(b))
				ss := to.Begin(SessionOptions{})
				for i, key := range ids {
					if err := ss.PutStored(ctx, key, values[i], len(buf), nil); err != nil {
						b.Fatal(err)
					}
				}
				if err := errors.Join(ss.Publish(ctx, publishNothing), ss.Close()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
