package commands

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object"
)

// Reasons why a command makes no folder of git in a worktree.
const (
	reads    = "it prints, and changes nothing"
	ownFiles = "it changes names, objects, records or the configuration, all below .kist or on a remote"
	helps    = "it only has commands, or does the same as one of them"
	indexes  = "it changes the index only"
)

// gitCases has a row for each command: the reason why it cannot bring a folder of git into a
// worktree, or command lines that try to. They run in a clone whose main is at the tag base.
// The branch evil adds such folders to it.
var gitCases = map[string]struct {
	safe  string
	lines []string
	quiet bool // no line has to mention the folder
}{
	"bisect":       {safe: helps},
	"bisect bad":   {lines: []string{"bisect start", "bisect good base", "bisect bad evil2", "bisect reset"}},
	"bisect good":  {lines: []string{"bisect start", "bisect bad evil2", "bisect good base", "bisect reset"}},
	"bisect reset": {lines: []string{"checkout -q evil", "bisect start evil2 base", "bisect reset"}},
	"bisect run":   {lines: []string{"bisect start evil2 base", "bisect run true"}},
	"bisect skip":  {lines: []string{"bisect start evil2 base", "bisect skip"}},
	"bisect start": {lines: []string{"bisect start evil2 base"}},
	"checkout":     {lines: []string{"checkout -q evil", "checkout -q main", "checkout -q --force evil", "checkout main", "checkout evil -- .git sub"}},
	"cherry-pick":  {lines: []string{"cherry-pick evil"}},
	"clean":        {lines: []string{"clean -fdx"}, quiet: true},
	"clone":        {lines: []string{"clone -q --branch evil ../origin ../copy"}},
	"import":       {lines: []string{"import -q -b new ../folder", "checkout -q new"}},
	"import tar":   {lines: []string{"archive evil -o ../out.tar", "import tar -q -b new ../out.tar", "checkout -q new"}},
	"merge":        {lines: []string{"merge -q evil", "reset -q --soft base", "commit -q --allow-empty -m other", "merge -q evil"}},
	"mv":           {lines: []string{"mv a .git", "mv -n a .GIT", "mv a git~1"}},
	"pull":         {lines: []string{"pull -q origin evil"}},
	"rebase":       {lines: []string{"commit -q --allow-empty -m other", "rebase -q evil"}},
	"reset":        {lines: []string{"reset -q --hard evil"}},
	"restore":      {lines: []string{"restore -q --source evil .", "restore -q --source evil .git", "restore -q --source evil --to ../to", "restore -q --source evil --to ../to -n --force"}},
	"revert":       {lines: []string{"checkout -q evil", "rm -q -r --cached .git sub", "commit -q -m removed", "revert HEAD"}},
	"rm":           {lines: []string{"reset -q --hard evil", "rm -q -r sub"}},
	"sparse":       {safe: helps},
	"sparse add":   {lines: []string{"sparse set a", "reset -q --soft evil", "sparse add sub"}, quiet: true},
	"sparse off":   {lines: []string{"sparse set a", "checkout -q evil", "sparse off"}, quiet: true},
	"sparse set":   {lines: []string{"checkout -q evil", "sparse set sub"}, quiet: true},
	"stash":        {safe: helps},
	"stash apply":  {lines: []string{"restore -q --staged --source evil .", "stash push -q", "stash apply --index"}},
	"stash branch": {lines: []string{"restore -q --staged --source evil .", "stash push -q", "stash branch new"}},
	"stash pop":    {lines: []string{"restore -q --staged --source evil .", "stash push -q", "stash pop --index"}},
	"stash push":   {lines: []string{"checkout -q evil", "rm -q --cached -r .git", "stash push -q"}},
	"switch":       {lines: []string{"switch -q evil"}},
	"view":         {safe: helps},
	"view add":     {lines: []string{"view add v {path} evil --dir ../view", "view add w .git/{name} evil --dir ../view2"}},
	"view rebuild": {lines: []string{"view add v {path} main --dir ../view", "reset -q --hard evil", "view rebuild v"}},
	"view verify":  {lines: []string{"view add v {path} evil --dir ../view", "view verify --fix v"}},

	"add": {safe: indexes}, "attr": {safe: helps}, "attr get": {safe: reads}, "attr list": {safe: reads}, "attr remove": {safe: indexes}, "attr set": {safe: indexes},
	"archive": {safe: "it writes an archive, which has everything; other programs unpack it"}, "backup": {safe: ownFiles}, "blame": {safe: reads},
	"bisect log": {safe: reads}, "branch": {safe: ownFiles}, "cat": {safe: reads}, "check-age": {safe: reads}, "commit": {safe: ownFiles},
	"completion": {safe: reads}, "config": {safe: ownFiles}, "describe": {safe: reads}, "diff": {safe: reads}, "difftool": {safe: "the copies for the program leave them out: the script difftool"}, "du": {safe: reads},
	"docs": {safe: "it writes the pages of this project"}, "evict": {safe: ownFiles}, "expire": {safe: ownFiles}, "export": {safe: helps},
	"export git": {safe: "git refuses such paths, and kist leaves them out"}, "fetch": {safe: ownFiles}, "find": {safe: reads}, "gc": {safe: ownFiles}, "grep": {safe: reads},
	"help": {safe: reads}, "history": {safe: reads}, "hold": {safe: helps}, "hold add": {safe: ownFiles}, "hold list": {safe: reads}, "hold remove": {safe: ownFiles},
	"key": {safe: helps}, "key add": {safe: ownFiles}, "key export": {safe: ownFiles}, "key list": {safe: reads}, "key new": {safe: ownFiles}, "key remove": {safe: ownFiles}, "key rotate": {safe: ownFiles},
	"import git": {safe: ownFiles}, "import restic": {safe: ownFiles}, "init": {safe: ownFiles}, "log": {safe: reads}, "ls": {safe: reads}, "ls-remote": {safe: reads},
	"merge-base": {safe: reads}, "mount": {safe: "the mount hides them: TestGitFolders in tree/look/browse"}, "prompt": {safe: reads}, "purge": {safe: ownFiles}, "push": {safe: ownFiles},
	"reflog": {safe: ownFiles}, "refs-of": {safe: reads}, "remote": {safe: helps}, "remote add": {safe: ownFiles}, "remote check": {safe: ownFiles}, "remote copy": {safe: ownFiles}, "remote gc": {safe: ownFiles},
	"remote get-url": {safe: reads}, "remote list": {safe: reads}, "remote log": {safe: reads}, "remote prune": {safe: ownFiles}, "remote remove": {safe: ownFiles},
	"remote rename": {safe: ownFiles}, "remote set-url": {safe: ownFiles}, "remote show": {safe: reads}, "rev-parse": {safe: reads}, "rewrite": {safe: ownFiles},
	"schedule": {safe: helps}, "schedule add": {safe: "it writes timers of the system"}, "schedule list": {safe: reads}, "schedule remove": {safe: "it removes timers of the system"},
	"serve": {safe: "TestGitFolders in cmd/kist/serve/dav and in cmd/kist/serve/web"}, "shortlog": {safe: reads}, "show": {safe: reads},
	"stash clear": {safe: ownFiles}, "stash drop": {safe: ownFiles}, "stash list": {safe: reads}, "stash show": {safe: reads}, "stats": {safe: reads}, "status": {safe: reads},
	"tag": {safe: ownFiles}, "upgrade": {safe: ownFiles}, "verify": {safe: ownFiles}, "version": {safe: reads}, "view list": {safe: reads}, "view remove": {safe: "it removes links"},
}

// No command brings a folder of git into a worktree. A new command fails the test until it has
// a row.
func TestGitFolders(t *testing.T) {
	env, _, _ := testEnv(t)
	known := map[string]bool{}
	cli.EachCommand(cli.New(env), func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "kist ")
		known[name] = true
		if row, ok := gitCases[name]; name != "kist" && (!ok || (row.safe == "") == (len(row.lines) == 0)) {
			t.Errorf("kist %s: give it a row in gitCases, with a reason or with lines", name)
		}
	})

	made := makeEvil(t)
	for name, row := range gitCases {
		if !known[name] {
			t.Errorf("gitCases has %q, which is no command", name)
		}
		if row.safe != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			if err := os.CopyFS(top, os.DirFS(made)); err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, line := range row.lines {
				status, out := runIn(t, top+"/work", strings.Fields(line)...)
				if status == cli.ExitUsage {
					t.Errorf("kist %s: %s", line, out)
				}
				said += out
				if bad := findGit(t, top); len(bad) > 0 {
					t.Fatalf("kist %s made %q", line, bad)
				}
			}
			if !row.quiet && !strings.Contains(said, ".git") {
				t.Errorf("no line mentions the folder: does it still try to write it? Output:\n%s", said)
			}
			if status, out := runIn(t, top+"/work", "verify", "-q"); status != cli.ExitOK {
				t.Errorf("verify: %s", out)
			}
		})
	}
}

// makeEvil returns a folder with the repository origin, its clone work, and the folder "folder"
// to import.
func makeEvil(t *testing.T) string {
	top := t.TempDir()
	write := func(path string) {
		mustMkdir(t, top, filepath.Dir(path))
		if err := os.WriteFile(filepath.Join(top, path), []byte(path), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run := func(dir string, args ...string) {
		t.Helper()
		if status, out := runIn(t, filepath.Join(top, dir), args...); status != cli.ExitOK {
			t.Fatalf("kist %q: %s", args, out)
		}
	}

	write("origin/a")
	run("origin", "init", "-q")
	run("origin", "add", "-q", "-A")
	run("origin", "commit", "-q", "-m", "base")
	run("origin", "tag", "base")
	run("origin", "checkout", "-q", "-b", "evil")
	for _, path := range []string{"b", ".git/config", "sub/.git/hooks/x", "sub/c", "file/.GIT"} {
		write("origin/" + path)
	}
	run("origin", "add", "-q", "-f", "b", ".git", "sub", "sub/.git", "file")
	run("origin", "commit", "-q", "-m", "evil")
	for _, tag := range []string{"evil1", "evil2"} {
		write("origin/" + tag)
		run("origin", "add", "-q", tag)
		run("origin", "commit", "-q", "-m", tag)
		run("origin", "tag", tag)
	}
	run("origin", "-c", "core.git=write", "checkout", "-q", "main")

	run("", "clone", "-q", "origin", "work")
	run("work", "branch", "-q", "evil", "evil1~1")
	write("folder/.git/config")
	return top
}

// runIn runs a command in a folder, and returns its exit status and its output.
func runIn(t *testing.T, dir string, args ...string) (int, string) {
	env, stdout, stderr := testEnv(t)
	env.Dir = dir
	env.Getenv = func(name string) string { return map[string]string{"KIST_GC_AUTO": "0"}[name] }
	status := cli.Run(t.Context(), env, args)
	return status, stdout.String() + stderr.String()
}

// findGit returns the folders and files of git that a command made.
func findGit(t *testing.T, top string) (bad []string) {
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".kist" || path == top+"/folder" {
			return fs.SkipDir
		}
		if object.IsGitName(d.Name()) {
			bad = append(bad, strings.TrimPrefix(path, top))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return bad
}
