package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object/objecttest"
)

// TestFullDiskReserve checks that the commands which free space work when the repository itself has
// filled its disk to the last byte.
func TestFullDiskReserve(t *testing.T) {
	s := onTmpfs(t, "size=224m")
	if s == nil {
		return
	}
	rng := objecttest.Rand(11)
	for name, commands := range map[string][][]string{
		"expire": {{"expire", "--keep-last", "1"}, {"gc", "--prune", "now"}},
		"gc":     {{"gc", "--prune", "now"}},
		"purge":  {{"purge", "old:large"}, {"gc", "--prune", "now"}},
		"delete": {{"branch", "-D", "old"}, {"tag", "-d", "v1"}, {"stash", "drop"}, {"gc", "--prune", "now"}},
	} {
		os.Mkdir(s.path(name), 0o777)
		s := s.in(name)
		s.kist("init")
		s.kist("config", "gc.reflog-expire", "now")
		s.write(map[string]string{"large": noise(rng, 50<<20)})
		s.kist("add", "large")
		s.kist("commit", "-m", "first")
		s.kist("branch", "old")
		if _, err := os.Stat(s.path(".kist/reserve")); err == nil {
			t.Errorf("%s: a small repository has a reserve", name)
		}
		s.write(map[string]string{"large": noise(rng, 40<<20)})
		s.kist("commit", "-a", "--amend", "-m", "second")
		switch name {
		case "gc":
			s.kist("branch", "-D", "old")
		case "expire":
			s.kist("reset", "--hard", "old")
			s.write(map[string]string{"large": noise(rng, 1<<20)})
			s.kist("commit", "-a", "-m", "second")
		case "delete":
			s.kist("tag", "-m", "first", "v1", "old")
			s.kist("config", "branch.old.merge", "refs/heads/main")
			s.write(map[string]string{"large": "changed"})
			s.kist("stash", "push")
		}
		if _, err := os.Stat(s.path(".kist/reserve")); err != nil {
			t.Errorf("%s: no reserve: %v", name, err)
		}

		s.write(map[string]string{"large": ""})
		s.fill(0)
		for _, command := range commands {
			s.kistConfirmed(command...)
		}
		os.Remove(s.path("../ballast"))
		s.verify()
		removeAll(t, s.dir)
	}
}

// kistConfirmed runs kist, which must succeed, and asks for confirmation at most once.
func (s *shell) kistConfirmed(args ...string) {
	s.Helper()
	var stdout, stderr bytes.Buffer
	env := s.environment(&stdout, &stderr)
	env.Stdin, env.Terminal.Stdin = strings.NewReader("y\n"), true
	if status := cli.Run(s.Context(), env, args); status != 0 || strings.Count(stderr.String(), "[y/N]") > 1 {
		s.Errorf("kist %q: status %d\n%s%s", args, status, &stdout, &stderr)
	}
}
