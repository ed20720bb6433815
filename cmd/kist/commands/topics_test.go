package commands

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/about"
)

// TestTopics checks that 'kist help' lists and prints each topic, in a form for terminals.
func TestTopics(t *testing.T) {
	env, stdout, _ := testEnv(t)
	root := cli.New(env)
	for _, topic := range cli.Topics {
		if cli.Subcommand(root, topic.Name) != nil {
			t.Errorf("%s is a command, too", topic.Name)
		}
		stdout.Reset()
		if status := cli.Run(t.Context(), env, []string{"help", topic.Name}); status != cli.ExitOK {
			t.Errorf("help %s: exit status %d", topic.Name, status)
		}
		text := stdout.String()
		for _, mark := range []string{"`", "](", ".md)", "|--"} {
			if strings.Contains(text, mark) {
				t.Errorf("help %s has %q:\n%s", topic.Name, mark, text)
			}
		}
		for line := range strings.Lines(text) {
			if len([]rune(line)) > 81 && !strings.HasPrefix(line, "    ") {
				t.Errorf("help %s: the line is wider than a terminal: %s", topic.Name, line)
			}
		}
	}

	stdout.Reset()
	cli.Run(t.Context(), env, []string{"help"})
	if !strings.Contains(stdout.String(), "\n  revisions    naming a commit\n") {
		t.Errorf("help does not list the topics:\n%s", stdout)
	}
}

func TestWritePage(t *testing.T) {
	page := "## A `head`\n\nText with **bold** `**/`,\n[a link](x.md) and [revisions](../revisions.md#times).\n\n" +
		"- one\n  more\n- two\n\n1. first\n\n| a | b | c |\n|---|---|---|\n| `x\\|y` | 1 | |\n| z | 2 | 3 |\n\n    $ code\n\n```sh\nfenced\n```\n"
	want := `
A HEAD

Text with bold **/, a link and revisions ('kist help revisions').

- one more
- two

1. first

  x|y  b: 1
  z    b: 2; c: 3

    $ code

    fenced
`
	var got strings.Builder
	about.WritePage(&got, page)
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}
