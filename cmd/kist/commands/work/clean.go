package work

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/tree/work/checkout"
)

type cleanOptions struct {
	checkout.CleanOptions
	force, ignored, onlyIgnored bool
	exclude, iexclude           []string
}

func NewClean(env *cli.Env) *cobra.Command {
	var o cleanOptions
	cmd := &cobra.Command{
		Use:   "clean -n|-f [OPTIONS] [PATH...]",
		Short: "remove untracked files",
		Long: `Removes files below the current folder, or below PATHs, that kist does not
track. Ignored files stay, and so do untracked folders, except with -d or with
PATHs.

The files are deleted: no commit has them. So kist asks for -f, unless -n is
given. With 'kist config clean.require-force false' it does not. 'kist stash -u'
puts untracked files aside instead.

Other repositories, of kist or git, are never removed. Nor is anything behind a
symlink, in a folder where a file system is mounted, or the current folder.`,
		Example: `  kist clean -n                    show what -f would remove
  kist clean -fd src               also untracked folders, below src
  kist clean -fX                   only ignored files, as after 'make'`,
	}
	env.Prints(cmd, "for each path", cleanedJSON{})
	env.InRepository(cmd, cli.NotBare(o.run), cli.ExitPartial)
	flags := cmd.Flags()
	flags.BoolVarP(&o.DryRun, "dry-run", "n", false, "remove nothing, but show what would be removed")
	flags.BoolVarP(&o.force, "force", "f", false, "remove the files")
	flags.BoolVarP(&o.Folders, "directories", "d", false, "also remove untracked folders")
	flags.BoolVarP(&o.ignored, "ignored", "x", false, "also remove ignored files")
	flags.BoolVarP(&o.onlyIgnored, "only-ignored", "X", false, "remove only ignored files")
	flags.StringArrayVarP(&o.exclude, "exclude", "e", nil, "ignore `PATTERN`, too; -x does not remove such files")
	flags.StringArrayVar(&o.iexclude, "iexclude", nil, "as --exclude `PATTERN`, but the case of letters does not matter")
	cmd.MarkFlagsMutuallyExclusive("ignored", "only-ignored")
	return cmd
}

// cleanedJSON is a path as clean prints it with --json.
type cleanedJSON struct {
	jsonform.AtPath
	Action string `json:"action" doc:"what happened to it" values:"removed|would-remove|skipped"`
}

func (o *cleanOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if require, _ := r.Config().Get("clean.require-force"); !o.DryRun && !o.force && require != "false" {
		return cli.Hintf(cli.Failf(cli.ExitUsage, "", "neither -n nor -f is given; refusing to clean"), "-n shows what -f would remove; 'kist config clean.require-force false' makes -f the default")
	}
	whole := args
	if len(args) == 0 {
		whole = []string{"."}
	}
	specs, err := input.Pathspecs(env, r, whole, false)
	if err != nil {
		return err
	}
	o.Paths, o.Select = specs.Paths(), specs.Selector()
	o.Folders = o.Folders || len(args) > 0
	switch {
	case o.ignored:
		o.Ignored = checkout.WithIgnored
	case o.onlyIgnored:
		o.Ignored = checkout.OnlyIgnored
	}
	if o.Exclude, err = input.MatcherOf(o.exclude, o.iexclude); err != nil {
		return err
	}

	list, cleanErr := checkout.Clean(ctx, r, o.CleanOptions)
	for _, c := range list {
		words, action := []string{"Removing", "Would remove"}, []string{"removed", "would-remove"}
		if c.Repository {
			words, action = []string{"Skipping repository", "Would skip repository"}, []string{"skipped", "skipped"}
		}
		i := 0
		if o.DryRun {
			i = 1
		}
		env.PrintOrJSON(cleanedJSON{jsonform.NewPath(c.Path), action[i]}, "%s %s\n", words[i], env.Shown(r, c.Path))
	}
	return env.Unwritten(r, cleanErr)
}
