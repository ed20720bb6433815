// Package convert has the commands that read and write the forms of other programs.
package convert

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/work"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/work/convert"
	"github.com/kist-vcs/kist/tree/worktree"
)

// importOptions are the options of the commands that import.
type importOptions struct {
	branch string
	dryRun bool
	as     string
	del    bool // delete the sources

	maxSize uint64 // of an archive's content
}

func (o *importOptions) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&o.branch, "branch", "b", "imported", "add the commits to `BRANCH`, which may be new")
	flags.BoolVarP(&o.dryRun, "dry-run", "n", false, "only show files, duplicates and new data")
}

func NewImport(env *cli.Env) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import [OPTIONS] DIR...",
		Short: "make commits from folders, archives or a git repository",
		Long: `Commits each DIR, the oldest first, to a branch that is not checked out. So
dated copies of a folder become one history: backup-2024-01-01/, daily.3/ and
daily.2/ of rsnapshot, folders of Time Machine.

The time of a commit is the date in the name of DIR, as in 2024-01-31,
20240131T120000Z or 2024-01-31-120000, or else the modification time of DIR. All
files count, even if a .kistignore excludes them.

A DIR counts as imported if the branch has a commit with its name and time, even
if its content is another. So an interrupted import can be repeated. Files that
are hard links to the same file in two DIRs are read once.

With --delete-source, each DIR is deleted when its commit is complete: kist
compares all its files with the commit, and reads the commit's content back. If
DIR has anything that the commit does not have, or another file system is
mounted in it, it stays. A warning lists metadata that is not recorded. An empty
DIR is deleted without a commit. If the command is interrupted, run it again.`,
		Example: `  kist import -n backup-*/          show the files, duplicates and savings
  kist import backup-*/             a commit for each
  kist log --stat imported          the result
  kist import --delete-source backup-*/
  kist import tar release-*.tar.gz  a commit for each archive`,
		Args: cli.Arguments(1, -1, "DIR"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	env.Prints(cmd, "for each DIR", importedJSON{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		return o.run(ctx, env, r, args, convert.Folder)
	}, cli.ExitPartial)
	o.register(cmd)
	flags := cmd.Flags()
	flags.Var(cli.NewChoice(&o.as, "commits"), "as", "the result: commits")
	flags.BoolVar(&o.del, "delete-source", false, "delete each DIR once its commit is complete and verified")
	cmd.AddCommand(newImportArchive(env), newImportGit(env), newImportRestic(env))
	return cmd
}

func newImportArchive(env *cli.Env) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:     "tar [OPTIONS] FILE...",
		Aliases: []string{"zip"},
		Short:   "make commits from tar and zip files",
		Long: `Commits the content of each FILE, a tar or zip archive, as 'kist import' does
with folders. A tar file may be compressed with gzip, zstd, xz or bzip2. The
time is the date in the name of FILE, or else its modification time.

A repository with full metadata records the owners, extended attributes, ACLs,
hard links, FIFOs and devices of a tar file. Other repositories leave out FIFOs
and devices, and record each hard link as a file. They do without ACLs, and then
the group of a file gets no more rights than its ACL gave.

An archive can unpack to far more than its own size. So the content may have 200
times the size of FILE, or 1 GiB if that is more. --max-size sets another limit.

The other options are as for 'kist import'.`,
		Example: `  kist import tar release-*.tar.gz
  kist import zip -b photos photos-2023.zip photos-2024.zip`,
		Args: cli.Arguments(1, -1, "FILE"),
	}
	env.Prints(cmd, "for each FILE", importedJSON{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		return o.run(ctx, env, r, args, convert.Archive)
	}, cli.ExitPartial)
	o.register(cmd)
	cmd.Flags().Var(cli.NewParsed(&o.maxSize, "", kist.ParseSize), "max-size", "accept an archive of up to `SIZE` of content")
	return cmd
}

// importedJSON is a result of import with --json.
type importedJSON struct {
	Name       string             `json:"name" doc:"the name of the folder"`
	NameRaw    []byte             `json:"name_raw,omitempty"`
	Time       time.Time          `json:"time" doc:"the time of the commit"`
	ID         *object.ID         `json:"id" doc:"the commit; null: nothing was imported"`
	Already    bool               `json:"already" doc:"true if it was imported before"`
	Deleted    bool               `json:"deleted" doc:"true if the folder was deleted"`
	Files      int64              `json:"files" doc:"the number of files"`
	Bytes      int64              `json:"bytes" doc:"their size"`
	Duplicates int64              `json:"duplicates" doc:"the number of files whose content was known"`
	BytesNew   int64              `json:"bytes_new" doc:"the bytes that were not stored before"`
	Skipped    []jsonform.Skipped `json:"skipped" doc:"paths that were left out"`
	NotStored  []jsonform.Skipped `json:"not_stored" doc:"sockets and other things that kist does not store"`
}

func (o *importOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string, open func(path string, zone *time.Location) (convert.Source, error)) error {
	zone := env.Now().Location()
	var sources []convert.Source
	for _, arg := range args {
		s, err := open(env.Path(arg), zone)
		if err != nil {
			return err
		}
		if same := func(t convert.Source) bool { return t.Real() == s.Real() }; !slices.ContainsFunc(sources, same) {
			sources = append(sources, s)
		}
	}
	return o.importAll(ctx, env, r, sources)
}

func (o *importOptions) importAll(ctx context.Context, env *cli.Env, r *kist.Repository, sources []convert.Source) error {
	p := env.Progress("importing")
	defer p.Stop()
	var missed []object.Skipped
	commits := 0
	err := convert.Import(ctx, r, sources, convert.ImportOptions{
		Branch: o.branch, DryRun: o.dryRun, Progress: p.Amounts(), DeleteSource: o.del, MaxSize: o.maxSize,
		Unrecorded: func(name string, u *worktree.Unrecorded) {
			if text := work.UnrecordedText(u); text != "" {
				env.Warn("%s: deleted with the folder, and not recorded: %s", cli.QuotePath(name), text)
			}
		},
	}, func(i *convert.Imported) error {
		for _, s := range i.Skipped {
			missed = append(missed, object.Skipped{Path: i.Name + "/" + s.Path, Reason: s.Reason})
		}
		if !i.Already && !i.ID.IsZero() {
			commits++
		}
		printImported(env, i)
		return nil
	})
	p.Stop()
	if err != nil {
		return err
	}
	if !o.dryRun && !env.Global.JSON {
		env.Info("%s on branch %s; 'kist checkout %s' shows the files", readable.Plural(uint64(commits), "new commit", "new commits"), cli.QuoteArg(o.branch), cli.Printable(o.branch))
	}
	return cli.PartialError(env, r, missed)
}

func printImported(env *cli.Env, i *convert.Imported) {
	if env.Global.JSON {
		env.JSON(importedJSON{
			i.Name, jsonform.Raw(i.Name), i.Time, cli.OrNull(i.ID), i.Already, i.Deleted, i.Files, i.Bytes, i.Duplicates, i.New,
			jsonform.NewSkipped(i.Skipped), jsonform.NewSkipped(i.Special),
		})
		return
	}
	id := ""
	if !i.ID.IsZero() {
		id = i.ID.String()[:8] + "  "
	}
	text := readable.Plural(uint64(i.Files), "file", "files") + ", " + readable.FormatSize(uint64(i.Bytes))
	if i.Already && i.Deleted {
		text += "; equal to the commit of this name and time"
	} else if i.Already {
		text += "; not compared: there is a commit with this name and time"
	} else {
		text += "; " + readable.Plural(uint64(i.Duplicates), "duplicate", "duplicates") + ", " + readable.FormatSize(uint64(i.New)) + " new"
	}
	if i.Deleted {
		text += "; deleted the folder"
	}
	env.Printf("%s%s  %s  %s\n", id, i.Time.Format("2006-01-02 15:04"), cli.QuotePath(i.Name), text)
	for _, s := range i.Special {
		env.Warn("not stored: %s: %s", cli.QuotePath(i.Name+"/"+s.Path), s.Reason)
	}
}
