package graph_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/objecttest"
)

// diamond is a graph with two paths from d to a.
var diamond = map[string][]string{"d": {"b", "c"}, "c": {"a"}, "b": {"a"}, "a": nil}

func TestWalkVisitsEachKeyOnce(t *testing.T) {
	for _, test := range []struct {
		starts, seen, want []string
	}{
		{[]string{"d"}, nil, []string{"d", "c", "a", "b"}},
		{[]string{"b", "d", "d"}, nil, []string{"d", "c", "a", "b"}},
		{[]string{"d"}, []string{"c"}, []string{"d", "b", "a"}},
		{[]string{"d"}, []string{"d"}, nil},
		{nil, nil, nil},
	} {
		seen := map[string]bool{}
		for _, key := range test.seen {
			seen[key] = true
		}
		var got []string
		err := graph.Walk(t.Context(), seen, test.starts, func(key string) ([]string, error) {
			got = append(got, key)
			return diamond[key], nil
		})
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("Walk from %v with seen %v: %v, %v; want %v", test.starts, test.seen, got, err, test.want)
		}
		for _, key := range got {
			if !seen[key] {
				t.Errorf("Walk did not add %s to seen", key)
			}
		}
	}
}

func TestFollowVisitsEveryPath(t *testing.T) {
	n := 0
	err := graph.Follow(t.Context(), []string{"d"}, func(key string) ([]string, error) {
		n++
		return diamond[key], nil
	})
	if err != nil || n != 5 {
		t.Errorf("%d visits, %v; want 5", n, err)
	}
}

func TestBatchesTakeTheNewest(t *testing.T) {
	var got []string
	err := graph.Batches(t.Context(), []string{"a", "d", "d"}, 2, func(keys []string) (next []string, err error) {
		got = append(got, strings.Join(keys, " "))
		for _, key := range keys {
			next = append(next, diamond[key]...)
		}
		return next, nil
	})
	if want := []string{"d d", "b c", "a a", "b c", "a a", "a"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("batches %q, %v; want %q", got, err, want)
	}
}

func TestFoldReadsEachKeyOnce(t *testing.T) {
	reads := map[string]int{}
	paths := map[string]int{}

	fold := func(key string) (int, error) {
		return graph.Fold(t.Context(), paths, key, func(key string) (string, []string, error) {
			reads[key]++
			return "node " + key, diamond[key], nil
		}, func(key, node string) (int, error) {
			if node != "node "+key {
				t.Errorf("value of %s got node %q", key, node)
			}
			n := 1
			for _, link := range diamond[key] {
				if paths[link] == 0 {
					t.Errorf("value of %s was called before that of its link %s", key, link)
				}
				n += paths[link]
			}
			return n, nil
		})
	}

	for _, key := range []string{"b", "d", "d"} {
		if _, err := fold(key); err != nil {
			t.Fatal(err)
		}
	}

	if n, err := fold("d"); n != 5 || err != nil {
		t.Errorf("Fold of d = %d, %v; want 5", n, err)
	}
	for key, n := range reads {
		if n != 1 {
			t.Errorf("%s was read %d times, want once", key, n)
		}
	}
}

// TestErrorsEndAWalk checks that no key is visited after an error, and that a canceled
// context ends a walk.
func TestErrorsEndAWalk(t *testing.T) {
	stop := errors.New("stop")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	visits := 0
	visit := func(string) ([]string, error) { visits++; return []string{"a"}, stop }
	read := func(string) (int, []string, error) { visits++; return 0, []string{"a"}, stop }
	for _, test := range []struct {
		ctx    context.Context
		want   error
		visits int
	}{{t.Context(), stop, 1}, {canceled, context.Canceled, 0}} {
		for name, walk := range map[string]func() error{
			"Walk":   func() error { return graph.Walk(test.ctx, map[string]bool{}, []string{"d", "d"}, visit) },
			"Follow": func() error { return graph.Follow(test.ctx, []string{"d", "d"}, visit) },
			"Fold": func() error {
				_, err := graph.Fold(test.ctx, map[string]int{}, "d", read, func(string, int) (int, error) { return 0, nil })
				return err
			},
		} {
			visits = 0
			if err := walk(); !errors.Is(err, test.want) || visits != test.visits {
				t.Errorf("%s: %v after %d visits; want %v after %d", name, err, visits, test.want, test.visits)
			}
		}
	}
}

func TestLinks(t *testing.T) {
	ctx := t.Context()
	r := objecttest.NewMemory()
	put := func(kind object.Kind, data []byte) object.Key {
		id, err := r.Put(ctx, kind, data)
		if err != nil {
			t.Fatal(err)
		}
		return object.Key{Kind: kind, ID: id}
	}
	tree, encoded := object.EmptyTree()
	put(object.KindTree, encoded)
	who := object.Stamp{Name: "a", Email: "a@b"}
	data, err := (&object.Commit{Tree: tree, Author: who, Committer: who}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	commit := put(object.KindCommit, data)

	links, err := graph.Links(ctx, r, commit)
	if err != nil || !slices.Equal(links, []object.Key{{Kind: object.KindTree, ID: tree}}) {
		t.Errorf("links of a commit: %v, %v; want its tree", links, err)
	}
	if links, err := graph.Links(ctx, r, object.Key{Kind: object.KindChunk, ID: tree}); links != nil || err != nil {
		t.Errorf("links of a missing chunk: %v, %v; want no read", links, err)
	}
	if _, err := graph.Links(ctx, r, object.Key{Kind: object.KindTree, ID: commit.ID}); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("links of a missing tree: %v, want ErrNotFound", err)
	}
	malformed := put(object.KindTree, []byte("no tree"))
	var corrupt *object.CorruptError
	if _, err := graph.Links(ctx, r, malformed); !errors.As(err, &corrupt) || corrupt.Key != malformed {
		t.Errorf("links of a malformed tree: %v, want a CorruptError with its key", err)
	}
	newer := slices.Clone(data)
	newer[3] += 2 // version 3
	if _, err := graph.Links(ctx, r, put(object.KindCommit, newer)); !errors.Is(err, object.ErrNewerFormat) || errors.Is(err, object.ErrCorrupt) {
		t.Errorf("links of a commit of a newer format: %v, want only ErrNewerFormat", err)
	}
}

func TestCheckPresent(t *testing.T) {
	ctx := t.Context()
	r := objecttest.NewMemory()
	chunk, err := r.Put(ctx, object.KindChunk, bytes.Repeat([]byte("chunk "), 10))
	if err != nil {
		t.Fatal(err)
	}
	entry := object.Entry{Name: "file", Type: object.TypeFile, Mode: 0o644, Size: 60, Content: object.Key{Kind: object.KindChunk, ID: chunk}}
	data, err := (&object.Tree{Entries: []object.Entry{entry}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	id, err := r.Put(ctx, object.KindTree, data)
	if err != nil {
		t.Fatal(err)
	}
	tree := object.Key{Kind: object.KindTree, ID: id}

	if err := graph.CheckPresent(ctx, r, tree); err != nil {
		t.Error(err)
	}
	for _, key := range []object.Key{entry.Content, tree} {
		r.Delete(key)
		var missing *object.AbsentError
		if err := graph.CheckPresent(ctx, r, tree); !errors.As(err, &missing) || missing.Key != key {
			t.Errorf("without %s: %v, want a NotFoundError with its key", key, err)
		}
	}
}
