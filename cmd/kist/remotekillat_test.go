package main

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/s3"
)

// requestKiller is a proxy that kills a command at one of its requests.
type requestKiller struct {
	next http.Handler

	mu     sync.Mutex // guards the following
	n      int        // kill at this request, from 1; 0: never
	effect bool       // whether that request takes effect
	seen   int
	victim chan *process
	active int        // requests in progress
	ended  *sync.Cond // a request has ended
}

func newRequestKiller(next http.Handler) *requestKiller {
	k := &requestKiller{next: next}
	k.ended = sync.NewCond(&k.mu)
	return k
}

func (k *requestKiller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.begin()
	defer k.end()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if !k.passes() {
		panic(http.ErrAbortHandler)
	}
	// The request takes effect even if the client is dead.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	k.next.ServeHTTP(w, r)
}

func (k *requestKiller) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active++
}

func (k *requestKiller) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active--
	k.ended.Broadcast()
}

// over waits until no request is in progress, and returns the number of requests.
func (k *requestKiller) over() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.active > 0 {
		k.ended.Wait()
	}
	return k.seen
}

// passes kills the command at its request n, and reports whether a request takes effect.
func (k *requestKiller) passes() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen++
	if k.n > 0 && k.seen == k.n {
		p := <-k.victim
		p.signal(syscall.SIGKILL)
	}
	return k.n == 0 || k.seen < k.n || k.seen == k.n && k.effect
}

// at returns a cutter that kills at request n.
func (k *requestKiller) at(n int, effect bool) cutter {
	return func(s *shell, args ...string) bool {
		k.set(n, effect)
		p := s.start(args...)
		k.victim <- p
		o := p.outcome()
		killed := k.over() >= n
		k.set(0, false)
		if !killed && o.status != 0 {
			s.Fatal(o)
		}
		return killed
	}
}

func (k *requestKiller) set(n int, effect bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n, k.effect, k.seen, k.victim = n, effect, 0, make(chan *process, 1)
}

// repack kills a repack of the remote, verifies the remote, and repacks again.
func (k *remoteKills) repack(p *place, s *shell, rng *rand.Rand, cut cutter) {
	p.Helper()
	s.write(map[string]string{"text": wording(rng)})
	s.change(rng)
	s.kist("push")
	if !cut(s, repackRemote...) {
		k.late++
	}
	s.kist("verify", "--remote", "origin", "--read-data")
	s.kist(repackRemote...)
	clone := p.wantIntact()
	clone.wantFiles(clone.readFiles("."), s.readFiles("."))
	clone.drop()
}

// TestRemoteKillAtRequest kills clones, pushes, fetches and repacks at each of their
// requests, before and after the request takes effect.
func TestRemoteKillAtRequest(t *testing.T) {
	t.Parallel()
	for _, command := range []struct {
		name  string
		round func(kills *remoteKills, p *place, from, to *shell, rng *rand.Rand, cut cutter)
		done  int // expected kills after the command took effect
	}{
		{"clone", func(kills *remoteKills, p *place, from, _ *shell, _ *rand.Rand, cut cutter) {
			kills.clone(p, from, cut)
		}, 0},
		{"push", func(kills *remoteKills, p *place, from, _ *shell, rng *rand.Rand, cut cutter) {
			kills.push(p, from, from.change(rng), cut)
		}, 1},
		{"fetch", func(kills *remoteKills, p *place, from, to *shell, rng *rand.Rand, cut cutter) {
			from.change(rng)
			from.kist("push")
			kills.fetch(p, to, cut)
		}, 0},
		{"gc", func(kills *remoteKills, p *place, from, _ *shell, rng *rand.Rand, cut cutter) {
			kills.repack(p, from, rng, cut)
		}, 0},
	} {
		t.Run(command.name, func(t *testing.T) {
			t.Parallel()
			fake := remotetest.NewFakeS3(t, 1)
			target, err := url.Parse(fake.Endpoint())
			if err != nil {
				t.Fatal(err)
			}
			k := newRequestKiller(httputil.NewSingleHostReverseProxy(target))
			server := httptest.NewServer(k)
			t.Cleanup(server.Close)
			p := newPlace(t, s3.Open, "s3://"+remotetest.FakeS3Bucket+"/remote?endpoint="+server.URL, fake.Getenv)
			rng := rand.New(rand.NewPCG(6, 6))
			from := p.begin()
			from.change(rng)
			from.kist("push")
			to := p.clone()

			var kills remoteKills
			n := 1
			for ; kills.late < 2; n++ {
				for _, effect := range []bool{false, true} {
					command.round(&kills, p, from, to, rng, k.at(n, effect))
				}
			}
			if n < 4 || kills.done != command.done {
				t.Errorf("killed at each of %d requests: %+v, want at least 2 requests and done %d", n-2, kills, command.done)
			}
			t.Logf("killed at each of %d requests: %+v", n-2, kills)
		})
	}
}
