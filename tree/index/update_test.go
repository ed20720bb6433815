package index

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

func TestUpdateAndLoad(t *testing.T) {
	dir := t.TempDir()
	x, err := Load(dir)
	must(t, err)
	if x.Len() != 0 || x.dirs != 1 || x.changed {
		t.Error("the index is not empty without a file")
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Error("Load makes a file")
	}
	must(t, Update(ctx, dir, func(x *Index) error { return x.Set("a/b", file(1)) }))
	must(t, Update(ctx, dir, func(x *Index) error { return x.Set("a/c", file(2)) }))
	x, err = Load(dir)
	must(t, err)
	if *x.Entry("a/b") != named(file(1), "b") || *x.Entry("a/c") != named(file(2), "c") || x.Len() != 2 {
		t.Errorf("loaded %q, want a/b and a/c", lines(x))
	}
	if _, err := Load(filepath.Join(dir, "none")); err != nil {
		t.Errorf("Load without a folder: %v", err)
	}
	if err := Update(ctx, filepath.Join(dir, "none"), func(x *Index) error { return nil }); err == nil {
		t.Error("Update succeeds without a folder")
	}
}

func named(e Entry, name string) Entry { e.Name = name; return e }

// state returns the names, sizes and times of the index's files, without the lock.
func state(t *testing.T, dir string) string {
	files, err := os.ReadDir(dir)
	must(t, err)
	var list []string
	for _, f := range files {
		info, err := f.Info()
		must(t, err)
		if f.Name() == lockName {
			continue
		}
		list = append(list, fmt.Sprint(f.Name(), info.Size(), info.ModTime()))
	}
	return strings.Join(list, "\n")
}

func TestNothingIsWritten(t *testing.T) {
	dir := t.TempDir()
	must(t, Update(ctx, dir, func(x *Index) error { return x.Set("a", file(1)) }))
	before := state(t, dir)
	must(t, Update(ctx, dir, func(x *Index) error { return x.Set("a", file(1)) }))
	failed := errors.New("failed")
	err := Update(ctx, dir, func(x *Index) error { x.Remove("a"); return failed })
	if err != failed {
		t.Errorf("error %v, want the function's error", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	err = Update(cancelled, dir, func(x *Index) error { cancel(); x.Remove("a"); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v, want Canceled", err)
	}
	if after := state(t, dir); after != before {
		t.Errorf("the files changed from\n%s\nto\n%s", before, after)
	}
}

func TestBusy(t *testing.T) {
	dir := t.TempDir()
	lock, err := disk.Lock(ctx, filepath.Join(dir, lockName), disk.Exclusive, 0)
	must(t, err)
	unwanted := func(*Index) error { t.Error("called while the lock is held"); return nil }
	var busy *disk.BusyError
	for _, wait := range []time.Duration{-1, 5 * time.Millisecond} {
		err = UpdateWith(ctx, dir, Options{Wait: wait}, unwanted)
		if !errors.As(err, &busy) || !errors.Is(err, disk.ErrBusy) || busy.PID != os.Getpid() || busy.File != filepath.Join(dir, "index.lock") {
			t.Errorf("wait %v: error %v, want a BusyError", wait, err)
		}
	}
	if ok, err := UpdateIfFree(ctx, dir, nil, unwanted); ok || err != nil {
		t.Errorf("UpdateIfFree = %v, %v, want false", ok, err)
	}
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	if err := Update(short, dir, unwanted); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want DeadlineExceeded", err)
	}
	if _, err := Load(dir); err != nil {
		t.Errorf("Load during a lock: %v", err)
	}
	lock.Unlock()
	if ok, err := UpdateIfFree(ctx, dir, nil, func(x *Index) error { return x.Set("a", file(1)) }); !ok || err != nil {
		t.Errorf("UpdateIfFree = %v, %v, want true", ok, err)
	}
}

func TestFrom(t *testing.T) {
	dir := t.TempDir()
	x := New()
	use := func(want bool, apply func(*Index) error) error {
		return UpdateWith(ctx, dir, Options{From: x}, func(got *Index) error {
			if (got == x) != want {
				t.Errorf("reuse of From is %v, want %v", got == x, want)
			}
			return apply(got)
		})
	}
	must(t, use(true, func(got *Index) error { return got.Set("a", file(1)) }))
	must(t, use(true, func(got *Index) error { return got.Set("b", file(1)) }))
	must(t, Update(ctx, dir, func(x *Index) error { return x.Set("c", file(1)) }))
	must(t, use(false, func(got *Index) error { return got.Set("d", file(1)) }))

	x, err := Load(dir)
	must(t, err)
	set(t, x, "e", file(1)) // kept until another update writes the files
	must(t, use(true, func(got *Index) error { return nil }))
	if use(true, func(got *Index) error { got.Remove("e"); return errors.New("failed") }) == nil {
		t.Error("no error of the function")
	}
	must(t, use(false, func(got *Index) error { return nil }))
	x, err = Load(dir)
	must(t, err)
	if got := strings.Join(paths(x), " "); got != "a b c d e" {
		t.Errorf("paths are %s, want a b c d e", got)
	}
}

// Concurrent updates lose nothing, and readers see each update.
func TestTogether(t *testing.T) {
	dir := t.TempDir()
	const writers, updates = 6, 15

	done := make(chan struct{})
	var readers, wg sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for least := 0; ; {
				select {
				case <-done:
					return
				default:
				}
				x, err := Load(dir)
				if err != nil || x.Len() < least {
					t.Errorf("Load: %v, error %v, want at least %d entries", x, err, least)
					return
				}
				least = x.Len()
			}
		})
	}

	for w := range writers {
		wg.Go(func() {
			for i := range updates {
				err := Update(ctx, dir, func(x *Index) error {
					x.fold = (w+i)%3 == 0
					return x.Set(fmt.Sprintf("%d/%d", w, i), file(i))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}

	wg.Wait()
	close(done)
	readers.Wait()
	x, err := Load(dir)
	must(t, err)
	if x.Len() != writers*updates {
		t.Errorf("%d entries, want %d", x.Len(), writers*updates)
	}
}

// Only large changes write a new base. Old bases and temporary files are removed.
func TestFold(t *testing.T) {
	dir := t.TempDir()
	bases := func() (list []string) {
		list, err := filepath.Glob(filepath.Join(dir, "index.base*"))
		must(t, err)
		return list
	}

	must(t, Update(ctx, dir, func(x *Index) error { return x.Set("a", file(1)) }))
	if len(bases()) != 0 {
		t.Errorf("a small index has bases %q", bases())
	}

	for _, junk := range []string{"index.base-0123", "index.base.new", "index.new"} {
		must(t, os.WriteFile(filepath.Join(dir, junk), []byte("junk"), 0o400))
	}

	add := func(n, size int) {
		must(t, Update(ctx, dir, func(x *Index) error {
			for i := range size {
				must(t, x.Set(fmt.Sprintf("%d/%d", n, i), file(3*i+2)))
			}
			return nil
		}))
	}

	add(0, 10000)
	first := bases()
	if len(first) != 1 {
		t.Fatalf("a large index has bases %q, want one", first)
	}

	for n := range 9 {
		add(n+1, 100)
	}
	if got := bases(); len(got) != 1 || got[0] != first[0] {
		t.Errorf("after small changes the bases are %q, want %q", got, first)
	}

	add(10, 5000)
	if got := bases(); len(got) != 1 || got[0] == first[0] {
		t.Errorf("after a large change the bases are %q, want another than %q", got, first)
	}

	x, err := Load(dir)
	must(t, err)
	if x.Len() != 15901 {
		t.Errorf("%d entries, want 15901", x.Len())
	}
	if _, err := os.Stat(filepath.Join(dir, "index.new")); err == nil {
		t.Error("a temporary file is left")
	}
}

func TestBaseIsLost(t *testing.T) {
	dir := t.TempDir()
	must(t, Update(ctx, dir, func(x *Index) error { x.fold = true; return x.Set("a", file(1)) }))
	bases, _ := filepath.Glob(filepath.Join(dir, "index.base-*"))
	must(t, os.Remove(bases[0]))
	var corrupt *object.DamageError
	if _, err := Load(dir); !errors.As(err, &corrupt) || !errors.Is(err, object.ErrCorrupt) {
		t.Errorf("Load: error %v, want ErrCorrupt", err)
	}
	if err := Update(ctx, dir, func(x *Index) error { return nil }); !errors.Is(err, object.ErrCorrupt) {
		t.Errorf("Update: error %v, want ErrCorrupt", err)
	}
}

func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "index"), 0o777))
	_, err := Load(dir)
	if err == nil || errors.Is(err, object.ErrCorrupt) {
		t.Errorf("a folder in place of the head: error %v, want one without ErrCorrupt", err)
	}
}
