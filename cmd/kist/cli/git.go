package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
Otherwise kist runs git. Import again to get new commits: nothing is stored
twice. If a branch has other commits here, or is checked out and would move,
nothing is imported.

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
	git := newGit(ctx, env, env.path(dir), "-C", env.path(dir), "-c", "core.quotePath=true", "fast-export",
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

// newCommand returns a program that has not started yet. It runs in the folder of env, with the
// variables of env, and without standard streams.
func newCommand(ctx context.Context, env *Env, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = env.Dir, env.Programs.Environ
	return cmd
}

// newShell returns a command of the shell that has not started yet. It uses the terminal. An
// interrupt ends it by SIGTERM.
func newShell(ctx context.Context, env *Env, args ...string) *exec.Cmd {
	cmd := newCommand(ctx, env, "sh", append([]string{"-c"}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = env.Stdin, env.stdout, env.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
}

// program is a run of another program.
type program struct {
	*exec.Cmd
	name     string
	messages bytes.Buffer
}

// newProgram returns a run that has not started yet.
func newProgram(ctx context.Context, env *Env, name string, args ...string) *program {
	p := &program{Cmd: newCommand(ctx, env, name, args...), name: name}
	p.Stderr = &p.messages
	return p
}

// newGit returns a run of git for the repository in dir, and no other: neither the one
// that the environment names, nor one around dir.
func newGit(ctx context.Context, env *Env, dir string, args ...string) *program {
	p := newProgram(ctx, env, "git", args...)
	p.Env = slices.DeleteFunc(p.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(gitVariables, name)
	})
	p.Env = append(p.Env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(realPath(dir)))
	return p
}

// gitVariables make git use another repository, or other files of one.
var gitVariables = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES",
}

// start starts a program. Open is the method of p that opens the pipe to use.
func start[P any](p *program, open func() (P, error)) (P, error) {
	pipe, err := open()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		return pipe, failf(exitFailed, "program", "%s cannot be started: %w", p.name, err)
	}
	return pipe, nil
}

// wait waits for the end. Its error has the program's message.
func (p *program) wait() error {
	if err := p.Wait(); err != nil {
		return failf(exitFailed, "program", "%s failed: %w: %s", p.name, err, printable(string(bytes.TrimSpace(p.messages.Bytes()))))
	}
	return nil
}
