package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// refusing is a store that takes only some packs, and refuses the rest.
type refusing struct {
	remote.Backend
	allowed atomic.Int64
}

func (r *refusing) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if r.allowed.Add(-1) < 0 {
		return &remote.Error{Op: "put", Name: name, Kind: remote.ErrPermission, Err: errors.New("refused")}
	}
	return r.Backend.Put(ctx, name, body, size)
}

// large makes a commit of files with 45 MiB that do not compress.
func (p *pusher) large() object.ID {
	files := map[string]string{}
	for i := range 30 {
		files[fmt.Sprint("large", i)] = noise(i, 3<<19)
	}
	return p.commit(p.tree(files, nil))
}

// sendAhead sends the chunks of a commit as a session does, two at a time.
func (p *pusher) sendAhead(id object.ID) *Ahead {
	p.t.Helper()
	ahead, err := SendAhead(p.t.Context(), p.remote, 2)
	if err != nil {
		p.t.Fatal(err)
	}

	keys := make(chan object.Key)
	var adding sync.WaitGroup
	for range 2 {
		adding.Go(func() {
			for key := range keys {
				value, raw, err := p.local.GetStored(context.Background(), key, nil)
				if err != nil {
					p.t.Error(err)
				}
				ahead.Add(context.Background(), key, value, raw)
				clear(value) // Add has copied it
			}
		})
	}

	for key := range closure(p.t, p.local, commitKeys(id)...) {
		if key.Kind == object.KindChunk {
			keys <- key
		}
	}

	close(keys)
	adding.Wait()
	ahead.End(context.Background())
	return ahead
}

// TestSendAhead checks that a push sends the chunks that were not sent ahead, and only those.
func TestSendAhead(t *testing.T) {
	for _, test := range []struct {
		name    string
		allowed int64 // packs that the store takes before the push
		close   bool  // the process ends before the push
	}{
		{"then push", 100, false},
		{"then stop", 100, true},
		{"fails", 0, false},
		{"fails later", 1, false},
		{"fails later, then stop", 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newRemote(t)
			store := &refusing{Backend: b}
			store.allowed.Store(test.allowed)
			p := newPusher(t, store)
			id := p.large()
			p.sendAhead(id)

			sent := b.Bytes(remotetest.Put)
			if packs := min(test.allowed, 45<<20/aheadSize); sent < packs*aheadSize || len(b.Names("packs/")) < int(packs) {
				t.Errorf("%d bytes in %d packs were sent ahead, want %d packs", sent, len(b.Names("packs/")), packs)
			}

			store.allowed.Store(100)
			if test.close {
				if err := p.remote.Close(); err != nil {
					t.Fatal(err)
				}
				p.reopen(store)
			}

			p.local.gets.Store(0)
			result := p.mustPush("main", id)
			want := closure(t, p.local, commitKeys(id)...)
			if n := result.Objects; !test.close && n != int64(len(want)) {
				t.Errorf("the push reports %d objects, want %d", n, len(want))
			}
			if all := b.Bytes(remotetest.Put); all > 46<<20 || !test.close && result.Bytes != all {
				t.Errorf("%d bytes were sent in total; the push reports %+v", all, result)
			}

			wantIntact(t, b, map[string]object.ID{"main": id})
			if left, _ := filepath.Glob(filepath.Join(p.dir, pushFolder, "*")); len(left) > 0 {
				t.Errorf("left in the journal: %q", left)
			}
		})
	}
}

// TestSendAheadKnown checks that chunks on the remote are not sent ahead.
func TestSendAheadKnown(t *testing.T) {
	b := newRemote(t)
	first, second := newPusher(t, b), newPusher(t, b)
	first.mustPush("main", first.large())
	b.ResetCounts()
	id := second.large()
	second.sendAhead(id)
	if n := b.Calls(remotetest.Put); n != 0 {
		t.Errorf("%d packs were sent ahead, want 0", n)
	}
	if err := second.remote.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSendAheadRemembers checks that chunks of an interrupted push are not sent ahead.
func TestSendAheadRemembers(t *testing.T) {
	b := newRemote(t)
	p := newPusher(t, b)
	id := p.large()
	p.sendAhead(id)
	if err := p.remote.Close(); err != nil {
		t.Fatal(err)
	}
	sent := b.Bytes(remotetest.Put)
	p.reopen(b)
	p.sendAhead(id)
	if n := b.Bytes(remotetest.Put); n > 46<<20 || n < sent {
		t.Errorf("%d bytes were sent before the restart, %d in total", sent, n)
	}
	p.mustPush("main", id)
	if n := b.Bytes(remotetest.Put); n > 46<<20 {
		t.Errorf("%d bytes were sent in total", n)
	}
	wantIntact(t, b, map[string]object.ID{"main": id})
}

// TestSendAheadCancelled checks that a cancelled Ahead ends and sends nothing.
func TestSendAheadCancelled(t *testing.T) {
	b := newRemote(t)
	p := newPusher(t, b)
	ahead, err := SendAhead(t.Context(), p.remote, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	value := make([]byte, pack.TargetSize/16)
	for i := range 20 {
		ahead.Add(ctx, object.Key{Kind: object.KindChunk, ID: object.Sum([]byte{byte(i)})}, value, len(value))
	}
	ahead.End(ctx)
	if err := p.remote.Close(); err != nil || len(b.Names("packs/")) > 0 {
		t.Errorf("Close: %v; packs %q, want none", err, b.Names("packs/"))
	}
}
