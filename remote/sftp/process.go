package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist/object/trace"
	"github.com/kist-vcs/kist/remote"
)

// link is a way to a server that speaks SFTP.
type link interface {
	io.Reader
	io.WriteCloser

	// End ends the link at once. Reads and writes under way fail. It may be called more than once.
	End()

	// Wait waits for the end and returns the reason for it, or nil.
	Wait() error
}

// dialer makes a link. The context is that of the call which needs it.
type dialer func(ctx context.Context) (link, error)

// ending is the time that ssh gets to end by itself, and the time to wait for programs that keep its output open.
const ending = time.Second

// process is a running ssh as a link.
type process struct {
	in, out  *os.File // its input and output
	cmd      *exec.Cmd
	messages tail
	ended    chan struct{}
	err      error // of the program; read it after ended is closed
	once     sync.Once
}

// startSSH returns a dialer that runs a program for a location. command is the program with its first arguments.
func startSSH(command []string, l location) dialer {
	if len(command) == 0 {
		command = []string{"ssh"}
	}
	return func(ctx context.Context) (link, error) {
		p, err := start(ctx, slices.Concat(command, l.arguments()))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", remote.ErrProgram, err)
		}
		return p, nil
	}
}

// start starts a program. Its end is the end of ctx only if Wait or a read is under way: the caller calls End.
func start(ctx context.Context, args []string) (*process, error) {
	trace.From(ctx).Note("program", "args", args)
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	defer theirOut.Close()

	p := &process{in: in, out: out, cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirIn, theirOut, &p.messages
	p.cmd.WaitDelay = ending
	p.cmd.SysProcAttr = dieWithParent()
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the system ends the program with the thread that started it
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	return p, nil
}

// Read implements [link].
func (p *process) Read(data []byte) (int, error) { return p.out.Read(data) }

// Write implements [link].
func (p *process) Write(data []byte) (int, error) { return p.in.Write(data) }

// Close implements [link]. The program then ends by itself.
func (p *process) Close() error { return p.in.Close() }

// End implements [link].
func (p *process) End() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		p.in.Close()
		p.out.Close()
	})
}

// leave closes a link and waits for its end, which it brings about after a moment.
func leave(l link) {
	l.Close()
	timer := time.AfterFunc(ending, l.End)
	defer timer.Stop()
	_ = l.Wait() // the reason is of no interest
	l.End()
}

// Wait implements [link].
func (p *process) Wait() error {
	<-p.ended
	text := p.messages.text()
	if _, exited := errors.AsType[*exec.ExitError](p.err); p.err == nil || exited && text == "" {
		if p.err == nil {
			return nil
		}
		return &endError{text: p.err.Error()}
	}
	return &endError{text: text}
}

// endError is the reason for which ssh ended, in its own words. The message has the beginning.
type endError struct{ text string }

func (e *endError) Error() string { return remote.OneLine(e.text, maxReason) }

const maxMessages = 8 << 10

// tail keeps the last bytes that a program wrote.
type tail struct {
	mu   sync.Mutex
	data []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if len(t.data) > maxMessages {
		t.data = slices.Clone(t.data[len(t.data)-maxMessages:])
	}
	return len(p), nil
}

// noise has the beginnings of lines that ssh writes about connections that work, or around others.
var noise = []string{"Warning: Permanently added", "@@@@", "debug", "** ", "Authenticated to", "Transferred:", "Bytes per second:"}

// maxReason is the most bytes of a server's or ssh's reason in an error.
const maxReason = 400

// text returns the messages as one line that can be shown.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for line := range strings.Lines(string(t.data)) {
		if !slices.ContainsFunc(noise, func(start string) bool { return strings.HasPrefix(line, start) }) {
			lines = append(lines, line)
		}
	}
	return remote.OneLine(strings.Join(lines, " "), maxMessages)
}
