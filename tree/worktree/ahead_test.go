package worktree

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// refuse is a reader that does not return some objects.
type refuse struct {
	object.Reader
	unread func(object.Key) bool
}

var errUnread = errors.New("must not be read")

func (r *refuse) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if r.unread(key) {
		return nil, errUnread
	}
	return r.Reader.Get(ctx, key)
}

// chunks returns the distinct chunks of entries.
func (f *fixture) chunks(entries ...*object.Entry) []object.ID {
	f.t.Helper()
	var ids []object.ID
	for _, e := range entries {
		for c, err := range object.Chunks(ctx, f.store, e.Content, e.Size, 0) {
			f.check(err)
			ids = append(ids, c.ID)
		}
	}
	slices.SortFunc(ids, object.ID.Compare)
	return slices.Compact(ids)
}

// hand passes each chunk to a twice, from several goroutines.
func (f *fixture) hand(a *EarlyWriter, ids []object.ID) {
	f.t.Helper()
	ids = slices.Concat(ids, ids)
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	var group sync.WaitGroup
	for part := range slices.Chunk(ids, len(ids)/4+1) {
		group.Go(func() {
			for _, id := range part {
				data, err := f.store.Get(ctx, object.Key{Kind: object.KindChunk, ID: id})
				if err != nil {
					f.t.Error(err)
					return
				}
				a.Chunk(id, data)
			}
		})
	}
	group.Wait()
}

// Apply takes the files that were written ahead, and reads no chunks.
func TestWriteEarly(t *testing.T) {
	f := newReal(t)
	common := random(1, 200_000)
	contents := map[string]string{
		"a":       common,
		"d/same":  common,
		"d/other": random(2, 100_000) + common,
		"zeros":   strings.Repeat("\x00", 1<<20) + random(3, 70_000),
	}
	var ops []Op
	var entries []*object.Entry
	for path, content := range contents {
		e := f.file(content)
		e.Mode = 0o755
		ops, entries = append(ops, Op{Path: path, New: e}), append(entries, e)
	}
	ops = append(ops, Op{Path: "d", New: dir(0o755)}, Op{Path: "inline", New: f.file("small")}, Op{Path: "link", New: link("a")})
	f.write("zeros", "the file is replaced")
	f.mkdir("a")

	a, err := f.w.WriteEarly(ctx, f.store, ops)
	f.check(err)
	f.hand(a, f.chunks(entries...))
	a.Chunk(object.Sum([]byte("of no file")), []byte("of no file"))
	noChunks := &refuse{f.store, func(key object.Key) bool { return key.Kind == object.KindChunk }}
	applied, err := f.w.Apply(ctx, noChunks, ops, ApplyOptions{RestoreTimes: true})
	f.check(err)
	if len(applied) != len(ops) {
		t.Errorf("applied %d operations, want %d", len(applied), len(ops))
	}
	for path, content := range contents {
		data, err := os.ReadFile(filepath.Join(f.root, path))
		f.check(err)
		if string(data) != content {
			t.Errorf("%s has wrong content", path)
		}
	}
	for _, done := range applied {
		info, err := f.w.Lstat(done.Path)
		f.check(err)
		if contents[done.Path] != "" && (info.Mode != 0o755 || info.Stat.MTime != 1e18+5 || !info.Stat.Same(done.Stat)) {
			t.Errorf("%s: wrong properties %+v", done.Path, info)
		}
	}
	a.Close()
	same(t, "temporary files", f.temps(), []string(nil))
}

// Apply writes a file itself if the EarlyWriter has only a part of it or has other content. It takes no
// file whose manifest cannot be read.
func TestWriteEarlyInVain(t *testing.T) {
	f := newReal(t)
	whole, part, later, refused := f.file(random(1, 200_000)), f.file(random(2, 200_000)), f.file(random(3, 200_000)), f.file(random(4, 200_000))
	ops := []Op{{Path: "moved", New: whole}, {Path: "part", New: part}, {Path: "later", New: whole}, {Path: "refused", New: refused}}
	a, err := f.w.WriteEarly(ctx, f.store, ops)
	f.check(err)
	f.hand(a, slices.Concat(f.chunks(whole), f.chunks(part)[1:], f.chunks(refused)))
	if n := len(f.temps()); n != 1 {
		t.Errorf("%d folders for temporary files, want 1", n)
	}
	ops = []Op{{Path: "elsewhere", New: whole}, {Path: "part", New: part}, {Path: "later", New: later}, {Path: "refused", New: refused}}
	applied, err := f.w.Apply(ctx, &refuse{f.store, func(key object.Key) bool { return key == refused.Content }}, ops, ApplyOptions{})
	var failed *ApplyError
	if !errors.As(err, &failed) || len(failed.Failed) != 1 || failed.Failed[0].Path != "refused" || !errors.Is(err, errUnread) || len(applied) != 3 {
		t.Errorf("%d applied, error %v, want 3 and a failure of refused", len(applied), err)
	}
	for path, e := range map[string]*object.Entry{"elsewhere": whole, "part": part, "later": later} {
		if stored, err := f.w.Store(ctx, f.store, path); err != nil || stored.Entry.Content != e.Content {
			t.Errorf("%s has wrong content, or error %v", path, err)
		}
	}
	if f.w.Exists("refused") || f.w.Exists("moved") {
		t.Error("the worktree has a file that Apply must not write")
	}
	a.Close()
	same(t, "temporary files", f.temps(), []string(nil))
}

// An EarlyWriter opens a limited number of files, and ignores wrong chunks.
func TestWriteEarlyLimits(t *testing.T) {
	f := newReal(t)
	var ops []Op
	var ids []object.ID
	for i := range maxEarlyOpen + 10 {
		e := f.file(random(i, 150_000))
		ops = append(ops, Op{Path: fmt.Sprint("f", i), New: e})
		ids = append(ids, f.chunks(e)[0])
	}
	wrong := f.file(random(1000, 150_000))
	ops = append(ops, Op{Path: "wrong", New: wrong})
	a, err := f.w.WriteEarly(ctx, f.store, ops)
	f.check(err)
	for _, id := range f.chunks(wrong) {
		a.Chunk(id, []byte("too short"))
	}
	f.hand(a, ids)
	if a.open != maxEarlyOpen {
		t.Errorf("%d files are open, want %d", a.open, maxEarlyOpen)
	}
	f.apply(ops...)
	for _, op := range ops {
		if stored, err := f.w.Store(ctx, f.store, op.Path); err != nil || stored.Entry.Content != op.New.Content {
			t.Errorf("%s has wrong content, or error %v", op.Path, err)
		}
	}
	a.Close()
	same(t, "temporary files", f.temps(), []string(nil))
}
