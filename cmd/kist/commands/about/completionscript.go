package about

import (
	"embed"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist/cmd/kist/cli"
)

func NewCompletion(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "print a script that completes commands in your shell",
		Long: `The script, once the shell has read it, completes commands, options, branches,
tags and paths. It needs nothing but the shell. To load it in every session:

  bash   kist completion bash > ~/.local/share/bash-completion/completions/kist
  zsh    kist completion zsh > "${fpath[1]}/_kist"
  fish   kist completion fish > ~/.config/fish/completions/kist.fish

Bash loads that file by itself if the package bash-completion is installed. If
not, put 'source <(kist completion bash)' into ~/.bashrc.`,
		Example:           `  source <(kist completion bash)`,
		Args:              cli.Arguments(1, 1, "the name of a shell (bash, zsh or fish)"),
		ValidArgsFunction: cli.OneOf("bash", "zsh", "fish"),
		RunE:              func(_ *cobra.Command, args []string) error { return runCompletion(env, args[0]) },
	}
}

func runCompletion(env *cli.Env, shell string) error {
	script, err := shellScripts.ReadFile("shells/kist." + shell)
	if err != nil {
		return cli.Usagef("no completion for %s: bash, zsh and fish are known", cli.QuoteArg(shell))
	}
	env.Printf("%s", script)
	return nil
}

// shellScripts are kist's own scripts for the shells. Cobra's scripts evaluate the command
// line, which may have names that an attacker chose.
//
//go:embed shells
var shellScripts embed.FS
