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

		p.restore(nil)
		refused() // like an empty mount point

		p.restore(new)
		s.kist("fetch")
		s.push()
		p.wantIntact()
		if o := stranger.run("fetch", "--json"); o.status != 15 {
			p.Errorf("want exit status 15, as the remote has another history: %v", o)
		}
	})
}

// TestRemoteNoRoots checks that no command takes a remote that has lost its only root for an
// empty one. The next push repairs it, because an interrupted first push leaves the same.
func TestRemoteNoRoots(t *testing.T) {
	onEachStore(t, func(p *place) {
		p.begin().drop()
		if err := p.backend.Delete(t.Context(), "root/00000000000000000001"); err != nil {
			t.Fatal(err)
		}

		before := p.blobs()
		s := p.folder()
		s.kist("init", ".")
		s.kist("remote", "add", "--no-check", "origin", p.url)
		for _, args := range [][]string{{"clone", p.url, "clone"}, {"fetch"}, {"pull", "origin", "main"}, {"ls-remote"}, {"remote", "show", "origin"}, {"mount", "--remote", "origin", p.folder().dir}} {
			o := s.exits(11, append(args, "--json")...)
			if kind, text := o.failed(); kind != "remote-damaged" || !strings.Contains(text, "they were lost, or the first push was interrupted") {
				t.Errorf("want error kind remote-damaged with both causes: %v", o)
			}
		}
		s.exits(11, "verify", "--remote", "origin")
		p.wantBlobs(before)

		s.write(map[string]string{"first": "another first file"})
		s.commit("first")
		s.kist("push")
		p.wantIntact()
	})
}
