package transfer_test

import (
	"errors"
	"slices"
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
