package commands

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// lazyRequests has command lines, and the greatest number of requests to the remote that each may make in a new lazy clone of 30 commits and
// 330 files. A command that fetches one object after the other makes more. All commands are here or in lazyExempt.
var lazyRequests = []struct {
	args string
	most int
}{
	{"add .", 0},
	{"archive --format tar HEAD~20", 8},
	{"attr list top", 0},
	{"bisect start HEAD HEAD~20", 9},
	{"blame top", 7},
	{"branch side", 0},
	{"cat HEAD~20:top", 5},
	{"checkout HEAD~20", 9},
	{"cherry-pick HEAD~3", 7},
	{"clean -n", 0},
	{"commit --allow-empty -m more", 0},
	{"describe --always HEAD", 0},
	{"diff --name-status HEAD~20 HEAD", 6},
	{"diff --stat HEAD~20 HEAD", 8},
	{"diff HEAD~20 HEAD", 8},
	{"difftool --no-prompt --extcmd true HEAD~20 HEAD", 8},
	{"du HEAD~20", 6},
	{"expire -n --keep-last 3", 0},
	{"export git ../git", 9},
	{"fetch --data HEAD~20:", 9},
	{"find --all name=file", 6},
	{"find HEAD~20 -- content-type=text/plain", 10},
	{"find HEAD~20 -- name=file", 6},
	{"gc --prune now", 0},
	{"grep --all -e word", 10},
	{"grep word HEAD~20", 10},
	{"history top", 6},
	{"hold add HEAD~20 --reason safe", 0},
	{"log", 0},
	{"log --stat", 13},
	{"log -S word", 13},
	{"log -p", 13},
	{"log -p -n 3", 8},
	{"log top", 5},
	{"ls -r HEAD~20", 6},
	{"merge HEAD~20", 0},
	{"merge-base HEAD HEAD~20", 0},
	{"mv top bottom", 0},
	{"prompt", 0},
	{"pull", 6},
	{"purge -n --all-history many/3/5", 6},
	{"push", 6},
	{"rebase HEAD~20", 0},
	{"reflog", 0},
	{"refs-of HEAD:top", 6},
	{"reset --hard HEAD~20", 9},
	{"restore --source HEAD~20 .", 9},
	{"rev-parse HEAD~20", 0},
	{"revert HEAD", 8},
	{"rewrite -n --all-history many/3/5", 6},
	{"rm -q top", 0},
	{"shortlog", 0},
	{"show HEAD~5", 8},
	{"sparse set old", 0},
	{"stash push", 0},
	{"stats", 0},
	{"stats many", 4},
	{"status", 0},
	{"switch --detach HEAD~20", 9},
	{"tag v1 HEAD~20", 0},
	{"verify", 4},
	{"view list", 0},
}

// lazyExempt has the commands without a row in lazyRequests, and why.
var lazyExempt = map[string]string{
	"backup":     "it is add, commit, push and gc",
	"check-age":  "it reads names",
	"clone":      "the test makes a clone",
	"completion": "no repository",
	"config":     "no objects",
	"docs":       "no repository",
	"evict":      "it reads no content; and the clone has none to give away",
	"help":       "no repository",
	"import":     "it reads another place",
	"init":       "no remote",
	"key":        "no repository",
	"ls-remote":  "it reads names",
	"mount":      "a test of tree/look/browse counts requests",
	"remote":     "it reads the remote, not the clone",
	"schedule":   "no objects",
	"serve":      "it shows what is here",
	"upgrade":    "it reads versions",
	"version":    "no repository",
}

// lazyWord is a text of the files in the history of TestLazyRequests.
const lazyWord = "word"

// A command that reads content in a lazy clone brings it together.
func TestLazyRequests(t *testing.T) {
	fake := remotetest.NewFakeS3(t, 1)
	env, stdout, stderr := testEnv(t)
	above := env.Dir
	env.Getenv = fake.Getenv
	run := func(dir, args string) int {
		stdout.Reset()
		stderr.Reset()
		env.Dir = filepath.Join(above, dir)
		return cli.Run(t.Context(), env, strings.Fields(args))
	}
	makeLazyHistory(t, filepath.Join(above, "full"), func(args string) {
		args = strings.ReplaceAll(args, "REMOTE", fake.URL("p"))
		if status := run("full", args); status != cli.ExitOK {
			t.Fatalf("kist %s: %d %s", args, status, stderr)
		}
	})

	for i, command := range lazyRequests {
		dir := fmt.Sprint("n", i)
		if err := os.CopyFS(filepath.Join(above, dir), os.DirFS(filepath.Join(above, "lazy"))); err != nil {
			t.Fatal(err)
		}
		before := fake.Count()
		status := run(dir, command.args)
		n := fake.Count() - before
		if status != cli.ExitOK && !strings.HasPrefix(command.args, "cherry-pick") { // that has a conflict
			t.Errorf("kist %s: exit status %d: %s", command.args, status, stderr)
		}
		if n > command.most {
			t.Errorf("kist %s: %d requests, want at most %d", command.args, n, command.most)
		}
		t.Logf("kist %s: %d of %d requests", command.args, n, command.most)
	}
}

// Each command is in one of the two tables.
func TestLazyRequestsHasEachCommand(t *testing.T) {
	for _, section := range All {
		for _, c := range section.Commands {
			listed := false
			for _, row := range lazyRequests {
				name, _, _ := strings.Cut(row.args, " ")
				listed = listed || name == c.Name
			}
			if listed == (lazyExempt[c.Name] != "") {
				t.Errorf("the command %s must be either in lazyRequests or in lazyExempt", c.Name)
			}
		}
	}
}

// makeLazyHistory makes a repository in dir with 30 commits and 330 files, pushes it to REMOTE, and clones that into the folder lazy beside it.
func makeLazyHistory(t *testing.T, dir string, run func(args string)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	write := func(path string, size int) {
		path = filepath.Join(dir, filepath.FromSlash(path))
		var text strings.Builder
		for text.Len() < size {
			fmt.Fprintf(&text, "%s %d\n", lazyWord, rng.Uint64())
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text.String()), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	write("top", 100)
	run("init -q")
	run("remote add -q origin REMOTE")
	for i := range 300 {
		write(fmt.Sprintf("many/%d/%d", i/30, i%30), 2000+10*i)
	}
	for i := range 30 {
		write(fmt.Sprintf("old/%d/file", i), 3000)
		write("top", 2000)
		write(fmt.Sprintf("many/%d/%d", i%10, i), 2500)
		run("add -q .")
		run("commit -q -m version")
	}
	run("push -q origin main")
	run("clone -q --lazy REMOTE ../lazy")
}
