package main

import (
	"bytes"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote"
)

// restore resets the place to an older content.
func (p *place) restore(old map[string]string) {
	p.Helper()
	ctx := context.Background()
	now := p.blobs()
	for name, data := range now {
		if old[name] != data {
			if err := p.backend.Delete(ctx, name); err != nil {
				p.Fatal(err)
			}
		}
	}
	for name, data := range old {
		if was, ok := now[name]; ok && was == data {
			continue
		}
		err := error(nil)
		if remote.IsRecord(name) {
			err = p.backend.Create(ctx, name, []byte(data))
		} else {
			err = p.backend.Put(ctx, name, bytes.NewReader([]byte(data)), int64(len(data)))
		}
		if err != nil {
			p.Fatal(err)
		}
	}
	p.wantBlobs(old)
}

// wantBlobs checks that the place has exactly these files.
func (p *place) wantBlobs(want map[string]string) {
	p.Helper()
	if got := p.blobs(); !maps.Equal(got, want) {
		p.Errorf("the place has %q, want %q, or contents differ", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// TestRemoteRollback checks that a clone refuses a remote that was reset to an older
// copy, and writes nothing. Pushes of another clone to the old copy do not change that.
func TestRemoteRollback(t *testing.T) {
	onEachStore(t, func(p *place) {
		rng := rand.New(rand.NewPCG(7, 7))
		s := p.begin()
		stranger := p.clone() // knows the older copy only
		old := p.blobs()
		s.change(rng)
		s.kist("push")
		seen := s.tracking("main")
		new := p.blobs()

		refused := func() {
			p.Helper()
			there := p.blobs()
			s.change(rng)
			for _, args := range [][]string{{"fetch"}, {"push"}, {"push", "--force"}, {"pull"}, {"push", "origin", "--delete", "main"}, {"remote", "log"}, {"verify", "--remote", "origin"}} {
				o := s.exits(15, append(args, "--json")...)
				if kind, text := o.failed(); kind != "rollback" || !strings.Contains(text, "root") {
					p.Errorf("want error kind rollback: %v", o)
				}
			}
			p.wantBlobs(there)
			if at := s.tracking("main"); at != seen {
				p.Errorf("the remote-tracking branch is at %s, want %s", at, seen)
			}
		}
		p.restore(old)
		refused()
		stranger.change(rng)
		stranger.kist("push")
		refused() // the number of the last known root belongs to another root
		stranger.change(rng)
		stranger.kist("push")
		refused()
		p.wantIntact()

		p.restore(new)
		s.kist("fetch")
		s.push()
		p.wantIntact()
		if o := stranger.run("fetch", "--json"); o.status != 15 {
			p.Errorf("want exit status 15, as the remote has another history: %v", o)
		}
	})
}
