package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newHelp(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "show help for a command",
		Long: `Without a command, lists all of them. 'kist COMMAND --help' prints the same
text; 'man kist-COMMAND' does where the manual pages are installed.`,
		Example: `  kist help
  kist help commit`,
		RunE: func(cmd *cobra.Command, args []string) error { return runHelp(env, cmd.Root(), args) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return commandNames(cmd.Root(), args), cobra.ShellCompDirectiveNoFileComp
		},
	}
	return cmd
}

func runHelp(env *Env, root *cobra.Command, args []string) error {
	topic := root
	for _, name := range args {
		next := subcommand(topic, name)
		if next == nil {
			return unknownCommand(topic, name)
		}
		topic = next
	}
	writeHelp(env.Stdout, topic)
	return nil
}

// commandNames lists the commands that can follow those in path.
func commandNames(root *cobra.Command, path []string) []cobra.Completion {
	for _, name := range path {
		if root = subcommand(root, name); root == nil {
			return nil
		}
	}
	var names []cobra.Completion
	for _, sub := range root.Commands() {
		if listed(sub) {
			names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
		}
	}
	return names
}

// listed reports whether a command is shown to people. (To cobra, the command
// that helps is not available.)
func listed(cmd *cobra.Command) bool { return cmd.IsAvailableCommand() || cmd.Name() == "help" }

func subcommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

// writeHelp writes the help of cmd as it is shown in a terminal.
func writeHelp(w io.Writer, cmd *cobra.Command) {
	m := manualOf(cmd)
	fmt.Fprintf(w, "%s - %s\n\nusage: %s\n", m.Name, m.Short, m.Usage)
	if len(m.Aliases) > 0 {
		fmt.Fprintf(w, "also:  %s\n", strings.Join(m.Aliases, ", "))
	}
	if m.Long != "" {
		fmt.Fprintf(w, "\n%s\n", m.Long)
	}
	for _, group := range m.Commands {
		writeItems(w, group.Title, group.Items)
	}
	writeItems(w, "OPTIONS", m.Options)
	writeItems(w, "GLOBAL OPTIONS", m.Global)
	fmt.Fprintf(w, "\nEXAMPLES\n%s\n", m.Example)
	writeItems(w, "EXIT STATUS", m.Exits)
}

// writeItems writes a titled list in two columns.
func writeItems(w io.Writer, title string, items []manualItem) {
	if len(items) == 0 {
		return
	}
	width := 0
	for _, item := range items {
		width = max(width, len(item.Term))
	}
	width = min(width, 28)
	fmt.Fprintf(w, "\n%s\n", title)
	for _, item := range items {
		term := item.Term
		if len(term) > width {
			fmt.Fprintf(w, "  %s\n", term)
			term = ""
		}
		indent := strings.Repeat(" ", width+4)
		text := strings.ReplaceAll(wrap(item.Text, 80-len(indent)), "\n", "\n"+indent)
		fmt.Fprintf(w, "  %-*s  %s\n", width, term, text)
	}
}

// wrap breaks text into lines of at most width columns where it has spaces.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// flagItem describes an option as helps and manuals list it.
func flagItem(flag *pflag.Flag) manualItem {
	placeholder, usage := pflag.UnquoteUsage(flag)
	term := "    --" + flag.Name
	if flag.Shorthand != "" {
		term = "-" + flag.Shorthand + ", --" + flag.Name
	}
	if placeholder != "" {
		if flag.NoOptDefVal != "" {
			term += "[=" + placeholder + "]"
		} else {
			term += " " + placeholder
		}
	}
	if d := flag.DefValue; d != "" && d != "false" && d != "0" && d != "[]" && d != "0s" {
		usage += " (default " + d + ")"
	}
	return manualItem{term, usage}
}
