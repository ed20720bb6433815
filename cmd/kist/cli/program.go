package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// NewCommand returns a program that has not started yet. It runs in the folder of env, with the
// variables of env, and without standard streams.
func NewCommand(ctx context.Context, env *Env, name string, args ...string) *exec.Cmd {
	env.log.Note("program", "name", name, "args", args)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = env.Dir, env.Programs.Environ
	return cmd
}

// NewShell returns a command of the shell that has not started yet. It uses the terminal. An
// interrupt ends it by SIGTERM.
func NewShell(ctx context.Context, env *Env, args ...string) *exec.Cmd {
	cmd := NewCommand(ctx, env, "sh", append([]string{"-c"}, args...)...)
	cmd.Stdout, cmd.Stderr = env.stdout, env.stderr
	if in, ok := env.Stdin.(*os.File); ok { // all of another reader would be read for the command
		cmd.Stdin = in
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
}

// Program is a run of another program.
type Program struct {
	*exec.Cmd
	name     string
	messages bytes.Buffer
}

// NewProgram returns a run that has not started yet.
func NewProgram(ctx context.Context, env *Env, name string, args ...string) *Program {
	p := &Program{Cmd: NewCommand(ctx, env, name, args...), name: name}
	p.Stderr = &p.messages
	return p
}

// NewGit returns a run of git for the repository in dir: see [safeGit].
func NewGit(ctx context.Context, env *Env, dir string, args ...string) *Program {
	p := &Program{Cmd: safeGit(ctx, env, dir, args...), name: "git"}
	p.Stderr = &p.messages
	return p
}

// safeGit returns a run of git for the repository in dir, and no other: neither the one that
// the environment names, nor one around dir. The repository may be somebody else's, so git
// runs no program that its configuration or its hooks name, and makes no connection. Git
// itself refuses the repository of another user, unless the user's safe.directory has it.
//
// All runs of git in kist are made here.
func safeGit(ctx context.Context, env *Env, dir string, args ...string) *exec.Cmd {
	settings := map[string]string{}
	for _, hook := range gitHooks(ctx, env, dir) {
		settings["hook."+hook+".enabled"] = "false"
	}
	return gitWith(ctx, env, dir, settings, args...)
}

// gitHooks returns the names of the hooks in git's configuration. Git from 2.54 on runs them
// without a look at core.hooksPath, and has no setting that disables them all.
func gitHooks(ctx context.Context, env *Env, dir string) (names []string) {
	list := gitWith(ctx, env, dir, nil, "-C", dir, "config", "--null", "--name-only", "--get-regexp", `^hook\.`)
	out, err := list.Output()
	if err != nil {
		return nil // there are none, or no repository
	}
	for key := range strings.SplitSeq(string(out), "\x00") {
		if end := strings.LastIndexByte(key, '.'); end > len("hook.") {
			names = append(names, key[len("hook."):end])
		}
	}
	return names
}

// gitWith returns a run of git with settings that take precedence over the repository's.
func gitWith(ctx context.Context, env *Env, dir string, settings map[string]string, args ...string) *exec.Cmd {
	cmd := NewCommand(ctx, env, "git", args...)
	n := 0
	cmd.Env = slices.DeleteFunc(slices.Clone(cmd.Environ()), func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		if name == "GIT_CONFIG_COUNT" {
			n, _ = strconv.Atoi(value) // the user's own settings stay
		}
		return slices.Contains(gitVariables, name)
	})
	cmd.Env = append(cmd.Env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(RealPath(dir)))
	cmd.Env = append(cmd.Env, gitLimits...)

	for _, list := range []map[string]string{gitSettings, settings} {
		for key, value := range list {
			cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
			n++
		}
	}
	cmd.Env = append(cmd.Env, "GIT_CONFIG_COUNT="+strconv.Itoa(n))
	return cmd
}

// gitSettings are the settings of every run. Old versions of git take any text in
// core.fsmonitor for the name of a program, except an empty one.
var gitSettings = map[string]string{
	"core.hooksPath": "/dev/null", "core.fsmonitor": "", "core.quotePath": "true",
}

// gitLimits keep git from fetching objects that a partial clone lacks. Git before 2.44 knows
// only the second one, which allows no protocol.
var gitLimits = []string{"GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none"}

// gitVariables make git use another repository, or other files of one.
var gitVariables = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES",
}

// Start starts a program. Open is the method of p that opens the pipe to use.
func Start[P any](p *Program, open func() (P, error)) (P, error) {
	pipe, err := open()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		return pipe, Failf(ExitFailed, "program", "%s cannot be started: %w", p.name, err)
	}
	return pipe, nil
}

// WaitForEnd waits for the end. Its error has the program's message.
func (p *Program) WaitForEnd() error {
	if err := p.Cmd.Wait(); err != nil {
		return Failf(ExitFailed, "program", "%s failed: %w: %s", p.name, err, Printable(string(bytes.TrimSpace(p.messages.Bytes()))))
	}
	return nil
}
