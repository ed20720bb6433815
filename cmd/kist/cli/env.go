package cli

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"os/signal"
	"os/user"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object/trace"
)

// Env is the process as a command sees it. Commands use the environment, the clock and the
// terminal only through an Env, so tests can replace them.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer // results
	Stderr io.Writer // warnings, errors, progress and hints

	Getenv   func(name string) string
	Dir      string        // absolute; relative paths start from it
	Hostname string        // recorded in commits, and in the author's address if none is set
	Username func() string // the author's name if none is set
	Random   io.Reader     // cryptographically secure
	Terminal Terminal

	// Owners are the users whose repositories are trusted. If it is empty, all users are
	// trusted.
	Owners []int

	// Umask has the permission bits that files of the worktree do not get.
	Umask uint16

	Programs Programs
	Clock

	// Commands are the commands of the program, in the order of the help.
	Commands []Section

	invocation
}

// Clock is the time as commands see it.
type Clock struct {
	Now func() time.Time

	// Sleep waits before a request to a remote is retried, or until ctx ends. The default
	// is a timer.
	Sleep func(ctx context.Context, d time.Duration) error
}

// invocation is the state of one [Run]: the shared options of commands, and the terminal.
type invocation struct {
	results
	Global     globals
	Transfer   transferOptions
	Repo       repoOptions
	screen     *screen
	pager      pager
	Completion completion
	Secrets    *secrets
	log        *trace.Log // of KIST_DEBUG; nil: none

	stdout, stderr io.Writer // as Run got them, for programs that use the terminal

	User     *kist.UserConfig // the user's own configuration; nil if it cannot be read
	UserErr  error            // the reason
	color    string           // its color.ui
	Identity GitIdentity
}

// Terminal describes the terminal of a process.
type Terminal struct {
	Stdin, Stdout, Stderr bool // whether the stream is a terminal

	Width func() int // columns of the terminal at Stderr
	Pager StartPager // runs a pager; nil: there is none
}

// Programs describes how commands start programs.
type Programs struct {
	// Environ has the variables of a program, as NAME=VALUE. Nil stands for those of this
	// process.
	Environ []string

	// Start starts kist with args in the background, to outlive this process. If Start is
	// nil, nothing runs in the background.
	Start func(args ...string) error
}

// OSEnv returns the Env of this process. It changes the umask for a moment, so call it before
// the process creates files or starts other processes.
func OSEnv() *Env {
	return &Env{
		Stdin:    os.Stdin,
		Stdout:   os.Stdout,
		Stderr:   os.Stderr,
		Getenv:   os.Getenv,
		Dir:      workingDir(),
		Clock:    Clock{Now: time.Now},
		Hostname: hostname(),
		Username: username,
		Random:   rand.Reader,
		Terminal: Terminal{
			Stdin:  term.IsTerminal(int(os.Stdin.Fd())),
			Stdout: term.IsTerminal(int(os.Stdout.Fd())),
			Stderr: term.IsTerminal(int(os.Stderr.Fd())),
			Width:  terminalWidth,
			Pager:  startPager,
		},
		Owners:     trustedUsers(),
		Umask:      umask(),
		Programs:   Programs{Start: startDetached},
		invocation: invocation{Identity: GitIdentity{Git: GitUser}},
	}
}

// WithSignals returns a context that the first SIGINT or SIGTERM cancels. The second signal
// ends the process at once. The returned function restores the default handling of signals.
func WithSignals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for range signals {
			if ctx.Err() != nil {
				os.Exit(ExitInterrupted)
			}
			cancel()
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}

// workingDir returns the working directory, or "." if it was removed. Then the command fails
// with the path of its argument.
func workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	return dir
}

// umask returns the umask of this process.
func umask() uint16 {
	mask := syscall.Umask(0o077)
	syscall.Umask(mask)
	return uint16(mask & 0o777)
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return name
}

func username() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	return "unknown"
}

func terminalWidth() int {
	if width, _, err := term.GetSize(int(os.Stderr.Fd())); err == nil && width > 0 {
		return width
	}
	return 80
}
