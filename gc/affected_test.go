package gc_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
)

// If a missing object has too many paths to visit, Affected names the first ones.
func TestAffectedTooMany(t *testing.T) {
	w := newWorld(t, 11)
	ctx := context.Background()
	session := w.begin()
	defer session.Close()
	missing := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte("missing"))}
	entry := object.Entry{Name: "file", Type: object.TypeFile, Mode: 0o644, Size: 100, Content: missing}
	top := object.NewTreeWriter(session)
	w.check(top.Add(ctx, entry))
	for range 12 {
		dir, err := top.Finish(ctx)
		w.check(err)
		top = object.NewTreeWriter(session)
		for i := range 40 {
			w.check(top.Add(ctx, object.Entry{
				Name: fmt.Sprintf("%02d", i), Type: object.TypeDir, Mode: 0o755, Content: object.Key{Kind: object.KindTree, ID: dir},
			}))
		}
	}
	commit := w.finish(session, top)
	problem := &gc.Problem{Key: missing, Err: &object.AbsentError{Key: missing}}
	w.check(gc.Affected(ctx, w.store, nil, []object.Key{commit}, []*gc.Problem{problem}))
	if len(problem.Commits) != 1 || problem.Commits[0] != commit.ID || len(problem.Paths) != 100 {
		t.Errorf("commits %v, %d paths; want one commit, 100 paths", problem.Commits, len(problem.Paths))
	}
}
