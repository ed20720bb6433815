package cli

import (
	"context"
	"embed"

	"github.com/spf13/cobra"
)

// shellScripts are the scripts that the shells read. They are kist's own, since
// those of cobra evaluate the command line, with names that anybody may have
// chosen.
//
//go:embed shells
var shellScripts embed.FS

// proposalsCmd is the command by which these scripts ask for proposals. It is
// cobra's request for completions, but words that have to be quoted are among
// the answers. Who asks by cobra's own name may run one of cobra's scripts,
// written by an earlier kist, which can take plain words only.
const proposalsCmd = "__proposals"

func newCompletion(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "print a script that completes commands in your shell",
		Long: `The script, once the shell has read it, completes commands, options, branches,
tags and paths. It needs nothing but the shell. To load it in every session:

  bash   kist completion bash > ~/.local/share/bash-completion/completions/kist
  zsh    kist completion zsh > "${fpath[1]}/_kist"
  fish   kist completion fish > ~/.config/fish/completions/kist.fish

Bash loads that file by itself if the package bash-completion is installed. If
not, put 'source <(kist completion bash)' into ~/.bashrc.`,
		Example: `  source <(kist completion bash)`,
		Args:    arguments(1, 1, "the name of a shell (bash, zsh or fish)"),
		ValidArgsFunction: cobra.FixedCompletions(
			[]cobra.Completion{"bash", "zsh", "fish"}, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCompletion(cmd.Context(), env, args)
		},
	}
	return cmd
}

func runCompletion(_ context.Context, env *Env, args []string) error {
	switch shell := args[0]; shell {
	case "bash", "zsh", "fish":
		script, err := shellScripts.ReadFile("shells/kist." + shell)
		if err != nil {
			return err
		}
		env.printf("%s", script)
		return nil
	default:
		return usagef("no completion for %s: bash, zsh and fish are known", quoteArg(shell))
	}
}
