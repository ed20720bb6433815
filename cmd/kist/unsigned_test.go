package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands"
)

// logReader is a row of the table of commands that read the log of a remote.
type logReader struct {
	name string // as in "remote gc"
	args []string

	first []string // a command that has to run before; may be nil

	// exempt says why the command does not refuse the remote of [newVictim], if its last change is not signed.
	exempt string
}

// logReaders has every command that reads the log of a remote. A new one needs a line here.
var logReaders = []logReader{
	{name: "backup", args: []string{"backup"}},
	{name: "check-age", args: []string{"check-age", "--max", "never"}},
	{name: "clone", args: []string{"clone", "../remote", "../cloned"}},
	{name: "evict", args: []string{"evict", "--remote", "origin"}},
	{name: "fetch", args: []string{"fetch"}},
	{name: "key add", exempt: "the remote is not encrypted; see sign-roots.txtar"},
	{name: "key export", exempt: "the remote is not encrypted; see sign-roots.txtar"},
	{name: "key list", exempt: "the remote is not encrypted; see sign-roots.txtar"},
	{name: "key remove", exempt: "the remote is not encrypted; see sign-roots.txtar"},
	{name: "key rotate", exempt: "the remote is not encrypted; see sign-roots.txtar"},
	{name: "ls-remote", args: []string{"ls-remote"}},
	{name: "mount", args: []string{"mount", "--remote", "origin", "../outside"}},
	{name: "pull", args: []string{"pull", "origin", "theirs"}},
	{name: "push", args: []string{"push", "origin", "main"}},
	{name: "remote copy", first: []string{"remote", "add", "other", "../other-remote"}, args: []string{"remote", "copy", "origin", "other"}},
	{name: "remote gc", args: []string{"remote", "gc", "origin"}},
	{name: "remote log", exempt: "shows the changes, and remembers none"},
	{name: "remote prune", args: []string{"remote", "prune", "origin"}},
	{name: "remote show", args: []string{"remote", "show", "origin"}},
	{name: "stats", args: []string{"stats", "--remote", "origin"}},
	{name: "verify", args: []string{"verify", "--remote", "origin"}},
}

// A change of a remote that no trusted key signed is refused by every command that reads the remote, if it must be signed.
func TestUnsignedRemote(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	for _, c := range logReaders {
		if c.exempt != "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := *v.shell
			s.TB = t
			v := &victim{shell: &s, base: v.base, master: v.master, restored: v.restored}
			v.restore()
			signers := v.path("../signers")
			if err := os.WriteFile(signers, []byte("# nobody\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.first != nil {
				v.kist(c.first...)
			}
			before := v.in("..").readFiles("remote")
			args := append([]string{"-c", "sign.allowed-signers=" + signers, "-c", "remote.origin.require-signed=true", "--json"}, c.args...)
			o := v.run(args...)
			if o.status != cli.ExitRemote || !strings.Contains(o.stdout, `"kind":"unsigned"`) {
				t.Errorf("not refused: %v", o)
			}
			v.wantFiles(v.in("..").readFiles("remote"), before)
		})
	}
}

// TestLogReaders checks that the table has every command with the options for transfers.
func TestLogReaders(t *testing.T) {
	var rows []string
	for _, c := range logReaders {
		rows = append(rows, c.name)
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		name := strings.TrimPrefix(cmd.CommandPath(), "kist ")
		if cmd.Flags().Lookup("limit-download") != nil && !slices.Contains(rows, name) {
			t.Errorf("logReaders has no row for kist %s", name)
		}
	}
	walk(cli.New(&cli.Env{Commands: commands.All}))
}
