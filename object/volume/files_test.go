package volume

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
)

// TestFewFiles checks that a store with many more volumes than open files can be read
// concurrently, and rewritten.
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
		t.Errorf("%d files are open, want at most 3", n)
	}

	w, err := s.Sweep(t.Context(), SweepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	volumes := all(w.Len())
	if len(volumes) < 12 {
		t.Fatalf("%d volumes, want at least 12", len(volumes))
	}
	if _, err := w.Rewrite(t.Context(), volumes, keepAll, nil); err != nil {
		t.Fatal(err)
	}
	err = w.Remove(t.Context(), func(context.Context) (Removal, error) { return Removal{Volumes: volumes}, nil })
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		key, _ := sample(1, i)
		if places, err := w.Find(key, nil); err != nil || len(places) != 2 {
			t.Fatalf("find object %d: %v, %v; want 2 places", i, places, err)
		}
	}
	w.Close()
	wantNames(t, s)
	wantSeries(t, s, 1, 0, 60)
	if n := len(s.files.open); n > 3 {
		t.Errorf("%d files are open, want at most 3", n)
	}
}

// TestCheckTooFewFiles checks that Check fails if it cannot open enough files. It neither
// skips volumes nor reports them as damaged.
func TestCheckTooFewFiles(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(t)
	o.MaxObjects = 5
	storeSeries(t, openStore(t, dir, o), 1, 0, 60)
	s := openStore(t, dir, o)

	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}

	check := func(files uint64) (Checked, []Problem, error) {
		few := syscall.Rlimit{Cur: files, Max: limit.Max}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
		var found []Problem
		done, err := s.Check(t.Context(), CheckOptions{ReadData: true}, func(p Problem) { found = append(found, p) })
		return done, found, err
	}

	failed, done := 0, 0
	for files := uint64(3); done == 0 && files < 1024; files++ {
		switch checked, found, err := check(files); {
		case len(found) > 0:
			t.Fatalf("with %d files, Check reports damage: %v", files, found[0])
		case errors.Is(err, syscall.EMFILE):
			failed++
		case err != nil || checked.Objects != 60:
			t.Fatalf("with %d files, Check reads %d objects, error %v; want 60 or EMFILE", files, checked.Objects, err)
		default:
			done++
		}
	}
	if failed == 0 || done == 0 {
		t.Errorf("%d checks failed, %d passed; want some of both", failed, done)
	}

	wantSeries(t, s, 1, 0, 60)
	wantSound(t, s)
}
