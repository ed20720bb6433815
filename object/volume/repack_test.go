package volume

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
)

// storeVersions publishes versions [from, end) of a chunk in one session.
func storeVersions(t testing.TB, s *Store, series, from, end int) (list []stored) {
	t.Helper()
	ss := s.Begin(SessionOptions{})
	for i := from; i < end; i++ {
		o := plainVersion(series, i)
		if _, err := ss.Put(t.Context(), o.key.Kind, o.data); err != nil {
			t.Fatal(err)
		}
		list = append(list, o)
	}
	if err := ss.Publish(t.Context(), publishNothing); err != nil {
		t.Fatal(err)
	}
	if err := ss.Close(); err != nil {
		t.Fatal(err)
	}
	return list
}

// orderOf yields the places of the objects of list, in its order.
func orderOf(t testing.TB, w *Sweep, list []stored) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for _, o := range list {
			places, err := w.Find(o.key, nil)
			if err != nil {
				t.Error(err)
			}
			for _, at := range places {
				if !yield(at.Volume, at.Index) {
					return
				}
			}
		}
	}
}

func keepAll(Place) bool { return true }

// repacked replaces volumes by repacked ones.
func repacked(t testing.TB, s *Store, volumes []int, o func(*Sweep) RepackOptions) RepackStats {
	t.Helper()
	w, err := s.Sweep(t.Context(), SweepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	before := w.Len()
	done, err := w.Repack(t.Context(), volumes, o(w))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Remove(t.Context(), func(context.Context) (Removal, error) { return Removal{Volumes: volumes}, nil }); err != nil {
		t.Fatal(err)
	}
	if w.Len() != before+done.Written {
		t.Errorf("%d volumes, want %d old and %d new ones", w.Len(), before, done.Written)
	}
	for i := before; i < w.Len(); i++ {
		if v := w.Volume(i); !v.Repacked {
			t.Errorf("new volume %d: %+v, want it repacked", i, v)
		}
	}
	return done
}

func TestRepack(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	list := storeVersions(t, s, 1, 0, 20)
	list = append(list, storeVersions(t, s, 1, 20, 40)...)
	storeSeries(t, s, 1, 0, 30)
	reader := openStore(t, dir, testOptions(t))
	wantVersions(t, reader, list[:5]...)

	newest := slices.Clone(list)
	slices.Reverse(newest)
	var before int64
	done := repacked(t, s, all(3), func(w *Sweep) RepackOptions {
		return RepackOptions{Keep: keepAll, Order: orderOf(t, w, newest), Progress: func(n int64) { before += n }}
	})
	if done.Written != 1 || done.Objects != 70 || done.Patches < 30 || done.Before != before || done.After > done.Before-80_000 {
		t.Errorf("Repack: %+v; want one volume, 70 objects, many patches, before %d", done, before)
	}
	if raw, stored, err := s.StoredSize(t.Context(), newest[0].key); err != nil || stored < raw/10 {
		t.Errorf("the newest version takes %d of %d bytes, %v; want no patch", stored, raw, err)
	}
	for _, s := range []*Store{s, reader, openStore(t, dir, testOptions(t))} {
		wantVersions(t, s, list...)
		wantSeries(t, s, 1, 0, 30)
		wantSound(t, s)
	}

	// With more versions, Repack makes more patches.
	more := storeVersions(t, s, 1, 40, 50)
	again := repacked(t, s, all(2), func(w *Sweep) RepackOptions {
		newest := slices.Concat(list, more)
		slices.Reverse(newest)
		return RepackOptions{Keep: keepAll, Order: orderOf(t, w, newest)}
	})
	if again.Objects != 80 || again.Patches < done.Patches+8 || again.After > done.After*3/2 {
		t.Errorf("second Repack: %+v after %+v; want 80 objects and more patches", again, done)
	}
	wantVersions(t, s, slices.Concat(list, more)...)
	wantSeries(t, s, 1, 0, 30)
	wantSound(t, s)
	wantNames(t, s)
}

// TestRepackKeeps checks that Repack skips objects that are not kept, and objects that
// another volume has.
func TestRepackKeeps(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	other := storeVersions(t, s, 1, 0, 4)
	writeVolume(t, s, chainOf(t, 1, 8)...)
	writeVolume(t, s, plainVersion(1, 8), plainVersion(1, 7), patchVersion(t, 1, 9, 8))
	last, _ := version(1, 9)
	done := repacked(t, s, []int{0, 1}, func(w *Sweep) RepackOptions { // the two newest
		places, err := w.Find(last, nil)
		if err != nil || len(places) != 1 {
			t.Fatalf("find %s: %v, %v; want one place", last, places, err)
		}
		return RepackOptions{Keep: func(at Place) bool { return at.Volume != places[0].Volume || at.Index != places[0].Index }}
	})
	if done.Objects != 5 {
		t.Errorf("Repack: %+v, want 5 objects", done)
	}
	for i := range 9 {
		wantVersions(t, s, plainVersion(1, i))
	}
	wantVersions(t, s, other...)
	if _, err := s.Get(t.Context(), last); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("get an object that was not kept: %v, want ErrNotFound", err)
	}
	wantSound(t, s)
}

// TestRepackFullVolumes checks that patches have their bases in the same volume, also if
// Repack fills several.
func TestRepackFullVolumes(t *testing.T) {
	o := testOptions(t)
	o.MaxObjects = 7
	s := openStore(t, t.TempDir(), o)
	list := storeVersions(t, s, 1, 0, 40)
	l, err := s.lastListing()
	if err != nil {
		t.Fatal(err)
	}
	done := repacked(t, s, all(len(l.volumes)), func(w *Sweep) RepackOptions {
		return RepackOptions{Keep: keepAll, Order: orderOf(t, w, list)}
	})
	// The number of patches varies. It is 29 if all objects are read before the first is
	// written. The reader may notice a full volume late, which costs some patches.
	if done.Objects != 40 || done.Written != 6 || done.Patches < 10 {
		t.Errorf("Repack: %+v; want 40 objects, 6 volumes, at least 10 patches", done)
	}
	wantVersions(t, s, list...)
	wantSound(t, s)
	l, _ = s.lastListing()
	for _, v := range l.volumes {
		if err := readBack(t.Context(), v); err != nil {
			t.Error(err)
		}
	}
}

// TestRepackOrder checks that Repack ignores wrong, repeated and missing places in the
// order, and writes all objects.
func TestRepackOrder(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	list := storeVersions(t, s, 1, 0, 10)
	storeVersions(t, s, 2, 0, 1)
	done := repacked(t, s, []int{1}, func(*Sweep) RepackOptions {
		return RepackOptions{Keep: keepAll, Order: func(yield func(int, int) bool) {
			for _, at := range [][2]int{{1, 5}, {1, 5}, {0, 0}, {7, 7}, {-1, 0}, {1, -1}, {1, 10}, {1, 0}} {
				if !yield(at[0], at[1]) {
					return
				}
			}
		}}
	})
	if done.Objects != 10 {
		t.Errorf("Repack: %+v, want 10 objects", done)
	}
	wantVersions(t, s, list...)
	wantSound(t, s)
}

// TestRepackDamaged checks that Repack reads a damaged object from another volume. If
// there is no other copy, it fails, and all volumes stay.
func TestRepackDamaged(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	list := chainOf(t, 1, 4)
	volume := writeVolume(t, s, list...)
	flipValue(t, s, volume, list[1].key)
	w, err := s.Sweep(t.Context(), SweepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var damage *object.CorruptError
	if _, err := w.Repack(t.Context(), []int{0}, RepackOptions{Keep: keepAll}); !errors.As(err, &damage) {
		t.Errorf("Repack of a damaged volume: %v, want a CorruptError", err)
	}
	w.Close()
	wantNames(t, s)
	wantVersions(t, s, list[0])

	writeVolume(t, s, plainVersion(1, 1))
	repacked(t, s, all(2), func(*Sweep) RepackOptions { return RepackOptions{Keep: keepAll} })
	wantVersions(t, s, list...)
	wantSound(t, s)
}

func init() {
	children["repack"] = func(args []string) error { return repackAll(args[0]) }
}

// repackAll replaces all volumes by one repacked volume.
func repackAll(dir string) error {
	ctx := context.Background()
	s, err := Open(dir, Options{Now: time.Now})
	if err != nil {
		return err
	}
	defer s.Close()
	w, err := s.Sweep(ctx, SweepOptions{})
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.EmptyTrash(ctx); err != nil {
		return err
	}
	if w.Len() == 1 && w.Volume(0).Repacked {
		return nil
	}
	volumes := all(w.Len())
	if _, err := w.Repack(ctx, volumes, RepackOptions{Keep: keepAll}); err != nil {
		return err
	}
	return w.Remove(ctx, func(context.Context) (Removal, error) { return Removal{Volumes: volumes}, nil })
}

// TestRepackKilledAtCalls kills Repack at system calls that change the disk. Nothing is
// lost, and the next run completes the work.
func TestRepackKilledAtCalls(t *testing.T) {
	sweepKilled(t, "repack", repackAll, func(s *Store, ended bool) {
		for i := range 30 {
			wantVersions(t, s, plainVersion(1, i))
		}
		wantSeries(t, s, 1, 0, 20)
		if info, err := s.Volumes(t.Context()); ended && (err != nil || len(info) != 1 || !info[0].Repacked || info[0].Objects != 50) {
			t.Errorf("volumes: %+v, %v; want a repacked one with 50 objects", info, err)
		}
	}, func(s *Store) {
		writeVolume(t, s, chainOf(t, 1, 5)...) // some objects are patches already
		storeVersions(t, s, 1, 0, 30)
		storeSeries(t, s, 1, 0, 20)
	})
}

// TestRepackStopped checks that a cancelled Repack leaves no files.
func TestRepackStopped(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	list := storeVersions(t, s, 1, 0, 30)
	step := 1
	if testing.Short() {
		step = 5
	}
	for stop := 1; stop < 30; stop += step {
		w, err := s.Sweep(t.Context(), SweepOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		_, err = w.Repack(ctx, []int{0}, RepackOptions{Keep: keepAll, Progress: func(int64) {
			if n++; n == stop {
				cancel()
			}
		}})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after %d objects: %v", stop, err)
		}
		w.Close()
	}
	wantNames(t, s)
	oneVolume(t, s)
	wantVersions(t, s, list...)
}
