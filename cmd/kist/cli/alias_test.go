package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// TestCommandOfLine checks which command lines need only one command.
func TestCommandOfLine(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"status"}, "status"},
		{[]string{"status", "--help"}, "status"},
		{[]string{"-h", "status"}, "status"},
		{[]string{"-C", ".", "status", "log"}, "status"},
		{[]string{"-c", "user.name=log", "--json", "status"}, "status"},
		{[]string{"--version"}, "version"},
		{[]string{"--version", "--help"}, ""},
		{[]string{"--help"}, ""},
		{[]string{"--nonsense", "status"}, ""},
		{[]string{"--", "status"}, ""},
		{[]string{cobra.ShellCompRequestCmd, "status", ""}, ""},
		{nil, ""},
	} {
		env := &Env{Getenv: func(string) string { return "" }}
		args := env.Completion.requestArgs(c.args)
		if got := readLine(env, args).commandName(); got != c.want {
			t.Errorf("the command of %q is %q, want %q", c.args, got, c.want)
		}
	}
}
