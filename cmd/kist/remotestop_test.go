package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// holdWhileSending stops a push after its first pack. The push needs an upload limit,
// so that it does not end before.
func (p *process) holdWhileSending() {
	p.Helper()
	for began := time.Now(); len(p.noted()) == 0; time.Sleep(time.Millisecond) {
		if p.hasEnded() {
			p.Fatalf("the push ended before it could be stopped: %v", p.outcome())
		}
		if time.Since(began) > commandTime {
			p.Fatalf("kist %q sends no pack", p.args)
		}
	}
	p.signal(syscall.SIGSTOP)
}

// noted returns the names of packs that pushes of the repository have sent, but no root
// lists yet.
func (s *shell) noted() []string {
	s.Helper()
	found, err := filepath.Glob(s.path(".kist/remotes/origin/push/*/" + strings.Repeat("[0-9a-f]", 32)))
	if err != nil {
		s.Fatal(err)
	}
	for i, path := range found {
		found[i] = filepath.Base(path)
	}
	return found
}
