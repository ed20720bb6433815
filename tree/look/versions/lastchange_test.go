package versions_test

import (
	"context"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// lastChange is LastChange by a walk over commits.
func lastChange(t *testing.T, r object.Reader, id object.ID, path string) object.ID {
	t.Helper()
	c, err := object.ReadCommit(context.Background(), r, id)
	kisttest.Check(t, err)
	here, err := tree.Find(t.Context(), r, c.Tree, path)
	kisttest.Check(t, err)
	for _, parent := range c.Parents {
		p, err := object.ReadCommit(context.Background(), r, parent)
		kisttest.Check(t, err)
		if e, err := tree.Find(t.Context(), r, p.Tree, path); err == nil && tree.ContentEqual(&e, &here) {
			return lastChange(t, r, parent, path)
		}
	}
	return id
}

func TestLastChange(t *testing.T) {
	for seed := range uint64(30) {
		random := mathrand.New(mathrand.NewPCG(seed, 2))
		history := []kisttest.Version{{Files: map[string]string{"a": "0", "d/b": "0"}}}
		for i := 1; i < 25; i++ {
			v := kisttest.Version{Parents: []int{max(0, i-1-random.IntN(3))}}
			v.Files = maps.Clone(history[v.Parents[0]].Files)
			if other := random.IntN(i); random.IntN(3) == 0 && other != v.Parents[0] {
				v.Parents = append(v.Parents, other)
				for path, text := range history[other].Files {
					if random.IntN(2) == 0 {
						v.Files[path] = text
					}
				}
			}

			for range random.IntN(3) {
				path := []string{"a", "d/b", "d/c", "e/f/g", "h"}[random.IntN(5)]
				if v.Files[path] = fmt.Sprint(random.IntN(3)); random.IntN(5) == 0 {
					delete(v.Files, path)
				}
			}

			history = append(history, v)
		}

		r := kisttest.Mirror(t, t.TempDir(), history)
		x, err := versions.Open(t.Context(), r, nil)
		kisttest.Check(t, err)

		for tip := range history {
			id, err := r.Resolve(t.Context(), fmt.Sprint("t", tip))
			kisttest.Check(t, err)
			for path := range history[tip].Files {
				if got, want := x.LastChange(id, path), lastChange(t, r.Objects(), id, path); got != want {
					t.Errorf("seed %d, commit %d, %s: %v, want %v", seed, tip, path, got, want)
				}
			}
		}
	}
}
