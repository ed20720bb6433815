package sftp

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"testing"

	"github.com/pkg/sftp"

	"github.com/kist-vcs/kist/remote/remotetest"
)

// streamServer is a server that passes files on as streams, as that of rclone does without a cache: a file takes its bytes
// only in order, and has its name when it is closed. A rename replaces. There are no syncs, and a link
// is not made, but reported as made.
type streamServer struct{}

// stream is a file that is written in order.
type stream struct {
	*os.File
	mu      sync.Mutex
	moved   *sync.Cond // at has moved
	at      int64
	waiting map[int64]bool // the places of writes under way
}

// workers is the number of writes that the server accepts at once.
const workers = 8

// WriteAt waits for its turn. It fails if no write under way is next.
func (s *stream) WriteAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[off] = true
	defer delete(s.waiting, off)
	for off != s.at {
		if len(s.waiting) == workers && !s.waiting[s.at] {
			return 0, errors.New("a write out of order")
		}
		s.moved.Wait()
	}
	n, err := s.File.WriteAt(p, off)
	s.at += int64(n)
	s.moved.Broadcast()
	return n, err
}

func (streamServer) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	f, err := os.OpenFile(r.Filepath, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	s := &stream{File: f, waiting: map[int64]bool{}}
	s.moved = sync.NewCond(&s.mu)
	return s, nil
}

func (streamServer) Fileread(r *sftp.Request) (io.ReaderAt, error) { return os.Open(r.Filepath) }

func (streamServer) Filecmd(r *sftp.Request) error {
	switch r.Method {
	case "Rename":
		return os.Rename(r.Filepath, r.Target)
	case "Remove":
		return os.Remove(r.Filepath)
	case "Mkdir":
		return os.Mkdir(r.Filepath, 0o700)
	}
	return nil // also for links
}

func (streamServer) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if r.Method != "List" {
		info, err := os.Stat(r.Filepath)
		return infos{info}, err
	}
	entries, err := os.ReadDir(r.Filepath)
	var list infos
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			list = append(list, info)
		}
	}
	return list, err
}

// infos is a complete list.
type infos []fs.FileInfo

func (l infos) ListAt(p []fs.FileInfo, off int64) (int, error) {
	if off >= int64(len(l)) {
		return 0, io.EOF
	}
	n := copy(p, l[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func serveStreams(testing.TB) dialer {
	return func(context.Context) (link, error) {
		return serveInMemory(func(rw io.ReadWriteCloser) {
			s := streamServer{}
			_ = sftp.NewRequestServer(rw, sftp.Handlers{FileGet: s, FilePut: s, FileCmd: s, FileList: s}).Serve() // the error is the end of the connection
		}), nil
	}
}

// A server that takes files as streams passes the suite with the calls of one process.
func TestStreamServer(t *testing.T) { remotetest.Run(t, in(serveStreams(t), same)) }
