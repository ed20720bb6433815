package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/tree/convert"
)

func newImportGit(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "git DIR",
		Short: "import the history of a git repository",
		Long: `Makes a kist commit of each commit that a branch or tag of the git repository
DIR reaches. Authors, dates, messages and files stay the same. kist creates or
moves the same branches and tags here. If the current branch has no commit yet,
and git has a branch of its name, kist checks it out.

DIR '-' is standard input: the output of 'git fast-export --use-done-feature'.
Otherwise kist runs git, without the hooks and programs that DIR configures.
Import again to get new commits: nothing is stored twice. If a branch has other
commits here, or is checked out and would move, nothing is imported.

Signatures, notes and submodules are left out. Files have no modification times.

With --json: commits, refs (name, id), bytes_stored, skipped.`,
		Example: `  kist import git ../project
  git -C project fast-export --use-done-feature --all | kist import git -`,
		Args: arguments(1, 1, "DIR"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	env.inRepository(cmd, runImportGit, exitPartial)
	return cmd
}

// gitRefJSON is a branch or tag with --json.
type gitRefJSON struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

func runImportGit(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	p := env.progress("importing")
	defer p.Stop()
	found, err := importGit(ctx, env, r, args[0], convert.GitOptions{Progress: p.amounts()})
	p.Stop()
	if err != nil {
		return err
	}
	if env.global.json {
		list := make([]gitRefJSON, len(found.Refs))
		for i, c := range found.Refs {
			list[i] = gitRefJSON{c.Name, c.New.String()}
		}
		env.json(struct {
			Commits int                `json:"commits"`
			Refs    []gitRefJSON       `json:"refs"`
			Stored  int64              `json:"bytes_stored"`
			Skipped []jsonform.Skipped `json:"skipped"`
		}{found.Commits, list, found.Stats.StoredBytes, jsonform.NewSkipped(found.Skipped)})
		return partialError(env, r, found.Skipped)
	}
	for _, c := range found.Refs {
		env.printf("%s %s\n", c.New.String()[:8], c.Name)
	}
	env.info("read %s; %s stored", plural(uint64(found.Commits), "commit", "commits"), formatSize(uint64(found.Stats.StoredBytes)))
	if found.Head != "" {
		env.info("on branch %s", quoteArg(found.Head))
	}
	return partialError(env, r, found.Skipped)
}

// importGit imports the git repository in a folder, or the stream on standard input.
func importGit(ctx context.Context, env *Env, r *kist.Repository, dir string, o convert.GitOptions) (*convert.GitImport, error) {
	if dir == "-" {
		return convert.ImportGit(ctx, r, env.Stdin, o)
	}
	if err := wantFolder("import git", dir); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	git := newGit(ctx, env, env.path(dir), "-C", env.path(dir), "fast-export",
		"--use-done-feature", "--signed-tags=strip", "--tag-of-filtered-object=drop", "--reencode=yes", "--branches", "--tags")
	stream, err := start(git, git.StdoutPipe)
	if err != nil {
		return nil, err
	}
	found, err := convert.ImportGit(ctx, r, stream, o)
	if errors.Is(err, convert.ErrIncomplete) {
		return nil, cmp.Or(git.wait(), err)
	}
	cancel() // if git still writes
	_ = git.wait()
	return found, err
}

func newExport(env *Env) *cobra.Command {
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

func newExportGit(env *Env) *cobra.Command {
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

With --json, if DIR is given: commits, refs (full names), skipped (files that
git cannot hold).`,
		Example: `  kist export git ../project
  kist export git | git -C ../project fast-import --done`,
		Args: arguments(0, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	env.inRepository(cmd, runExportGit, exitPartial)
	return cmd
}

func runExportGit(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	p := env.progress("exporting")
	defer p.Stop()
	o := convert.GitOptions{Progress: p.amounts()}
	if len(args) == 0 {
		if env.Terminal.Stdout {
			return hintf(usagef("a stream cannot go to a terminal"), "'kist export git DIR' writes to a git repository")
		}
		done, err := convert.ExportGit(ctx, r, env.Stdout, o)
		p.Stop()
		if err != nil {
			return err
		}
		return partialError(env, r, done.Skipped)
	}

	dir := env.path(args[0])
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		head, err := r.Refs().Head()
		if err != nil {
			return err
		}
		git := newGit(ctx, env, dir, "init", "--quiet", "--initial-branch", cmp.Or(head.Branch, kist.DefaultBranch), dir)
		if _, err := start(git, git.StdinPipe); err != nil {
			return err
		}
		if err := git.wait(); err != nil {
			return err
		}
	}
	git := newGit(ctx, env, dir, "-C", dir, "fast-import", "--quiet", "--done")
	stream, err := start(git, git.StdinPipe)
	if err != nil {
		return err
	}
	done, err := convert.ExportGit(ctx, r, stream, o)
	gitErr := errors.Join(stream.Close(), git.wait())
	p.Stop()
	if err == nil || errors.Is(err, syscall.EPIPE) {
		err = gitErr
	}
	if err != nil {
		return err
	}
	if env.global.json {
		env.json(struct {
			Commits int                `json:"commits"`
			Refs    []string           `json:"refs"`
			Skipped []jsonform.Skipped `json:"skipped"`
		}{done.Commits, done.Refs, jsonform.NewSkipped(done.Skipped)})
	} else {
		env.info("wrote %s, %s to %s", plural(uint64(done.Commits), "commit", "commits"), plural(uint64(len(done.Refs)), "ref", "refs"), quotePath(dir))
	}
	return partialError(env, r, done.Skipped)
}
