package transfer_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/transfertest"
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
			b := transfertest.NewRemote(t)
			store := &refusing{Backend: b}
			store.allowed.Store(test.allowed)
			p := transfertest.NewPusher(t, store)
			id := p.MakeLarge()
			p.SendAhead(id)

			sent := b.Bytes(remotetest.Put)
			if packs := min(test.allowed, 45<<20/transfer.AheadSize); sent < packs*transfer.AheadSize || len(b.Names("packs/")) < int(packs) {
				t.Errorf("%d bytes in %d packs were sent ahead, want %d packs", sent, len(b.Names("packs/")), packs)
			}

			store.allowed.Store(100)
			if test.close {
				if err := p.Remote.Close(); err != nil {
					t.Fatal(err)
				}
				p.Reopen(store)
			}

			p.Local.Gets.Store(0)
			result := p.MustPush("main", id)
			want := objecttest.Closure(t, p.Local, objecttest.CommitKeys(id)...)
			if n := result.Objects; !test.close && n != int64(len(want)) {
				t.Errorf("the push reports %d objects, want %d", n, len(want))
			}
			if all := b.Bytes(remotetest.Put); all > 46<<20 || !test.close && result.Bytes != all {
				t.Errorf("%d bytes were sent in total; the push reports %+v", all, result)
			}

			transfertest.WantIntact(t, b, map[string]object.ID{"main": id})
			if left, _ := filepath.Glob(filepath.Join(p.Dir, transfer.PushFolder, "*")); len(left) > 0 {
				t.Errorf("left in the journal: %q", left)
			}
		})
	}
}

// TestSendAheadKnown checks that chunks on the remote are not sent ahead.
func TestSendAheadKnown(t *testing.T) {
	b := transfertest.NewRemote(t)
	first, second := transfertest.NewPusher(t, b), transfertest.NewPusher(t, b)
	first.MustPush("main", first.MakeLarge())
	b.ResetCounts()
	id := second.MakeLarge()
	second.SendAhead(id)
	if n := b.Calls(remotetest.Put); n != 0 {
		t.Errorf("%d packs were sent ahead, want 0", n)
	}
	if err := second.Remote.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSendAheadRemembers checks that chunks of an interrupted push are not sent ahead.
func TestSendAheadRemembers(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	id := p.MakeLarge()
	p.SendAhead(id)
	if err := p.Remote.Close(); err != nil {
		t.Fatal(err)
	}
	sent := b.Bytes(remotetest.Put)
	p.Reopen(b)
	p.SendAhead(id)
	if n := b.Bytes(remotetest.Put); n > 46<<20 || n < sent {
		t.Errorf("%d bytes were sent before the restart, %d in total", sent, n)
	}
	p.MustPush("main", id)
	if n := b.Bytes(remotetest.Put); n > 46<<20 {
		t.Errorf("%d bytes were sent in total", n)
	}
	transfertest.WantIntact(t, b, map[string]object.ID{"main": id})
}

// TestSendAheadCancelled checks that a cancelled Ahead ends and sends nothing.
func TestSendAheadCancelled(t *testing.T) {
	b := transfertest.NewRemote(t)
	p := transfertest.NewPusher(t, b)
	ahead, err := transfer.SendAhead(t.Context(), p.Remote, 1)
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
	if err := p.Remote.Close(); err != nil || len(b.Names("packs/")) > 0 {
		t.Errorf("Close: %v; packs %q, want none", err, b.Names("packs/"))
	}
}
