package exchange_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// Chunks are sent ahead even if they come before the remote is open. A few chunks are
// left to the push.
func TestAheadWaits(t *testing.T) {
	for _, test := range []struct {
		chunks int   // of 1 MiB
		sent   int64 // bytes sent ahead, at least; the push sends the rest in a small pack
	}{{7, 0}, {9, 9 << 20}, {20, 16 << 20}} {
		s := kisttest.New(t)
		repo := s.WithRemote(remotetest.NewMemory())
		s.Write("file", "one")
		s.Add(stage.AddOptions{})
		s.Commit("one")

		ahead := &exchange.EarlyPush{Repo: repo, Remote: "origin"}
		encoder := frame.NewEncoder(frame.Fastest)
		random := rand.NewChaCha8([32]byte{byte(test.chunks)})
		data := make([]byte, 1<<20)
		for range test.chunks {
			random.Read(data)
			key := object.Key{Kind: object.KindChunk, ID: object.Sum(data)}
			ahead.Add(t.Context(), key, encoder.Append(nil, data), len(data))
		}

		p, err := registry.ParsePush(t.Context(), repo, "main")
		s.Check(err)
		_, err = exchange.Push(t.Context(), repo, exchange.PushOptions{Remote: "origin", Refs: []registry.PushRef{p}, Ahead: ahead})
		s.Check(err)
		if sent := ahead.Sent(); sent < test.sent || test.sent == 0 && sent > 0 {
			t.Errorf("%d bytes of %d MiB sent ahead, want at least %d", sent, test.chunks, test.sent)
		}
	}
}
