package transfer

import (
	"context"
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
)

// TestRoundTrip has two repositories push and fetch in turn. Each merges the branch of the
// other one into its own branch.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	o := newOrigin(t)

	sides := []*clone{newClone(t, o.blob), newClone(t, o.blob)}
	branches := []string{"refs/heads/one", "refs/heads/two"}
	tips := map[string]object.ID{}
	for i := range 14 {
		side, branch, other := sides[i%2], branches[i%2], branches[1-i%2]
		head, err := side.remote.Head(ctx)
		if err != nil {
			t.Fatal(err)
		}
		session := side.store.Begin(volume.SessionOptions{})
		var have, parents []object.ID
		if i > 1 { // published two rounds ago
			have, parents = []object.ID{tips[branch]}, []object.ID{tips[branch]}
		}
		if i > 0 {
			want := head.Refs[other]
			if want.ID != tips[other] {
				t.Fatalf("%s is at %s, want %s", other, want.ID.Short(), tips[other].Short())
			}
			if _, err := side.remote.Fetch(ctx, session, head, FetchOptions{Want: []object.Key{want}, Have: have}); err != nil {
				t.Fatal(err)
			}
			parents = appendNew(parents, want.ID)
		}

		m := &maker{t: t, ReadWriter: session, date: int64(i)}
		folders := map[string]object.ID{}
		for d := range 5 {
			files := map[string]string{"f": noise(d, 1000)}
			if d == i%5 {
				files["changed"] = noise(50+i, 1000)
			}
			folders[fmt.Sprint("d", d)] = m.tree(files, nil)
		}

		tip := m.commit(m.tree(nil, folders), parents...)
		all := closure(t, session, commitKeys(tip)...)
		tips[branch] = tip
		if err := session.Publish(ctx, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := session.Close(); err != nil {
			t.Fatal(err)
		}

		for key := range all { // nothing is missing here
			if _, err := side.store.Get(ctx, key); err != nil {
				t.Fatal(err)
			}
		}

		_, err = side.remote.Push(ctx, side.store, PushOptions{Updates: []RefUpdate{{Name: branch, New: commitKeys(tip)[0]}}})
		if err != nil {
			t.Fatal(err)
		}
	}

	last := newClone(t, o.blob)
	head, err := last.remote.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	session := last.store.Begin(volume.SessionOptions{})
	defer session.Close()

	var want []object.Key
	for _, branch := range branches {
		want = append(want, head.Refs[branch])
	}
	result, err := last.remote.Fetch(ctx, session, head, FetchOptions{Want: want})
	if err != nil {
		t.Fatal(err)
	}

	all := closure(t, session, want...)
	for key := range closure(t, sides[1].store, want...) {
		if !all[key] {
			t.Errorf("%s was not fetched", key)
		}
	}
	if result.Objects != int64(len(all)) {
		t.Errorf("received %d objects, want %d", result.Objects, len(all))
	}
}
