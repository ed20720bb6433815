package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
)

// hostileNames are names with characters that a shell or a terminal could interpret.
var hostileNames = []string{
	"a$(id)", "a`id`", "a;id", "a&id", "a|id", "a>id", "a'b", `a"b`, `a\b`, "a*", "~a", "#a", "!a", "{a,b}", "a b", " a", "a ",
	"-a", "--force", "a\nb", "a\tb", "a\x1b[31m", "a\u202eb", "a\xff", "a\u00a0", "_activeHelp_ a", ":4",
}

// TestCommandsAreFreed checks that no command registers a completion in cobra unless a shell asks
// for it. Cobra would keep it, and the command, for ever.
func TestCommandsAreFreed(t *testing.T) {
	env, _, _ := testEnv(t)
	cli.EachCommand(cli.New(env), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if _, ok := cmd.GetFlagCompletionFunc(flag.Name); ok {
				t.Errorf("%s --%s: use propose", cmd.CommandPath(), flag.Name)
			}
		})
	})
}

// TestProposalsAreSafe checks the proposals of every command, and of every option with a value,
// in a repository full of hostile names.
func TestProposalsAreSafe(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: no work for the race detector")
	}

	env, stdout, stderr := testEnv(t)
	for _, name := range hostileNames {
		if err := os.WriteFile(filepath.Join(env.Dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"init", "add .", "commit -m first"} {
		if status := cli.Run(t.Context(), env, strings.Fields(line)); status != cli.ExitOK {
			t.Fatal(line, status, stderr)
		}
	}
	nameRefs(t, env)

	asked := 0
	var all strings.Builder
	ask := func(words ...string) {
		for _, request := range []string{cli.ProposalsCmd, cobra.ShellCompRequestCmd} {
			stdout.Reset()
			if status := cli.Run(t.Context(), env, append([]string{request}, words...)); status != cli.ExitOK {
				t.Errorf("%q: exit status %d", words, status)
			}
			checkProposals(t, stdout.String(), words, request == cli.ProposalsCmd)
			all.WriteString(stdout.String())
		}
		asked++
	}
	cli.EachCommand(cli.New(env), func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		with := func(words ...string) { ask(append(path[:len(path):len(path)], words...)...) }
		for _, word := range []string{"", "a", "-", "HEAD:a"} {
			with(word)
			with("--", word)
		}
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.NoOptDefVal == "" {
				with("--"+flag.Name, "")
			}
		})
	})
	if asked < 300 || !strings.Contains(all.String(), "a$(id)") || !strings.Contains(all.String(), "br;id") {
		t.Errorf("%d requests, want 300 and some hostile names; proposals: %s", asked, all.String())
	}
}

// nameRefs makes branches, tags and remote branches with hostile names. Branch and tag refuse
// some of them.
func nameRefs(t *testing.T, env *cli.Env) {
	t.Helper()
	heads := filepath.Join(env.Dir, kist.Dir, "refs", "heads")
	id, err := os.ReadFile(filepath.Join(heads, "main"))
	if err != nil {
		t.Fatal(err)
	}
	remote := filepath.Join(env.Dir, kist.Dir, "refs", "remotes", "origin")
	if err := os.MkdirAll(remote, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"br;id", "br$(id)"}, hostileNames...) {
		cli.Run(t.Context(), env, []string{"branch", "--", name})
		cli.Run(t.Context(), env, []string{"tag", "--", "t" + name})
		if err := os.WriteFile(filepath.Join(remote, name), id, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// checkProposals checks the words that kist printed for a shell.
func checkProposals(t *testing.T, out string, words []string, quotes bool) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for _, line := range lines[:len(lines)-1] {
		word, description, described := strings.Cut(line, "\t")
		switch {
		case !utf8.ValidString(line) || strings.ContainsFunc(word, readable.IsDeceptive) || strings.ContainsFunc(description, readable.IsDeceptive):
			t.Errorf("%q: proposed %q", words, line)
		case strings.Contains(description, "`"):
			t.Errorf("%q: description %q", words, description)
		case strings.HasPrefix(word, "-") && !described && words[max(0, len(words)-2)] != "--":
			t.Errorf("%q: proposed %q, which looks like an option", words, word)
		case !quotes && (strings.ContainsAny(word, " $`;&|<>(){}'\"\\*?[]!#") || strings.HasPrefix(word, "~")):
			t.Errorf("%q: proposed %q to a script that may evaluate it", words, word)
		}
		if word == "a" || word == "a " {
			t.Errorf("%q: proposed %q, which is only part of a name", words, word)
		}
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, ":") {
		t.Errorf("%q: the last line is %q", words, last)
	}
}
