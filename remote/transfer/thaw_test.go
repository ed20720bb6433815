package transfer_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// markStore is a store that notes which blobs are marked as content.
type markStore struct {
	*remotetest.Memory
	mu      sync.Mutex
	content []string
	others  []string
}

func (m *markStore) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if remote.IsContent(ctx) {
		m.content = append(m.content, name)
	} else {
		m.others = append(m.others, name)
	}
	return m.Memory.Put(ctx, name, body, size)
}

// A push marks the packs of chunks, and nothing else, also through encryption.
func TestContentIsMarked(t *testing.T) {
	m := &markStore{Memory: transfertest.NewRemote(t)}
	p := transfertest.NewPusher(t, m)
	p.KeepSmall = true
	p.MustPush("main", p.MakeCommit(p.MakeTree(map[string]string{"a": strings.Repeat("content", 100)}, nil)))

	head, err := p.Remote.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	snap, err := p.Remote.SnapshotAt(t.Context(), head)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{} // whether a pack has chunks
	for e, err := range snap.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		want[e.Pack.Name.Path()] = e.Key.Kind == object.KindChunk
	}
	for name, chunks := range want {
		if slices.Contains(m.content, name) != chunks || slices.Contains(m.others, name) == chunks {
			t.Errorf("pack %s: with chunks %t; marked %q, not %q", name, chunks, m.content, m.others)
		}
	}
	if len(want) != 2 || len(m.content) != 1 {
		t.Errorf("packs %v, marked %q", want, m.content)
	}
}
