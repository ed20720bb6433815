package repack_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/repack"
)

// TestOrder checks the order of objects: chunks, then trees, then commits. Versions of a path
// follow each other, the newest first. Each object comes once.
func TestOrder(t *testing.T) {
	ctx := context.Background()
	store := objecttest.NewMemory()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	// In each version, b and c have the same text, and one file is new.
	const versions = 5
	type origin struct {
		name    string
		version int
	}
	from := map[object.ID]origin{}
	var last object.ID
	for version := range versions {
		tree := object.NewTreeWriter(store)
		for _, name := range []string{"a", "b", "c", "only-" + fmt.Sprint(version)} {
			text := fmt.Appendf(nil, "version %d of the text of %s, which is not inline", version, name)
			if name == "c" {
				text = fmt.Appendf(nil, "version %d of the text of %s, which is not inline", version, "b")
			}
			id, err := store.Put(ctx, object.KindChunk, text)
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
		who := object.Stamp{Name: "Anna", Time: object.Time{Sec: int64(version)}}
		c := &object.Commit{Tree: root, Author: who, Committer: who}
		if version > 0 {
			c.Parents = []object.ID{last}
		}
		data, err := c.Encode()
		check(err)
		last, err = store.Put(ctx, object.KindCommit, data)
		check(err)
		from[root], from[last] = origin{"tree", version}, origin{"commit", version}
	}
	roots := []object.Key{
		{Kind: object.KindCommit, ID: last},
		{Kind: object.KindTree, ID: object.Sum([]byte("gone"))},
	}
	skipped := object.Key{Kind: object.KindChunk, ID: object.Sum(fmt.Appendf(nil, "version %d of the text of a, which is not inline", versions-1))}
	keys := store.Keys()
	find := func(wanted func(object.Kind) bool) (list []object.Key) {
		t.Helper()
		seen := map[object.Key]bool{}
		places, err := repack.Order(ctx, roots, repack.OrderOptions{
			Nodes: store,
			Skips: func(_, link object.Key) bool { return link == skipped },
			Meet: func(key object.Key) (uint64, bool, bool) {
				i := slices.Index(keys, key)
				if i < 0 || seen[key] {
					return 0, false, false
				}
				seen[key] = true
				return uint64(i), wanted(key.Kind), true
			},
		})
		check(err)
		for at := range places {
			list = append(list, keys[at])
		}
		return list
	}
	list := find(func(object.Kind) bool { return true })
	if want := versions * 5; len(list) != want-1 || len(keys) != want {
		t.Fatalf("Order yields %d of %d objects, want %d of %d", len(list), len(keys), want-1, want)
	}
	if !slices.IsSortedFunc(list, func(a, b object.Key) int { return cmp.Compare(a.Kind, b.Kind) }) {
		t.Error("the objects are not sorted by kind")
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
			t.Errorf("the versions of %s do not follow each other", at.name)
		}
		seen[at.name] = true
	}

	trees := find(func(kind object.Kind) bool { return kind == object.KindTree })
	if len(trees) != versions || slices.ContainsFunc(trees, func(key object.Key) bool { return key.Kind != object.KindTree }) {
		t.Errorf("Order of trees yields %v, want %d trees", trees, versions)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := repack.Order(cancelled, roots, repack.OrderOptions{}); err != context.Canceled {
		t.Errorf("Order with a cancelled context: %v", err)
	}
}
