package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// noise returns n bytes that do not compress.
func noise(seed, n int) string {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1}).Read(data)
	return string(data)
}

// history pushes n commits and returns them. Each changes a file in one of four folders. One
// file has many chunks.
func (o *origin) history(n int) (commits []object.ID) {
	o.t.Helper()
	ctx := context.Background()
	for i := range n {
		folders := map[string]object.ID{}
		for d := range 4 {
			files := map[string]string{}
			for f := range 3 {
				files[fmt.Sprint("f", f)] = noise(d*10+f, 2000)
			}
			if d == i%4 {
				files["changed"] = noise(100+i, 3000)
			}
			folders[fmt.Sprint("d", d)] = o.tree(files, nil)
		}

		w := object.NewManifestWriter(o)
		for c := range 20 {
			data := noise(1000+c+i, 1500)
			ref := object.ChunkRef{ID: o.putData(object.KindChunk, []byte(data)), Size: uint32(len(data))}
			if err := w.Add(ctx, ref); err != nil {
				o.t.Fatal(err)
			}
		}

		content, size, err := w.Finish(ctx)
		if err != nil {
			o.t.Fatal(err)
		}

		trees := object.NewTreeWriter(o)
		for _, name := range slices.Sorted(maps.Keys(folders)) {
			e := object.Entry{Name: name, Type: object.TypeDir, Mode: 0o755, Content: object.Key{Kind: object.KindTree, ID: folders[name]}}
			if err := trees.Add(ctx, e); err != nil {
				o.t.Fatal(err)
			}
		}

		big := object.Entry{Name: "large", Type: object.TypeFile, Mode: 0o644, Size: size, MTime: object.Time{Sec: 1}, Content: content}
		if err := trees.Add(ctx, big); err != nil {
			o.t.Fatal(err)
		}

		root, err := trees.Finish(ctx)
		if err != nil {
			o.t.Fatal(err)
		}
		var parents []object.ID
		if i > 0 {
			parents = commits[i-1:]
		}
		commits = append(commits, o.commit(root, parents...))
		o.push(commits[i])
	}
	return commits
}

func TestFetchClone(t *testing.T) {
	t.Parallel()
	for _, inline := range []bool{false, true} {
		o := newOrigin(t)
		o.inline, o.packSize = inline, 20_000
		o.history(5)
		c := newClone(t, o.blob)
		o.blob.ResetCounts()
		var last Progress
		head := c.head()
		session := c.store.Begin(volume.SessionOptions{})
		var begun, planned int64
		var mu sync.Mutex
		seen := map[object.ID]bool{}
		result, err := c.remote.Fetch(t.Context(), session, head, FetchOptions{
			Want: []object.Key{head.Refs[mainRef], head.Refs[mainRef]}, Jobs: 3,
			BeginChunks: func(_ context.Context, chunks, bytes int64) {
				begun++
				planned = chunks
			},
			Chunk: func(id object.ID, data []byte) {
				mu.Lock()
				defer mu.Unlock()
				if begun != 1 || seen[id] || object.Sum(data) != id {
					t.Errorf("Chunk got %s before BeginChunks, twice, or with other bytes", id)
				}
				seen[id] = true
			},
			Progress: func(p Progress) {
				if p.Objects < last.Objects || p.Bytes < last.Bytes {
					t.Errorf("progress %+v after %+v", p, last)
				}
				last = p
			},
		})
		if err == nil {
			err = session.Publish(t.Context(), func(context.Context) error { return nil })
		}

		if err := errors.Join(err, session.Close()); err != nil {
			t.Fatal(err)
		}
		c.wantAll(o, head.Refs[mainRef])

		chunks := 0
		for _, key := range o.all.Keys() {
			if key.Kind == object.KindChunk {
				chunks++
			}
		}
		if begun != 1 || planned != int64(chunks) || len(seen) != chunks {
			t.Errorf("%d calls of BeginChunks for %d chunks, Chunk got %d; want 1 call for %d", begun, planned, len(seen), chunks)
		}

		all := int64(o.all.Len())
		if result.Objects != all || last != (Progress{PhaseCopy, all, all, result.Bytes, result.Bytes}) {
			t.Errorf("fetch: %+v, want %d objects; last progress %+v", result, all, last)
		}
		if got := o.blob.Bytes(remotetest.Get); result.Bytes > got || result.Bytes < o.all.Size()/2 {
			t.Errorf("received %d bytes, the remote sent %d", result.Bytes, got)
		}

		o.blob.ResetCounts()
		if again := c.mustFetch(o); again.Objects != 0 || again.Bytes != 0 {
			t.Errorf("the second fetch received %+v", again)
		}
	}
}

func TestFetchIncremental(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	first := o.history(3)
	c := newClone(t, o.blob)
	c.mustFetch(o)
	before := o.all.Keys()
	next := o.history(4)[3] // the first three repeat the old ones with other dates
	var fresh, chunks int64
	have := map[object.Key]bool{}
	for _, key := range before {
		have[key] = true
	}
	for key := range closure(t, o.all, commitKeys(next)...) {
		if !have[key] {
			fresh++
			if !key.Kind.IsNode() {
				chunks += int64(o.sent[key].Stored)
			}
		}
	}
	result := c.mustFetch(o, first[2])
	if result.Objects != fresh {
		t.Errorf("received %d objects, want %d", result.Objects, fresh)
	}
	if result.Bytes < chunks || result.Bytes > chunks+40_000 {
		t.Errorf("received %d bytes for chunks of %d bytes", result.Bytes, chunks)
	}
}

// TestFetchInterrupted fails each read of a pack in turn. The next fetch completes the work.
func TestFetchInterrupted(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.inline, o.packSize = true, 20_000
	o.history(3)
	for n := 1; ; n++ {
		faulty := remotetest.NewFaulty(o.blob)
		c := newClone(t, faulty)
		how := []remotetest.How{remotetest.Before, remotetest.Short}[n%2]
		faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", N: n, How: how})
		head := c.head()
		_, err := c.fetch(head)
		if err == nil {
			if n < 5 {
				t.Errorf("only %d calls", n-1)
			}
			return
		}
		if !errors.Is(err, remote.ErrTemporary) {
			t.Fatalf("call %d: %v, want ErrTemporary", n, err)
		}
		c.mustFetch(o)
	}
}

// TestFetchCancelled checks that a stuck fetch ends when its context is cancelled.
func TestFetchCancelled(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.history(2)
	for n := range 3 {
		faulty := remotetest.NewFaulty(o.blob)
		c := newClone(t, faulty)
		head := c.head()
		ctx, cancel := context.WithCancel(t.Context())
		faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", N: n + 1, Do: cancel, How: remotetest.Stuck})
		session := c.store.Begin(volume.SessionOptions{})
		_, err := c.remote.Fetch(ctx, session, head, FetchOptions{Want: []object.Key{head.Refs[mainRef]}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("fetch: %v, want context.Canceled", err)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
}

// packDamage has ways to damage the pack of the object at e.
var packDamage = map[string]func(o *origin, e pack.Entry){
	"flipped": func(o *origin, e pack.Entry) { o.blob.Damage(e.Pack.Name.Path(), int(e.Offset+e.Stored/2)) },
	"cut":     func(o *origin, e pack.Entry) { o.blob.Truncate(e.Pack.Name.Path(), int(e.Offset+e.Stored-1)) },
	"empty":   func(o *origin, e pack.Entry) { o.blob.Truncate(e.Pack.Name.Path(), 0) },
	"missing": func(o *origin, e pack.Entry) { o.blob.Remove(e.Pack.Name.Path()) },
	"swapped": func(o *origin, e pack.Entry) {
		for name := range o.packs() {
			if name != e.Pack.Name.Path() {
				o.blob.Swap(name, e.Pack.Name.Path())
				return
			}
		}
	},
}

// TestFetchDamage checks that a fetch names a damaged object and does not store it. With
// another copy on the remote, the fetch succeeds.
func TestFetchDamage(t *testing.T) {
	t.Parallel()
	for name, spoil := range packDamage {
		for _, kind := range []object.Kind{object.KindChunk, object.KindManifest, object.KindTree, object.KindCommit} {
			t.Run(fmt.Sprint(name, " ", kind), func(t *testing.T) {
				t.Parallel()
				o := newOrigin(t)
				o.packSize = 15_000
				o.history(3)
				var victims []pack.Entry
				for key, e := range o.sent {
					if key.Kind == kind {
						victims = append(victims, e)
					}
				}
				slices.SortFunc(victims, func(a, b pack.Entry) int { return int(a.Offset) - int(b.Offset) })
				victim := victims[len(victims)/2]
				sent := maps.Clone(o.sent)
				spoil(o, victim)

				c := newClone(t, o.blob)
				head := c.head()
				_, err := c.fetch(head)
				var corrupt *object.CorruptError
				if !errors.As(err, &corrupt) {
					t.Fatalf("fetch: %v, want a CorruptError", err)
				}
				e := sent[corrupt.Key]
				if want := fmt.Sprintf("pack %s, offset %d", e.Pack.Name, e.Offset); corrupt.Where != want || !strings.Contains(err.Error(), want) {
					t.Errorf("%v; want %s", err, want)
				}
				if name == "flipped" && corrupt.Key != victim.Key {
					t.Errorf("the error names %s, want %s", corrupt.Key, victim.Key)
				}
				if _, err := c.store.Get(t.Context(), corrupt.Key); !errors.Is(err, object.ErrNotFound) {
					t.Errorf("Get of the damaged object: %v, want ErrNotFound", err)
				}

				// Another pack has the objects.
				var damaged []object.Key
				for key := range sent {
					damaged = append(damaged, key)
				}
				slices.SortFunc(damaged, object.Key.Compare)
				o.change(o.pack(damaged))
				c.mustFetch(o)
			})
		}
	}
}

// flipping damages the first read of each part of a pack or, if once is set, of each pack.
type flipping struct {
	remote.Backend
	once bool
	mu   sync.Mutex
	seen map[string]bool
}

func (f *flipping) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	n, err := f.Backend.Get(ctx, name, p, off)
	f.mu.Lock()
	defer f.mu.Unlock()
	part := name
	if !f.once {
		part = fmt.Sprint(name, off, len(p))
	}
	if strings.HasPrefix(name, "packs/") && !f.seen[part] {
		f.seen[part] = true
		for i := range n {
			p[i] ^= 0x55
		}
	}
	return n, err
}

// TestFetchReadsAgain checks that a fetch retries reads that were damaged in transit.
func TestFetchReadsAgain(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.push(o.commit(o.tree(map[string]string{"a": noise(1, 100), "b": noise(2, 100)}, nil)))
	f := &flipping{Backend: o.blob, seen: map[string]bool{}}
	for _, e := range o.sent {
		// Reads of single objects are intact.
		f.seen[fmt.Sprint(e.Pack.Name.Path(), e.Offset, e.Stored)] = true
	}
	newClone(t, f).mustFetch(o)
	if n := len(f.seen) - len(o.sent); n != 2 {
		t.Errorf("%d parts were damaged, want one with nodes and one with chunks", n)
	}
}

// TestFetchMovedPacks checks that a fetch succeeds if a collector moves all objects to new
// packs and deletes the old packs meanwhile.
func TestFetchMovedPacks(t *testing.T) {
	t.Parallel()
	for _, inline := range []bool{false, true} {
		for n := 1; ; n++ {
			o := newOrigin(t)
			o.inline, o.packSize = inline, 20_000
			o.history(3)
			faulty := remotetest.NewFaulty(o.blob)
			c := newClone(t, faulty)
			head := c.head()
			done := false
			faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", N: n, Do: func() { o.collect(); done = true }})
			if !inline && n == 1 { // before index files are read
				faulty.Heal()
				o.collect()
				done = true
			}

			if _, err := c.fetch(head); err != nil {
				t.Fatalf("call %d: %v", n, err)
			}
			c.wantAll(o, head.Refs[mainRef])
			if !done {
				if n < 4 {
					t.Errorf("only %d calls", n-1)
				}
				break
			}
		}
	}
}

// TestFetchDeleted deletes the wanted commit during a fetch. Packs may move once more while
// the fetch looks for the commit.
func TestFetchDeleted(t *testing.T) {
	t.Parallel()
	for _, replaced := range []bool{false, true} {
		for n := 0; n < 9; n++ { // the read at which packs move once more
			o := newOrigin(t)
			o.packSize = 2000
			o.history(2)
			faulty := remotetest.NewFaulty(o.blob)
			c := newClone(t, faulty)
			head := c.head()
			faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", N: 2, Do: func() {
				move := rootlog.RefChange{Name: mainRef, Old: o.at.Refs[mainRef]}
				if replaced {
					move.New = commitKeys(o.commit(o.tree(nil, nil)))[0]
				}
				o.change(rootlog.Change{Refs: []rootlog.RefChange{move}})
				o.collect()
				if n > 0 {
					faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", N: n, Do: o.collect})
				}
			}})
			_, err := c.fetch(head)
			if !errors.Is(err, ErrDeleted) || !strings.Contains(err.Error(), head.Refs[mainRef].String()) {
				t.Errorf("fetch, packs move at read %d: %v, want ErrDeleted", n, err)
			}
		}
	}
}

// TestFetchAhead checks that a wanted commit does not count as deleted if packs move after
// the push of a newer commit.
func TestFetchAhead(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	commits := o.history(2)
	faulty := remotetest.NewFaulty(o.blob)
	c := newClone(t, faulty)
	head := c.head()
	faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", N: 2, Do: func() {
		o.push(o.commit(o.tree(map[string]string{"new": "new"}, nil), commits[1]))
		o.collect()
	}})
	if _, err := c.fetch(head); err != nil {
		t.Fatal(err)
	}
	c.wantAll(o, head.Refs[mainRef])
}

// TestFetchLacks checks that the error for an object in no index names the object and the
// commit that needs it.
func TestFetchLacks(t *testing.T) {
	t.Parallel()
	for _, kind := range []object.Kind{object.KindChunk, object.KindTree, object.KindCommit} {
		o := newOrigin(t)
		first := o.commit(o.tree(map[string]string{"a": noise(1, 100)}, nil))
		second := o.commit(o.tree(nil, nil), first)
		var left object.Key
		for _, key := range o.all.Keys() {
			if key.Kind == kind && key.ID != second && key.ID != first || kind == object.KindCommit && key.ID == first {
				left = key
			}
		}
		o.sent[left] = pack.Entry{}
		o.push(second)
		c := newClone(t, o.blob)
		head := c.head()
		_, err := c.fetch(head)
		var missing *object.NotFoundError
		if !errors.As(err, &missing) || missing.Key != left || !strings.Contains(err.Error(), "remote lacks "+left.String()+", which commit ") {
			t.Errorf("fetch without %s: %v", left, err)
		}
	}
}

// TestFetchHeals checks that a fetch receives wanted nodes and chunks that are damaged here.
func TestFetchHeals(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.history(1)
	c := newClone(t, o.blob)
	c.mustFetch(o)
	damaged := map[object.Kind]object.Key{}
	logs, err := filepath.Glob(filepath.Join(c.dir, "volumes", "*", "*.vlog"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("value logs %q, %v", logs, err)
	}

	data, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}

	for key, e := range o.sent {
		if damaged[key.Kind].IsZero() {
			damaged[key.Kind] = key
			i := bytes.Index(data, o.blob.Data(e.Pack.Name.Path())[e.Offset:e.Offset+e.Stored])
			data[i+int(e.Stored)/2] ^= 1
		}
	}

	if err := errors.Join(os.Chmod(logs[0], 0o600), os.WriteFile(logs[0], data, 0o600)); err != nil {
		t.Fatal(err)
	}
	c.reopen()
	c.skipCheck = true

	for _, key := range damaged { // a read finds the damage
		if _, err := c.store.Get(t.Context(), key); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("Get(%s): %v, want ErrCorrupt", key, err)
		}
	}

	if result := c.mustFetch(o); result.Objects != int64(len(damaged)) {
		t.Errorf("received %+v, want %d objects", result, len(damaged))
	}
}

// turnCounter counts the turns in which packs are read. Concurrent reads are one turn.
type turnCounter struct {
	remote.Backend
	mu    sync.Mutex
	now   int
	turns int // reads that began while no other one was running
}

func (c *turnCounter) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if strings.HasPrefix(name, "packs/") {
		c.mu.Lock()
		if c.now == 0 {
			c.turns++
		}
		c.now++
		c.mu.Unlock()
		time.Sleep(2 * time.Millisecond) // a slow connection
		defer func() {
			c.mu.Lock()
			c.now--
			c.mu.Unlock()
		}()
	}
	return c.Backend.Get(ctx, name, p, off)
}

// TestFetchManyPacks checks that a fetch reads small packs of a history concurrently, and
// reads few unwanted packs.
func TestFetchManyPacks(t *testing.T) {
	t.Parallel()
	for _, inline := range []bool{true, false} {
		o := newOrigin(t)
		o.inline = inline
		var first, last object.ID
		for i := range 150 {
			var parents []object.ID
			if i > 0 {
				parents = []object.ID{last}
			}
			last = o.commit(o.tree(map[string]string{"a": fmt.Sprint(i)}, nil), parents...)
			if i == 0 {
				first = last
			}
			o.push(last)
		}

		line := &turnCounter{Backend: o.blob}
		newClone(t, line).mustFetch(o)
		if line.turns > 50 {
			t.Errorf("%d turns for 150 packs, want at most 50", line.turns)
		}

		// A branch of the first commit and a new one.
		o.change(rootlog.Change{Refs: []rootlog.RefChange{{Name: mainRef, Old: o.at.Refs[mainRef]}}})
		o.push(o.commit(o.tree(map[string]string{"a": "other"}, nil), first))
		c := newClone(t, o.blob)
		o.blob.ResetCounts()

		if result := c.mustFetch(o); result.Objects != 4 || result.Bytes > 10_000 {
			t.Errorf("received %+v, want 4 objects", result)
		}
	}
}

// TestWithoutFolder checks that a remote without a local folder serves commits, and refuses
// operations that need the folder.
func TestWithoutFolder(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.history(2)
	r, err := Open(t.Context(), o.blob, Options{Now: func() (zero time.Time) { return }})
	if err != nil {
		t.Fatal(err)
	}
	objects, head, err := Objects(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range head.Refs {
		if _, err := object.ReadCommit(t.Context(), objects, key.ID); key.Kind == object.KindCommit && err != nil {
			t.Error(err)
		}
	}

	c := newClone(t, o.blob)
	session := c.store.Begin(volume.SessionOptions{})
	defer session.Close()
	for what, do := range map[string]func() error{
		"fetch": func() error {
			_, err := r.Fetch(t.Context(), session, head, FetchOptions{Records: &record.Set{}})
			return err
		},
		"push":   func() error { _, err := r.Push(t.Context(), c.store, PushOptions{}); return err },
		"gc":     func() error { _, err := r.PlanGC(t.Context(), nil, CollectOptions{}); return err },
		"check":  func() error { _, err := r.Check(t.Context(), CheckOptions{}, func(Problem) {}); return err },
		"repair": func() error { _, err := r.Repair(t.Context(), c.store, RepairOptions{}); return err },
	} {
		if err := do(); !errors.Is(err, errNoFolder) {
			t.Errorf("%s: %v, want errNoFolder", what, err)
		}
	}
}
