package commands

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist/cmd/kist/cli"
)

// TestOneCommand checks that a command which is built alone has the help that it has among all
// commands, and so do its subcommands.
func TestOneCommand(t *testing.T) {
	env := &cli.Env{Getenv: func(string) string { return "" }, Commands: All}
	helps := func(cmd *cobra.Command) map[string]string {
		all := map[string]string{}
		cli.EachCommand(cmd, func(cmd *cobra.Command) {
			var b bytes.Buffer
			cli.WriteHelp(&b, env, cmd)
			all[cmd.CommandPath()] = b.String()
		})
		return all
	}
	complete := cli.New(env)

	listed := 0
	for _, s := range All {
		for _, e := range s.Commands {
			listed++
			among := cli.Subcommand(complete, e.Name)
			if among == nil || among.Name() != e.Name || among.GroupID != s.ID {
				t.Errorf("%s is not the name of a command in section %s", e.Name, s.ID)
				continue
			}

			root := cli.NewRoot(env, e.Name)
			if alone := len(root.Commands()) == 1; alone == e.NeedsAll {
				t.Errorf("%s: built alone is %v, want %v", e.Name, alone, !e.NeedsAll)
			}
			got := helps(cli.Subcommand(root, e.Name))
			for path, want := range helps(among) {
				if got[path] != want {
					t.Errorf("help of %s, built alone:\n%s\nwant:\n%s", path, got[path], want)
				}
			}
		}
	}
	if got := len(complete.Commands()); got != listed {
		t.Errorf("%d commands, want the %d of the list", got, listed)
	}
}
