package transfer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// counting implements [ends] for one store and counts the visits.
type counting struct {
	object.Reader
	visits   map[object.Key]int // by node, links and chunks
	certains int
	missing  map[object.Key]bool // at the receiver
}

func (c *counting) giverName() string { return "remote" }

func (c *counting) wantedNode(ctx context.Context, key object.Key) ([]byte, error) {
	c.visits[key]++
	return c.Get(ctx, key)
}

func (c *counting) linksOf(ctx context.Context, nodes []object.Key) ([][]object.Key, error) {
	lists := make([][]object.Key, len(nodes))
	for i, key := range nodes {
		data, err := c.wantedNode(ctx, key)
		if err != nil {
			return nil, err
		}
		if lists[i], err = object.Links(key.Kind, data); err != nil {
			return nil, err
		}
	}
	return lists, nil
}

func (c *counting) takeChunks(ctx context.Context, keys []object.Key) error {
	for _, key := range keys {
		c.visits[key]++
	}
	missing, err := c.Missing(ctx, keys)
	if err == nil && len(missing) > 0 {
		err = &object.AbsentError{Key: missing[0]}
	}
	return err
}

func (c *counting) certainNode(ctx context.Context, key object.Key) ([]byte, error) {
	c.certains++
	if c.missing[key] {
		return nil, &object.AbsentError{Key: key}
	}
	return c.Get(ctx, key)
}

// TestWalkRandom walks random histories, some with wrong clocks. No object is left out, and
// no node is walked twice.
func TestWalkRandom(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m := &objecttest.Maker{T: t, ReadWriter: objecttest.NewMemory()}
		var trees, commits []object.ID
		for i := range 3 + rnd.IntN(30) {
			files, folders := map[string]string{}, map[string]object.ID{}
			for range 1 + rnd.IntN(5) {
				files[fmt.Sprint("f", rnd.IntN(8))] = strings.Repeat(fmt.Sprint(rnd.IntN(20)), 50)
			}

			for range min(len(trees), rnd.IntN(5)) {
				folders[fmt.Sprint("d", rnd.IntN(6))] = trees[rnd.IntN(len(trees))]
			}
			trees = append(trees, m.MakeTree(files, folders))

			var parents []object.ID
			for _, p := range rnd.Perm(len(commits))[:min(len(commits), rnd.IntN(4))] {
				if rnd.IntN(3) > 0 {
					p = len(commits) - 1 - p/4
				}
				parents = objecttest.AppendNew(parents, commits[p])
			}

			if rnd.IntN(5) == 0 {
				m.Date = rnd.Int64N(60)
			}
			commits = append(commits, m.MakeCommit(trees[rnd.IntN(i+1)], parents...))
		}

		some := func(n int) (ids []object.ID) {
			for range n {
				ids = objecttest.AppendNew(ids, commits[rnd.IntN(len(commits))])
			}
			return ids
		}
		want, have := some(1+rnd.IntN(3)), some(rnd.IntN(4))

		c := &counting{Reader: m, visits: map[object.Key]int{}, missing: map[object.Key]bool{}}
		complete := objecttest.Closure(t, m, objecttest.CommitKeys(have...)...)
		for key := range complete {
			c.missing[key] = seed%3 == 0 && rnd.IntN(10) == 0
		}

		if err := walkWanted(t.Context(), c, objecttest.CommitKeys(want...), have, recordViews{}); err != nil {
			t.Fatal(err)
		}

		for key := range objecttest.Closure(t, m, objecttest.CommitKeys(want...)...) {
			if c.visits[key] == 0 && !complete[key] {
				t.Errorf("seed %d: %s was left out", seed, key)
			}
			if c.visits[key] > 1 && key.Kind.IsNode() {
				t.Errorf("seed %d: %s was walked %d times", seed, key, c.visits[key])
			}
		}
	}
}

// TestWalkPrunes checks that the walk of small changes in a large tree is short, even over
// several commits.
func TestWalkPrunes(t *testing.T) {
	m := &objecttest.Maker{T: t, ReadWriter: objecttest.NewMemory()}
	folders := func(changed int) map[string]object.ID {
		all := map[string]object.ID{}
		for i := range 100 {
			inner := map[string]object.ID{}
			for j := range 10 {
				text := fmt.Sprint(i, j)
				if i == 0 && j < changed {
					text += "changed"
				}
				inner[fmt.Sprint("e", j)] = m.MakeTree(map[string]string{"f": text}, nil)
			}
			all[fmt.Sprint("d", i)] = m.MakeTree(nil, inner)
		}
		return all
	}

	old := m.MakeTree(nil, folders(0))
	base := m.MakeCommit(old)
	for range 300 {
		base = m.MakeCommit(old, base)
	}

	last := base
	for i := range 5 {
		last = m.MakeCommit(m.MakeTree(nil, folders(i+1)), last)
	}
	moved := folders(5)
	deep := m.MakeTree(nil, map[string]object.ID{"e": moved["d1"]})
	delete(moved, "d1")
	moved["new"] = m.MakeTree(nil, map[string]object.ID{"e": deep})
	last = m.MakeCommit(m.MakeTree(nil, moved), last)
	tag := m.PutNode(object.KindTag, &object.Tag{Target: last, Name: "v1", Tagger: object.Stamp{Name: "A"}})

	c := &counting{Reader: m, visits: map[object.Key]int{}}
	if err := walkWanted(t.Context(), c, []object.Key{{Kind: object.KindTag, ID: tag}}, []object.ID{base}, recordViews{}); err != nil {
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
	m := &objecttest.Maker{T: t, ReadWriter: objecttest.NewMemory()}
	wide, deep := m.MakeTree(map[string]string{"f": "x"}, nil), m.MakeTree(map[string]string{"f": "y"}, nil)
	for range 40 { // 2^40 paths
		wide = m.MakeTree(nil, map[string]object.ID{"a": wide, "b": wide, "c": wide})
	}

	for range 20_000 {
		deep = m.MakeTree(nil, map[string]object.ID{"a": deep})
	}
	first := m.MakeCommit(wide)

	var many []object.ID
	for range 300 { // each has all earlier ones as parents
		many = append(many, m.MakeCommit(wide, many...))
	}

	last := m.MakeCommit(deep, many...)
	for _, have := range [][]object.ID{nil, {first}, {many[0]}, {many[250]}} {
		c := &counting{Reader: m, visits: map[object.Key]int{}}
		if err := walkWanted(t.Context(), c, objecttest.CommitKeys(last), have, recordViews{}); err != nil {
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
	m := &objecttest.Maker{T: t, ReadWriter: objecttest.NewMemory()}
	inner := map[string]object.ID{}
	for i := range 3000 {
		inner[fmt.Sprint("d", i)] = m.MakeTree(map[string]string{"f": fmt.Sprint(i)}, nil)
	}
	large := m.MakeTree(nil, inner)
	base := m.MakeCommit(m.MakeTree(nil, map[string]object.ID{"large": large}))

	last := base
	for i := range 40 {
		deep := m.MakeTree(map[string]string{"f": fmt.Sprint("deep", i)}, nil)
		for range 4 {
			deep = m.MakeTree(nil, map[string]object.ID{"deep": deep})
		}
		folders := map[string]object.ID{"deep": deep}
		if i%2 == 1 {
			folders["large"] = large
		}
		last = m.MakeCommit(m.MakeTree(nil, folders), last)
	}

	c := &counting{Reader: m, visits: map[object.Key]int{}}
	if err := walkWanted(t.Context(), c, objecttest.CommitKeys(last), []object.ID{base}, recordViews{}); err != nil {
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
	m := &objecttest.Maker{T: t, ReadWriter: store}
	long := strings.Repeat("long ", 20)
	folder := m.MakeTree(map[string]string{"f": long}, nil)
	first := m.MakeCommit(m.MakeTree(nil, map[string]object.ID{"d": folder}))
	second := m.MakeCommit(m.MakeTree(map[string]string{"g": "g"}, nil), first)
	chunk := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(long))}
	for _, key := range []object.Key{chunk, {Kind: object.KindTree, ID: folder}, {Kind: object.KindCommit, ID: first}} {
		store.Delete(key)
		by := first
		if key.ID == first {
			by = second
		}
		c := &counting{Reader: m, visits: map[object.Key]int{}}
		err := walkWanted(t.Context(), c, objecttest.CommitKeys(second), nil, recordViews{})
		want := fmt.Sprintf("remote lacks %s, which commit %s needs", key, by.Short())
		var missing *object.AbsentError
		if !errors.As(err, &missing) || missing.Key != key || !strings.Contains(err.Error(), want) {
			t.Errorf("walk without %s: %v", key, err)
		}
	}
	err := walkWanted(t.Context(), &counting{Reader: m, visits: map[object.Key]int{}}, objecttest.CommitKeys(object.ID{1}), nil, recordViews{})
	if !errors.Is(err, object.ErrNotFound) || !strings.Contains(err.Error(), "remote lacks commit 01000000") {
		t.Errorf("walk without the wanted commit: %v", err)
	}
}
