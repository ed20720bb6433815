package worktree

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/chunker"
	"github.com/kist-vcs/kist/object/objecttest"
)

// cutWith reopens the worktree with another chunker.
func (f *fixture) cutWith(p chunker.Params) {
	f.t.Helper()
	c, err := chunker.New(p)
	f.check(err)
	o := f.w.opt
	o.Chunker = c
	f.open(o)
}

// touch sets the times of files to now, so that Confirm must read them.
func (f *fixture) touch(paths ...string) {
	f.t.Helper()
	for _, path := range paths {
		f.check(os.Chtimes(filepath.Join(f.root, path), time.Now(), time.Now()))
	}
}

// A file that was stored with other chunk boundaries is recognised by its content, and is not
// stored twice.
func TestCutElsewhere(t *testing.T) {
	for name, there := range map[string]chunker.Params{
		"otherwise": {Polynomial: 0x30e2e2979e3a1f, Min: 1 << 10, Avg: 4 << 10, Max: 32 << 10},
		"smaller":   {Polynomial: 0x30e2e2979e3a1f, Min: 128, Avg: 512, Max: 4 << 10},
		"larger":    {Polynomial: 0x30e2e2979e3a1f, Min: 32 << 10, Avg: 64 << 10, Max: 128 << 10},
		"the same":  cutter(t).Params(),
	} {
		t.Run(name, func(t *testing.T) {
			f := newReal(t)
			sizes := map[string]int{"large": 300_000, "medium": 10_000, "small": 900}
			paths := []string{"large", "medium", "small"}
			for i, path := range paths {
				f.write(path, random(i, sizes[path]))
			}
			f.cutWith(there)
			f.stage()
			stored := f.store.(*objecttest.Memory).Len()
			f.w.opt.Objects = f.store
			f.cutWith(cutter(t).Params())

			f.touch(paths...)
			changed, unchanged := f.confirm()
			if len(changed) > 0 || len(unchanged) != len(paths) {
				t.Errorf("touched files: %d are unchanged, want %d; changed: %v", len(unchanged), len(paths), lines(changed))
			}
			found, err := f.w.Scan(ctx, f.idx, ScanOptions{})
			f.check(err)
			f.check(f.w.StoreAll(ctx, f.store, found, func(i int, s Stored, err error) error {
				if e := f.idx.Entry(found[i].Path); err == nil && (s.Entry.Content != e.Content || s.Entry.Size != e.Size) {
					t.Errorf("%s has content %v, want %v", e.Name, s.Entry.Content, e.Content)
				}
				return err
			}, nil))
			if n := f.store.(*objecttest.Memory).Len(); n != stored {
				t.Errorf("%d new objects were stored, want none", n-stored)
			}
			var ops []Op
			for _, path := range paths {
				ops = append(ops, Op{Path: path, Old: f.idx.Entry(path)})
			}
			obstacles, err := f.w.Check(ctx, f.idx, ops)
			f.check(err)
			if len(obstacles) > 0 {
				t.Errorf("obstacles: %+v, want none", obstacles)
			}

			// A changed byte is found anywhere in the file.
			for _, at := range []int{0, 150_000, 299_999} {
				content := []byte(random(0, sizes["large"]))
				content[at] ^= 1
				f.write("large", string(content))
				f.touch("large")
				known := *f.idx.Entry("large")
				storer := f.w.newStorer(f.store, nil)
				before := f.store.(*objecttest.Memory).Len()
				as, err := storer.storeItem(ctx, "large", nil, &known)
				storer.close()
				f.check(err)
				again := objecttest.NewMemory()
				alone := f.w.newStorer(again, nil)
				_, err = alone.storeItem(ctx, "large", nil, nil)
				alone.close()
				f.check(err)
				if got := f.store.(*objecttest.Memory).Len() - before; as.Entry.Content == known.Content || got > again.Len() {
					t.Errorf("byte %d changed: %d objects were stored, want at most %d", at, got, again.Len())
				}
				if changed, _ := f.confirm(); !slices.Equal(lines(changed), []string{"modified large"}) {
					t.Errorf("byte %d changed: Confirm returns %v, want large", at, lines(changed))
				}
				s, err := f.w.Store(ctx, f.store, "large")
				f.check(err)
				if got := f.read(s.Entry); got != string(content) {
					t.Errorf("byte %d changed: stored wrong content", at)
				}
			}
		})
	}
}

// Without the list of its chunks, a file with other boundaries counts as modified.
func TestCutElsewhereUnknown(t *testing.T) {
	f := newReal(t)
	f.write("large", random(1, 300_000))
	f.cutWith(chunker.Params{Polynomial: 0x30e2e2979e3a1f, Min: 1 << 10, Avg: 4 << 10, Max: 32 << 10})
	f.stage()
	f.w.opt.Objects = objecttest.NewMemory()
	f.cutWith(cutter(t).Params())
	f.touch("large")
	if changed, _ := f.confirm(); !slices.Equal(lines(changed), []string{"modified large"}) {
		t.Errorf("changed files are %v, want large", lines(changed))
	}
}
