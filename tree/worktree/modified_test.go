package worktree

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
)

// Apply gives a file the recorded time. A file without one keeps the time of writing, and with
// metadata the zero time is the start of 1970. A second restore finds nothing to write.
func TestApplyZeroTime(t *testing.T) {
	f := newReal(t)
	f.w.opt.Metadata = true
	start := time.Now().Add(-time.Hour)
	plain, epoch, folder := f.file("content"), f.file("content"), dir(0o755)
	plain.MTime, epoch.MTime = object.Time{}, object.Time{}
	epoch.Meta = &object.Metadata{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	folder.Meta = epoch.Meta
	ops := []Op{{Path: "d", New: folder}, {Path: "epoch", New: epoch}, {Path: "plain", New: plain}}
	o := ApplyOptions{RestoreTimes: true, Metadata: &FullMetadata{NumericIDs: true}}
	_, err := f.w.Apply(ctx, f.store, ops, o)
	f.check(err)

	for path, old := range map[string]bool{"d": true, "epoch": true, "plain": false} {
		info, err := os.Stat(filepath.Join(f.root, path))
		f.check(err)
		if at := info.ModTime(); at.Equal(time.Unix(0, 0)) != old || !old && at.Before(start) {
			t.Errorf("%s has the time %v", path, at)
		}
	}
	for _, how := range []Overwrite{OverwriteAlways, OverwriteIfChanged} {
		if left, err := f.w.Pending(ctx, ops[1:], how, o); err != nil || len(left) > 0 {
			t.Errorf("a second restore wants to write %v, %v", left, err)
		}
	}
}
