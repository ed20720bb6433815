package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// gitPrompt is git's prompt script, which kist prompt follows.
const gitPrompt = "/usr/lib/git-core/git-sh-prompt"

// promptSteps are commands that TestPromptLikeGit chooses from. Each must succeed or fail
// in both programs.
var promptSteps = []string{
	"echo more >>a.txt", "echo $step >a.txt", "vcs add a.txt", "vcs commit -q -am work", "vcs commit -q -m staged", "rm -f new.txt",
	"vcs checkout -q topic", "vcs checkout -q main", "vcs checkout -q side", "vcs merge -q topic",
	"vcs merge --abort", "vcs reset -q --hard HEAD~1", "vcs reset -q --hard", "vcs branch -u origin/main",
	"vcs revert --no-edit HEAD", "vcs revert --abort", "vcs checkout -q -b new$step",
}

// promptStops are the first commands of TestPromptLikeGit. They leave operations unfinished.
var promptStops = []string{
	"seq 1 30 | sed 's/^15$/other/' >a.txt", "vcs commit -q -am other", "vcs cherry-pick topic~1", "vcs cherry-pick --abort",
	"vcs bisect start", "vcs bisect bad HEAD", "vcs bisect reset",
}

// TestPromptLikeGit checks that kist prompt prints the same as git's script after each command.
func TestPromptLikeGit(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(gitPrompt); err != nil {
		objecttest.Skip(t, err)
	}

	for round := range objecttest.Rounds(t, 2) {
		random := rand.New(rand.NewPCG(objecttest.Seed(), uint64(round)))
		s := newShell(t)
		git, kist := s.twin("git"), s.twin("kist")
		for _, v := range []*twin{git, kist} {
			if out, err := v.sh("..", gitTableSetup); err != nil {
				t.Fatalf("%s: %v\n%s", v.vcs, err, out)
			}
		}

		var done []string
		for step := range 35 {
			command := promptSteps[random.IntN(len(promptSteps))]
			if step < len(promptStops) {
				command = promptStops[step]
			}
			command = fmt.Sprintf("step=%d; export KIST_DATE=2026-04-01T12:00:%02dZ; ", step, step) + command
			done = append(done, command)

			_, gitErr := git.sh(".", command)
			if _, err := kist.sh(".", command); (err == nil) != (gitErr == nil) {
				t.Fatalf("round %d: git returns %v, kist %v, after\n%s", round, gitErr, err, strings.Join(done, "\n"))
			}

			want, err := git.sh(".", `bash -c '. `+gitPrompt+`; GIT_PS1_SHOWDIRTYSTATE=1 GIT_PS1_SHOWUPSTREAM=auto __git_ps1 "%s"'; echo`)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := kist.sh(".", "kist prompt"); err != nil || got != want {
				t.Fatalf("round %d: the prompt is %q, %v, want %q as in git, after\n%s", round, got, err, want, strings.Join(done, "\n"))
			}
		}
	}
}

// TestPromptInShells checks the lines for shells in the help: a shell shows the prompt, and runs
// no command in a branch name.
func TestPromptInShells(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	v := s.twin("kist")
	if out, err := v.sh("..", "mkdir proj && cd proj && kist init -q && echo a >a && kist add -q a && kist commit -q -m one && kist checkout -q -b 'a%F{red}$(touch${IFS}ran)`touch${IFS}ran`;b' && echo b >>a"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	help, err := v.sh(".", "kist help prompt")
	if err != nil {
		t.Fatal(err)
	}

	const want = "a%F{red}$(touch${IFS}ran)`touch${IFS}ran`;b *"
	for shell, show := range map[string]string{
		"bash": `printf '%s\n' "${PS1@P}"`, "zsh": `print -rP -- "$PROMPT"`, "fish": "fish_prompt",
	} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not installed", shell)
			continue
		}
		_, rest, _ := strings.Cut(help, "  "+shell+", in ")
		lines := strings.SplitN(rest, "\n", 3)
		if err := os.WriteFile(v.dir+"/../rc", []byte(lines[1]+"\n"+show+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}

		out, err := v.sh(".", shell+" ../rc")
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s prints %q, %v, want %q in it", shell, out, err, want)
		}
	}

	if _, err := os.Stat(v.dir + "/ran"); err == nil {
		t.Error("a branch name ran a command")
	}
}
