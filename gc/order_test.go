package gc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
)

// TestOrder checks in which order objects are stored: chunks, then trees, then
// commits; versions of a path next to each other, the newest first; and each
// once.
func TestOrder(t *testing.T) {
	ctx := context.Background()
	now := time.Now()
	store, err := volume.Open(t.TempDir(), volume.Options{Now: func() time.Time { return now }})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	t.Cleanup(func() { store.Close() })

	// A text of each version is at two paths, and one is new in each version.
	const versions = 5
	type origin struct {
		name    string
		version int
	}
	from := map[object.ID]origin{}
	session := store.Begin(volume.SessionOptions{})
	defer session.Close()
	var last object.ID
	for version := range versions {
		tree := object.NewTreeWriter(session)
		for _, name := range []string{"a", "b", "c", "only-" + fmt.Sprint(version)} {
			text := fmt.Appendf(nil, "version %d of the text of %s, which is not inline", version, name)
			if name == "c" {
				text = fmt.Appendf(nil, "version %d of the text of %s, which is not inline", version, "b")
			}
			id, err := session.Put(ctx, object.KindChunk, text)
			check(err)
			if _, known := from[id]; !known {
				from[id] = origin{name, version}
			}
			check(tree.Add(ctx, object.Entry{
				Name: name, Type: object.TypeFile, Mode: 0o644, Size: uint64(len(text)), Content: object.Key{Kind: object.KindChunk, ID: id},
			}))
		}
		root, err := tree.Finish(ctx)
		check(err)
		who := object.Signature{Name: "Anna", Time: object.Time{Sec: int64(version)}}
		c := &object.Commit{Tree: root, Author: who, Committer: who}
		if version > 0 {
			c.Parents = []object.ID{last}
		}
		data, err := c.Encode()
		check(err)
		last, err = session.Put(ctx, object.KindCommit, data)
		check(err)
		from[root], from[last] = origin{"tree", version}, origin{"commit", version}
	}
	check(session.Publish(ctx, func(context.Context) error { return nil }))

	sweep, err := store.Look(ctx)
	check(err)
	m := &marker{sweep: sweep, objects: store, young: func(volume.SweepVolume) bool { return false }}
	check(m.refresh(ctx))
	keyAt := map[int]object.Key{}
	for kind := object.KindChunk; kind.Valid(); kind++ {
		for rec, err := range sweep.Keys(0, kind) {
			check(err)
			keyAt[rec.Index] = rec.Key
		}
	}
	roots := []Root{
		{Key: object.Key{Kind: object.KindCommit, ID: last}},
		{Key: object.Key{Kind: object.KindTree, ID: object.Sum([]byte("gone"))}, Hint: true},
	}
	order, err := m.order(ctx, roots, []int{0})
	check(err)
	var list []object.Key
	for v, i := range order {
		if v != 0 {
			t.Fatalf("volume %d", v)
		}
		list = append(list, keyAt[i])
	}
	if want := versions * 5; len(list) != want || len(keyAt) != want {
		t.Fatalf("%d objects are put in order, %d are there, not %d", len(list), len(keyAt), want)
	}
	if !slices.IsSortedFunc(list, func(a, b object.Key) int { return cmp.Compare(a.Kind, b.Kind) }) {
		t.Error("kinds are mixed")
	}
	seen := map[string]bool{}
	for i, key := range list {
		at := from[key.ID]
		if i > 0 && from[list[i-1].ID].name == at.name {
			if before := from[list[i-1].ID].version; before != at.version+1 {
				t.Errorf("version %d of %s comes after version %d", at.version, at.name, before)
			}
			continue
		}
		if seen[at.name] {
			t.Errorf("the versions of %s are not together", at.name)
		}
		seen[at.name] = true
	}

	if order, err = m.order(ctx, roots, nil); err != nil {
		t.Fatal(err)
	}
	for v, i := range order {
		t.Errorf("%d in volume %d, though none was asked for", i, v)
	}
}
