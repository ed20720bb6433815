package convert

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/tree/work/convert"
)

func NewExport(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export COMMAND",
		Short: "write the history for another program",
		Long: `Writes the history for another program: 'kist export git'. 'kist archive' writes
the files of one commit as a tar or zip archive.`,
		Example: `  kist export git ../project`,
	}
	cmd.AddCommand(newExportGit(env))
	return cmd
}

type exportGitOptions struct {
	lfs uint64 // bytes; 0: no git-lfs
}

func newExportGit(env *cli.Env) *cobra.Command {
	var o exportGitOptions
	cmd := &cobra.Command{
		Use:   "git [DIR]",
		Short: "export the history to a git repository",
		Long: `Writes all branches and tags, with their history, to the git repository DIR.
kist runs git, and creates the repository if DIR is absent. Git's worktree stays
as it is. Without DIR, the result is a stream for 'git fast-import' on standard
output.

Git has no empty folders, times or metadata of files, and of the permission bits
only x; these are left out. The export stops at a commit whose content has
expired or was purged.

With --lfs, each file of at least SIZE becomes a pointer of git-lfs in every
commit. Its content goes to the folder where git-lfs keeps it: .git/lfs, or
lfs.storage. A file .gitattributes beside it names it; 'kist import git' undoes
all this. Run 'git lfs install' once before you check out.`,
		Example: `  kist export git ../project
  kist export git --lfs 10MiB ../project
  kist export git | git -C ../project fast-import --done`,
		Args: cli.Arguments(0, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	env.Prints(cmd, "if DIR is given", exportedGitJSON{})
	env.InRepository(cmd, o.run, cli.ExitPartial)
	cmd.Flags().Var(cli.NewParsed(&o.lfs, "", parseLFSSize), "lfs", "write git-lfs pointers for files of at least `SIZE`")
	return cmd
}

// parseLFSSize is [kist.ParseSize]. Git-lfs has no pointers for empty files.
func parseLFSSize(s string) (uint64, error) {
	size, err := kist.ParseSize(s)
	return max(size, 1), err
}

// exportedGitJSON is what export git prints with --json.
type exportedGitJSON struct {
	Commits int                `json:"commits" doc:"the number of commits"`
	Refs    []string           `json:"refs" doc:"the full names of the branches and tags"`
	LFS     int                `json:"lfs" doc:"the number of contents for git-lfs"`
	Skipped []jsonform.Skipped `json:"skipped" doc:"files that git cannot hold"`
	Signed  int                `json:"signatures" doc:"the number of signatures, which are left out"`
}

func (o *exportGitOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	p := env.Progress("exporting")
	defer p.Stop()
	options := convert.GitOptions{Progress: p.Amounts(), LFSSize: o.lfs}
	if len(args) == 0 {
		if o.lfs > 0 {
			return cli.Usagef("--lfs needs DIR: a stream has no place for the contents")
		}
		if env.Terminal.Stdout {
			return cli.Hintf(cli.Usagef("a stream cannot go to a terminal"), "'kist export git DIR' writes to a git repository")
		}
		done, err := convert.ExportGit(ctx, r, env.Stdout, options)
		p.Stop()
		if err != nil {
			return err
		}
		tellDropped(env, done.Signatures)
		return cli.PartialError(env, r, done.Skipped)
	}

	dir := env.Path(args[0])
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		head, err := r.Refs().Head()
		if err != nil {
			return err
		}
		git := cli.NewGit(ctx, env, dir, "init", "--quiet", "--initial-branch", cmp.Or(head.Branch, kist.DefaultBranch), dir)
		if _, err := cli.Start(git, git.StdinPipe); err != nil {
			return err
		}
		if err := git.WaitForEnd(); err != nil {
			return err
		}
	}
	if o.lfs > 0 {
		folder, err := lfsFolder(ctx, env, dir)
		if err != nil {
			return err
		}
		options.LFSStore = func(content io.Reader) (string, error) { return storeLFS(folder, content) }
	}
	git := cli.NewGit(ctx, env, dir, "-C", dir, "fast-import", "--quiet", "--done")
	stream, err := cli.Start(git, git.StdinPipe)
	if err != nil {
		return err
	}
	done, err := convert.ExportGit(ctx, r, stream, options)
	gitErr := errors.Join(stream.Close(), git.WaitForEnd())
	p.Stop()
	if err == nil || errors.Is(err, syscall.EPIPE) {
		err = gitErr
	}
	if err != nil {
		return err
	}
	if env.Global.JSON {
		env.JSON(exportedGitJSON{done.Commits, done.Refs, done.Large, jsonform.NewSkipped(done.Skipped), done.Signatures})
	} else {
		env.Info("wrote %s, %s to %s", readable.Plural(uint64(done.Commits), "commit", "commits"), readable.Plural(uint64(len(done.Refs)), "ref", "refs"), cli.QuotePath(dir))
		tellDropped(env, done.Signatures)
		if o.lfs > 0 {
			env.Info("%s for git-lfs", readable.Plural(uint64(done.Large), "content", "contents"))
		}
	}
	return cli.PartialError(env, r, done.Skipped)
}
