package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

func TestFetchClone(t *testing.T) {
	t.Parallel()
	for _, inline := range []bool{false, true} {
		o := transfertest.NewOrigin(t)
		o.Inline, o.PackSize = inline, 20_000
		o.PushHistory(5)
		c := transfertest.NewClone(t, o.Blob)
		o.Blob.ResetCounts()
		var last transfer.Progress
		head := c.Head()
		session := c.Store.Begin(volume.SessionOptions{})
		var begun, planned int64
		var mu sync.Mutex
		seen := map[object.ID]bool{}
		result, err := c.Remote.Fetch(t.Context(), session, head, transfer.FetchOptions{
			Want: []object.Key{head.Refs[transfertest.MainRef], head.Refs[transfertest.MainRef]}, Jobs: 3,
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
			Progress: func(p transfer.Progress) {
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
		c.WantAll(o, head.Refs[transfertest.MainRef])

		chunks := 0
		for _, key := range o.All.Keys() {
			if key.Kind == object.KindChunk {
				chunks++
			}
		}
		if begun != 1 || planned != int64(chunks) || len(seen) != chunks {
			t.Errorf("%d calls of BeginChunks for %d chunks, Chunk got %d; want 1 call for %d", begun, planned, len(seen), chunks)
		}

		all := int64(o.All.Len())
		if result.Objects != all || last != (transfer.Progress{transfer.PhaseCopy, all, all, result.Bytes, result.Bytes}) {
			t.Errorf("fetch: %+v, want %d objects; last progress %+v", result, all, last)
		}
		if got := o.Blob.Bytes(remotetest.Get); result.Bytes > got || result.Bytes < o.All.Size()/2 {
			t.Errorf("received %d bytes, the remote sent %d", result.Bytes, got)
		}

		o.Blob.ResetCounts()
		if again := c.MustFetch(o); again.Objects != 0 || again.Bytes != 0 {
			t.Errorf("the second fetch received %+v", again)
		}
	}
}

// TestFetchInWindows checks that a fetch in windows of few chunks receives each chunk once, also if later commits need it again, and
// calls BeginChunks with the last ones.
func TestFetchInWindows(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	o.PushHistory(5)
	c := transfertest.NewClone(t, o.Blob)
	head := c.Head()
	session := c.Store.Begin(volume.SessionOptions{})
	var begun, before, received atomic.Int64
	result, err := c.Remote.Fetch(t.Context(), session, head, transfer.InWindows(transfer.FetchOptions{
		Want:        []object.Key{head.Refs[transfertest.MainRef]},
		BeginChunks: func(context.Context, int64, int64) { begun.Add(1); before.Store(received.Load()) },
		Chunk:       func(object.ID, []byte) { received.Add(1) },
	}, 7))
	if err == nil {
		err = session.Publish(t.Context(), func(context.Context) error { return nil })
	}
	if err := errors.Join(err, session.Close()); err != nil {
		t.Fatal(err)
	}
	c.WantAll(o, head.Refs[transfertest.MainRef])
	chunks := int64(0)
	for _, key := range o.All.Keys() {
		if key.Kind == object.KindChunk {
			chunks++
		}
	}
	if result.Objects != int64(o.All.Len()) || received.Load() != chunks || begun.Load() != 1 || before.Load() < 7 {
		t.Errorf("received %d objects and %d chunks, want %d and %d; %d chunks before BeginChunks", result.Objects, received.Load(), o.All.Len(), chunks, before.Load())
	}
}

func TestFetchIncremental(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	first := o.PushHistory(3)
	c := transfertest.NewClone(t, o.Blob)
	c.MustFetch(o)
	before := o.All.Keys()
	next := o.PushHistory(4)[3] // the first three repeat the old ones with other dates
	var fresh, chunks int64
	have := map[object.Key]bool{}
	for _, key := range before {
		have[key] = true
	}
	for key := range objecttest.Closure(t, o.All, objecttest.CommitKeys(next)...) {
		if !have[key] {
			fresh++
			if !key.Kind.IsNode() {
				chunks += int64(o.Sent[key].Stored)
			}
		}
	}
	result := c.MustFetch(o, first[2])
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
	o := transfertest.NewOrigin(t)
	o.Inline, o.PackSize = true, 20_000
	o.PushHistory(3)
	for n := 1; ; n++ {
		faulty := remotetest.NewFaulty(o.Blob)
		c := transfertest.NewClone(t, faulty)
		how := []remotetest.How{remotetest.Before, remotetest.Short}[n%2]
		faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", N: n, How: how})
		head := c.Head()
		_, err := c.FetchAt(head)
		if err == nil {
			if n < 5 {
				t.Errorf("only %d calls", n-1)
			}
			return
		}
		if !errors.Is(err, remote.ErrTemporary) {
			t.Fatalf("call %d: %v, want ErrTemporary", n, err)
		}
		c.MustFetch(o)
	}
}

// TestFetchCancelled checks that a stuck fetch ends when its context is cancelled.
func TestFetchCancelled(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	o.PushHistory(2)
	for n := range 3 {
		faulty := remotetest.NewFaulty(o.Blob)
		c := transfertest.NewClone(t, faulty)
		head := c.Head()
		ctx, cancel := context.WithCancel(t.Context())
		faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", N: n + 1, Do: cancel, How: remotetest.Stuck})
		session := c.Store.Begin(volume.SessionOptions{})
		_, err := c.Remote.Fetch(ctx, session, head, transfer.FetchOptions{Want: []object.Key{head.Refs[transfertest.MainRef]}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("fetch: %v, want context.Canceled", err)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
}

// packDamage has ways to damage the pack of the object at e.
var packDamage = map[string]func(o *transfertest.Origin, e pack.Entry){
	"flipped": func(o *transfertest.Origin, e pack.Entry) {
		o.Blob.Damage(e.Pack.Name.Path(), int(e.Offset+e.Stored/2))
	},
	"cut": func(o *transfertest.Origin, e pack.Entry) {
		o.Blob.Truncate(e.Pack.Name.Path(), int(e.Offset+e.Stored-1))
	},
	"empty":   func(o *transfertest.Origin, e pack.Entry) { o.Blob.Truncate(e.Pack.Name.Path(), 0) },
	"missing": func(o *transfertest.Origin, e pack.Entry) { o.Blob.Remove(e.Pack.Name.Path()) },
	"swapped": func(o *transfertest.Origin, e pack.Entry) {
		for name := range o.PackNames() {
			if name != e.Pack.Name.Path() {
				o.Blob.Swap(name, e.Pack.Name.Path())
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
				o := transfertest.NewOrigin(t)
				o.PackSize = 15_000
				o.PushHistory(3)
				var victims []pack.Entry
				for key, e := range o.Sent {
					if key.Kind == kind {
						victims = append(victims, e)
					}
				}
				slices.SortFunc(victims, func(a, b pack.Entry) int { return int(a.Offset) - int(b.Offset) })
				victim := victims[len(victims)/2]
				sent := maps.Clone(o.Sent)
				spoil(o, victim)

				c := transfertest.NewClone(t, o.Blob)
				head := c.Head()
				_, err := c.FetchAt(head)
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
				if _, err := c.Store.Get(t.Context(), corrupt.Key); !errors.Is(err, object.ErrNotFound) {
					t.Errorf("Get of the damaged object: %v, want ErrNotFound", err)
				}

				// Another pack has the objects.
				var damaged []object.Key
				for key := range sent {
					damaged = append(damaged, key)
				}
				slices.SortFunc(damaged, object.Key.Compare)
				o.AppendRoot(o.PackObjects(damaged))
				c.MustFetch(o)
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
	o := transfertest.NewOrigin(t)
	o.PushMain(o.MakeCommit(o.MakeTree(map[string]string{"a": objecttest.Noise(1, 100), "b": objecttest.Noise(2, 100)}, nil)))
	f := &flipping{Backend: o.Blob, seen: map[string]bool{}}
	for _, e := range o.Sent {
		// Reads of single objects are intact.
		f.seen[fmt.Sprint(e.Pack.Name.Path(), e.Offset, e.Stored)] = true
	}
	transfertest.NewClone(t, f).MustFetch(o)
	if n := len(f.seen) - len(o.Sent); n != 2 {
		t.Errorf("%d parts were damaged, want one with nodes and one with chunks", n)
	}
}

// TestFetchMovedPacks checks that a fetch succeeds if a collector moves all objects to new
// packs and deletes the old packs meanwhile.
func TestFetchMovedPacks(t *testing.T) {
	t.Parallel()
	for _, inline := range []bool{false, true} {
		for n := 1; ; n++ {
			o := transfertest.NewOrigin(t)
			o.Inline, o.PackSize = inline, 20_000
			o.PushHistory(3)
			faulty := remotetest.NewFaulty(o.Blob)
			c := transfertest.NewClone(t, faulty)
			head := c.Head()
			done := false
			faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", N: n, Do: func() { o.CollectUnreached(); done = true }})
			if !inline && n == 1 { // before index files are read
				faulty.Heal()
				o.CollectUnreached()
				done = true
			}

			if _, err := c.FetchAt(head); err != nil {
				t.Fatalf("call %d: %v", n, err)
			}
			c.WantAll(o, head.Refs[transfertest.MainRef])
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
			o := transfertest.NewOrigin(t)
			o.PackSize = 2000
			o.PushHistory(2)
			faulty := remotetest.NewFaulty(o.Blob)
			c := transfertest.NewClone(t, faulty)
			head := c.Head()
			faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", N: 2, Do: func() {
				move := rootlog.RefChange{Name: transfertest.MainRef, Old: o.Head.Refs[transfertest.MainRef]}
				if replaced {
					move.New = objecttest.CommitKeys(o.MakeCommit(o.MakeTree(nil, nil)))[0]
				}
				o.AppendRoot(rootlog.Change{Refs: []rootlog.RefChange{move}})
				o.CollectUnreached()
				if n > 0 {
					faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", N: n, Do: o.CollectUnreached})
				}
			}})
			_, err := c.FetchAt(head)
			if !errors.Is(err, transfer.ErrDeleted) || !strings.Contains(err.Error(), head.Refs[transfertest.MainRef].String()) {
				t.Errorf("fetch, packs move at read %d: %v, want ErrDeleted", n, err)
			}
		}
	}
}

// TestFetchAhead checks that a wanted commit does not count as deleted if packs move after
// the push of a newer commit.
func TestFetchAhead(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	commits := o.PushHistory(2)
	faulty := remotetest.NewFaulty(o.Blob)
	c := transfertest.NewClone(t, faulty)
	head := c.Head()
	faulty.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", N: 2, Do: func() {
		o.PushMain(o.MakeCommit(o.MakeTree(map[string]string{"new": "new"}, nil), commits[1]))
		o.CollectUnreached()
	}})
	if _, err := c.FetchAt(head); err != nil {
		t.Fatal(err)
	}
	c.WantAll(o, head.Refs[transfertest.MainRef])
}

// TestFetchLacks checks that the error for an object in no index names the object and the
// commit that needs it.
func TestFetchLacks(t *testing.T) {
	t.Parallel()
	for _, kind := range []object.Kind{object.KindChunk, object.KindTree, object.KindCommit} {
		o := transfertest.NewOrigin(t)
		first := o.MakeCommit(o.MakeTree(map[string]string{"a": objecttest.Noise(1, 100)}, nil))
		second := o.MakeCommit(o.MakeTree(nil, nil), first)
		var left object.Key
		for _, key := range o.All.Keys() {
			if key.Kind == kind && key.ID != second && key.ID != first || kind == object.KindCommit && key.ID == first {
				left = key
			}
		}
		o.Sent[left] = pack.Entry{}
		o.PushMain(second)
		c := transfertest.NewClone(t, o.Blob)
		head := c.Head()
		_, err := c.FetchAt(head)
		var missing *object.AbsentError
		if !errors.As(err, &missing) || missing.Key != left || !strings.Contains(err.Error(), "remote lacks "+left.String()+", which commit ") {
			t.Errorf("fetch without %s: %v", left, err)
		}
	}
}

// TestFetchHeals checks that a fetch receives wanted nodes and chunks that are damaged here.
func TestFetchHeals(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	o.PushHistory(1)
	c := transfertest.NewClone(t, o.Blob)
	c.MustFetch(o)
	damaged := map[object.Kind]object.Key{}
	logs, err := filepath.Glob(filepath.Join(c.Dir, "volumes", "*", "*.vlog"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("value logs %q, %v", logs, err)
	}

	data, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}

	for key, e := range o.Sent {
		if damaged[key.Kind].IsZero() {
			damaged[key.Kind] = key
			i := bytes.Index(data, o.Blob.Data(e.Pack.Name.Path())[e.Offset:e.Offset+e.Stored])
			data[i+int(e.Stored)/2] ^= 1
		}
	}

	if err := errors.Join(os.Chmod(logs[0], 0o600), os.WriteFile(logs[0], data, 0o600)); err != nil {
		t.Fatal(err)
	}
	c.Reopen()
	c.SkipCheck = true

	for _, key := range damaged { // a read finds the damage
		if _, err := c.Store.Get(t.Context(), key); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("Get(%s): %v, want ErrCorrupt", key, err)
		}
	}

	if result := c.MustFetch(o); result.Objects != int64(len(damaged)) {
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
		o := transfertest.NewOrigin(t)
		o.Inline = inline
		var first, last object.ID
		for i := range 150 {
			var parents []object.ID
			if i > 0 {
				parents = []object.ID{last}
			}
			last = o.MakeCommit(o.MakeTree(map[string]string{"a": fmt.Sprint(i)}, nil), parents...)
			if i == 0 {
				first = last
			}
			o.PushMain(last)
		}

		line := &turnCounter{Backend: o.Blob}
		transfertest.NewClone(t, line).MustFetch(o)
		if line.turns > 50 {
			t.Errorf("%d turns for 150 packs, want at most 50", line.turns)
		}

		// A branch of the first commit and a new one.
		o.AppendRoot(rootlog.Change{Refs: []rootlog.RefChange{{Name: transfertest.MainRef, Old: o.Head.Refs[transfertest.MainRef]}}})
		o.PushMain(o.MakeCommit(o.MakeTree(map[string]string{"a": "other"}, nil), first))
		c := transfertest.NewClone(t, o.Blob)
		o.Blob.ResetCounts()

		if result := c.MustFetch(o); result.Objects != 4 || result.Bytes > 10_000 {
			t.Errorf("received %+v, want 4 objects", result)
		}
	}
}

// TestWithoutFolder checks that a remote without a local folder serves commits, and refuses
// operations that need the folder.
func TestWithoutFolder(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	o.PushHistory(2)
	r, err := transfer.Open(t.Context(), o.Blob, transfer.Options{Now: func() (zero time.Time) { return }})
	if err != nil {
		t.Fatal(err)
	}
	objects, head, err := transfer.Objects(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range head.Refs {
		if _, err := object.ReadCommit(t.Context(), objects, key.ID); key.Kind == object.KindCommit && err != nil {
			t.Error(err)
		}
	}

	c := transfertest.NewClone(t, o.Blob)
	session := c.Store.Begin(volume.SessionOptions{})
	defer session.Close()
	for what, do := range map[string]func() error{
		"fetch": func() error {
			_, err := r.Fetch(t.Context(), session, head, transfer.FetchOptions{Records: &record.Set{}})
			return err
		},
		"push": func() error { _, err := r.Push(t.Context(), c.Store, transfer.PushOptions{}); return err },
		"gc":   func() error { _, err := collect.PlanGarbage(t.Context(), r, nil, collect.Options{}); return err },
		"check": func() error {
			_, err := collect.Check(t.Context(), r, collect.CheckOptions{}, func(collect.Problem) {})
			return err
		},
		"repair": func() error { _, err := collect.Repair(t.Context(), r, c.Store, collect.RepairOptions{}); return err },
	} {
		if err := do(); !errors.Is(err, transfer.ErrNoFolder) {
			t.Errorf("%s: %v, want errNoFolder", what, err)
		}
	}
}
