package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote/rootlog"
)

// holdWhileSending stops a push when it has sent a pack, and is not through with
// another. It has to send with a limit, so that there is time to do so.
func (p *process) holdWhileSending() {
	p.Helper()
	for began := time.Now(); p.noted() == 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > commandTime {
			p.Fatalf("kist %q does not begin to send", p.args)
		}
	}
	p.signal(syscall.SIGSTOP)
}

// noted returns how many packs pushes in the folder have sent that no root names.
func (s *shell) noted() int {
	s.Helper()
	found, err := filepath.Glob(s.path(".kist/remotes/origin/push/*/" + strings.Repeat("[0-9a-f]", 32)))
	if err != nil {
		s.Fatal(err)
	}
	return len(found)
}

// TestRemoteStopped stops a push that has found out what the remote lacks.
// Meanwhile the branch that it builds on is deleted there, and what only that
// reached is condemned and removed. The push goes on, and finds out again.
func TestRemoteStopped(t *testing.T) {
	onEachStore(t, func(p *place) {
		rng := rand.New(rand.NewPCG(3, 3))
		s := p.begin()
		kept := p.list()
		s.kist("checkout", "-b", "base")
		for i := range 3 {
			s.write(map[string]string{fmt.Sprint("base/", i): noise(rng, 20<<10)})
		}
		s.commit("base")
		s.kist("push")
		var base []string
		for name := range p.list() {
			if _, ok := kept[name]; !ok && strings.HasPrefix(name, "packs/") {
				base = append(base, name)
			}
		}
		other := p.clone()
		s.kist("checkout", "-b", "topic")
		s.write(map[string]string{"topic": noise(rng, 64<<10)})
		tip := s.commit("topic")

		push := s.start("push", "--json", "--limit-upload", "16KiB")
		push.holdWhileSending()
		other.kist("push", "origin", "--delete", "base")
		p.condemn(base)
		seq := p.head().Seq
		push.signal(syscall.SIGCONT)
		if o := push.wait(); o.status != 0 {
			p.Fatal(o)
		}
		if head := p.head(); p.at("topic") != tip || head.Seq != seq+1 || len(head.Condemned) != len(base) || len(base) != 2 {
			p.Errorf("topic is at %s, want %s; root %d, want %d; %d of %d packs are condemned", p.at("topic"), tip, head.Seq, seq+1, len(head.Condemned), len(base))
		}
		clone := p.folder()
		clone.kist("clone", "-b", "topic", p.url, ".")
		clone.kist("verify", "--remote", "origin", "--read-data")
		clone.verify()
		clone.wantFiles(clone.readFiles("."), s.readFiles("."))
	})
}

// condemn condemns blobs, and removes them.
func (p *place) condemn(names []string) {
	p.Helper()
	log := p.log()
	head, err := log.Head(context.Background(), nil)
	if err == nil {
		_, err = log.Append(context.Background(), head, rootlog.Change{Condemn: names, Who: "A collector", Time: time.Now()})
	}
	if err != nil {
		p.Fatal(err)
	}
	for _, name := range names {
		if err := p.backend.Delete(context.Background(), name); err != nil {
			p.Fatal(err)
		}
	}
}
