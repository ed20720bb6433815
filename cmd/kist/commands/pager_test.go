package commands

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/cli"
)

// fakePager keeps its input. If quit is set, the user has quit the pager.
type fakePager struct {
	bytes.Buffer
	command string
	environ []string
	quit    bool
	closed  bool
	end     error
}

func (p *fakePager) Write(data []byte) (int, error) {
	if p.quit {
		return 0, syscall.EPIPE
	}
	return p.Buffer.Write(data)
}

func (p *fakePager) Close() error { p.closed = true; return nil }

// pagerEnv returns an environment with a terminal and a pager, and its streams.
func pagerEnv(t *testing.T) (*cli.Env, *fakePager, *bytes.Buffer, *bytes.Buffer) {
	env, stdout, stderr := testEnv(t)
	p := &fakePager{}
	env.Terminal = cli.Terminal{Stdin: true, Stdout: true, Stderr: true, Width: func() int { return 80 }}
	env.Terminal.Pager = func(command string, environ []string) (io.WriteCloser, func() error, error) {
		p.command, p.environ = command, environ
		return p, func() error { return p.end }, nil
	}
	env.Getenv = func(name string) string { return map[string]string{"PAGER": "more -s"}[name] }
	return env, p, stdout, stderr
}

func TestPager(t *testing.T) {
	env, p, stdout, stderr := pagerEnv(t)
	if status := cli.Run(context.Background(), env, []string{"help", "log"}); status != cli.ExitOK {
		t.Errorf("exit status %d", status)
	}
	if p.command != "more -s" || strings.Join(p.environ, " ") != "LESS=FRX" || !p.closed {
		t.Errorf("started %q with %q, closed: %t", p.command, p.environ, p.closed)
	}
	if !strings.Contains(p.String(), "usage: kist log") || stdout.Len()+stderr.Len() != 0 {
		t.Errorf("the pager got %q, the terminal %q and %q", &p.Buffer, stdout, stderr)
	}
}

// On a terminal that is too narrow for a line with a full ID, IDs are short.
func TestNarrowLog(t *testing.T) {
	env, stdout, stderr := testEnv(t)
	for _, args := range []string{"init -q", "commit -q --allow-empty -m one"} {
		if status := cli.Run(context.Background(), env, strings.Fields(args)); status != cli.ExitOK {
			t.Fatalf("%s: exit status %d, %s", args, status, stderr)
		}
	}
	id := func(width int, terminal bool, args ...string) int {
		t.Helper()
		env.Terminal = cli.Terminal{Stdout: terminal, Width: func() int { return width }}
		stdout.Reset()
		if status := cli.Run(context.Background(), env, append([]string{"log", "--no-pager", "--no-decorate", "--color=never"}, args...)); status != cli.ExitOK {
			t.Fatalf("exit status %d, %s", status, stderr)
		}
		first, _, _ := strings.Cut(stdout.String(), "\n")
		return len(strings.TrimPrefix(first, "commit "))
	}
	for _, c := range []struct {
		width    int
		terminal bool
		args     string
		want     int
	}{
		{70, true, "", 8}, {71, true, "", 64}, {70, false, "", 64}, {70, true, "--no-abbrev-commit", 64}, {200, true, "--abbrev-commit", 8}, {40, true, "--format=%H", 64},
	} {
		if got := id(c.width, c.terminal, strings.Fields(c.args)...); got != c.want {
			t.Errorf("%d columns, terminal: %t, %q: an ID of %d digits, want %d", c.width, c.terminal, c.args, got, c.want)
		}
	}
}

// While a pager runs, errors go to the pager, without secrets.
func TestPagerErrors(t *testing.T) {
	env, p, _, stderr := pagerEnv(t)
	env.Dir = filepath.Join(env.Dir, "SECRETKEY")
	if err := os.Mkdir(env.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	env.Getenv = func(name string) string {
		return map[string]string{"PAGER": "less", "AWS_SECRET_ACCESS_KEY": "SECRETKEY"}[name]
	}
	status := cli.Run(context.Background(), env, []string{"log"})
	if status != cli.ExitNoRepository || !strings.Contains(p.String(), "error:") || stderr.Len() != 0 {
		t.Errorf("exit status %d, the pager got %q, the terminal %q", status, &p.Buffer, stderr)
	}
	if strings.Contains(p.String(), "SECRETKEY") {
		t.Errorf("the pager got a secret: %q", &p.Buffer)
	}
}

func TestPagerQuit(t *testing.T) {
	env, p, _, stderr := pagerEnv(t)
	p.quit = true
	if status := cli.Run(context.Background(), env, []string{"help", "log"}); status != cli.ExitOK || stderr.Len() != 0 {
		t.Errorf("exit status %d, the terminal got %q", status, stderr)
	}
}

// If the shell does not find the pager, the command fails: its results are lost.
func TestPagerMissing(t *testing.T) {
	env, p, _, stderr := pagerEnv(t)
	p.quit, p.end = true, exec.Command("sh", "-c", "exit 127").Run()
	status := cli.Run(context.Background(), env, []string{"help", "log"})
	if status != cli.ExitFailed || !strings.Contains(stderr.String(), "--no-pager") {
		t.Errorf("exit status %d, the terminal got %q", status, stderr)
	}
}

func TestNoPager(t *testing.T) {
	for _, change := range []func(*cli.Env) []string{
		func(env *cli.Env) []string { return []string{"--no-pager", "help", "log"} },
		func(env *cli.Env) []string { return []string{"--json", "log"} },
		func(env *cli.Env) []string { return []string{"status"} },
		func(env *cli.Env) []string { env.Terminal.Stdout = false; return []string{"help", "log"} },
		func(env *cli.Env) []string {
			env.Getenv = func(name string) string { return map[string]string{"KIST_PAGER": "cat", "PAGER": "less"}[name] }
			return []string{"help", "log"}
		},
		func(env *cli.Env) []string {
			env.Getenv = func(name string) string { return map[string]string{"TERM": "dumb", "PAGER": "less"}[name] }
			return []string{"help", "log"}
		},
	} {
		env, p, _, _ := pagerEnv(t)
		args := change(env)
		cli.Run(context.Background(), env, args)
		if p.command != "" {
			t.Errorf("kist %q started the pager %q", args, p.command)
		}
	}
}
