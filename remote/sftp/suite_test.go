package sftp

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pkg/sftp"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// sftpServer returns a dialer that runs OpenSSH's sftp-server, without ssh.
func sftpServer(t testing.TB) dialer {
	path := remotetest.SFTPServer(t)
	return func(ctx context.Context) (link, error) { return start(ctx, []string{path}) }
}

// memoryLink is a link to a server in this process.
type memoryLink struct {
	io.Reader
	io.WriteCloser
	ended chan struct{}
	end   func()
	once  sync.Once
}

func (l *memoryLink) End()        { l.once.Do(l.end) }
func (l *memoryLink) Wait() error { <-l.ended; return nil }

// goServer returns a dialer for the server of pkg/sftp. It knows neither fsync nor renames that refuse.
func goServer(t testing.TB) dialer {
	return func(context.Context) (link, error) {
		return serveInMemory(func(rw io.ReadWriteCloser) {
			server, err := sftp.NewServer(rw)
			if err != nil {
				t.Error(err)
				return
			}
			_ = server.Serve() // the error is the end of the connection
		}), nil
	}
}

// serveInMemory returns a link to a server that a function serves.
func serveInMemory(serve func(rw io.ReadWriteCloser)) link {
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	l := &memoryLink{Reader: out, WriteCloser: in, ended: make(chan struct{})}
	l.end = func() {
		in.Close()
		out.Close()
	}
	go func() {
		defer close(l.ended)
		defer theirOut.Close()
		defer theirIn.Close()
		serve(struct {
			io.Reader
			io.WriteCloser
		}{theirIn, theirOut})
	}()
	return l
}

// in returns a function that opens a new folder over a dialer.
func in(dial dialer, change func(*Backend)) func(*testing.T) remote.Backend {
	return func(t *testing.T) remote.Backend {
		root := memoryFolder(t)
		b := newBackend(dial, root, 3)
		change(b)
		t.Cleanup(func() {
			b.Close()
			if left, _ := filepath.Glob(filepath.Join(root, remote.TempFolder, "*")); len(left) > 0 {
				t.Errorf("temporary files left: %q", left)
			}
		})
		return b
	}
}

// memoryFolder returns a new folder, in memory if there is such a disk.
func memoryFolder(t testing.TB) string {
	root, err := os.MkdirTemp("/dev/shm", "kist")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	return root
}

func same(*Backend) {}

func TestSFTPServer(t *testing.T) { remotetest.Run(t, in(sftpServer(t), same)) }

func TestGoServer(t *testing.T) { remotetest.Run(t, in(goServer(t), same)) }

// The suite over ssh and sshd, with one connection for each check.
func TestSSHD(t *testing.T) {
	s := remotetest.NewSSHServer(t, remotetest.SSHOptions{})
	remotetest.Run(t, func(t *testing.T) remote.Backend {
		b, err := Open(t.Context(), s.URL(memoryFolder(t)), remote.Env{SSH: strings.Fields(s.Command()), Jobs: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	})
}
