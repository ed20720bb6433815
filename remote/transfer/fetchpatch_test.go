package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// newDrafts returns a remote with drafts in repacked packs, and the entries of the patches.
func newDrafts(t testing.TB, inline bool) (o *transfertest.Origin, patches []pack.Entry) {
	t.Helper()
	o = transfertest.NewOrigin(t)
	o.Inline, o.Repacked = inline, true
	o.PushDrafts(12)
	o.CollectUnreached()
	patches = o.Patches()
	kinds := map[object.Kind]int{}
	for _, e := range patches {
		kinds[e.Key.Kind]++
	}
	if kinds[object.KindChunk] < 20 || kinds[object.KindTree] < 8 {
		t.Fatalf("patches by kind: %v", kinds)
	}
	return o, patches
}

func TestFetchPatches(t *testing.T) {
	t.Parallel()
	for _, inline := range []bool{false, true} {
		o, patches := newDrafts(t, inline)
		c := transfertest.NewClone(t, o.Blob)
		head := c.Head()
		var mu sync.Mutex
		seen := map[object.ID]int{}
		session := c.Store.Begin(volume.SessionOptions{})
		result, err := c.Remote.Fetch(t.Context(), session, head, transfer.FetchOptions{
			Want: []object.Key{head.Refs[transfertest.MainRef]},
			Chunk: func(id object.ID, data []byte) {
				mu.Lock()
				defer mu.Unlock()
				if seen[id]++; seen[id] > 1 || object.Sum(data) != id {
					t.Errorf("Chunk got %s %d times, or with other bytes", id, seen[id])
				}
			},
		})
		if err == nil {
			err = session.Publish(t.Context(), func(context.Context) error { return nil })
		}

		if err := errors.Join(err, session.Close()); err != nil {
			t.Fatal(err)
		}
		c.WantAll(o, head.Refs[transfertest.MainRef])

		for _, e := range patches {
			if e.Key.Kind == object.KindChunk && seen[e.Key.ID] != 1 {
				t.Errorf("Chunk did not get %s", e.Key)
			}
		}
		if result.Objects != int64(len(o.Sent)) {
			t.Errorf("received %d of %d objects", result.Objects, len(o.Sent))
		}
	}
}

// TestFetchSomePatches fetches patches whose bases are here already, or are not wanted.
func TestFetchSomePatches(t *testing.T) {
	t.Parallel()
	o := transfertest.NewOrigin(t)
	o.Repacked = true
	commits := o.PushDrafts(12)
	c := transfertest.NewClone(t, o.Blob)
	old := *o.Head
	old.Refs = map[string]object.Key{transfertest.MainRef: objecttest.CommitKeys(commits[5])[0]}
	if _, err := c.FetchAt(&old); err != nil {
		t.Fatal(err)
	}
	o.CollectUnreached()
	c.MustFetch(o, commits[5])

	// All files of a branch without history are patches of unwanted objects.
	tip := o.MakeCommit(o.MakeTree(map[string]string{"f": objecttest.Noise(3, 1500) + objecttest.Noise(4, 1500)}, nil))
	o.AppendRoot(rootlog.Change{Refs: []rootlog.RefChange{{Name: transfertest.MainRef, Old: o.Head.Refs[transfertest.MainRef], New: objecttest.CommitKeys(commits[11])[0]}}})
	o.PushMain(tip)
	o.CollectUnreached()
	transfertest.NewClone(t, o.Blob).MustFetch(o)
}

// TestFetchPatchesFar fetches patches that are too far from their bases for one read.
func TestFetchPatchesFar(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, mostly in one goroutine")
	}
	o := transfertest.NewOrigin(t)
	o.Repacked = true

	var list []transfertest.Sample
	for i := range 11 {
		data := []byte(objecttest.Noise(i, 1<<20))
		list = append(list, transfertest.Sample{Key: object.Key{Kind: object.KindChunk, ID: object.Sum(data)}, Data: data})
	}

	for i := range 11 {
		data := append([]byte("changed"), list[i].Data...)
		list = append(list, transfertest.Sample{Key: object.Key{Kind: object.KindChunk, ID: object.Sum(data)}, Data: data})
	}

	w, enc := o.NewWriter(), frame.NewEncoder(frame.Fastest)
	m := object.NewManifestWriter(o)
	for i, it := range list {
		value := enc.Append(nil, it.Data)
		if i >= 11 {
			base := list[i-11]
			value, _ = enc.AppendPatch(nil, it.Data, base.Key.ID, base.Data)
		}
		w.AddValue(t, it.Key, value, it.Data)
		o.PutData(it.Key.Kind, it.Data)
		if err := m.Add(t.Context(), object.ChunkRef{ID: it.Key.ID, Size: uint32(len(it.Data))}); err != nil {
			t.Fatal(err)
		}
	}

	in := o.PutPack(w)
	for _, e := range in.Entries {
		o.Sent[e.Key] = e
	}
	o.AppendRoot(rootlog.Change{AddPacks: []rootlog.Inline{in}})

	if n := len(o.Patches()); n != 11 {
		t.Fatalf("%d patches, want 11", n)
	}
	content, size, err := m.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	trees := object.NewTreeWriter(o)
	if err := trees.Add(t.Context(), object.Entry{Name: "f", Type: object.TypeFile, Mode: 0o644, Size: size, MTime: object.Time{Sec: 1}, Content: content}); err != nil {
		t.Fatal(err)
	}

	root, err := trees.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.PushMain(o.MakeCommit(root))
	transfertest.NewClone(t, o.Blob).MustFetch(o)

	if found := transfertest.CheckProblems(t, o.Blob, true); len(found) > 0 {
		t.Errorf("problems %q, want none", found)
	}
}

// TestFetchPatchDamage checks that a damaged base makes its patches damaged, until another
// pack has the objects.
func TestFetchPatchDamage(t *testing.T) {
	t.Parallel()
	for _, kind := range []object.Kind{object.KindChunk, object.KindTree} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			o, patches := newDrafts(t, false)
			patches = slices.DeleteFunc(patches, func(e pack.Entry) bool { return e.Key.Kind != kind })
			bases := o.BasesOf(patches[len(patches)-1])
			victim := bases[len(bases)-1]
			broken := map[object.Key]bool{victim.Key: true}
			for _, e := range patches {
				if slices.Contains(o.BasesOf(e), victim) {
					broken[e.Key] = true
				}
			}
			o.Blob.Damage(victim.Pack.Name.Path(), int(victim.Offset+victim.Stored)-2)

			c := transfertest.NewClone(t, o.Blob)
			head := c.Head()
			_, err := c.FetchAt(head)
			var corrupt *object.CorruptError
			if !errors.As(err, &corrupt) || !broken[corrupt.Key] {
				t.Fatalf("fetch: %v, want a CorruptError for the base or a patch of it", err)
			}
			e := o.Sent[corrupt.Key]
			if want := fmt.Sprintf("pack %s, offset %d", e.Pack.Name, e.Offset); corrupt.Where != want {
				t.Errorf("%v; want %s", err, want)
			}
			wantProblems(t, o, broken)

			damaged := slices.SortedFunc(maps.Keys(broken), object.Key.Compare)
			o.AppendRoot(o.PackObjects(damaged))
			c.MustFetch(o)
		})
	}
}

// wantProblems checks that a full check reports exactly these objects as damaged, with their
// places.
func wantProblems(t *testing.T, o *transfertest.Origin, broken map[object.Key]bool) {
	t.Helper()
	r, err := transfertest.OpenTest(t, o.Blob, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	found := map[object.Key]bool{}
	_, err = collect.Check(t.Context(), r, collect.CheckOptions{ReadData: true}, func(p collect.Problem) {
		var corrupt *object.CorruptError
		e := o.Sent[p.Key]
		if !errors.As(p.Err, &corrupt) || corrupt.Key != p.Key || corrupt.Where != fmt.Sprintf("pack %s, offset %d", e.Pack.Name, e.Offset) {
			t.Errorf("unexpected problem: %v", p)
		}
		if found[p.Key] {
			t.Errorf("%s was reported twice", p.Key)
		}
		found[p.Key] = true
	})
	if err != nil || !maps.Equal(found, broken) {
		t.Errorf("found %v damaged, want %v; %v", found, broken, err)
	}
}

// TestFetchPatchesReadsAgain checks that a fetch retries reads of patches and bases that were
// damaged in transit.
func TestFetchPatchesReadsAgain(t *testing.T) {
	t.Parallel()
	o, _ := newDrafts(t, false)
	f := &flipping{Backend: o.Blob, once: true, seen: map[string]bool{}}
	transfertest.NewClone(t, f).MustFetch(o)
	if len(f.seen) != len(o.PackNames()) {
		t.Errorf("%d packs were damaged, want %d", len(f.seen), len(o.PackNames()))
	}
}

// TestRescuePatches checks that Rescue returns patches as complete objects.
func TestRescuePatches(t *testing.T) {
	t.Parallel()
	o, patches := newDrafts(t, false)
	c := transfertest.NewClone(t, o.Blob)
	session := c.Store.Begin(volume.SessionOptions{})
	var keys []object.Key
	for _, e := range patches {
		keys = append(keys, e.Key)
	}
	err := c.Remote.Rescue(t.Context(), keys, func(key object.Key, value []byte, raw int) error {
		return session.PutStored(t.Context(), key, value, raw, nil)
	})
	if err == nil {
		err = session.Publish(t.Context(), func(context.Context) error { return nil })
	}
	if err := errors.Join(err, session.Close()); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		want, _ := o.All.Get(t.Context(), key)
		if got, err := c.Store.Get(t.Context(), key); err != nil || string(got) != string(want) {
			t.Errorf("Get(%s): %d bytes, %v", key, len(got), err)
		}
	}
}
