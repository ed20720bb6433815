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

// drafts pushes some commits, each of which changes a few bytes of what the one
// before has, and returns them.
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

// newDrafts returns a remote with drafts in packs that have patches, and the
// entries of these.
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
		t.Fatalf("patches: %v", kinds)
	}
	return o, patches
}

// value returns what is stored of an object.
func (o *origin) value(e pack.Entry) []byte {
	return o.blob.Data(e.Pack.Name.Path())[e.Offset:][:e.Stored]
}

// patches returns the entries of objects that are patches, in the order in which
// they lie.
func (o *origin) patches() (list []pack.Entry) {
	for _, e := range o.sent {
		if frame.IsNear(o.value(e)) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, asEntriesLie)
	return list
}

func asEntriesLie(a, b pack.Entry) int {
	if c := a.Pack.Name.Compare(b.Pack.Name); c != 0 {
		return c
	}
	return int(a.Offset) - int(b.Offset)
}

// hangOn returns what a patch is made from, by number of patches between.
func (o *origin) hangOn(patch pack.Entry) (list []pack.Entry) {
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
			o.t.Fatalf("%s is made from nothing", patch.Key)
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
		lent := map[object.ID]int{}
		session := c.store.Begin(volume.SessionOptions{})
		result, err := c.remote.Fetch(t.Context(), session, head, FetchOptions{
			Want: []object.Key{head.Refs[mainRef]},
			Chunk: func(id object.ID, data []byte) {
				mu.Lock()
				defer mu.Unlock()
				if lent[id]++; lent[id] > 1 || object.Sum(data) != id {
					t.Errorf("chunk %s was lent %d times, or is another one", id, lent[id])
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
			if e.Key.Kind == object.KindChunk && lent[e.Key.ID] != 1 {
				t.Errorf("%s was not lent", e.Key)
			}
		}
		if result.Objects != int64(len(o.sent)) {
			t.Errorf("%d objects received of %d", result.Objects, len(o.sent))
		}
	}
}

// What patches are made from may be here already, or not be wanted.
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

	// Of another branch that has no past, all is a patch of something else.
	tip := o.commit(o.tree(map[string]string{"f": noise(3, 1500) + noise(4, 1500)}, nil))
	o.change(rootlog.Change{Refs: []rootlog.RefChange{{Name: mainRef, Old: o.at.Refs[mainRef], New: commitKeys(commits[11])[0]}}})
	o.push(tip)
	o.collect()
	newClone(t, o.blob).mustFetch(o)
}

// A patch and what it is made from lie in parts of a pack that are not read at
// once.
func TestFetchPatchesFar(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes a while, most of it in one goroutine")
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
		t.Fatalf("%d patches", n)
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
		t.Errorf("check: %q", found)
	}
}

// TestFetchPatchDamage damages what patches are made from: each object that cannot be
// made is damaged, until another pack has it.
func TestFetchPatchDamage(t *testing.T) {
	t.Parallel()
	for _, kind := range []object.Kind{object.KindChunk, object.KindTree} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			o, patches := newDrafts(t, false)
			patches = slices.DeleteFunc(patches, func(e pack.Entry) bool { return e.Key.Kind != kind })
			bases := o.hangOn(patches[len(patches)-1])
			victim := bases[len(bases)-1]
			broken := map[object.Key]bool{victim.Key: true}
			for _, e := range patches {
				if slices.Contains(o.hangOn(e), victim) {
					broken[e.Key] = true
				}
			}
			o.blob.Damage(victim.Pack.Name.Path(), int(victim.Offset+victim.Stored)-2)

			c := newClone(t, o.blob)
			head := c.head()
			_, err := c.fetch(head)
			var corrupt *object.CorruptError
			if !errors.As(err, &corrupt) || !broken[corrupt.Key] {
				t.Fatalf("fetch: %v", err)
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

// wantProblems wants a check of everything to find these objects damaged, where
// they lie, and nothing else.
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
			t.Errorf("found %v", p)
		}
		if found[p.Key] {
			t.Errorf("%s was found twice", p.Key)
		}
		found[p.Key] = true
	})
	if err != nil || !maps.Equal(found, broken) {
		t.Errorf("found %v damaged, want %v; %v", found, broken, err)
	}
}

// TestFetchPatchesReadsAgain checks that what is damaged on its way is read again,
// with what it is made from.
func TestFetchPatchesReadsAgain(t *testing.T) {
	t.Parallel()
	o, _ := newDrafts(t, false)
	f := &flipping{Backend: o.blob, once: true, seen: map[string]bool{}}
	newClone(t, f).mustFetch(o)
	if len(f.seen) != len(o.packs()) {
		t.Errorf("of %d packs something was damaged", len(f.seen))
	}
}

// TestRescuePatches takes objects from a remote, whole.
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
			t.Errorf("%s: %d bytes, %v", key, len(got), err)
		}
	}
}
