package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newHelp(env *Env) *cobra.Command {
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

func runHelp(env *Env, root *cobra.Command, args []string) error {
	if len(args) == 1 {
		if topic, ok := topicOf(args[0]); ok {
			topic.write(env.Stdout)
			return nil
		}
	}

	cmd := root
	for _, name := range args {
		next := subcommand(cmd, name)
		if next == nil {
			return unknownCommand(cmd, name)
		}
		cmd = next
	}
	if value, ok := cmd.Annotations[aliasAnnotation]; ok {
		env.printf("'%s' is aliased to '%s'\n", cmd.Name(), value)
		return nil
	}
	writeHelp(env.Stdout, cmd)
	return nil
}

// commandNames lists the commands that can follow those in path, and the topics if path is empty.
func commandNames(root *cobra.Command, path []string) []cobra.Completion {
	for _, name := range path {
		if root = subcommand(root, name); root == nil {
			return nil
		}
	}
	var names []cobra.Completion
	if len(path) == 0 {
		for _, item := range topicItems() {
			names = append(names, cobra.CompletionWithDesc(item.Term, item.Text))
		}
	}
	for _, sub := range root.Commands() {
		if listed(sub) {
			names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
		}
	}
	return names
}

func newDocs(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:    "docs DIR",
		Short:  "write the manual pages and the reference of all commands",
		Hidden: true,
		Long: `Writes DIR/man/*.[17] and DIR/reference/*.md from the descriptions that the
commands themselves have, for packagers and for this project's docs folder.
It removes the pages of commands that no longer exist.`,
		Example: `  kist docs docs`,
		Args:    arguments(1, 1, "the folder to write to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDocs(cmd.Context(), env, cmd.Root(), args)
		},
	}
}

func runDocs(ctx context.Context, env *Env, root *cobra.Command, args []string) error {
	dir := env.path(args[0])
	pages := docPages(root)
	for _, old := range docFiles(dir) {
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
	env.info("%s written to %s", plural(uint64(len(pages)), "page", "pages"), quotePath(dir))
	return nil
}

// docFiles returns the generated files in dir, relative to it.
func docFiles(dir string) []string {
	var files []string
	for _, pattern := range []string{"man/kist*.[17]", "reference/*.md"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the patterns are valid
		for _, file := range found {
			name, err := filepath.Rel(dir, file)
			if err == nil {
				files = append(files, filepath.ToSlash(name))
			}
		}
	}
	return files
}

// docPages returns the contents of all generated files by their names.
func docPages(root *cobra.Command) map[string]string {
	pages := map[string]string{}
	var index strings.Builder
	index.WriteString("# Commands\n\nGenerated from the commands' own descriptions by `make docs`.\n\n")
	eachCommand(root, func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		m := manualOf(cmd)
		page := pageName(m.Name)
		pages["man/"+page+".1"] = m.roff()
		pages["reference/"+page+".md"] = m.markdown()
		fmt.Fprintf(&index, "- [%s](%s.md): %s\n", m.Name, page, m.Short)
	})
	for _, t := range topics {
		pages["man/kist-"+t.name+".7"] = t.roff()
		fmt.Fprintf(&index, "- [kist help %s](../%s): %s\n", t.name, t.file, t.title())
	}
	index.WriteString("- [exit statuses and errors](errors.md)\n")
	pages["reference/README.md"] = index.String()
	pages["reference/errors.md"] = errorsPage()
	return pages
}

// errorsPage describes exit statuses and the errors that --json prints.
func errorsPage() string {
	var b strings.Builder
	b.WriteString("# Exit statuses and errors\n\n| status | kind | meaning |\n|---|---|---|\n")
	for _, s := range exitStatuses {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", s.status, s.kind, s.meaning)
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
	for _, cause := range causes {
		if cause.kind != "" && !seen[cause.kind] {
			seen[cause.kind] = true
			fmt.Fprintf(&b, "| %s | %d |\n", cause.kind, cause.exit)
		}
	}
	for _, own := range ownKinds {
		fmt.Fprintf(&b, "| %s | %d |\n", own.kind, own.exit)
	}
	b.WriteString(`
A path in JSON that is not UTF-8 has U+FFFD in place of its invalid bytes. A second
field, with ` + "`_raw`" + ` at the end of its name, then has the exact bytes as base64.
`)
	return b.String()
}

// roff returns the command's manual page.
func (m manual) roff() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s \"kist %s\" \"kist manual\"\n", roffArg(strings.ToUpper(pageName(m.Name))), released, version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roffText(pageName(m.Name)), roffText(m.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR\n", roffText(m.Usage))
	if len(m.Aliases) > 0 {
		fmt.Fprintf(&b, ".PP\nalso: %s\n", roffText(strings.Join(m.Aliases, ", ")))
	}
	if m.Long != "" {
		b.WriteString(".SH DESCRIPTION\n")
		roffLiteral(&b, m.Long)
	}

	list := func(section manualSection) {
		fmt.Fprintf(&b, ".SH %s\n", roffArg(section.Title))
		for _, item := range section.Items {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roffText(strings.TrimSpace(item.Term)), roffText(item.Text))
		}
	}

	for _, section := range m.Sections {
		list(section)
	}
	b.WriteString(".SH EXAMPLES\n")
	roffLiteral(&b, outdent(m.Example))
	list(m.Exits)
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

	list := func(section manualSection) {
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
		if section.Title != globalOptions || m.Parent == "" {
			list(section)
		}
	}
	fmt.Fprintf(&b, "\n## Examples\n\n```sh\n%s\n```\n", outdent(m.Example))
	list(m.Exits)
	if m.Parent != "" {
		fmt.Fprintf(&b, "\nSee also [%s](%s.md), which lists the options that every command has.\n", m.Parent, pageName(m.Parent))
	}
	return b.String()
}

// outdent removes the two spaces before every line of an example.
func outdent(example string) string {
	return strings.ReplaceAll("\n"+example, "\n  ", "\n")[1:]
}

// pageName returns the name of a command's pages: "kist-commit".
func pageName(command string) string { return strings.ReplaceAll(command, " ", "-") }
