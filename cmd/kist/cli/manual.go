package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manual has the parts of a command's description, in the order of the help, of the
// page of the reference and of the manual page.
type manual struct {
	Name     string // "kist commit"
	Short    string
	Usage    string
	Aliases  []string
	Long     string
	Commands []manualGroup
	Options  []manualItem
	Global   []manualItem
	Example  string // every line indented by two spaces
	Exits    []manualItem
	Parent   string
}

type manualGroup struct {
	Title string
	Items []manualItem
}

// manualItem is a term and its meaning.
type manualItem struct{ Term, Text string }

func manualOf(cmd *cobra.Command) manual {
	m := manual{
		Name:    cmd.CommandPath(),
		Short:   cmd.Short,
		Usage:   cmd.UseLine(),
		Aliases: cmd.Aliases,
		Long:    strings.TrimSpace(cmd.Long),
		Example: strings.Trim(cmd.Example, "\n"),
	}
	if cmd.HasParent() {
		m.Parent = cmd.Parent().CommandPath()
	}
	m.Commands = groupsOf(cmd)
	options, global := cmd.LocalNonPersistentFlags(), cmd.InheritedFlags()
	if !cmd.HasParent() {
		global = cmd.PersistentFlags()
	}
	m.Options, m.Global = flagItems(options), flagItems(global)
	for _, status := range exitsOf(cmd) {
		m.Exits = append(m.Exits, manualItem{strconv.Itoa(status), exitMeaning(status)})
	}
	return m
}

func groupsOf(cmd *cobra.Command) []manualGroup {
	var groups []manualGroup
	collect := func(id, title string) {
		var items []manualItem
		for _, sub := range cmd.Commands() {
			if listed(sub) && sub.GroupID == id {
				items = append(items, manualItem{sub.Name(), sub.Short})
			}
		}
		if len(items) > 0 {
			groups = append(groups, manualGroup{title, items})
		}
	}
	for _, g := range cmd.Groups() {
		collect(g.ID, g.Title)
	}
	collect("", "COMMANDS")
	return groups
}

func flagItems(flags *pflag.FlagSet) []manualItem {
	flags.SortFlags = false
	var items []manualItem
	flags.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			items = append(items, flagItem(flag))
		}
	})
	return items
}

// pageName returns the name of a command's pages: "kist-commit".
func pageName(command string) string { return strings.ReplaceAll(command, " ", "-") }

// markdown returns the command's page of the reference.
func (m manual) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n```\n%s\n```\n", m.Name, m.Short, m.Usage)
	if len(m.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAlso: %s\n", strings.Join(m.Aliases, ", "))
	}
	if m.Long != "" {
		fmt.Fprintf(&b, "\n```text\n%s\n```\n", m.Long)
	}
	for _, group := range m.Commands {
		fmt.Fprintf(&b, "\n## %s\n\n", sentence(group.Title))
		for _, item := range group.Items {
			fmt.Fprintf(&b, "- [%s](%s.md): %s\n", item.Term, pageName(m.Name+" "+item.Term), item.Text)
		}
	}
	list := func(title string, items []manualItem) {
		if len(items) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		for _, item := range items {
			fmt.Fprintf(&b, "- `%s`: %s\n", strings.TrimSpace(item.Term), item.Text)
		}
	}
	list("Options", m.Options)
	if m.Parent == "" {
		list("Global options", m.Global)
	}
	fmt.Fprintf(&b, "\n## Examples\n\n```sh\n%s\n```\n", outdent(m.Example))
	list("Exit status", m.Exits)
	if m.Parent != "" {
		fmt.Fprintf(&b, "\nSee also [%s](%s.md), which lists the options that every command has.\n", m.Parent, pageName(m.Parent))
	}
	return b.String()
}

// sentence writes a title in capitals as a sentence begins.
func sentence(title string) string { return title[:1] + strings.ToLower(title[1:]) }

// outdent removes the two spaces before every line of an example.
func outdent(example string) string {
	return strings.ReplaceAll("\n"+example, "\n  ", "\n")[1:]
}

// roff returns the command's manual page.
func (m manual) roff() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" kist \"kist manual\"\n", roffArg(strings.ToUpper(pageName(m.Name))))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roffText(pageName(m.Name)), roffText(m.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR\n", roffText(m.Usage))
	if len(m.Aliases) > 0 {
		fmt.Fprintf(&b, ".PP\nalso: %s\n", roffText(strings.Join(m.Aliases, ", ")))
	}
	if m.Long != "" {
		b.WriteString(".SH DESCRIPTION\n")
		roffLiteral(&b, m.Long)
	}
	list := func(title string, items []manualItem) {
		if len(items) == 0 {
			return
		}
		fmt.Fprintf(&b, ".SH %s\n", roffArg(title))
		for _, item := range items {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roffText(strings.TrimSpace(item.Term)), roffText(item.Text))
		}
	}
	for _, group := range m.Commands {
		list(group.Title, group.Items)
	}
	list("OPTIONS", m.Options)
	list("GLOBAL OPTIONS", m.Global)
	b.WriteString(".SH EXAMPLES\n")
	roffLiteral(&b, outdent(m.Example))
	list("EXIT STATUS", m.Exits)
	if m.Parent != "" {
		fmt.Fprintf(&b, ".SH SEE ALSO\n\\fB%s\\fR(1)\n", roffText(pageName(m.Parent)))
	}
	return b.String()
}

// roffLiteral writes text whose lines stay as they are.
func roffLiteral(b *strings.Builder, text string) {
	b.WriteString(".nf\n")
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(roffText(line) + "\n")
	}
	b.WriteString(".fi\n")
}

// roffText escapes a line of text.
func roffText(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// roffArg quotes an argument of a request.
func roffArg(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
