package exchange_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// manyChunks returns a repository that has pushed a commit with n chunks of 100 bytes.
func manyChunks(t *testing.T, n int) (r *kist.Repository, counted *remotetest.Faulty) {
	t.Helper()
	s := kisttest.New(t)
	for i := range n {
		s.Write(fmt.Sprintf("%d/%d", i%100, i), fmt.Sprintf("%099d\n", i))
	}
	s.Add(stage.AddOptions{})
	s.Commit("many")
	counted = remotetest.NewFaulty(remotetest.NewMemory())
	r = s.WithRemote(counted)
	exchange.Connect(t.Context(), r)
	s.Push(r, "main")
	return r, counted
}

// TestEvictRequests checks that the requests of an eviction do not grow with the number of chunks, also if they are read.
func TestEvictRequests(t *testing.T) {
	const chunks, most = 10_000, 40
	for _, verify := range []bool{false, true} {
		r, counted := manyChunks(t, chunks)
		before := counted.Calls(remotetest.Any)
		result, err := exchange.Evict(t.Context(), r, exchange.EvictOptions{Verify: verify, Small: true})
		kisttest.Check(t, err)
		if n := counted.Calls(remotetest.Any) - before; n > most || result.Chunks != chunks {
			t.Errorf("verify %v: %d requests for %d chunks, want at most %d for %d", verify, n, result.Chunks, most, chunks)
		}
	}
}

// TestProofReadsParts checks that the proof of an eviction looks many chunks up together in index files that are not
// copied.
func TestProofReadsParts(t *testing.T) {
	const chunks, most = 10_000, 40
	ctx := t.Context()
	r, counted := manyChunks(t, chunks)
	kisttest.Check(t, os.RemoveAll(filepath.Join(registry.Dir(r, "origin"), "index")))
	opened, err := registry.OpenNamed(ctx, r, "origin")
	kisttest.Check(t, err)
	opened.Options().CopiedIndexes = 1
	reader, err := transfer.NewReader(ctx, opened)
	kisttest.Check(t, err)
	defer reader.Close()
	head := reader.State().Refs[refs.Heads+"main"]
	reach, err := gc.NewReach(ctx, r.Objects(), (&record.Set{}).View(), head)
	kisttest.Check(t, err)

	before, asked := counted.Calls(remotetest.Any), 0
	stats, err := gc.Evict(ctx, r.Objects(), gc.EvictOptions{
		FindKept: func(ctx context.Context, keys []object.Key) ([]object.Key, error) {
			asked += len(keys)
			return exchange.FindKept(ctx, reader, reach, true, keys)
		},
	})
	kisttest.Check(t, err)
	if n := counted.Calls(remotetest.Any) - before; n > most || stats.Chunks != chunks || asked != chunks {
		t.Errorf("%d requests for %d of %d chunks, want at most %d for %d", n, stats.Chunks, asked, most, chunks)
	}
}
