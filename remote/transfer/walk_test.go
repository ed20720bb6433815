package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// maker makes objects in a store.
type maker struct {
	t testing.TB
	object.ReadWriter
	date int64
}

func (m *maker) put(kind object.Kind, n interface{ Encode() ([]byte, error) }) object.ID {
	m.t.Helper()
	data, err := n.Encode()
	if err != nil {
		m.t.Fatal(err)
	}
	return m.putData(kind, data)
}

func (m *maker) putData(kind object.Kind, data []byte) object.ID {
	m.t.Helper()
	id, err := m.Put(context.Background(), kind, data)
	if err != nil {
		m.t.Fatal(err)
	}
	return id
}

// tree makes a folder of files and folders, by name.
func (m *maker) tree(files map[string]string, folders map[string]object.ID) object.ID {
	m.t.Helper()
	ctx := context.Background()
	w := object.NewTreeWriter(m)
	entries := map[string]object.Entry{}
	for name, content := range files {
		e := object.Entry{Name: name, Type: object.TypeFile, Mode: 0o644, Size: uint64(len(content)), MTime: object.Time{Sec: 1}}
		if len(content) <= object.MaxInline {
			e.Inline = []byte(content)
		} else {
			e.Content = object.Key{Kind: object.KindChunk, ID: m.putData(object.KindChunk, []byte(content))}
		}
		entries[name] = e
	}
	for name, id := range folders {
		entries[name] = object.Entry{Name: name, Type: object.TypeDir, Mode: 0o755, Content: object.Key{Kind: object.KindTree, ID: id}}
	}
	for _, name := range sortedKeys(entries) {
		if err := w.Add(ctx, entries[name]); err != nil {
			m.t.Fatal(err)
		}
	}
	id, err := w.Finish(ctx)
	if err != nil {
		m.t.Fatal(err)
	}
	return id
}

// commit makes a commit one second younger than the one before.
func (m *maker) commit(tree object.ID, parents ...object.ID) object.ID {
	m.t.Helper()
	m.date++
	who := object.Signature{Name: "A", Email: "a@example.org", Time: object.Time{Sec: m.date}}
	return m.put(object.KindCommit, &object.Commit{Tree: tree, Parents: parents, Author: who, Committer: who, Message: fmt.Sprint(m.date)})
}

// closure returns all objects that some objects reach, including these.
func closure(t testing.TB, r object.Reader, from ...object.Key) map[object.Key]bool {
	t.Helper()
	seen := map[object.Key]bool{}
	for stack := from; len(stack) > 0; {
		key := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[key] {
			continue
		}
		seen[key] = true
		data, err := r.Get(context.Background(), key)
		if err != nil {
			t.Fatal(err)
		}
		links, err := object.Links(key.Kind, data)
		if err != nil {
			t.Fatal(err)
		}
		stack = append(stack, links...)
	}
	return seen
}

func commitKeys(ids ...object.ID) []object.Key {
	var keys []object.Key
	for _, id := range ids {
		keys = append(keys, object.Key{Kind: object.KindCommit, ID: id})
	}
	return keys
}

// counting implements [ends] for one store and counts the visits.
type counting struct {
	object.Reader
	visits   map[object.Key]int // by node, links and chunks
	certains int
	missing  map[object.Key]bool // at the receiver
}

func (c *counting) giverName() string { return "remote" }

func (c *counting) node(ctx context.Context, key object.Key) ([]byte, error) {
	c.visits[key]++
	return c.Get(ctx, key)
}

func (c *counting) links(ctx context.Context, nodes []object.Key) ([][]object.Key, error) {
	lists := make([][]object.Key, len(nodes))
	for i, key := range nodes {
		data, err := c.node(ctx, key)
		if err != nil {
			return nil, err
		}
		if lists[i], err = object.Links(key.Kind, data); err != nil {
			return nil, err
		}
	}
	return lists, nil
}

func (c *counting) chunks(ctx context.Context, keys []object.Key) error {
	for _, key := range keys {
		c.visits[key]++
	}
	missing, err := c.Missing(ctx, keys)
	if err == nil && len(missing) > 0 {
		err = &object.NotFoundError{Key: missing[0]}
	}
	return err
}

func (c *counting) certain(ctx context.Context, key object.Key) ([]byte, error) {
	c.certains++
	if c.missing[key] {
		return nil, &object.NotFoundError{Key: key}
	}
	return c.Get(ctx, key)
}

// TestWalkRandom walks random histories, some with wrong clocks. No object is left out, and
// no node is walked twice.
func TestWalkRandom(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m := &maker{t: t, ReadWriter: objecttest.NewMemory()}
		var trees, commits []object.ID
		for i := range 3 + rnd.IntN(30) {
			files, folders := map[string]string{}, map[string]object.ID{}
			for range 1 + rnd.IntN(5) {
				files[fmt.Sprint("f", rnd.IntN(8))] = strings.Repeat(fmt.Sprint(rnd.IntN(20)), 50)
			}

			for range min(len(trees), rnd.IntN(5)) {
				folders[fmt.Sprint("d", rnd.IntN(6))] = trees[rnd.IntN(len(trees))]
			}
			trees = append(trees, m.tree(files, folders))

			var parents []object.ID
			for _, p := range rnd.Perm(len(commits))[:min(len(commits), rnd.IntN(4))] {
				if rnd.IntN(3) > 0 {
					p = len(commits) - 1 - p/4
				}
				parents = appendNew(parents, commits[p])
			}

			if rnd.IntN(5) == 0 {
				m.date = rnd.Int64N(60)
			}
			commits = append(commits, m.commit(trees[rnd.IntN(i+1)], parents...))
		}

		some := func(n int) (ids []object.ID) {
			for range n {
				ids = appendNew(ids, commits[rnd.IntN(len(commits))])
			}
			return ids
		}
		want, have := some(1+rnd.IntN(3)), some(rnd.IntN(4))

		c := &counting{Reader: m, visits: map[object.Key]int{}, missing: map[object.Key]bool{}}
		complete := closure(t, m, commitKeys(have...)...)
		for key := range complete {
			c.missing[key] = seed%3 == 0 && rnd.IntN(10) == 0
		}

		if err := walk(t.Context(), c, commitKeys(want...), have, recordViews{}); err != nil {
			t.Fatal(err)
		}

		for key := range closure(t, m, commitKeys(want...)...) {
			if c.visits[key] == 0 && !complete[key] {
				t.Errorf("seed %d: %s was left out", seed, key)
			}
			if c.visits[key] > 1 && key.Kind.IsNode() {
				t.Errorf("seed %d: %s was walked %d times", seed, key, c.visits[key])
			}
		}
	}
}

func appendNew(ids []object.ID, id object.ID) []object.ID {
	for _, other := range ids {
		if other == id {
			return ids
		}
	}
	return append(ids, id)
}

// TestWalkPrunes checks that the walk of small changes in a large tree is short, even over
// several commits.
func TestWalkPrunes(t *testing.T) {
	m := &maker{t: t, ReadWriter: objecttest.NewMemory()}
	folders := func(changed int) map[string]object.ID {
		all := map[string]object.ID{}
		for i := range 100 {
			inner := map[string]object.ID{}
			for j := range 10 {
				text := fmt.Sprint(i, j)
				if i == 0 && j < changed {
					text += "changed"
				}
				inner[fmt.Sprint("e", j)] = m.tree(map[string]string{"f": text}, nil)
			}
			all[fmt.Sprint("d", i)] = m.tree(nil, inner)
		}
		return all
	}

	old := m.tree(nil, folders(0))
	base := m.commit(old)
	for range 300 {
		base = m.commit(old, base)
	}

	last := base
	for i := range 5 {
		last = m.commit(m.tree(nil, folders(i+1)), last)
	}
	moved := folders(5)
	deep := m.tree(nil, map[string]object.ID{"e": moved["d1"]})
	delete(moved, "d1")
	moved["new"] = m.tree(nil, map[string]object.ID{"e": deep})
	last = m.commit(m.tree(nil, moved), last)
	tag := m.put(object.KindTag, &object.Tag{Target: last, Name: "v1", Tagger: object.Signature{Name: "A"}})

	c := &counting{Reader: m, visits: map[object.Key]int{}}
	if err := walk(t.Context(), c, []object.Key{{Kind: object.KindTag, ID: tag}}, []object.ID{base}, recordViews{}); err != nil {
		t.Fatal(err)
	}

	// For each commit: itself, its root (one or more nodes) and two folders. And the tag.
	if n := len(c.visits); n < 6*4+1 || n > 6*6+1 {
		t.Errorf("%d objects visited, want 25 to 37", n)
	}
	if c.certains > 80 {
		t.Errorf("%d nodes read to compare, want at most 80", c.certains)
	}
}

// TestWalkHostile walks graphs with too many or too long paths to follow each of them.
func TestWalkHostile(t *testing.T) {
	m := &maker{t: t, ReadWriter: objecttest.NewMemory()}
	wide, deep := m.tree(map[string]string{"f": "x"}, nil), m.tree(map[string]string{"f": "y"}, nil)
	for range 40 { // 2^40 paths
		wide = m.tree(nil, map[string]object.ID{"a": wide, "b": wide, "c": wide})
	}

	for range 20_000 {
		deep = m.tree(nil, map[string]object.ID{"a": deep})
	}
	first := m.commit(wide)

	var many []object.ID
	for range 300 { // each has all earlier ones as parents
		many = append(many, m.commit(wide, many...))
	}

	last := m.commit(deep, many...)
	for _, have := range [][]object.ID{nil, {first}, {many[0]}, {many[250]}} {
		c := &counting{Reader: m, visits: map[object.Key]int{}}
		if err := walk(t.Context(), c, commitKeys(last), have, recordViews{}); err != nil {
			t.Fatal(err)
		}

		for key, n := range c.visits {
			if n > 1 {
				t.Fatalf("%s walked %d times", key, n)
			}
		}

		if n := len(c.visits); n < 20_000 || n > 20_500 {
			t.Errorf("have %d: %d objects visited, want 20,000 to 20,500", len(have), n)
		}
		if c.certains > 40_000 {
			t.Errorf("have %d: %d nodes read to compare, want at most 40,000", len(have), c.certains)
		}
	}
}

// TestWalkComesAndGoes walks commits where only every second one has a large folder.
// Comparing them must not walk the folder each time.
func TestWalkComesAndGoes(t *testing.T) {
	m := &maker{t: t, ReadWriter: objecttest.NewMemory()}
	inner := map[string]object.ID{}
	for i := range 3000 {
		inner[fmt.Sprint("d", i)] = m.tree(map[string]string{"f": fmt.Sprint(i)}, nil)
	}
	large := m.tree(nil, inner)
	base := m.commit(m.tree(nil, map[string]object.ID{"large": large}))

	last := base
	for i := range 40 {
		deep := m.tree(map[string]string{"f": fmt.Sprint("deep", i)}, nil)
		for range 4 {
			deep = m.tree(nil, map[string]object.ID{"deep": deep})
		}
		folders := map[string]object.ID{"deep": deep}
		if i%2 == 1 {
			folders["large"] = large
		}
		last = m.commit(m.tree(nil, folders), last)
	}

	c := &counting{Reader: m, visits: map[object.Key]int{}}
	if err := walk(t.Context(), c, commitKeys(last), []object.ID{base}, recordViews{}); err != nil {
		t.Fatal(err)
	}
	if n := len(c.visits); n != 40*7 {
		t.Errorf("%d objects visited, want %d", n, 40*7)
	}
	if c.certains > 40*7*70 {
		t.Errorf("%d nodes read to compare, want at most %d", c.certains, 40*7*70)
	}
}

// TestWalkLacks checks that the error for a missing object names the commit that needs it.
func TestWalkLacks(t *testing.T) {
	store := objecttest.NewMemory()
	m := &maker{t: t, ReadWriter: store}
	long := strings.Repeat("long ", 20)
	folder := m.tree(map[string]string{"f": long}, nil)
	first := m.commit(m.tree(nil, map[string]object.ID{"d": folder}))
	second := m.commit(m.tree(map[string]string{"g": "g"}, nil), first)
	chunk := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(long))}
	for _, key := range []object.Key{chunk, {Kind: object.KindTree, ID: folder}, {Kind: object.KindCommit, ID: first}} {
		store.Delete(key)
		by := first
		if key.ID == first {
			by = second
		}
		c := &counting{Reader: m, visits: map[object.Key]int{}}
		err := walk(t.Context(), c, commitKeys(second), nil, recordViews{})
		want := fmt.Sprintf("remote lacks %s, which commit %s needs", key, by.Short())
		var missing *object.NotFoundError
		if !errors.As(err, &missing) || missing.Key != key || !strings.Contains(err.Error(), want) {
			t.Errorf("walk without %s: %v", key, err)
		}
	}
	err := walk(t.Context(), &counting{Reader: m, visits: map[object.Key]int{}}, commitKeys(object.ID{1}), nil, recordViews{})
	if !errors.Is(err, object.ErrNotFound) || !strings.Contains(err.Error(), "remote lacks commit 01000000") {
		t.Errorf("walk without the wanted commit: %v", err)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
