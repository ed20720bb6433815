package volume

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// evenSamples returns a function keep for the objects with even numbers of series of n
// objects.
func evenSamples(t testing.TB, w *Sweep, series, n int) func(Place) bool {
	keep := map[[2]int]bool{}
	for s := range series {
		for i := 0; i < n; i += 2 {
			key, _ := sample(s, i)
			places, err := w.Find(key, nil)
			if err != nil || len(places) == 0 {
				t.Fatalf("find object %d/%d: %v, %v", s, i, places, err)
			}
			for _, p := range places {
				keep[[2]int{p.Volume, p.Index}] = true
			}
		}
	}
	return func(p Place) bool { return keep[[2]int{p.Volume, p.Index}] }
}

func all(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// wantEven checks that the store has the objects with even numbers of series of n objects,
// and not those with odd numbers.
func wantEven(t testing.TB, s *Store, series, n int) {
	t.Helper()
	for k := range series {
		for i := range n {
			key, _ := sample(k, i)
			_, err := s.Get(context.Background(), key)
			if i%2 == 0 && err != nil || i%2 == 1 && !errors.Is(err, object.ErrNotFound) {
				t.Errorf("get object %d/%d: %v, want only even numbers", k, i, err)
			}
		}
	}
}

func TestSweep(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	storeSeries(t, s, 0, 0, 30)
	storeSeries(t, s, 1, 0, 30)
	reader := openStore(t, dir, testOptions(t)) // has all volumes open
	wantSeries(t, reader, 0, 0, 30)
	wantSeries(t, reader, 1, 0, 30)
	closed := openStore(t, dir, testOptions(t)) // has listed all volumes and opened none
	relying := reader.Begin(SessionOptions{})
	defer relying.Close()
	putSeries(t, relying, 0, 0, 4)
	before := time.Now().Add(-time.Hour)

	w, err := s.Sweep(ctx, SweepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(ctx, SweepOptions{}); !errors.Is(err, disk.ErrBusy) {
		t.Errorf("second sweep: %v, want ErrBusy", err)
	}
	if _, err := reader.Maintain(ctx, MaintainOptions{}); !errors.Is(err, disk.ErrBusy) {
		t.Errorf("Maintain during a sweep: %v, want ErrBusy", err)
	}
	var copied int64
	written, err := w.Rewrite(ctx, all(2), evenSamples(t, w, 2, 30), func(n int64) { copied += n })
	if err != nil || written != 1 || copied == 0 {
		t.Fatalf("Rewrite: %d volumes, %d bytes, %v; want 1 volume", written, copied, err)
	}
	if w.Len() != 3 || w.Volume(2).Objects != 30 || w.Volume(2).Created != w.Volume(0).Created && w.Volume(2).Created != w.Volume(1).Created {
		t.Errorf("new volume: %+v; want 30 objects and the time of an old volume", w.Volume(2))
	}
	wantSeries(t, s, 1, 0, 30) // nothing is removed yet
	if err := w.Remove(ctx, func(context.Context) (Removal, error) { return Removal{}, errors.New("no") }); err == nil {
		t.Error("Remove ignores an error of decide")
	}
	wantSeries(t, s, 1, 0, 30)
	if err := w.Remove(ctx, func(context.Context) (Removal, error) { return Removal{Volumes: all(2)}, nil }); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if !w.Volume(0).Gone || w.Volume(2).Gone {
		t.Errorf("Gone of volumes 0 and 2 = %t, %t; want true, false", w.Volume(0).Gone, w.Volume(2).Gone)
	}
	for _, s := range []*Store{s, reader, closed, openStore(t, dir, testOptions(t))} {
		for k := range 2 {
			for i := 0; i < 30; i += 2 {
				wantSeries(t, s, k, i, i+1)
			}
		}
	}
	wantEven(t, openStore(t, dir, testOptions(t)), 2, 30)
	wantNames(t, s)
	wantSound(t, s)
	if oldest := s.Oldest(); oldest.Before(before) || oldest.After(time.Now().Add(time.Hour)) {
		t.Errorf("Oldest = %s, want about now", oldest)
	}

	var stale *StaleError
	if err := relying.Publish(ctx, publishNothing); !errors.As(err, &stale) || len(stale.Keys) != 2 {
		t.Fatalf("publish of removed objects: %v, want a StaleError with 2 keys", err)
	}
	putSeries(t, relying, 0, 0, 4)
	if err := relying.Publish(ctx, publishNothing); err != nil {
		t.Fatal(err)
	}
	wantSeries(t, s, 0, 0, 3)
}

// TestDrop checks that all stores treat a dropped object as missing until it is stored
// again.
func TestDrop(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	storeSeries(t, s, 0, 0, 10)
	session := openStore(t, dir, testOptions(t)).Begin(SessionOptions{})
	defer session.Close()
	putSeries(t, session, 0, 0, 10)
	w, err := s.Sweep(ctx, SweepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	key, data := sample(0, 3)

	drop := func(keys ...object.Key) {
		t.Helper()
		if err := w.Remove(ctx, func(context.Context) (Removal, error) {
			return Removal{Drop: map[int][]object.Key{0: keys}}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}

	drop(key)
	for _, s := range []*Store{s, openStore(t, dir, testOptions(t))} {
		if _, err := s.Get(ctx, key); !errors.Is(err, object.ErrNotFound) {
			t.Errorf("get a dropped object: %v, want ErrNotFound", err)
		}
		if ids, err := s.Prefix(ctx, key.Kind, key.ID.String()[:8], 0); err != nil || len(ids) > 0 {
			t.Errorf("Prefix of a dropped object: %v, %v; want none", ids, err)
		}

		n := 0
		for range s.Keys(ctx) {
			n++
		}
		if n != 9 {
			t.Errorf("Keys yields %d keys, want 9", n)
		}
	}

	if places, err := w.Find(key, nil); err != nil || len(places) > 0 {
		t.Errorf("Find of a dropped object: %v, %v; want none", places, err)
	}
	var stale *StaleError
	if err := session.Publish(ctx, publishNothing); !errors.As(err, &stale) || len(stale.Keys) != 1 || stale.Keys[0] != key {
		t.Fatalf("publish of a dropped object: %v, want a StaleError with its key", err)
	}
	if _, err := session.Put(ctx, key.Kind, data); err != nil {
		t.Fatal(err)
	}
	if err := session.Publish(ctx, publishNothing); err != nil {
		t.Fatal(err)
	}

	wantSeries(t, s, 0, 0, 10)
	wantSound(t, s)
	more, _ := sample(0, 4)
	drop(more) // key stays dropped in volume 0
	if err := w.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if places, err := w.Find(key, nil); err != nil || len(places) != 1 || places[0].Volume != 1 {
		t.Errorf("Find of an object that was stored again: %v, %v; want it in volume 1", places, err)
	}

	drop()
	wantNames(t, s, droppedFile, "tmp-"+w.Volume(1).Session+".lock")
	session.Close()
	if err := w.Remove(ctx, func(context.Context) (Removal, error) { return Removal{Volumes: []int{0}}, nil }); err != nil {
		t.Fatal(err)
	}

	drop()
	wantNames(t, s, "trash-"+w.Volume(0).Name) // w still needs its KEYS
}

// TestRewriteDamaged checks that Rewrite fails if a kept object is damaged, unless another
// volume has an intact copy.
func TestRewriteDamaged(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	storeSeries(t, s, 0, 0, 20)
	log := filepath.Join(oneVolume(t, s), ingest.LogName(1))
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for i := ingest.LogHeaderSize; i < len(data); i++ {
		data[i] ^= 0x55
	}
	os.Chmod(log, 0o666)
	write(t, log, string(data))
	sweep := func() (*Sweep, error) {
		w, err := openStore(t, dir, testOptions(t)).Sweep(ctx, SweepOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		_, err = w.Rewrite(ctx, []int{0}, evenSamples(t, w, 1, 20), nil)
		return w, err
	}
	if w, err := sweep(); !errors.Is(err, object.ErrCorrupt) || w.Len() != 1 {
		t.Fatalf("Rewrite of a damaged volume: %d volumes, %v; want 1 and ErrCorrupt", w.Len(), err)
	}
	wantNames(t, s)

	// Add a volume with intact copies.
	other := openStore(t, t.TempDir(), testOptions(t))
	storeSeries(t, other, 0, 0, 20)
	name := filepath.Base(oneVolume(t, other))
	if err := os.Rename(oneVolume(t, other), filepath.Join(s.path, name)); err != nil {
		t.Fatal(err)
	}
	w, err := sweep()
	if err != nil {
		t.Fatal(err)
	}
	if w.Len() != 2 && w.Len() != 3 {
		t.Errorf("%d volumes, want 2 or 3", w.Len())
	}
}

func init() {
	children["sweep"] = func(args []string) error { return sweepEven(args[0]) }
}

// sweepEven keeps the objects with even numbers of series 0 and 1, and all of series 2.
func sweepEven(dir string) error {
	s, err := Open(dir, Options{Now: time.Now})
	if err != nil {
		return err
	}
	defer s.Close()
	w, err := s.Sweep(context.Background(), SweepOptions{})
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.EmptyTrash(context.Background()); err != nil {
		return err
	}
	keep := map[[2]int]bool{}

	full := map[int]bool{} // volumes whose objects are all kept
	for i := range w.Len() {
		full[i] = true
	}

	for series := range 3 {
		for i := range 20 {
			key, _ := sample(series, i)
			places, err := w.Find(key, nil)
			if err != nil {
				return err
			}
			for n, p := range places {
				keep[[2]int{p.Volume, p.Index}] = series == 2 || i%2 == 0
				if series < 2 && i%2 == 1 || n > 0 {
					full[p.Volume] = false
				}
			}
		}
	}

	var volumes []int
	for i, full := range full {
		if !full {
			volumes = append(volumes, i)
		}
	}

	if len(volumes) == 0 {
		return nil
	}
	if _, err := w.Rewrite(context.Background(), volumes, func(p Place) bool { return keep[[2]int{p.Volume, p.Index}] }, nil); err != nil {
		return err
	}
	return w.Remove(context.Background(), func(context.Context) (Removal, error) { return Removal{Volumes: volumes}, nil })
}

// TestSweepKilledAtCalls kills a sweep at system calls that change the disk. The kept
// objects stay readable, and the next sweep completes the work.
func TestSweepKilledAtCalls(t *testing.T) {
	sweepKilled(t, "sweep", sweepEven, func(s *Store, ended bool) {
		for series := range 3 {
			for i := range 20 {
				if i%2 == 0 || series == 2 {
					wantSeries(t, s, series, i, i+1)
				}
			}
		}
		if ended {
			wantEven(t, openStore(t, s.dir, testOptions(t)), 2, 20)
		}
	}, func(s *Store) {
		for series := range 3 {
			storeSeries(t, s, series, 0, 20)
		}
	})
}

// sweepKilled runs the child name with stores that fill has filled, and kills it at system
// calls that change the disk. Then it calls sweep. It calls check after both.
func sweepKilled(t *testing.T, name string, sweep func(dir string) error, check func(s *Store, ended bool), fill func(*Store)) {
	for _, call := range []string{"fsync", "renameat2", "unlinkat", "mkdirat", "flock"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			for when := 1; when < 200; when += 1 + when/2 {
				dir := t.TempDir()
				s := openStore(t, dir, testOptions(t))
				fill(s)
				err := straced(t, filepath.Join(dir, "log"), call, "signal=KILL:when="+strconv.Itoa(when), name, dir).Run()
				check(s, false)
				if err := sweep(dir); err != nil {
					t.Fatalf("sweep after a kill at call %d: %v", when, err)
				}
				check(s, true)
				wantSound(t, openStore(t, dir, testOptions(t)))
				wantNames(t, s)
				if t.Failed() {
					t.Fatalf("failed after a kill at call %d", when)
				}
				if err == nil {
					if when == 1 {
						t.Error("the child was never killed")
					}
					break
				}
			}
		})
	}
}

// TestTrusting checks that a session that called Trust is stale if any volume is removed.
func TestTrusting(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, t.TempDir(), testOptions(t))
	storeSeries(t, s, 0, 0, 10)
	storeSeries(t, s, 1, 0, 10)
	trusting, other := s.Begin(SessionOptions{}), s.Begin(SessionOptions{})
	defer trusting.Close()
	defer other.Close()
	err := trusting.Trust(ctx, func() error {
		if l, err := disk.Lock(ctx, filepath.Join(s.dir, gcLockFile), disk.Exclusive, 0); err == nil {
			l.Unlock()
			t.Error("another process can lock the store for a removal during Trust")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	for _, ss := range []*Session{trusting, other} {
		putSeries(t, ss, 1, 0, 10)
		if err := ss.Publish(ctx, publishNothing); err != nil {
			t.Fatal(err)
		}
	}

	w, err := s.Sweep(ctx, SweepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	key, _ := sample(0, 0)
	places, err := w.Find(key, nil)
	if err != nil || len(places) != 1 {
		t.Fatalf("find %s: %v, %v; want one place", key, places, err)
	}

	gone := places[0].Volume
	if err := w.Remove(ctx, func(context.Context) (Removal, error) { return Removal{Volumes: []int{gone}}, nil }); err != nil {
		t.Fatal(err)
	}

	var stale *StaleError
	if err := trusting.Publish(ctx, publishNothing); !errors.As(err, &stale) || len(stale.Keys) > 0 {
		t.Errorf("publish of a trusting session: %v, want a StaleError without keys", err)
	}
	if err := other.Publish(ctx, publishNothing); err != nil {
		t.Error(err)
	}
}

// TestDropAtOnce checks that a store notices a second drop within the same tick of the file
// system's clock.
func TestDropAtOnce(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	storeSeries(t, s, 0, 0, 2)
	path, at := s.inVolumes(droppedFile), time.Now()
	name := filepath.Base(oneVolume(t, s))
	lines := ""
	for i := range 2 {
		key, _ := sample(0, i)
		lines += copyLine(name, key)
		write(t, path, lines)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		if _, err := s.listVolumes(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), key); !errors.Is(err, object.ErrNotFound) {
			t.Errorf("get dropped object %d: %v, want ErrNotFound", i, err)
		}
	}
}

// TestSweepClosedTwice checks that a second Close of a sweep does not release the lock of
// the next sweep.
func TestSweepClosedTwice(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	first, err := s.Sweep(t.Context(), SweepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	second, err := s.Sweep(t.Context(), SweepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	first.Close()
	if third, err := s.Sweep(t.Context(), SweepOptions{}); !errors.Is(err, disk.ErrBusy) {
		t.Errorf("third sweep: %v, want ErrBusy", err)
		if err == nil {
			third.Close()
		}
	}
}

// TestDropMany checks that a long list of dropped objects is read to its end.
func TestDropMany(t *testing.T) {
	if testing.Short() {
		t.Skip("writes and reads 90 MB")
	}
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	storeSeries(t, s, 0, 0, 2)
	key, _ := sample(0, 1)
	l, err := s.lastListing()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i := range maxDamaged {
		other := object.Key{Kind: object.KindCommit}
		binary.BigEndian.PutUint32(other.ID[:], uint32(i))
		text.WriteString(copyLine(l.volumes[0].name, other))
	}
	text.WriteString(copyLine(l.volumes[0].name, key))
	write(t, s.inVolumes(droppedFile), text.String())
	if _, err := openStore(t, dir, testOptions(t)).Get(t.Context(), key); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("get the last dropped object: %v, want ErrNotFound", err)
	}
}
