package transfer_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
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

// frozenStore is a store whose packs lie in an archive, until they are thawed. It counts the refused reads.
type frozenStore struct {
	*remotetest.Memory
	thawed  bool
	refused int
}

func (f *frozenStore) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if strings.HasPrefix(name, "packs/") && !f.thawed {
		f.refused++
		return 0, &remote.Error{Op: "get", Name: name, Err: remote.ErrArchived}
	}
	return f.Memory.Get(ctx, name, p, off)
}

// A pack in an archive costs a request in a minute, however many of its objects are wanted.
func TestRefusedOnce(t *testing.T) {
	f := &frozenStore{Memory: transfertest.NewRemote(t), thawed: true}
	p := transfertest.NewPusher(t, f)
	p.MustPush("main", p.MakeCommit(p.MakeTree(map[string]string{"a": "one"}, nil)))
	now := time.Unix(1e9, 0)
	r, err := transfertest.OpenTest(t, f, t.TempDir(), func(o *transfer.Options) { o.Now = func() time.Time { return now } })
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	snap, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read := func(archived bool, refused int) {
		t.Helper()
		_, err := r.ReadPack(t.Context(), snap.LivePacks()[0], make([]byte, 8), 0)
		if errors.Is(err, remote.ErrArchived) != archived || f.refused != refused {
			t.Errorf("%d refused reads, error %v; want %d", f.refused, err, refused)
		}
	}

	f.thawed = false
	read(true, 1)
	read(true, 1)
	now = now.Add(59 * time.Second)
	read(true, 1)
	now = now.Add(time.Second)
	read(true, 2)
	f.thawed = true
	read(true, 2)
	now = now.Add(time.Minute)
	read(false, 2)
}
