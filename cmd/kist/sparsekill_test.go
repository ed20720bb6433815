package main

import (
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// TestKillSparse kills sparse set, add and off at system calls that change the disk. Then no file of
// the user is lost or looks deleted, nothing else is staged, and the same command completes the work.
func TestKillSparse(t *testing.T) {
	for name, c := range map[string]struct{ begin, command []string }{
		"set":       {[]string{"sparse", "off"}, []string{"sparse", "set", "a/b", "g"}},
		"other set": {[]string{"sparse", "set", "a"}, []string{"sparse", "set", "e", "h"}},
		"add":       {[]string{"sparse", "set", "g"}, []string{"sparse", "add", "a", "e/f"}},
		"off":       {[]string{"sparse", "set", "g"}, []string{"sparse", "off"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := objecttest.Rand(uint64(len(name)))
			k := &stepsKiller{killedSteps: killedSteps{command: c.command}, shell: newShell(t), rng: rng}
			k.env = []string{"KIST_DATE=2026-01-31T12:00:00Z", "GOMAXPROCS=1"}
			k.kist("init")
			for _, path := range []string{"x", "a/x", "a/b/x", "a/b/c/x", "a/d/x", "e/x", "e/f/x", "g/x", "h/x"} {
				k.write(map[string]string{path: path + noise(rng, 3000)})
			}
			k.shell.commit("base")
			k.write(map[string]string{"g/x": "my change", "x": "my change, too", "e/mine": "untracked"})
			k.kist("add", "x")
			tree := k.kist("ls", "-r", "-l", ":")
			sparse := func(s *shell, args []string) {
				if o := s.run(args...); o.status != 0 && o.status != 3 { // 3: a folder with changes stays
					t.Fatal(o)
				}
			}
			sparse(k.shell, c.begin)

			whole := k.copyFolder()
			k.calls = k.strace(whole, "", 0)
			want, status := whole.readFiles("."), whole.kist("status", "--porcelain")
			for range objecttest.Rounds(t, 1) {
				s := k.copyFolder()
				at := rng.IntN(len(k.calls))
				call, count := k.calls[at], 0
				for _, other := range k.calls[:at+1] {
					if other == call {
						count++
					}
				}
				k.strace(s, call, count)
				after := s.kist("status", "--porcelain")
				for line := range strings.Lines(after) {
					if text := strings.TrimSpace(line); text != "M  x" && text != "M g/x" && !strings.HasPrefix(text, "??") {
						t.Errorf("killed at %s %d: status has %q", call, count, line)
					}
				}
				if got := s.kist("ls", "-r", "-l", ":"); got != tree {
					t.Errorf("killed at %s %d: the index has\n%swant\n%s", call, count, got, tree)
				}
				s.verify()
				sparse(s, c.command)
				s.wantFiles(s.readFiles("."), want)
				if got := s.kist("status", "--porcelain"); got != status {
					t.Errorf("killed at %s %d, and repeated: status is\n%swant\n%s", call, count, got, status)
				}
				s.verify()
			}
		})
	}
}
