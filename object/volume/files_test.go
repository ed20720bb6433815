package volume

import (
	"context"
	"testing"

	"golang.org/x/sync/errgroup"
)

// A store with many more volumes than files that may be open is read by
// several readers at once, and collected.
func TestFewFiles(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(t)
	o.MaxObjects = 5
	storeSeries(t, openStore(t, dir, o), 1, 0, 60) // 12 volumes
	s := openStore(t, dir, o)
	s.files.most = 3
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			for i := range 60 {
				key, _ := sample(1, i)
				if _, err := s.Get(t.Context(), key); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	wantSeries(t, s, 1, 0, 60)
	wantSound(t, s)
	if n := len(s.files.open); n > 3 {
		t.Errorf("%d files are open", n)
	}

	w, err := s.Sweep(t.Context(), SweepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for i := range w.Len() {
		all = append(all, i)
	}
	if len(all) < 12 {
		t.Fatalf("%d volumes", len(all))
	}
	keep := func(Place) bool { return true }
	if _, err := w.Rewrite(t.Context(), all, keep, nil); err != nil {
		t.Fatal(err)
	}
	err = w.Remove(t.Context(), func(context.Context) (Removal, error) { return Removal{Volumes: all}, nil })
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		key, _ := sample(1, i)
		if places, err := w.Find(key, nil); err != nil || len(places) != 2 {
			t.Fatalf("object %d: %v, %v", i, places, err)
		}
	}
	w.Close()
	wantNames(t, s)
	wantSeries(t, s, 1, 0, 60)
	if n := len(s.files.open); n > 3 {
		t.Errorf("%d files are open", n)
	}
}
