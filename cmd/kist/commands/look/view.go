package look

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/views"
)

func NewView(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "view COMMAND",
		Short: "show files under other names, as folders of symlinks",
		Long: `A view is a folder of symlinks to the files of a branch, under names that a
template makes: by date, by author, by type. The symlinks lead to read-only
files named by their SHA-256, which all views of the repository share.

Commands that move the branch, such as commit, merge, pull and backup, update
its views. If that fails, they warn, and 'kist view rebuild' does it. Views
belong to this repository only: a clone has none.`,
		Example: `  kist view add by-date '{date:%Y/%m/%d}/{path}'
  ls .kist/views/by-date
  kist view add types '{ext}/{path}' --dir ../types
  kist view verify --fix --vacuum types`,
	}
	cli.OpensRepository(cmd)
	cmd.AddCommand(newViewAdd(env), newViewList(env), newViewRebuild(env), newViewVerify(env), newViewRemove(env))
	return cmd
}

func newViewAdd(env *cli.Env) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "add [OPTIONS] NAME TEMPLATE [REV]",
		Short: "create a view",
		Long: `Creates the view NAME of the branch REV, by default the current one. REV may
also be a tag or another revision. The view is in the folder .kist/views/NAME,
or in DIR, which must be outside the worktree and empty or absent.

TEMPLATE is the path of a link, with facts in braces:

  {path} {dir} {name}    path of the file, its folder, its last part
  {stem} {ext}           the name without its extension; the extension
  {id}                   SHA-256 of the content
  {mtime} {mtime:FORMAT} modification time, in UTC
  {date} {date:FORMAT}   date of the commit that changed the file last
  {author} {email}       author of that commit
  {commit} {tag}         ID of that commit; its tag
  {attr.KEY}             an attribute of the file, perhaps inherited
  {content-type}         the attribute of this name, or the detected media type

FORMAT is as for date(1): %Y %m %d %H %M %S %y %j %b %B %a %A %F %G %V %%. The
default is %Y-%m-%d. A slash in FORMAT makes folders. In other values, a slash
becomes an underscore. 'none' stands for an empty value.

Two files of different content must not get the same name: add {path}, {dir} or
{id} to the template. Symlinks, devices and FIFOs are left out, and files whose
link would be in a .git folder.`,
		Example: `  kist view add by-date '{date:%Y/%m/%d}/{path}'
  kist view add releases '{tag}/{path}' main
  kist view add store '{ext}/{id}' --dir /srv/store`,
		Args:              cli.Arguments(2, 3, "NAME and TEMPLATE"),
		ValidArgsFunction: cli.CompleteNth(cobra.NoFileCompletions, cobra.NoFileCompletions, env.Complete(cli.Revisions)),
	}
	env.Prints(cmd, "", madeViewJSON{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		v := views.View{Name: args[0], Template: args[1]}
		if len(args) == 3 {
			v.Rev = input.Previous(args[2])
		}
		if dir != "" {
			v.Dir = env.Path(dir)
		}
		report, err := views.Add(ctx, r, v)
		if err != nil {
			return err
		}
		showView(env, report, "created")
		return nil
	}, cli.ExitBusy)
	cmd.Flags().StringVar(&dir, "dir", "", "make the links in the folder `DIR`")
	return cmd
}

func newViewList(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "list the views",
		Long: `Lists the views with their templates, revisions and folders, and the views that
are not up to date.`,
		Example:           `  kist view list`,
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	env.Prints(cmd, "for each view", listedViewJSON{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		for _, v := range views.All(r) {
			current := views.IsCurrent(ctx, r, v)
			if env.Global.JSON {
				env.JSON(listedViewJSON{newViewJSON(v), current})
				continue
			}
			note := ""
			if !current {
				note = "  (not up to date)"
			}
			env.Printf("%s  %s  %s  %s%s\n", v.Name, cli.QuotePath(v.Template), cli.Printable(cli.ShortRef(v.Rev)), cli.QuotePath(v.Dir), note)
		}
		return nil
	})
	return cmd
}

func newViewRebuild(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rebuild NAME",
		Short: "make the links of a view again",
		Long: `Compares the view NAME with the present state of its branch, and creates,
replaces and removes links and files until they match. If the folder has files
that kist did not make, nothing changes, and the error lists them.`,
		Example:           `  kist view rebuild by-date`,
		Args:              cli.Arguments(1, 1, "NAME"),
		ValidArgsFunction: env.Complete(viewNames),
	}
	env.Prints(cmd, "", madeViewJSON{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		report, err := views.Verify(ctx, r, args[0], views.VerifyOptions{Fix: true, Vacuum: true, Rebuild: true})
		if err != nil {
			return err
		}
		showView(env, report, "rebuilt")
		return nil
	}, cli.ExitBusy)
	return cmd
}

func newViewVerify(env *cli.Env) *cobra.Command {
	var o views.VerifyOptions
	cmd := &cobra.Command{
		Use:   "verify [OPTIONS] NAME",
		Short: "check the links and files of a view",
		Long: `Compares the view NAME with the present state of its branch, and hashes the
files that it links to. Lists missing, wrong and orphaned links, missing,
damaged and orphaned files, and foreign files. kist did not make foreign files,
and never touches them.

--fix makes missing links and files, and replaces wrong and damaged ones.
--vacuum removes orphaned links, and files that no view needs.

The exit status is 0 if nothing is left to repair.`,
		Example: `  kist view verify by-date
  kist view verify --fix --vacuum by-date`,
		Args:              cli.Arguments(1, 1, "NAME"),
		ValidArgsFunction: env.Complete(viewNames),
	}
	env.Prints(cmd, "for each problem", viewProblemJSON{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		return runViewVerify(ctx, env, r, args[0], o)
	}, cli.ExitBusy)
	cmd.Flags().BoolVar(&o.Fix, "fix", false, "repair links and files")
	cmd.Flags().BoolVar(&o.Vacuum, "vacuum", false, "remove orphaned links and files")
	return cmd
}

func runViewVerify(ctx context.Context, env *cli.Env, r *kist.Repository, name string, o views.VerifyOptions) error {
	report, err := views.Verify(ctx, r, name, o)
	if report == nil {
		return err
	}
	for _, p := range report.Problems {
		env.JSON(viewProblemJSON{name, string(p.Kind), jsonform.NewPath(p.Path), p.Fixed})
		if !env.Global.JSON {
			fixed := ""
			if p.Fixed {
				fixed = " (repaired)"
			}
			env.Printf("%s: %s%s\n", p.Kind, cli.QuotePath(p.Path), fixed)
		}
	}
	switch left := report.Left(); {
	case err != nil:
		return err
	case left > 0:
		return cli.Hintf(cli.Failf(cli.ExitDamaged, "view", "view %q: %s left", name, readable.Plural(uint64(left), "problem is", "problems are")),
			"--fix repairs links and files, --vacuum removes orphaned ones; foreign files are yours to move")
	}
	env.Info("no errors found: %s", readable.Plural(uint64(report.Links), "link", "links"))
	return nil
}

func newViewRemove(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "remove a view",
		Long: `Removes the view NAME: the links that kist made, the folders that become empty,
and the files that no other view needs. Commits and their content stay. Other
files in the folder stay, and a warning lists them.`,
		Example:           `  kist view remove by-date`,
		Args:              cli.Arguments(1, 1, "NAME"),
		ValidArgsFunction: env.Complete(viewNames),
	}
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		foreign, err := views.Remove(ctx, r, args[0])
		for _, path := range foreign {
			env.Warn("not removed, because kist did not make it: %s", cli.QuotePath(path))
		}
		if err == nil {
			env.PrintOutcome("removed view %q\n", args[0])
		}
		return err
	}, cli.ExitBusy)
	return cmd
}

// viewJSON is a view in JSON.
type viewJSON struct {
	Name     string `json:"name" doc:"the view"`
	Template string `json:"template" doc:"the template of its paths"`
	Dir      string `json:"dir" doc:"its folder"`
	DirRaw   []byte `json:"dir_raw,omitempty"`
	Rev      string `json:"rev" doc:"the branch that it follows, or another revision"`
}

// listedViewJSON is a view as view list prints it with --json.
type listedViewJSON struct {
	viewJSON
	Current bool `json:"current" doc:"true if it is up to date"`
}

// madeViewJSON is a view as view add and view rebuild print it with --json.
type madeViewJSON struct {
	viewJSON
	Commit  object.ID `json:"commit" doc:"the commit that it shows"`
	Links   int       `json:"links" doc:"the number of its links"`
	Skipped int       `json:"skipped" doc:"the number of files that are left out: purged or lost, or in a .git folder"`
}

// viewProblemJSON is a problem as view verify prints it with --json.
type viewProblemJSON struct {
	View            string `json:"view" doc:"the view"`
	Kind            string `json:"kind" doc:"the kind of the problem" values:"missing link|wrong link|orphaned link|foreign file|missing file|damaged file|orphaned file|missing state"`
	jsonform.AtPath `doc:"the path of the link or file"`
	Fixed           bool `json:"fixed" doc:"true if it was repaired"`
}

func newViewJSON(v views.View) viewJSON {
	return viewJSON{v.Name, v.Template, v.Dir, jsonform.Raw(v.Dir), v.Rev}
}

// showView prints a view that is complete.
func showView(env *cli.Env, report *views.Report, done string) {
	env.JSON(madeViewJSON{newViewJSON(report.View), report.Commit, report.Links, report.Skipped})
	env.PrintOutcome("%s view %q: %s in %s\n", done, report.Name, readable.Plural(uint64(report.Links), "link", "links"), cli.QuotePath(report.Dir))
	if report.Skipped > 0 {
		env.Warn("%s left out: the content was purged or lost, or the link would be in a .git folder", readable.Plural(uint64(report.Skipped), "file is", "files are"))
	}
}

// viewNames proposes the names of views.
func viewNames(_ context.Context, _ *cli.Env, r *kist.Repository, prefix string) (names []string) {
	for _, v := range views.All(r) {
		if strings.HasPrefix(v.Name, prefix) {
			names = append(names, v.Name)
		}
	}
	return names
}
