package transfer

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
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// drafts pushes n commits and returns them. Each differs in a few bytes from the one before.
func (o *origin) drafts(n int) (commits []object.ID) {
	o.t.Helper()
	for i := range n {
		files := map[string]string{}
		for f := range 40 {
			files[fmt.Sprint("f", f)] = noise(f, 3000)
		}
		for f := range 3 {
			name := fmt.Sprint("f", (i+10*f)%40)
			files[name] = files[name][:1000+i] + fmt.Sprint("draft ", i) + files[name][1000:]
		}
		var parents []object.ID
		if i > 0 {
			parents = commits[i-1:]
		}
		commits = append(commits, o.commit(o.tree(files, nil), parents...))
		o.push(commits[i])
	}
	return commits
}

// newDrafts returns a remote with drafts in optimised packs, and the entries of the patches.
func newDrafts(t testing.TB, inline bool) (o *origin, patches []pack.Entry) {
	t.Helper()
	o = newOrigin(t)
	o.inline, o.optimised = inline, true
	o.drafts(12)
	o.collect()
	patches = o.patches()
	kinds := map[object.Kind]int{}
	for _, e := range patches {
		kinds[e.Key.Kind]++
	}
	if kinds[object.KindChunk] < 20 || kinds[object.KindTree] < 8 {
		t.Fatalf("patches by kind: %v", kinds)
	}
	return o, patches
}

// value returns the stored value of an object.
func (o *origin) value(e pack.Entry) []byte {
	return o.blob.Data(e.Pack.Name.Path())[e.Offset:][:e.Stored]
}

// patches returns the entries of patches, in stored order.
func (o *origin) patches() (list []pack.Entry) {
	for _, e := range o.sent {
		if frame.IsNear(o.value(e)) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, byPlace)
	return list
}

func byPlace(a, b pack.Entry) int {
	if c := a.Pack.Name.Compare(b.Pack.Name); c != 0 {
		return c
	}
	return int(a.Offset) - int(b.Offset)
}

// basesOf returns the bases of a patch: its own base, the base of that, and so on.
func (o *origin) basesOf(patch pack.Entry) (list []pack.Entry) {
	o.t.Helper()
	for e := patch; frame.IsNear(o.value(e)); {
		n, err := frame.NearBase(o.value(e))
		if err != nil {
			o.t.Fatal(err)
		}
		at := e.Offset - uint32(n.Distance)
		found := false
		for _, other := range o.sent {
			if other.Pack == e.Pack && other.Offset == at {
				e, found = other, true
				break
			}
		}
		if !found || e.Stored != uint32(n.Stored) || e.Raw != uint32(n.Raw) || e.Key.Kind != patch.Key.Kind {
			o.t.Fatalf("the base of %s is missing", patch.Key)
		}
		list = append(list, e)
	}
	return list
}

func TestFetchPatches(t *testing.T) {
	t.Parallel()
	for _, inline := range []bool{false, true} {
		o, patches := newDrafts(t, inline)
		c := newClone(t, o.blob)
		head := c.head()
		var mu sync.Mutex
		seen := map[object.ID]int{}
		session := c.store.Begin(volume.SessionOptions{})
		result, err := c.remote.Fetch(t.Context(), session, head, FetchOptions{
			Want: []object.Key{head.Refs[mainRef]},
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
		c.wantAll(o, head.Refs[mainRef])

		for _, e := range patches {
			if e.Key.Kind == object.KindChunk && seen[e.Key.ID] != 1 {
				t.Errorf("Chunk did not get %s", e.Key)
			}
		}
		if result.Objects != int64(len(o.sent)) {
			t.Errorf("received %d of %d objects", result.Objects, len(o.sent))
		}
	}
}

// TestFetchSomePatches fetches patches whose bases are here already, or are not wanted.
func TestFetchSomePatches(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.optimised = true
	commits := o.drafts(12)
	c := newClone(t, o.blob)
	old := *o.at
	old.Refs = map[string]object.Key{mainRef: commitKeys(commits[5])[0]}
	if _, err := c.fetch(&old); err != nil {
		t.Fatal(err)
	}
	o.collect()
	c.mustFetch(o, commits[5])

	// All files of a branch without history are patches of unwanted objects.
	tip := o.commit(o.tree(map[string]string{"f": noise(3, 1500) + noise(4, 1500)}, nil))
	o.change(rootlog.Change{Refs: []rootlog.RefChange{{Name: mainRef, Old: o.at.Refs[mainRef], New: commitKeys(commits[11])[0]}}})
	o.push(tip)
	o.collect()
	newClone(t, o.blob).mustFetch(o)
}

// TestFetchPatchesFar fetches patches that are too far from their bases for one read.
func TestFetchPatchesFar(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, mostly in one goroutine")
	}
	o := newOrigin(t)
	o.optimised = true

	var list []sample
	for i := range 11 {
		data := []byte(noise(i, 1<<20))
		list = append(list, sample{object.Key{Kind: object.KindChunk, ID: object.Sum(data)}, data})
	}

	for i := range 11 {
		data := append([]byte("changed"), list[i].data...)
		list = append(list, sample{object.Key{Kind: object.KindChunk, ID: object.Sum(data)}, data})
	}

	w, enc := o.writer(), frame.NewEncoder(frame.Fastest)
	m := object.NewManifestWriter(o)
	for i, it := range list {
		value := enc.Append(nil, it.data)
		if i >= 11 {
			base := list[i-11]
			value, _ = enc.AppendPatch(nil, it.data, base.key.ID, base.data)
		}
		w.add(t, it.key, value, it.data)
		o.putData(it.key.Kind, it.data)
		if err := m.Add(t.Context(), object.ChunkRef{ID: it.key.ID, Size: uint32(len(it.data))}); err != nil {
			t.Fatal(err)
		}
	}

	in := o.put(w)
	for _, e := range in.Entries {
		o.sent[e.Key] = e
	}
	o.change(rootlog.Change{AddPacks: []rootlog.Inline{in}})

	if n := len(o.patches()); n != 11 {
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
	o.push(o.commit(root))
	newClone(t, o.blob).mustFetch(o)

	if found := problems(t, o.blob, true); len(found) > 0 {
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
			bases := o.basesOf(patches[len(patches)-1])
			victim := bases[len(bases)-1]
			broken := map[object.Key]bool{victim.Key: true}
			for _, e := range patches {
				if slices.Contains(o.basesOf(e), victim) {
					broken[e.Key] = true
				}
			}
			o.blob.Damage(victim.Pack.Name.Path(), int(victim.Offset+victim.Stored)-2)

			c := newClone(t, o.blob)
			head := c.head()
			_, err := c.fetch(head)
			var corrupt *object.CorruptError
			if !errors.As(err, &corrupt) || !broken[corrupt.Key] {
				t.Fatalf("fetch: %v, want a CorruptError for the base or a patch of it", err)
			}
			e := o.sent[corrupt.Key]
			if want := fmt.Sprintf("pack %s, offset %d", e.Pack.Name, e.Offset); corrupt.Where != want {
				t.Errorf("%v; want %s", err, want)
			}
			wantProblems(t, o, broken)

			damaged := slices.SortedFunc(maps.Keys(broken), object.Key.Compare)
			o.change(o.pack(damaged))
			c.mustFetch(o)
		})
	}
}

// wantProblems checks that a full check reports exactly these objects as damaged, with their
// places.
func wantProblems(t *testing.T, o *origin, broken map[object.Key]bool) {
	t.Helper()
	r, err := openTest(t, o.blob, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	found := map[object.Key]bool{}
	_, err = r.Check(t.Context(), CheckOptions{ReadData: true}, func(p Problem) {
		var corrupt *object.CorruptError
		e := o.sent[p.Key]
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
	f := &flipping{Backend: o.blob, once: true, seen: map[string]bool{}}
	newClone(t, f).mustFetch(o)
	if len(f.seen) != len(o.packs()) {
		t.Errorf("%d packs were damaged, want %d", len(f.seen), len(o.packs()))
	}
}

// TestRescuePatches checks that Rescue returns patches as complete objects.
func TestRescuePatches(t *testing.T) {
	t.Parallel()
	o, patches := newDrafts(t, false)
	c := newClone(t, o.blob)
	session := c.store.Begin(volume.SessionOptions{})
	var keys []object.Key
	for _, e := range patches {
		keys = append(keys, e.Key)
	}
	err := c.remote.Rescue(t.Context(), keys, func(key object.Key, value []byte, raw int) error {
		return session.PutStored(t.Context(), key, value, raw, nil)
	})
	if err == nil {
		err = session.Publish(t.Context(), func(context.Context) error { return nil })
	}
	if err := errors.Join(err, session.Close()); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		want, _ := o.all.Get(t.Context(), key)
		if got, err := c.store.Get(t.Context(), key); err != nil || string(got) != string(want) {
			t.Errorf("Get(%s): %d bytes, %v", key, len(got), err)
		}
	}
}
