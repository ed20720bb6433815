package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/objecttest"
)

// TestRemoteKillRename kills 'remote rename' at random moments. The remote has its old or its
// new name, with all branches. A second run removes the rest of the old name.
func TestRemoteKillRename(t *testing.T) {
	s := newShell(t)
	rng := objecttest.Rand(11)
	cut := atRandom(rng, 30*time.Millisecond)
	s.commands("init", "commit --allow-empty -m first", "remote add a ../store")
	const branches = 12
	for i := range branches {
		s.commands(fmt.Sprintf("branch b%d", i))
	}
	s.commands("push -u a main", "push --all a", "fetch a")
	logged := len(strings.Split(s.kist("reflog", "a/main"), "\n"))

	from, to := "a", "b"
	midway := 0
	for range objecttest.Rounds(t, 2) {
		cut(s, "remote", "rename", from, to)
		now := strings.TrimSpace(s.kist("remote"))
		if now != from && now != to {
			t.Fatalf("the remotes are %q, want %s or %s", now, from, to)
		}
		if list := s.kist("branch", "-r"); strings.Count(list, now+"/b") != branches {
			t.Fatalf("%s has the branches\n%s\nwant %d", now, list, branches)
		}
		if list := s.kist("branch", "-vv"); !strings.Contains(list, "["+now+"/main]") {
			t.Fatalf("main follows no branch of %s:\n%s", now, list)
		}
		remains := exists(s.path(".kist/refs/remotes/"+from+"/main")) || exists(s.path(".kist/remotes/"+from))
		if remains {
			s.kist("remote", "rename", from, to)
		}
		if now == from || remains && now == to {
			midway++
		}
		for _, gone := range []string{"refs/remotes/", "logs/refs/remotes/", "remotes/"} {
			if path := s.path(".kist/" + gone + from); exists(path) {
				t.Fatalf("%s still exists", path)
			}
		}
		if list := s.kist("branch", "-r"); strings.Count(list, to+"/b") != branches || strings.Contains(list, from+"/") {
			t.Fatalf("after the rename from %s to %s, the branches are\n%s", from, to, list)
		}
		before := logged
		if logged = len(strings.Split(s.kist("reflog", to+"/main"), "\n")); logged <= before {
			t.Fatalf("the reflog has %d lines, want more than %d", logged, before)
		}
		if !exists(s.path(".kist/remotes/" + to + "/head")) {
			t.Fatal("the last known head is lost")
		}
		s.commands("fetch "+to, "verify")
		from, to = to, from
	}
	t.Logf("%d renames were killed midway", midway)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
