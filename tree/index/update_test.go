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
		t.Error("without a file the index is not empty")
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Error("loading has made a file")
	}
	must(t, Update(ctx, dir, func(x *Index) error { return x.Set("a/b", file(1)) }))
	must(t, Update(ctx, dir, func(x *Index) error { return x.Set("a/c", file(2)) }))
	x, err = Load(dir)
	must(t, err)
	if *x.Entry("a/b") != named(file(1), "b") || *x.Entry("a/c") != named(file(2), "c") || x.Len() != 2 {
		t.Errorf("got %q", lines(x))
	}
	if _, err := Load(filepath.Join(dir, "none")); err != nil {
		t.Errorf("no folder: %v", err)
	}
	if err := Update(ctx, filepath.Join(dir, "none"), func(x *Index) error { return nil }); err == nil {
		t.Error("update without a folder")
	}
}

func named(e Entry, name string) Entry { e.Name = name; return e }

// state returns the names, sizes and times of the index's files, but for the
// lock.
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
		t.Errorf("got %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	err = Update(cancelled, dir, func(x *Index) error { cancel(); x.Remove("a"); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if after := state(t, dir); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func TestBusy(t *testing.T) {
	dir := t.TempDir()
	lock, err := disk.Lock(ctx, filepath.Join(dir, lockName), disk.Exclusive, 0)
	must(t, err)
	unwanted := func(*Index) error { t.Error("called while somebody else has the lock"); return nil }
	var busy *disk.BusyError
	for _, wait := range []time.Duration{-1, 5 * time.Millisecond} {
		err = UpdateWith(ctx, dir, Options{Wait: wait}, unwanted)
		if !errors.As(err, &busy) || !errors.Is(err, disk.ErrBusy) || busy.PID != os.Getpid() || busy.File != filepath.Join(dir, "index.lock") {
			t.Errorf("wait %v: %v", wait, err)
		}
	}
	if ok, err := UpdateIfFree(ctx, dir, nil, unwanted); ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	if err := Update(short, dir, unwanted); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := Load(dir); err != nil {
		t.Errorf("load while it is locked: %v", err)
	}
	lock.Unlock()
	if ok, err := UpdateIfFree(ctx, dir, nil, func(x *Index) error { return x.Set("a", file(1)) }); !ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
}

func TestFrom(t *testing.T) {
	dir := t.TempDir()
	x := New()
	use := func(want bool, apply func(*Index) error) error {
		return UpdateWith(ctx, dir, Options{From: x}, func(got *Index) error {
			if (got == x) != want {
				t.Errorf("used is %v, want %v", got == x, want)
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
	set(t, x, "e", file(1)) // kept, if nobody else changes anything
	must(t, use(true, func(got *Index) error { return nil }))
	if use(true, func(got *Index) error { got.Remove("e"); return errors.New("failed") }) == nil {
		t.Error("no error")
	}
	must(t, use(false, func(got *Index) error { return nil }))
	x, err = Load(dir)
	must(t, err)
	if got := strings.Join(paths(x), " "); got != "a b c d e" {
		t.Errorf("got %s", got)
	}
}

// TestTogether updates from many sides while others read.
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
					t.Errorf("%v, %v", x, err)
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

// TestFold checks that a new base is written when there is much to write, and
// only then, and that nothing is left lying about.
func TestFold(t *testing.T) {
	dir := t.TempDir()
	bases := func() (list []string) {
		list, err := filepath.Glob(filepath.Join(dir, "index.base*"))
		must(t, err)
		return list
	}
	must(t, Update(ctx, dir, func(x *Index) error { return x.Set("a", file(1)) }))
	if len(bases()) != 0 {
		t.Errorf("a small index has %q", bases())
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
		t.Fatalf("a large index has %q", first)
	}
	for n := range 9 {
		add(n+1, 100)
	}
	if got := bases(); len(got) != 1 || got[0] != first[0] {
		t.Errorf("small changes made %q of %q", got, first)
	}
	add(10, 5000)
	if got := bases(); len(got) != 1 || got[0] == first[0] {
		t.Errorf("a large change made %q of %q", got, first)
	}
	x, err := Load(dir)
	must(t, err)
	if x.Len() != 15901 {
		t.Errorf("%d entries", x.Len())
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
		t.Errorf("got %v", err)
	}
	if err := Update(ctx, dir, func(x *Index) error { return nil }); !errors.Is(err, object.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "index"), 0o777))
	_, err := Load(dir)
	if err == nil || errors.Is(err, object.ErrCorrupt) {
		t.Errorf("a folder in place of the head: %v", err)
	}
}
