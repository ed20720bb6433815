// Package about has the commands that are about kist itself: help, completion and version.
package about

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
)

func NewHelp(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "show help for a command or a topic",
		Long: `Without a command, lists all of them, your aliases, and the topics. With an
alias, prints the command that it is short for. 'kist COMMAND --help' prints
the help, too; 'man kist-COMMAND' and 'man kist-TOPIC' do where the manual
pages are installed. 'kist COMMAND -h' prints only the usage and the options.`,
		Example: `  kist help
  kist help commit
  kist help revisions`,
		RunE: func(cmd *cobra.Command, args []string) error { return runHelp(env, cmd.Root(), args) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return commandNames(cmd.Root(), args), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

func runHelp(env *cli.Env, root *cobra.Command, args []string) error {
	if len(args) == 1 {
		if topic, ok := cli.TopicOf(args[0]); ok {
			write(topic, env.Stdout)
			return nil
		}
	}

	cmd := root
	for _, name := range args {
		next := cli.Subcommand(cmd, name)
		if next == nil {
			return cli.UnknownCommand(cmd, name)
		}
		cmd = next
	}
	if value, ok := cmd.Annotations[cli.AliasAnnotation]; ok {
		env.Printf("'%s' is aliased to '%s'\n", cmd.Name(), value)
		return nil
	}
	cli.WriteHelp(env.Stdout, env, cmd)
	return nil
}

// commandNames lists the commands that can follow those in path, and the topics if path is empty.
func commandNames(root *cobra.Command, path []string) []cobra.Completion {
	for _, name := range path {
		if root = cli.Subcommand(root, name); root == nil {
			return nil
		}
	}
	var names []cobra.Completion
	if len(path) == 0 {
		for _, item := range cli.TopicItems() {
			names = append(names, cobra.CompletionWithDesc(item.Term, item.Text))
		}
	}
	for _, sub := range root.Commands() {
		if cli.Listed(sub) {
			names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
		}
	}
	return names
}

func NewDocs(env *cli.Env) *cobra.Command {
	var man bool
	cmd := &cobra.Command{
		Use:    "docs [OPTIONS] DIR",
		Short:  "write the reference of all commands",
		Hidden: true,
		Long: `Writes DIR/reference/*.md, or with --man DIR/man/*.[17], from the descriptions
that the commands themselves have. It removes the pages of commands that no
longer exist.`,
		Example: `  kist docs docs
  kist docs --man bin`,
		Args: cli.Arguments(1, 1, "the folder to write to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if man {
				return writePages(cmd.Context(), env, env.Path(args[0]), ManualFiles, manualPages(env, cmd.Root()))
			}
			return writePages(cmd.Context(), env, env.Path(args[0]), ReferenceFiles, ReferencePages(env, cmd.Root()))
		},
	}
	cmd.Flags().BoolVar(&man, "man", false, "write manual pages, for 'make install'")
	return cmd
}

// The patterns of the generated files.
const (
	ManualFiles    = "man/kist*.[17]"
	ReferenceFiles = "reference/*.md"
)

// writePages writes pages, by name, to dir. It removes other files that match the pattern.
func writePages(ctx context.Context, env *cli.Env, dir, pattern string, pages map[string]string) error {
	for _, old := range DocFiles(dir, pattern) {
		if _, ok := pages[old]; !ok {
			if err := os.Remove(filepath.Join(dir, old)); err != nil {
				return err
			}
		}
	}

	for _, name := range slices.Sorted(maps.Keys(pages)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(pages[name]), 0o644); err != nil {
			return err
		}
	}
	env.Info("%s written to %s", readable.Plural(uint64(len(pages)), "page", "pages"), cli.QuotePath(dir))
	return nil
}

// DocFiles returns the files in dir that match a pattern, relative to dir.
func DocFiles(dir, pattern string) []string {
	files, _ := fs.Glob(os.DirFS(dir), pattern) // the patterns are valid
	return files
}

// manualPages returns the manual pages of the commands and topics, by file.
func manualPages(env *cli.Env, root *cobra.Command) map[string]string {
	pages := map[string]string{}
	cli.EachCommand(root, func(cmd *cobra.Command) {
		if !cmd.Hidden {
			m := cli.ManualOf(env, cmd)
			pages["man/"+pageName(m.Name)+".1"] = Roff(m)
		}
	})
	for _, t := range cli.Topics {
		pages["man/kist-"+t.Name+".7"] = roff(t)
	}
	return pages
}

// ReferencePages returns the pages of the reference, by file.
func ReferencePages(env *cli.Env, root *cobra.Command) map[string]string {
	pages := map[string]string{}
	var index strings.Builder
	index.WriteString("# Commands\n\nGenerated from the commands' own descriptions by `make docs`.\n\n")
	cli.EachCommand(root, func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		m := cli.ManualOf(env, cmd)
		page := pageName(m.Name)
		pages["reference/"+page+".md"] = markdown(m)
		fmt.Fprintf(&index, "- [%s](%s.md): %s\n", m.Name, page, m.Short)
	})
	for _, t := range cli.Topics {
		fmt.Fprintf(&index, "- [kist help %s](../%s): %s\n", t.Name, t.File, t.Title())
	}
	index.WriteString("- [exit statuses and errors](errors.md)\n- [results as JSON](json.md)\n")
	pages["reference/README.md"] = index.String()
	pages["reference/errors.md"] = ErrorsPage()
	pages["reference/json.md"] = JSONPage(env, root)
	return pages
}

// ErrorsPage describes exit statuses and the errors that --json prints.
func ErrorsPage() string {
	var b strings.Builder
	b.WriteString("# Exit statuses and errors\n\n| status | kind | meaning |\n|---|---|---|\n")
	for _, s := range cli.ExitStatuses {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", s.Status, s.Kind, s.Meaning)
	}
	b.WriteString(`
An error is printed on stderr as ` + "`error: MESSAGE`" + `, with ` + "`hint: …`" + ` lines below it where
there is advice. With ` + "`--json`" + ` stdout has it too, in place of a result:

    {"error":{"message":"…","kind":"…","exit":1,"hint":"…"}}

The kind is the one of the table, or a more specific one. A command can end with another
status than the one here:

| kind | status |
|---|---|
`)
	seen := map[string]bool{}
	for _, cause := range cli.Causes {
		if cause.Kind != "" && !seen[cause.Kind] {
			seen[cause.Kind] = true
			fmt.Fprintf(&b, "| %s | %d |\n", cause.Kind, cause.Exit)
		}
	}
	for _, own := range cli.OwnKinds {
		fmt.Fprintf(&b, "| %s | %d |\n", own.Kind, own.Exit)
	}
	b.WriteString(``)
	return b.String()
}

// Roff returns the command's manual page.
func Roff(m cli.Manual) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s \"kist %s\" \"kist manual\"\n", roffArg(strings.ToUpper(pageName(m.Name))), cli.Released, cli.Version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roffText(pageName(m.Name)), roffText(m.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR\n", roffText(m.Usage))
	if len(m.Aliases) > 0 {
		fmt.Fprintf(&b, ".PP\nalso: %s\n", roffText(strings.Join(m.Aliases, ", ")))
	}
	if m.Long != "" {
		b.WriteString(".SH DESCRIPTION\n")
		roffLiteral(&b, m.Long)
	}

	list := func(section cli.ManualSection) {
		fmt.Fprintf(&b, ".SH %s\n", roffArg(section.Title))
		for _, item := range section.Items {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roffText(strings.TrimSpace(item.Term)), roffText(item.Text))
		}
	}

	for _, section := range m.Sections {
		list(section)
	}
	for _, result := range m.Results {
		list(result.Section())
	}
	b.WriteString(".SH EXAMPLES\n")
	roffLiteral(&b, outdent(m.Example))
	list(m.Exits)
	for i, name := range m.Parents() {
		if i == 0 {
			b.WriteString(".SH SEE ALSO\n")
		}
		fmt.Fprintf(&b, "\\fB%s\\fR(1)\n", roffText(pageName(name)))
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

// markdown returns the command's page of the reference.
func markdown(m cli.Manual) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n```\n%s\n```\n", m.Name, m.Short, m.Usage)
	if len(m.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAlso: %s\n", strings.Join(m.Aliases, ", "))
	}
	if m.Long != "" {
		fmt.Fprintf(&b, "\n```text\n%s\n```\n", m.Long)
	}

	list := func(section cli.ManualSection) {
		fmt.Fprintf(&b, "\n## %s\n\n", section.Title[:1]+strings.ToLower(section.Title[1:]))
		for _, item := range section.Items {
			term := "`" + strings.TrimSpace(item.Term) + "`"
			if section.Links {
				term = "[" + item.Term + "](" + pageName(m.Name+" "+item.Term) + ".md)"
			}
			fmt.Fprintf(&b, "- %s: %s\n", term, item.Text)
		}
	}

	for _, section := range m.Sections {
		list(section)
	}
	for _, result := range m.Results {
		fmt.Fprintf(&b, "\n## With%s\n\n%s", strings.TrimPrefix(result.Title(), "WITH"), fieldsPage(result.Type))
	}
	fmt.Fprintf(&b, "\n## Examples\n\n```sh\n%s\n```\n", outdent(m.Example))
	list(m.Exits)
	links := m.Parents()
	for i, name := range links {
		links[i] = "[" + name + "](" + pageName(name) + ".md)"
	}
	if len(links) > 0 {
		fmt.Fprintf(&b, "\nSee also %s, which lists the options that every command has.\n", strings.Join(links, " and "))
	}
	return b.String()
}

// outdent removes the two spaces before every line of an example.
func outdent(example string) string {
	return strings.ReplaceAll("\n"+example, "\n  ", "\n")[1:]
}

// pageName returns the name of a command's pages: "kist-commit".
func pageName(command string) string { return strings.ReplaceAll(command, " ", "-") }
