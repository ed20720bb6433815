package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
)

// pager shows long results page by page. It is the command in KIST_PAGER, in the user's key
// core.pager or in PAGER, or else less. A repository cannot name one: the command would run as the user.
type pager struct {
	in   io.WriteCloser // the standard input of the pager
	wait func() error
	stop context.CancelFunc // ends the kist command

	stderr io.Writer // for messages after the pager has ended
	quit   bool      // the user ended the pager before the end of the results
}

// StartPager runs a shell command as a pager with the variables in environ added to those
// of this process. The caller closes in, and then calls wait.
type StartPager func(command string, environ []string) (in io.WriteCloser, wait func() error, err error)

// startPager is the [StartPager] of this process.
func startPager(command string, environ []string) (io.WriteCloser, func() error, error) {
	cmd := exec.Command("sh", "-c", command)
	cmd.Env = append(os.Environ(), environ...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	return in, cmd.Wait, err
}

// pages makes a command show its results in a pager, unless another program shows them.
func pages(env *Env, cmd *cobra.Command) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("tool") {
			page(env)
		}
		return run(cmd, args)
	}
	return cmd
}

// page sends everything that is written from now on to a pager, if the results go to a
// terminal and the user wants a pager.
func page(e *Env) {
	out, ok := e.Stdout.(*Results)
	g := e.Global
	if !ok || e.Terminal.Pager == nil || !e.Terminal.Stdout || g.noPager || g.JSON || e.Getenv("TERM") == "dumb" {
		return
	}
	command := pagerCommand(e)
	if command == "" || command == "cat" {
		return
	}

	var environ []string
	if e.Getenv("LESS") == "" {
		environ = []string{"LESS=FRX"} // no pager for less than a page; colours; the text stays
	}
	in, wait, err := e.Terminal.Pager(command, environ)
	if err != nil {
		e.Warn("the pager %s did not start: %v", QuoteArg(command), err)
		return
	}
	e.pager.in, e.pager.wait, e.pager.stderr = in, wait, e.screen.w
	if e.Global.progress == progressAuto {
		e.Global.progress = progressNever
	}
	out.buf.Reset(&e.pager)
	out.terminal = false
	if e.Terminal.Stderr {
		e.screen.redirect(e.Secrets.hidingWriter(&e.pager))
	}
}

// pagerCommand returns the shell command of the pager, or "" for none.
func pagerCommand(e *Env) string {
	if command := cmp.Or(e.Getenv("KIST_PAGER"), e.User.Get(kist.KeyPager), e.Getenv("PAGER")); command != "" {
		return command
	}
	if _, err := exec.LookPath("less"); err != nil {
		return ""
	}
	return "less"
}

// Write passes results on. After the user has quit the pager, it ends the kist command.
func (p *pager) Write(data []byte) (int, error) {
	n, err := p.in.Write(data)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
		p.quit = true
		p.stop()
		return len(data), nil
	}
	return n, err
}

// closePager waits until the user has ended the pager. It returns the exit status of the
// command, which is status unless the shell did not find the pager.
func closePager(e *Env, status int) int {
	p := &e.pager
	if p.in == nil {
		return status
	}
	p.in.Close()
	var exit *exec.ExitError
	if err := p.wait(); errors.As(err, &exit) && (exit.ExitCode() == 126 || exit.ExitCode() == 127) {
		e.screen.redirect(p.stderr)
		e.Warn("the pager did not start, so the results are lost: use --no-pager, or set KIST_PAGER")
		return max(status, ExitFailed)
	}
	if p.quit {
		return ExitOK
	}
	return status
}
