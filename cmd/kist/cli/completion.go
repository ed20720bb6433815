package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func newCompletion(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "print a script that completes commands in your shell",
		Long: `The script, once the shell has read it, completes commands, options, branches,
tags and paths. To load it in every session:

  bash   kist completion bash > ~/.local/share/bash-completion/completions/kist
  zsh    kist completion zsh > "${fpath[1]}/_kist"
  fish   kist completion fish > ~/.config/fish/completions/kist.fish`,
		Example: `  source <(kist completion bash)`,
		Args:    arguments(1, 1, "the name of a shell (bash, zsh or fish)"),
		ValidArgsFunction: cobra.FixedCompletions(
			[]cobra.Completion{"bash", "zsh", "fish"}, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCompletion(cmd.Context(), env, cmd.Root(), args)
		},
	}
	return cmd
}

func runCompletion(_ context.Context, env *Env, root *cobra.Command, args []string) error {
	switch shell := args[0]; shell {
	case "bash":
		return root.GenBashCompletionV2(env.Stdout, true)
	case "zsh":
		return root.GenZshCompletion(env.Stdout)
	case "fish":
		return root.GenFishCompletion(env.Stdout, true)
	default:
		return usagef("no completion for %s: bash, zsh and fish are known", quoteArg(shell))
	}
}
