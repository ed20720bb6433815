package transfer_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// TestRoundTrip has two repositories push and fetch in turn. Each merges the branch of the
// other one into its own branch.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	o := transfertest.NewOrigin(t)

	sides := []*transfertest.Clone{transfertest.NewClone(t, o.Blob), transfertest.NewClone(t, o.Blob)}
	branches := []string{"refs/heads/one", "refs/heads/two"}
	tips := map[string]object.ID{}
	for i := range 14 {
		side, branch, other := sides[i%2], branches[i%2], branches[1-i%2]
		head, err := side.Remote.Head(ctx)
		if err != nil {
			t.Fatal(err)
		}
		session := side.Store.Begin(volume.SessionOptions{})
		var have, parents []object.ID
		if i > 1 { // published two rounds ago
			have, parents = []object.ID{tips[branch]}, []object.ID{tips[branch]}
		}
		if i > 0 {
			want := head.Refs[other]
			if want.ID != tips[other] {
				t.Fatalf("%s is at %s, want %s", other, want.ID.Short(), tips[other].Short())
			}
			if _, err := side.Remote.Fetch(ctx, session, head, transfer.FetchOptions{Want: []object.Key{want}, Have: have}); err != nil {
				t.Fatal(err)
			}
			parents = objecttest.AppendNew(parents, want.ID)
		}

		m := &objecttest.Maker{T: t, ReadWriter: session, Date: int64(i)}
		folders := map[string]object.ID{}
		for d := range 5 {
			files := map[string]string{"f": objecttest.Noise(d, 1000)}
			if d == i%5 {
				files["changed"] = objecttest.Noise(50+i, 1000)
			}
			folders[fmt.Sprint("d", d)] = m.MakeTree(files, nil)
		}

		tip := m.MakeCommit(m.MakeTree(nil, folders), parents...)
		all := objecttest.Closure(t, session, objecttest.CommitKeys(tip)...)
		tips[branch] = tip
		if err := session.Publish(ctx, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := session.Close(); err != nil {
			t.Fatal(err)
		}

		for key := range all { // nothing is missing here
			if _, err := side.Store.Get(ctx, key); err != nil {
				t.Fatal(err)
			}
		}

		_, err = side.Remote.Push(ctx, side.Store, transfer.PushOptions{Updates: []transfer.RefUpdate{{Name: branch, New: objecttest.CommitKeys(tip)[0]}}})
		if err != nil {
			t.Fatal(err)
		}
	}

	last := transfertest.NewClone(t, o.Blob)
	head, err := last.Remote.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	session := last.Store.Begin(volume.SessionOptions{})
	defer session.Close()

	var want []object.Key
	for _, branch := range branches {
		want = append(want, head.Refs[branch])
	}
	result, err := last.Remote.Fetch(ctx, session, head, transfer.FetchOptions{Want: want})
	if err != nil {
		t.Fatal(err)
	}

	all := objecttest.Closure(t, session, want...)
	for key := range objecttest.Closure(t, sides[1].Store, want...) {
		if !all[key] {
			t.Errorf("%s was not fetched", key)
		}
	}
	if result.Objects != int64(len(all)) {
		t.Errorf("received %d objects, want %d", result.Objects, len(all))
	}
}
