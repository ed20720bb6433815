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

func newDocs(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:    "docs DIR",
		Short:  "write the manual pages and the reference of all commands",
		Hidden: true,
		Long: `Writes DIR/man/*.1 and DIR/reference/*.md from the descriptions that the
commands themselves have, for packagers and for this project's docs folder.
Pages of commands that are no more are removed.`,
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
	for _, pattern := range []string{"man/kist*.1", "reference/*.md"} {
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

The kind is the one of the table, or a more specific one:

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
	b.WriteString(`
A path in JSON that is not UTF-8 has U+FFFD in place of the bytes that are not,
and its exact bytes, as base64, in a field of the same name with ` + "`_raw`" + ` at its end.
`)
	return b.String()
}
