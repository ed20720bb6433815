package commands

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object/objecttest"
)

// hostileSettings make git run the program PROGRAM in some command, or connect to a program.
var hostileSettings = []string{
	"protocol.allow=always",
	"protocol.ext.allow=always",
	"remote.origin.url=ext::PROGRAM %S",
	"remote.origin.promisor=true",
	"remote.origin.uploadpack=PROGRAM",
	"remote.origin.receivepack=PROGRAM",
	"extensions.partialClone=origin",
	"core.repositoryFormatVersion=1",
	"core.fsmonitor=PROGRAM",
	"core.hooksPath=HOOKS",
	"core.sshCommand=PROGRAM",
	"core.gitProxy=PROGRAM",
	"core.askPass=PROGRAM",
	"core.editor=PROGRAM",
	"core.pager=PROGRAM",
	"core.alternateRefsCommand=PROGRAM",
	"core.attributesFile=ATTRIBUTES",
	"pager.fast-export=true",
	"pager.fast-import=true",
	"pager.config=true",
	"alias.fast-export=!PROGRAM",
	"alias.config=!PROGRAM",
	"credential.helper=!PROGRAM",
	"gpg.program=PROGRAM",
	"gpg.ssh.program=PROGRAM",
	"diff.external=PROGRAM",
	"diff.x.command=PROGRAM",
	"diff.x.textconv=PROGRAM",
	"filter.x.clean=PROGRAM",
	"filter.x.smudge=PROGRAM",
	"filter.x.process=PROGRAM",
	"filter.x.required=true",
	"merge.x.driver=PROGRAM",
	"uploadpack.packObjectsHook=PROGRAM",
	"hook.reference-transaction.enabled=true",
	"hook.any = name.event=reference-transaction",
	"hook.any = name.event=post-index-change",
	"hook.any = name.command=PROGRAM",
}

// makeHostile makes git repositories in dir. Each command that runs git there would run a
// program, which makes the file "ran". The one in dir/partial also lacks an object.
func makeHostile(t *testing.T, dir string) {
	t.Helper()
	objecttest.NeedProgram(t, "git")
	program := filepath.Join(dir, "program")
	write := func(path, text string, mode fs.FileMode) {
		t.Helper()
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode))
		if err != nil {
			t.Fatal(err)
		}
	}
	write(program, fmt.Sprintf("#!/bin/sh\necho \"$0 $*\" >>'%s/ran'\n", dir), 0o755)
	write(filepath.Join(dir, "attributes"), "* filter=x diff=x merge=x\n", 0o644)
	for _, hook := range []string{"reference-transaction", "post-index-change", "pre-auto-gc", "update", "post-update"} {
		write(filepath.Join(dir, "hooks", hook), fmt.Sprintf("#!/bin/sh\necho \"hook $0\" >>'%s/ran'\n", dir), 0o755)
	}

	values := strings.NewReplacer("PROGRAM", program, "HOOKS", filepath.Join(dir, "hooks"), "ATTRIBUTES", filepath.Join(dir, "attributes"))
	for _, name := range []string{"whole", "partial"} {
		repository := filepath.Join(dir, name)
		write(filepath.Join(repository, "a.txt"), "a", 0o644)
		var id string
		who := []string{"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@x"}
		for _, args := range []string{"init -q -b main .", "add .", "commit -q -m m", "rev-parse HEAD:a.txt"} {
			out, err := objecttest.Git(repository, "", who, strings.Fields(args)...)
			if err != nil {
				t.Fatal(err)
			}
			id = strings.TrimSpace(out)
		}
		if name == "partial" {
			if err := os.Remove(filepath.Join(repository, ".git/objects", id[:2], id[2:])); err != nil {
				t.Fatal(err)
			}
		}

		var config strings.Builder
		for _, setting := range hostileSettings {
			key, value, _ := strings.Cut(setting, "=")
			if strings.HasPrefix(setting, "hook.any") { // the name has an equals sign
				key, value, _ = strings.Cut(setting[len("hook.any = name."):], "=")
				key = "hook.any = name." + key
			}
			section, rest, _ := strings.Cut(key, ".")
			if end := strings.LastIndexByte(rest, '.'); end >= 0 {
				section, rest = fmt.Sprintf("%s %q", section, rest[:end]), rest[end+1:]
			}
			fmt.Fprintf(&config, "[%s]\n\t%s = %q\n", section, rest, values.Replace(value))
		}
		write(filepath.Join(repository, ".git/config"), config.String(), 0o644)
	}
}

// runsOfGit lists all command lines that run git, beside the repositories of makeHostile.
var runsOfGit = []struct {
	args string
	exit int
}{
	{"import git ../whole", cli.ExitOK},
	{"import git ../partial", cli.ExitFailed},
	{"export git ../whole", cli.ExitOK},
	{"export git ../new", cli.ExitOK},
	{"commit --allow-empty -m m", cli.ExitOK}, // reads git's identity
}

// No command runs a program that a git repository names: neither the one in its arguments nor
// the one around it.
func TestGitRunsNoProgramOfTheRepository(t *testing.T) {
	env, _, stderr := testEnv(t)
	makeHostile(t, env.Dir)
	above := env.Dir
	for _, run := range runsOfGit {
		stderr.Reset()
		env.Dir, env.Identity = filepath.Join(above, "work"), cli.GitIdentity{Git: cli.GitUser}
		if err := errors.Join(os.RemoveAll(env.Dir), os.Mkdir(env.Dir, 0o755)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(above, "partial/.git"), filepath.Join(env.Dir, ".git")); err != nil {
			t.Fatal(err)
		}

		for _, args := range []string{"init -q -b mine", "commit -q --allow-empty -m one"} {
			if status := cli.Run(t.Context(), env, strings.Fields(args)); status != cli.ExitOK {
				t.Fatalf("%s: %d: %s", args, status, stderr)
			}
		}
		if status := cli.Run(t.Context(), env, strings.Fields(run.args)); status != run.exit {
			t.Errorf("kist %s: exit status %d, want %d: %s", run.args, status, run.exit, stderr)
		}

		if ran, err := os.ReadFile(filepath.Join(above, "ran")); err == nil {
			t.Errorf("kist %s ran a program of the repository:\n%s", run.args, ran)
			_ = os.Remove(filepath.Join(above, "ran"))
		}
	}
}
