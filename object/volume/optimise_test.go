package volume

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
)

// storeVersions puts versions from to end-1 of a chunk as a session does.
func storeVersions(t testing.TB, s *Store, series, from, end int) (list []stored) {
	t.Helper()
	ss := s.Begin(SessionOptions{})
	for i := from; i < end; i++ {
		o := wholeVersion(series, i)
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

// orderOf yields where objects are, in their order.
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

// optimise optimises the volumes, and removes them.
func optimised(t testing.TB, s *Store, volumes []int, o func(*Sweep) OptimiseOptions) Optimised {
	t.Helper()
	w, err := s.Sweep(t.Context(), SweepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	before := w.Len()
	done, err := w.Optimise(t.Context(), volumes, o(w))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Remove(t.Context(), func(context.Context) (Removal, error) { return Removal{Volumes: volumes}, nil }); err != nil {
		t.Fatal(err)
	}
	if w.Len() != before+done.Written {
		t.Errorf("%d volumes, of which %d are new", w.Len(), done.Written)
	}
	for i := before; i < w.Len(); i++ {
		if v := w.Volume(i); !v.Optimised {
			t.Errorf("volume %d: %+v", i, v)
		}
	}
	return done
}

func TestOptimise(t *testing.T) {
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
	done := optimised(t, s, all(3), func(w *Sweep) OptimiseOptions {
		return OptimiseOptions{Keep: keepAll, Order: orderOf(t, w, newest), Progress: func(n int64) { before += n }}
	})
	if done.Written != 1 || done.Objects != 70 || done.Patches < 30 || done.Before != before || done.After > done.Before-80_000 {
		t.Errorf("%+v", done)
	}
	if raw, stored, err := s.StoredSize(t.Context(), newest[0].key); err != nil || stored < raw/10 {
		t.Errorf("the first takes %d of %d bytes, %v", stored, raw, err)
	}
	for _, s := range []*Store{s, reader, openStore(t, dir, testOptions(t))} {
		wantVersions(t, s, list...)
		wantSeries(t, s, 1, 0, 30)
		wantSound(t, s)
	}

	// With more versions, those that are there stay as they are where they can.
	more := storeVersions(t, s, 1, 40, 50)
	again := optimised(t, s, all(2), func(w *Sweep) OptimiseOptions {
		newest := slices.Concat(list, more)
		slices.Reverse(newest)
		return OptimiseOptions{Keep: keepAll, Order: orderOf(t, w, newest)}
	})
	if again.Objects != 80 || again.Patches < done.Patches+8 || again.After > done.After*3/2 {
		t.Errorf("once more: %+v after %+v", again, done)
	}
	wantVersions(t, s, slices.Concat(list, more)...)
	wantSeries(t, s, 1, 0, 30)
	wantSound(t, s)
	wantNames(t, s)
}

// What is not to be kept, and what another volume has, is not written.
func TestOptimiseKeeps(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	other := storeVersions(t, s, 1, 0, 4)
	writeVolume(t, s, chainOf(t, 1, 8)...)
	writeVolume(t, s, wholeVersion(1, 8), wholeVersion(1, 7), patchVersion(t, 1, 9, 8))
	last, _ := version(1, 9)
	done := optimised(t, s, []int{0, 1}, func(w *Sweep) OptimiseOptions { // the newest are first
		places, err := w.Find(last, nil)
		if err != nil || len(places) != 1 {
			t.Fatal(places, err)
		}
		return OptimiseOptions{Keep: func(at Place) bool { return at.Volume != places[0].Volume || at.Index != places[0].Index }}
	})
	if done.Objects != 5 {
		t.Errorf("%+v", done)
	}
	for i := range 9 {
		wantVersions(t, s, wholeVersion(1, i))
	}
	wantVersions(t, s, other...)
	if _, err := s.Get(t.Context(), last); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("get what was not kept: %v", err)
	}
	wantSound(t, s)
}

// Patches are made of what is in the same volume, also where volumes are full.
func TestOptimiseFullVolumes(t *testing.T) {
	o := testOptions(t)
	o.MaxObjects = 7
	s := openStore(t, t.TempDir(), o)
	list := storeVersions(t, s, 1, 0, 40)
	l, err := s.current()
	if err != nil {
		t.Fatal(err)
	}
	done := optimised(t, s, all(len(l.volumes)), func(w *Sweep) OptimiseOptions {
		return OptimiseOptions{Keep: keepAll, Order: orderOf(t, w, list)}
	})
	// 29 of 40 if all objects are read before the first is written. The reader drops its
	// bases when it notices a full volume, which may be late and cost some patches.
	if done.Objects != 40 || done.Written != 6 || done.Patches < 10 {
		t.Errorf("%+v", done)
	}
	wantVersions(t, s, list...)
	wantSound(t, s)
	l, _ = s.current()
	for _, v := range l.volumes {
		if err := readBack(t.Context(), v); err != nil {
			t.Error(err)
		}
	}
}

// An order that is nonsense changes nothing but sizes.
func TestOptimiseOrder(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	list := storeVersions(t, s, 1, 0, 10)
	storeVersions(t, s, 2, 0, 1)
	done := optimised(t, s, []int{1}, func(*Sweep) OptimiseOptions {
		return OptimiseOptions{Keep: keepAll, Order: func(yield func(int, int) bool) {
			for _, at := range [][2]int{{1, 5}, {1, 5}, {0, 0}, {7, 7}, {-1, 0}, {1, -1}, {1, 10}, {1, 0}} {
				if !yield(at[0], at[1]) {
					return
				}
			}
		}}
	})
	if done.Objects != 10 {
		t.Errorf("%+v", done)
	}
	wantVersions(t, s, list...)
	wantSound(t, s)
}

// Damage is healed from another volume, or ends it, with everything left there.
func TestOptimiseDamaged(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	list := chainOf(t, 1, 4)
	volume := writeVolume(t, s, list...)
	flipValue(t, s, volume, list[1].key)
	w, err := s.Sweep(t.Context(), SweepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var damage *object.CorruptError
	if _, err := w.Optimise(t.Context(), []int{0}, OptimiseOptions{Keep: keepAll}); !errors.As(err, &damage) {
		t.Errorf("optimise what is damaged: %v", err)
	}
	w.Close()
	wantNames(t, s)
	wantVersions(t, s, list[0])

	writeVolume(t, s, wholeVersion(1, 1))
	optimised(t, s, all(2), func(*Sweep) OptimiseOptions { return OptimiseOptions{Keep: keepAll} })
	wantVersions(t, s, list...)
	wantSound(t, s)
}

func init() {
	children["optimise"] = func(args []string) int {
		if err := optimiseAll(args[0]); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
}

// optimiseAll makes one optimised volume of all there are.
func optimiseAll(dir string) error {
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
	if w.Len() == 1 && w.Volume(0).Optimised {
		return nil
	}
	volumes := all(w.Len())
	if _, err := w.Optimise(ctx, volumes, OptimiseOptions{Keep: keepAll}); err != nil {
		return err
	}
	return w.Remove(ctx, func(context.Context) (Removal, error) { return Removal{Volumes: volumes}, nil })
}

// TestOptimiseKilledAtCalls kills it at calls that change the disk. Nothing is
// lost, and the next one ends what was begun.
func TestOptimiseKilledAtCalls(t *testing.T) {
	sweepKilled(t, "optimise", optimiseAll, func(s *Store, ended bool) {
		for i := range 30 {
			wantVersions(t, s, wholeVersion(1, i))
		}
		wantSeries(t, s, 1, 0, 20)
		if info, err := s.Volumes(t.Context()); ended && (err != nil || len(info) != 1 || !info[0].Optimised || info[0].Objects != 50) {
			t.Errorf("volumes: %+v, %v", info, err)
		}
	}, func(s *Store) {
		writeVolume(t, s, chainOf(t, 1, 5)...) // some are patches before
		storeVersions(t, s, 1, 0, 30)
		storeSeries(t, s, 1, 0, 20)
	})
}

// Who stops it leaves nothing behind.
func TestOptimiseStopped(t *testing.T) {
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
		_, err = w.Optimise(ctx, []int{0}, OptimiseOptions{Keep: keepAll, Progress: func(int64) {
			if n++; n == stop {
				cancel()
			}
		}})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("stopped after %d: %v", stop, err)
		}
		w.Close()
	}
	wantNames(t, s)
	oneVolume(t, s)
	wantVersions(t, s, list...)
}
