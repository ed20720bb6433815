package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Env is everything a command takes from the process it runs in. Commands read
// the environment, the clock and the terminal through it and in no other way,
// so that a test can run them with others.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer // results
	Stderr io.Writer // warnings, errors, progress and hints

	Getenv   func(name string) string
	Dir      string           // the directory relative paths start from, absolute
	Now      func() time.Time // the clock
	Hostname string           // recorded in commits, and in the author's address if none is set
	Username string           // the author's name if none is set
	Random   io.Reader        // cryptographically secure
	Terminal Terminal

	// Owners are the users whose repositories are used without question. If
	// there are none, everybody's are.
	Owners []int

	// Umask has the permission bits that files of the worktree do not get.
	Umask uint16

	// Sleep waits before something is tried again with a remote, or until ctx
	// ends. nil: by a timer.
	Sleep func(ctx context.Context, d time.Duration) error

	// Start runs kist with args in the background, to go on after this process
	// has ended. If it is nil, nothing is done in the background.
	Start func(args ...string) error

	global     globals
	transfer   transferOptions // of the command that runs
	repo       repoOptions
	screen     *screen
	completion completion
	secrets    *secrets
}

// Terminal says which of the standard streams are terminals.
type Terminal struct {
	Stdin, Stdout, Stderr bool

	Width func() int // columns of the terminal that Stderr is
}

// OSEnv returns the environment of this process. It sets the umask for a
// moment: call it before the process creates files or starts others.
func OSEnv() *Env {
	return &Env{
		Stdin:    os.Stdin,
		Stdout:   os.Stdout,
		Stderr:   os.Stderr,
		Getenv:   os.Getenv,
		Dir:      workingDir(),
		Now:      time.Now,
		Hostname: hostname(),
		Username: username(),
		Random:   rand.Reader,
		Terminal: Terminal{
			Stdin:  term.IsTerminal(int(os.Stdin.Fd())),
			Stdout: term.IsTerminal(int(os.Stdout.Fd())),
			Stderr: term.IsTerminal(int(os.Stderr.Fd())),
			Width:  terminalWidth,
		},
		Owners: trustedUsers(),
		Umask:  umask(),
		Start:  startDetached,
	}
}

// WithSignals returns a context that the first SIGINT or SIGTERM cancels; the
// second ends the process at once. The function returned gives signals their
// usual meaning again.
func WithSignals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for range signals {
			if ctx.Err() != nil {
				os.Exit(exitInterrupted)
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

// workingDir returns the working directory, or "." where it has been removed:
// the command then fails with the path it was to work on.
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

// results is what a command's results are written to. An error, such as a full
// disk behind a redirection, is kept and returned by Flush, so that commands
// need not look at every write.
type results struct {
	buf      *bufio.Writer
	terminal bool
}

func newResults(w io.Writer, terminal bool) *results {
	return &results{bufio.NewWriterSize(w, 16<<10), terminal}
}

// Write keeps p for later, or passes it on at once if a person is reading.
func (r *results) Write(p []byte) (int, error) {
	n, err := r.buf.Write(p)
	if err == nil && r.terminal {
		err = r.buf.Flush()
	}
	return n, err
}

// Flush writes the buffered results and returns the first error.
func (r *results) Flush() error {
	if err := r.buf.Flush(); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// printf prints a result.
func (e *Env) printf(format string, args ...any) { fmt.Fprintf(e.Stdout, format, args...) }

// tell prints what a command has done, as a result that --quiet does without.
func (e *Env) tell(format string, args ...any) {
	if !e.global.quiet {
		e.printf(format, args...)
	}
}

// json prints v as a result: one JSON object on a line of its own. Times are
// RFC 3339, IDs full, sizes in bytes.
//
// A path that is not UTF-8 cannot be a JSON string. Objects that name a path
// have it in "path", with U+FFFD in place of invalid bytes, and then also as base64
// in "path_raw"; see [rawPath].
func (e *Env) json(v any) error {
	enc := json.NewEncoder(e.Stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// rawPath returns what an object's "path_raw" holds for a path: its bytes if
// they are not UTF-8, and otherwise nil, for omitempty.
func rawPath(path string) []byte {
	if utf8.ValidString(path) {
		return nil
	}
	return []byte(path)
}

// info says something that is no result, unless --quiet is given.
func (e *Env) info(format string, args ...any) {
	if !e.global.quiet {
		fmt.Fprintf(e.Stderr, format+"\n", args...)
	}
}

// verbose says something only if --verbose is given.
func (e *Env) verbose(format string, args ...any) {
	if e.global.verbose && !e.global.quiet {
		fmt.Fprintf(e.Stderr, format+"\n", args...)
	}
}

// warn says that something is not as it should be, though the command goes on.
// It is safe for concurrent use.
func (e *Env) warn(format string, args ...any) {
	fmt.Fprintf(e.Stderr, "%s %s\n", e.paintErr(yellow, "warning:"), printable(fmt.Sprintf(format, args...)))
}

// style is how a terminal shows a piece of text: the parameters of an SGR
// escape sequence.
type style string

const (
	bold    style = "1"
	dim     style = "2"
	red     style = "31"
	green   style = "32"
	yellow  style = "33"
	blue    style = "34"
	magenta style = "35"
	cyan    style = "36"

	boldRed    style = "1;31"
	boldGreen  style = "1;32"
	boldYellow style = "1;33"
	boldCyan   style = "1;36"
)

// paint returns text in the given style, for Stdout, if colours are wanted.
func (e *Env) paint(s style, text string) string {
	return paint(e.colored(e.Terminal.Stdout), s, text)
}

// paintErr returns text in the given style, for Stderr, if colours are wanted.
func (e *Env) paintErr(s style, text string) string {
	return paint(e.colored(e.Terminal.Stderr), s, text)
}

func paint(colored bool, s style, text string) string {
	if !colored || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[m"
}

// colored decides by --color, and if that leaves it open by whether the stream
// is a terminal that knows colours and nobody has objected with NO_COLOR.
func (e *Env) colored(terminal bool) bool {
	switch e.global.color {
	case "always":
		return true
	case "never":
		return false
	}
	return terminal && e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb"
}

// author returns who a commit is by: the environment's word, then the
// configuration's (name and email, empty where it has none), then the user of
// this machine. It never fails: a server that makes backups has nobody to ask.
func (e *Env) author(name, email string) (string, string) {
	if v := e.Getenv("KIST_AUTHOR_NAME"); v != "" {
		name = v
	}
	if v := e.Getenv("KIST_AUTHOR_EMAIL"); v != "" {
		email = v
	}
	if name == "" {
		name = e.Username
	}
	if email == "" {
		email = e.Username + "@" + e.Hostname
	}
	return name, email
}

// commitTime returns the time that is recorded in what a command writes: now,
// unless KIST_DATE fixes it for a script whose commits are to come out equal.
func (e *Env) commitTime() (time.Time, error) {
	fixed := e.Getenv("KIST_DATE")
	if fixed == "" {
		return e.Now(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, fixed)
	if err != nil {
		return time.Time{}, usagef("KIST_DATE %s is not a time as in 2026-01-31T12:00:00Z", quoteArg(fixed))
	}
	return t, nil
}
