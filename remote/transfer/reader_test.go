package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// newReader returns a reader of the remote in b.
func newReader(t *testing.T, b remote.Backend) *transfer.Reader {
	t.Helper()
	opened, err := transfertest.OpenTest(t, b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, err := transfer.NewReader(t.Context(), opened)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// packsOf returns the keys of an origin's chunks by the file of their pack.
func packsOf(o *transfertest.Origin) map[string][]object.Key {
	packs := map[string][]object.Key{}
	for key, e := range o.Sent {
		if key.Kind == object.KindChunk {
			packs[e.Pack.Name.Path()] = append(packs[e.Pack.Name.Path()], key)
		}
	}
	return packs
}

// A reader does not rely on packs whose files are missing or cut, though the index names them.
func TestFindUnkept(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*remotetest.Memory, string){
		"missing": func(b *remotetest.Memory, name string) { b.Remove(name) },
		"cut":     func(b *remotetest.Memory, name string) { b.Truncate(name, 40) },
	} {
		for _, size := range []int{1_000, 20_000} { // many packs, and few
			o := transfertest.NewOrigin(t)
			o.PackSize = size
			o.PushHistory(2)
			packs := packsOf(o)
			var all, lost []object.Key
			for file, keys := range packs {
				if all = append(all, keys...); lost == nil {
					lost = keys
					spoil(o.Blob, file)
				}
			}

			r := newReader(t, o.Blob)
			o.Blob.ResetCounts()
			for range 2 { // the second time, it asks for nothing
				unkept, err := r.FindUnkept(t.Context(), all)
				if err != nil || !sameKeys(unkept, lost) {
					t.Errorf("%s: %d objects unkept, error %v; want %d", name, len(unkept), err, len(lost))
				}
			}
			stats, lists := o.Blob.Calls(remotetest.Stat), o.Blob.Calls(remotetest.List)
			if many := len(packs) > 8; many && (stats != 1 || lists != 1) || !many && (stats != len(packs) || lists != 0) {
				t.Errorf("%s: %d packs: asked for %d, and %d lists", name, len(packs), stats, lists)
			}
			if missing, err := r.Missing(t.Context(), all); err != nil || len(missing) > 0 {
				t.Errorf("%s: missing by the index: %v, %v; want none", name, missing, err)
			}
		}
	}
}

func sameKeys(a, b []object.Key) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, object.Key.Compare)
	slices.SortFunc(b, object.Key.Compare)
	return slices.Equal(a, b)
}

// An object is kept if another pack than the first has it. A store that cannot be asked gives an error.
func TestFindUnkeptCopies(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	commit := o.MakeCommit(o.MakeTree(map[string]string{"a": objecttest.Noise(1, 3000)}, nil))
	o.PushMain(commit)
	var key object.Key
	var first pack.Entry
	for k, e := range o.Sent {
		if k.Kind == object.KindChunk {
			key, first = k, e
		}
	}
	again := o.PackObjects([]object.Key{key})
	o.AppendRoot(rootlog.Change{AddPacks: again.AddPacks, AddIndexes: again.AddIndexes})
	second := o.Sent[key]

	for _, e := range []pack.Entry{first, second} {
		before := o.Blob.Snapshot()
		o.Blob.Remove(e.Pack.Name.Path())
		if unkept, err := newReader(t, o.Blob).FindUnkept(t.Context(), []object.Key{key}); err != nil || len(unkept) > 0 {
			t.Errorf("without pack %s: unkept %v, %v; want none", e.Pack.Name, unkept, err)
		}
		o.Blob.Restore(before)
	}

	b := remotetest.NewFaulty(o.Blob)
	r := newReader(t, b)
	b.Fail(remotetest.Fault{Op: remotetest.Stat, Err: remote.ErrPermission})
	if unkept, err := r.FindUnkept(t.Context(), []object.Key{key}); !errors.Is(err, remote.ErrPermission) {
		t.Errorf("a store without permission: unkept %v, error %v", unkept, err)
	}
}

// gotAll returns the objects that GetAll takes.
func gotAll(t *testing.T, r object.BatchReader, keys []object.Key) (map[object.Key]string, error) {
	t.Helper()
	var mu sync.Mutex
	got := map[object.Key]string{}
	err := r.GetAll(t.Context(), keys, func(key object.Key, data []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if _, again := got[key]; again {
			t.Errorf("%s was taken twice", key)
		}
		got[key] = string(data)
		return nil
	})
	return got, err
}

// wantAll checks that got has the objects of keys.
func wantAll(t *testing.T, o *transfertest.Origin, got map[object.Key]string, keys []object.Key) {
	t.Helper()
	for _, key := range keys {
		if data, err := o.All.Get(t.Context(), key); err != nil || got[key] != string(data) {
			t.Errorf("%s: %d bytes, want %d; %v", key, len(got[key]), len(data), err)
		}
	}
}

// pushFiles pushes a folder with n files of size bytes, and returns the keys of their chunks twice, in
// random order.
func pushFiles(o *transfertest.Origin, n, size int) (keys []object.Key) {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprint("f", i)] = objecttest.Noise(i, size)
	}
	o.PushMain(o.MakeCommit(o.MakeTree(files, nil)))
	for key := range o.Sent {
		if key.Kind == object.KindChunk {
			keys = append(keys, key, key)
		}
	}
	objecttest.Rand(1).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// Neighbours are read together, objects come once, and missing ones are passed over.
func TestGetAll(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		packSize, requests int
		repacked           bool
	}{
		"one pack":     {pack.TargetSize, 1, false},
		"packs":        {50_000, 9, false},
		"with patches": {pack.TargetSize, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := transfertest.NewOrigin(t)
			o.PackSize, o.Repacked = test.packSize, test.repacked
			keys := pushFiles(o, 100, 3_000)
			r := newReader(t, o.Blob)
			o.Blob.ResetCounts()
			got, err := gotAll(t, r, append(keys, object.Key{Kind: object.KindChunk}))
			if err != nil || len(got) != 100 {
				t.Errorf("%d objects, want 100; %v", len(got), err)
			}
			wantAll(t, o, got, keys)
			if n := o.Blob.Calls(remotetest.Get); n > test.requests+1 { // also looks for a new head, because of the missing one
				t.Errorf("%d requests, want at most %d", n, test.requests+1)
			}
		})
	}
}

// Damaged values are read from other packs. Without another copy, the rest is read all the same.
func TestGetAllDamaged(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	keys := pushFiles(o, 20, 3_000)
	o.Blob.Damage(o.Sent[keys[0]].Pack.Name.Path(), int(o.Sent[keys[0]].Offset)+100)
	got, err := gotAll(t, newReader(t, o.Blob), keys)
	// On an encrypted remote, the objects of a segment are damaged together.
	if _, found := got[keys[0]]; found || err != nil || len(got) != 19 && !transfertest.IsOverCrypt(t) {
		t.Errorf("%d objects, want 19; %v", len(got), err)
	}

	all := slices.Compact(slices.SortedFunc(slices.Values(keys), object.Key.Compare))
	again := o.PackObjects(all)
	o.AppendRoot(rootlog.Change{AddPacks: again.AddPacks, AddIndexes: again.AddIndexes})
	r := newReader(t, o.Blob)
	got, err = gotAll(t, r, keys)
	if err != nil {
		t.Error(err)
	}
	wantAll(t, o, got, keys)
	if data, err := r.Get(t.Context(), keys[0]); err != nil || string(data) != got[keys[0]] {
		t.Errorf("get: %d bytes, %v", len(data), err)
	}
}

// The error of a store, of take or of the context ends a batch.
func TestGetAllFails(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	o.PackSize = 10_000
	keys := pushFiles(o, 50, 3_000)
	b := remotetest.NewFaulty(o.Blob)
	r := newReader(t, b)
	b.Fail(remotetest.Fault{Op: remotetest.Get, Name: "packs/", Err: remote.ErrPermission})
	if _, err := gotAll(t, r, keys); !errors.Is(err, remote.ErrPermission) {
		t.Errorf("a store without permission: %v", err)
	}

	enough := errors.New("enough")
	if err := r.GetAll(t.Context(), keys, func(object.Key, []byte) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("error %v, want that of take", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	o.Blob.ResetCounts()
	err := r.GetAll(ctx, keys, func(object.Key, []byte) error { cancel(); return nil })
	if n := o.Blob.Calls(remotetest.Get); !errors.Is(err, context.Canceled) || n > 8 {
		t.Errorf("after a cancellation: error %v, %d requests", err, n)
	}
}

// windowed counts the bytes of reads that are under way at once.
type windowed struct {
	remote.Backend
	mu        sync.Mutex
	now, most int
	largest   int
}

// Get implements [remote.Blobs].
func (w *windowed) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	w.mu.Lock()
	w.now += len(p)
	w.most, w.largest = max(w.most, w.now), max(w.largest, len(p))
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.now -= len(p)
	}()
	return w.Backend.Get(ctx, name, p, off)
}

// A large batch is read in ranges of at most 8 MiB, four at once.
func TestGetAllMemory(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	keys := pushFiles(o, 100, 600_000)
	w := &windowed{Backend: o.Blob}
	r := newReader(t, w)
	w.most, w.largest = 0, 0
	o.Blob.ResetCounts()
	got, err := gotAll(t, r, keys)
	if err != nil || len(got) != 100 {
		t.Errorf("%d objects, want 100; %v", len(got), err)
	}
	if n := o.Blob.Calls(remotetest.Get); n > 9 || w.largest > transfer.MaxRead || w.most > transfer.DefaultJobs*transfer.MaxRead {
		t.Errorf("%d requests, one of %d bytes; %d bytes at once", n, w.largest, w.most)
	}
}

// The nodes of a folder are read with few requests, though one by one.
func TestGetNodes(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	o.PushHistory(5)
	r := newReader(t, o.Blob)
	o.Blob.ResetCounts()
	for key := range o.Sent {
		if !key.Kind.IsNode() {
			continue
		}
		want, err := o.All.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := r.Get(t.Context(), key); err != nil || string(data) != string(want) {
			t.Errorf("%s: %d bytes, want %d; %v", key, len(data), len(want), err)
		}
	}
	if n := o.Blob.Calls(remotetest.Get); n > 5 { // one for each pack
		t.Errorf("%d requests, want at most 5", n)
	}
}
