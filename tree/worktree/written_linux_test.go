package worktree

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/index"
)

// rewrite changes the content of a file in place, to other bytes of the same size.
func (f *fixture) rewrite(path string) {
	f.t.Helper()
	at := filepath.Join(f.root, path)
	data, err := os.ReadFile(at)
	f.check(err)
	data[len(data)-1]++
	file, err := os.OpenFile(at, os.O_WRONLY, 0)
	f.check(err)
	defer file.Close()
	_, err = file.WriteAt(data, 0)
	f.check(err)
}

// A file that Apply wrote is not racy, so nothing reads it again. A change of the same size
// right after Apply shows in its stat data, even within the same tick of the clock.
func TestWrittenSettled(t *testing.T) {
	f := newReal(t)
	if !reliable[f.fileSystem()] {
		objecttest.Skip(t, "the file system has no leases")
	}
	past := f.file("with a time")
	past.MTime = object.Time{Sec: 1_000_000_000, Nsec: 7}
	future := f.file("with a time")
	future.MTime = object.Time{Sec: 1 << 32}
	for round := range objecttest.Rounds(t, 30) {
		for what, c := range map[string]struct {
			e       *object.Entry
			o       ApplyOptions
			settled bool
		}{
			"inline": {f.file("inline"), ApplyOptions{}, true}, "one chunk": {f.file(random(1, 1000)), ApplyOptions{}, true},
			"large": {f.file(random(2, 100_000)), ApplyOptions{}, true}, "a past time": {past, ApplyOptions{RestoreTimes: true}, true},
			"a future time": {future, ApplyOptions{RestoreTimes: true}, false},
		} {
			applied, err := f.w.Apply(ctx, f.store, []Op{{Path: "file", New: c.e}}, c.o)
			f.check(err)
			if racy := applied[0].Stat.Racy(); racy == c.settled {
				t.Errorf("round %d, %s: racy is %v", round, what, racy)
			}
			f.check(f.idx.Set("file", index.NewEntry(*c.e, applied[0].Stat)))
			if found := f.scan(ScanOptions{}); c.settled && len(found) > 0 {
				t.Errorf("round %d, %s: a scan wants to read %v", round, what, found)
			}

			f.rewrite("file")
			info, err := f.w.Lstat("file")
			f.check(err)
			if c.settled && info.Stat.Same(applied[0].Stat) {
				t.Errorf("round %d, %s: a change right after Apply does not show", round, what)
			}
			f.remove("file")
		}
	}
}

// A file that somebody has open, or changed before Apply looked at it, stays racy.
func TestWrittenByOthers(t *testing.T) {
	f := newReal(t)
	if !reliable[f.fileSystem()] {
		objecttest.Skip(t, "the file system has no leases")
	}
	d, err := f.w.openFolder("")
	f.check(err)
	defer d.Close()

	w := &applyWorker{applier: &applier{w: f.w}}
	for what, meddle := range map[string]func(path string){
		"nobody": func(string) {},
		"open":   func(path string) { f.keepOpen(path) },
		"changed": func(path string) {
			f.rewrite(path)
		},
		"changed, with its old time": func(path string) {
			info, err := os.Stat(filepath.Join(f.root, path))
			f.check(err)
			f.rewrite(path)
			f.check(os.Chtimes(filepath.Join(f.root, path), time.Now(), info.ModTime().Add(time.Nanosecond)))
		},
	} {
		at := (*tempFolder)(nil).newPlace(d)
		file, err := at.dir.create(at.name, 0o644)
		f.check(err)
		_, err = file.WriteAt([]byte("content"), 0)
		f.check(err)
		f.check(w.setMetadata(file, &object.Entry{Type: object.TypeFile, Mode: 0o644}))

		hooked := &meddled{file: file, then: func() { meddle("final") }}
		stat, err := w.placeStaged(at, hooked, d, "final")
		f.check(err)
		f.check(file.Close())
		if racy := stat.Racy(); racy != (what != "nobody") {
			t.Errorf("%s: racy is %v", what, racy)
		}
		f.check(syscall.Unlink(filepath.Join(f.root, "final")))
	}
}

// meddled calls a function before it looks whether others have the file open.
type meddled struct {
	file
	then func()
}

func (m *meddled) isOpenOnce() bool {
	m.then()
	return m.file.isOpenOnce()
}
