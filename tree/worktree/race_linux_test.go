package worktree

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// Nothing escapes through a folder that another goroutine keeps exchanging for a symlink.
func TestNoEscapeByRace(t *testing.T) {
	for _, target := range []string{".kist", "../outside"} {
		f, check := newTrap(t)
		f.mkdir("race/dir")
		f.symlink(target, "race.link")
		root, err := unix.Open(f.root, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		f.check(err)
		defer unix.Close(root)

		stop := make(chan struct{})
		var swaps atomic.Int64
		var racer sync.WaitGroup
		racer.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := unix.Renameat2(root, "race", root, "race.link", unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
				swaps.Add(1)
			}
		})
		x, old := f.file("evil"), &index.Entry{Type: object.TypeFile}
		ops := []Op{
			{Path: "race/config", New: x}, {Path: "race/secret", New: x}, {Path: "race/new/file", New: x}, {Path: "race/dir", New: dir(0o711)},
			{Path: "race/dir/x", New: f.file(random(1, 20_000))}, {Path: "race/link", New: link("x")}, {Path: "race/refs", New: dir(0o700)},
		}
		done, failed := 0, 0
		raced := func() bool { return swaps.Load() >= 100 && done > 0 && failed > 0 }
		for start := time.Now(); time.Since(start) < 600*time.Millisecond || !raced() && time.Since(start) < time.Minute; {
			applied, err := f.w.Apply(ctx, f.store, ops, ApplyOptions{RestoreTimes: true})
			done += len(applied)
			if err != nil {
				failed++
			}
			f.w.Apply(ctx, f.store, []Op{{Path: "race/config", Old: old}, {Path: "race/dir/x", Old: old}, {Path: "race/dir"}, {Path: "race/refs"}, {Path: "race/link", Old: old}}, ApplyOptions{})
			f.w.Apply(ctx, f.store, []Op{{Path: "race/made", New: dir(0o711)}}, ApplyOptions{})
			f.w.Rename("race/made", "race/moved")
			f.w.Apply(ctx, f.store, []Op{{Path: "race/moved"}}, ApplyOptions{})
			for _, path := range []string{"race/config", "race/secret"} {
				if s, err := f.w.Store(ctx, object.Discard, path); err == nil && string(s.Entry.Inline) != "evil" {
					t.Errorf("read %s through the symlink: %q", path, s.Entry.Inline)
				}
			}
		}
		close(stop)
		racer.Wait()
		check(target)
		if !raced() {
			t.Errorf("too few races: %d exchanges, %d applied, %d failed", swaps.Load(), done, failed)
		}
	}
}
