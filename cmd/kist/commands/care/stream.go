package care

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/tree"
)

// streamPath returns the path of the file that the stream becomes.
func (b *backupCommand) streamPath(args []string) (string, error) {
	option, name := "--stdin", b.Stdin
	if name == "" {
		option, name = "--stdin-from-command", b.Command
	}
	path, err := tree.CleanPath(strings.TrimLeft(name, "/"))
	switch {
	case err != nil:
		return "", cli.Usagef("%s: %w", option, err)
	case path == "":
		return "", cli.Usagef("%s: %s is not the name of a file", option, cli.QuoteArg(name))
	case b.Command == "" && len(args) > 0:
		return "", cli.Usagef("--stdin is the only file of a backup: a PATH cannot be given, too")
	case b.Command != "" && len(args) == 0:
		return "", cli.Usagef("--stdin-from-command needs a command after --")
	case !b.repo.IsBare() || len(b.repo.Config().Values(kist.KeyBackupPaths)) > 0:
		// A backup of paths would delete the file, which none of them has.
		return "", cli.Hintf(fmt.Errorf("%s needs a bare repository without backup.paths", option), "'kist init --bare DIR' makes one")
	}
	return path, nil
}

// openStream returns the content of the file. If the command that makes it fails, the last Read
// returns an error. The caller calls end, which stops the command.
func (b *backupCommand) openStream(ctx context.Context, args []string) (r io.Reader, end func(), err error) {
	if b.Command == "" {
		in, fill := io.Pipe()
		go func() { // a Read of standard input cannot be interrupted
			_, err := io.CopyBuffer(fill, struct{ io.Reader }{b.env.Stdin}, make([]byte, 1<<20))
			fill.CloseWithError(err)
		}()
		stop := context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
		return in, func() { stop() }, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := cli.NewCommand(ctx, b.env, args[0], args[1:]...)
	cmd.Stderr = b.env.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	c := &commandOutput{Reader: out, name: args[0], wait: sync.OnceValue(cmd.Wait)}
	return c, func() { cancel(); c.wait() }, nil
}

// commandOutput is the output of a command. Its last Read returns an error if the command
// failed.
type commandOutput struct {
	io.Reader
	name string
	wait func() error // for the end of the command
}

// Read implements [io.Reader].
func (c *commandOutput) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != io.EOF {
		return n, err
	}
	if failed := c.wait(); failed != nil {
		err = fmt.Errorf("the command %s failed, so its output is not backed up: %w", cli.QuoteArg(c.name), failed)
	}
	return n, err
}

// stopTime is how long a command may run on after it was asked to end.
const stopTime = 10 * time.Second
