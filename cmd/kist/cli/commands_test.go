package cli

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
)

// TestOneCommand checks that a command which is built alone has the help that it has among all
// commands, and so do its subcommands.
func TestOneCommand(t *testing.T) {
	helps := func(cmd *cobra.Command) map[string]string {
		all := map[string]string{}
		eachCommand(cmd, func(cmd *cobra.Command) {
			var b bytes.Buffer
			writeHelp(&b, cmd)
			all[cmd.CommandPath()] = b.String()
		})
		return all
	}
	env := &Env{Getenv: func(string) string { return "" }, Commands: All}
	complete := New(env)

	listed := 0
	for _, s := range All {
		for _, e := range s.Commands {
			listed++
			among := subcommand(complete, e.Name)
			if among == nil || among.Name() != e.Name || among.GroupID != s.ID {
				t.Errorf("%s is not the name of a command in section %s", e.Name, s.ID)
				continue
			}

			root := newRoot(env, e.Name)
			if alone := len(root.Commands()) == 1; alone == e.NeedsAll {
				t.Errorf("%s: built alone is %v, want %v", e.Name, alone, !e.NeedsAll)
			}
			got := helps(subcommand(root, e.Name))
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
