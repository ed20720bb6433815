package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// holdWhileSending stops a push when it has sent a pack, and is not through with
// another. It has to send with a limit, so that there is time to do so.
func (p *process) holdWhileSending() {
	p.Helper()
	for began := time.Now(); len(p.noted()) == 0; time.Sleep(time.Millisecond) {
		if p.hasEnded() {
			p.Fatalf("it was over before it could be held: %v", p.outcome())
		}
		if time.Since(began) > commandTime {
			p.Fatalf("kist %q does not begin to send", p.args)
		}
	}
	p.signal(syscall.SIGSTOP)
}

// noted returns the names of the packs that pushes in the folder have sent and no
// root names.
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
