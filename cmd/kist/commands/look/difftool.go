package look

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
)

// toolOptions select a program that shows changes in place of diff.
type toolOptions struct {
	name    string // "" stands for the key diff.tool
	command string // of the shell; goes before name
	wanted  bool
	folders bool
	prompt  bool
}

func NewDifftool(env *cli.Env) *cobra.Command {
	o := diffOptions{form: show.ChangeForm{Patch: true, Context: 3}}
	o.form.Lines.Words = "none"
	o.tool.wanted = true
	noPrompt := false
	cmd := &cobra.Command{
		Use:   "difftool [OPTIONS] [REV [REV] | A..B | FILE@N [FILE@N]] [-- PATH...]",
		Short: "show how files differ in a program of yours",
		Long: `Compares as 'kist diff' does, and starts a program for each file that differs,
with the old and the new version as its last two arguments. With --dir-diff, it
starts once, with two folders of all these files. A file of the worktree is
given itself, so the program can edit it. With --dir-diff, a link in the folder
leads to it. Other versions are copies that kist removes when the program ends.

The program is that of -t, or of the key diff.tool. difftool.NAME.cmd is the
command of the shell for the program NAME: it finds the versions in $LOCAL and
$REMOTE, and the path in $MERGED. Without this key, NAME is the program itself,
such as meld, kdiff3, vimdiff or code. Only your own configuration counts: a
repository cannot choose a program.

Before each file kist asks whether to show it, if it can ask. A version that
does not exist is /dev/null. Symlinks, special files, folders, files with
conflicts and git's own folders are left out, with a note.`,
		Example: `  kist config --global diff.tool meld
  kist difftool                    what 'kist add' would stage
  kist difftool -d v1 v2           two folders, in one program
  kist difftool -y -x 'diff -y' HEAD~1 -- src`,
		ValidArgsFunction: env.CompleteUntilDash(cli.Revisions, cli.TrackedPaths),
	}
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		if !cmd.Flags().Changed("prompt") {
			o.tool.prompt = env.Terminal.Stdin && env.User.Get(kist.KeyToolPrompt) != "false"
		}
		o.tool.prompt = o.tool.prompt && !noPrompt
		return o.run(ctx, env, r, args)
	})
	cli.PassesOverLost(cmd, env)
	flags := cmd.Flags()
	flags.StringVarP(&o.tool.name, "tool", "t", "", "start the program `NAME`")
	flags.StringVarP(&o.tool.command, "extcmd", "x", "", "start `COMMAND`, a command of the shell")
	flags.BoolVarP(&o.tool.folders, "dir-diff", "d", false, "start the program once, with two folders")
	flags.BoolVar(&o.tool.prompt, "prompt", false, "ask before each file (the default on a terminal)")
	flags.BoolVarP(&noPrompt, "no-prompt", "y", false, "do not ask; difftool.prompt = false is the same")
	flags.BoolVar(&o.staged, "staged", false, "compare the index with REV, by default HEAD")
	flags.BoolVar(&o.staged, "cached", false, "the same as --staged")
	flags.BoolVarP(&o.form.Reverse, "reverse-diff", "R", false, "show the changes from the new version to the old one")
	cmd.MarkFlagsMutuallyExclusive("tool", "extcmd")
	cmd.MarkFlagsMutuallyExclusive("prompt", "no-prompt")
	return cmd
}

// register adds --tool to diff.
func (o *toolOptions) register(flags *pflag.FlagSet) {
	flags.Func("tool", "show the changes in the program `NAME`, or that of diff.tool; see 'kist help difftool'", func(name string) error {
		o.wanted, o.name = true, strings.TrimSpace(name)
		return nil
	})
	flags.Lookup("tool").NoOptDefVal = " "
}

// toolCommands are the commands of programs that need options of their own, or wait for the
// user only with one.
var toolCommands = map[string]string{
	"code": "code --wait --diff", "vscode": "code --wait --diff", "codium": "codium --wait --diff",
	"nvimdiff": "nvim -d", "gvimdiff": "gvimdiff -f",
}

// findScript returns the name of the program and a script of the shell that runs it. $0 of the
// script is the name, $1 and $2 are the versions.
func (o *toolOptions) findScript(env *cli.Env) (name, script string, err error) {
	if o.command != "" {
		return o.command, o.command + ` "$1" "$2"`, nil
	}
	name = cmp.Or(o.name, env.User.Get(kist.KeyTool))
	if name == "" {
		err := cli.Failf(cli.ExitFailed, "no-tool", "no program to show differences is set")
		return "", "", cli.Hintf(err, "'kist config --global %s meld' sets one; 'kist difftool -x COMMAND' needs none", kist.KeyTool)
	}
	if own := env.User.Get(kist.KeyToolSection + name + ".cmd"); own != "" {
		return name, own, nil
	}
	if known := toolCommands[name]; known != "" {
		return name, known + ` "$1" "$2"`, nil
	}
	return name, `"$0" "$1" "$2"`, nil
}

// showChanges shows the changes of a comparison in the program.
func (o *toolOptions) showChanges(ctx context.Context, c *show.Comparison, changes []compare.Change) error {
	if c.Env.Global.JSON {
		return cli.Usagef("--json does not go together with a program that shows the changes")
	}
	name, script, err := o.findScript(c.Env)
	if err != nil {
		return err
	}
	changes = shownInTool(c.Env, c.Repo, changes)
	if len(changes) == 0 {
		return nil
	}

	dir, err := os.MkdirTemp(cmp.Or(c.Env.Getenv("TMPDIR"), os.TempDir()), "kist-difftool-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := &toolRun{Comparison: c, name: name, script: script, old: filepath.Join(dir, "old"), new: filepath.Join(dir, "new")}
	if o.folders {
		return t.showFolders(ctx, changes)
	}

	answers := bufio.NewReader(c.Env.Stdin)
	n := 0
	for change, err := range c.Near(ctx, changes) {
		if err != nil {
			return err
		}
		n++
		if o.prompt && !t.askToShow(answers, change.Path, n, len(changes)) {
			continue
		}
		if err := t.showFile(ctx, change); err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(t.old), os.RemoveAll(t.new)); err != nil {
			return err
		}
	}
	return nil
}

// shownInTool leaves out changes that a program for files cannot show, and notes their paths.
func shownInTool(env *cli.Env, r *kist.Repository, changes []compare.Change) []compare.Change {
	isFile := func(e *object.Entry) bool { return e == nil || e.Type == object.TypeFile }
	var shown []compare.Change
	for _, change := range changes {
		switch {
		case change.Unmerged:
			env.Info("left out: %s has a conflict", env.Shown(r, change.Path))
		case !isFile(change.Old) || !isFile(change.New):
			env.Info("left out: %s is not a file", env.Shown(r, change.Path))
		case tree.GitFolder(change.Path)+tree.GitFolder(change.Source()) != "":
			env.Info("left out: %s is in git's own folder", env.Shown(r, change.Path))
		default:
			shown = append(shown, change)
		}
	}
	return shown
}

// toolRun runs the program. Old and new are folders for copies, which other users cannot read.
type toolRun struct {
	*show.Comparison
	name, script string
	old, new     string
}

// askToShow asks whether to show a file. Without an answer, it does not.
func (t *toolRun) askToShow(answers *bufio.Reader, path string, n, of int) bool {
	fmt.Fprintf(t.Env.Stderr, "file %d of %d: %s\nstart %s? [Y/n] ", n, of, t.Env.Shown(t.Repo, path), cli.QuoteArg(t.name))
	line, err := answers.ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return (err == nil || answer != "") && (answer == "" || answer == "y" || answer == "yes")
}

// showFile shows one changed file.
func (t *toolRun) showFile(ctx context.Context, change compare.Change) error {
	local, err := t.provideVersion(ctx, t.Comparison.Old, change.Old, change.Source(), t.old)
	if err != nil {
		return err
	}
	remote, err := t.provideVersion(ctx, t.Comparison.New, change.New, change.Path, t.new)
	if err != nil {
		return err
	}
	return t.startTool(ctx, local, remote, change.Path)
}

// provideVersion returns the name of a file with a version of path: the file in the worktree,
// or a copy below dir.
func (t *toolRun) provideVersion(ctx context.Context, v compare.Side, e *object.Entry, path, dir string) (string, error) {
	switch {
	case e == nil:
		return os.DevNull, nil
	case v.Worktree:
		return filepath.Join(t.Repo.Root(), filepath.FromSlash(path)), nil
	}
	return filepath.Join(dir, filepath.FromSlash(path)), t.writeCopies(ctx, v, []string{path}, dir)
}

// writeCopies writes files of a commit or of the index below dir.
func (t *toolRun) writeCopies(ctx context.Context, v compare.Side, paths []string, dir string) error {
	_, err := checkout.Extract(ctx, t.Repo, v, checkout.ExtractOptions{Paths: paths, To: dir})
	return err
}

// showFolders shows all changed files at once.
func (t *toolRun) showFolders(ctx context.Context, changes []compare.Change) error {
	var old, new []string
	for _, change := range changes {
		if change.Old != nil {
			old = append(old, change.Source())
		}
		if change.New != nil {
			new = append(new, change.Path)
		}
	}
	if err := t.fillFolder(ctx, t.Comparison.Old, old, t.old); err != nil {
		return err
	}
	if err := t.fillFolder(ctx, t.Comparison.New, new, t.new); err != nil {
		return err
	}
	return t.startTool(ctx, t.old, t.new, "")
}

// fillFolder fills a folder with the versions of paths. Those of the worktree are links.
func (t *toolRun) fillFolder(ctx context.Context, v compare.Side, paths []string, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil || len(paths) == 0 {
		return err
	}
	if !v.Worktree {
		return t.writeCopies(ctx, v, paths, dir)
	}
	for _, path := range paths {
		name := filepath.FromSlash(path)
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join(t.Repo.Root(), name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// startTool runs the program, and waits for its end. Its exit status does not matter, unless it could not run.
func (t *toolRun) startTool(ctx context.Context, local, remote, path string) error {
	cmd := cli.NewShell(ctx, t.Env, t.script, t.name, local, remote)
	cmd.Dir = t.Repo.Root()
	cmd.Env = append(cmd.Environ(), "LOCAL="+local, "REMOTE="+remote, "MERGED="+path, "BASE="+path)
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() && exit.ExitCode() < 126 && ctx.Err() == nil {
		return nil
	}
	if err != nil {
		return cli.Failf(cli.ExitFailed, "program", "%s: %w", cli.QuoteArg(t.name), err)
	}
	return nil
}
