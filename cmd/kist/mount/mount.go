// Package mount shows history as a file system of the system, by FUSE.
package mount

import (
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/kist-vcs/kist/tree/browse"
)

// Errors of Mount about the folder.
var (
	ErrNotFolder = errors.New("is not a folder")
	ErrNotEmpty  = errors.New("is not empty")
	ErrDead      = errors.New("is still mounted by a kist that died")
	ErrNoFUSE    = errors.New("this system cannot mount: it has no FUSE")
)

// Options configure a mount.
type Options struct {
	Name  string       // of the history, as the system lists it
	Other bool         // let other users look, as far as the recorded permissions allow it
	Warn  func(string) // receives the reasons of failed reads
}

// Mounted is a mounted history.
type Mounted struct {
	dir    string
	server *fuse.Server
	ended  chan struct{}
}

// Mount shows a folder of a history in an empty folder. The caller calls Unmount, or waits
// for Ended.
func Mount(dir string, n *browse.Node, o Options) (*Mounted, error) {
	dir, err := checkFolder(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat("/dev/fuse"); err != nil && isLinux {
		return nil, fmt.Errorf("%w (%v)", ErrNoFUSE, err)
	}
	options := []string{"ro", "nosuid", "nodev"}
	if o.Other {
		options = append(options, "default_permissions")
	}
	server, err := fuse.NewServer(newFileSystem(n, o.Warn), dir, &fuse.MountOptions{
		AllowOther: o.Other, Options: options, FsName: o.Name, Name: "kist",
		MaxWrite: maxRead, MaxReadAhead: maxRead, MaxBackground: 64, EnableSymlinkCaching: true,
		DirectMount: os.Geteuid() == 0, Logger: log.New(warnWriter(o.Warn), "", 0),
	})
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%w: the program fusermount3 is missing", ErrNoFUSE)
	case err != nil:
		return nil, fmt.Errorf("mount %q: %s", dir, strings.TrimSpace(err.Error()))
	}
	addProcs()
	m := &Mounted{dir: dir, server: server, ended: make(chan struct{})}
	go func() {
		server.Serve()
		close(m.ended)
	}()
	return m, server.WaitMount()
}

// addProcs lets two more goroutines run at once. A goroutine that waits for a request of the
// system counts as running until the runtime notices. That takes up to 10 ms.
var addProcs = sync.OnceFunc(func() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2) })

// maxRead is the size of the largest read, in bytes.
const maxRead = 1 << 20

// checkFolder returns the absolute path of a folder that a mount may cover.
func checkFolder(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	info, err := os.Lstat(dir)
	var f *os.File
	if err == nil && info.IsDir() {
		f, err = os.Open(dir) // of a dead mount, only this may fail: the system remembers what Lstat returns
	}
	switch {
	case errors.Is(err, syscall.ENOTCONN):
		return "", fmt.Errorf("%q %w", dir, ErrDead)
	case err != nil:
		return "", err
	case f == nil:
		return "", fmt.Errorf("%q %w", dir, ErrNotFolder)
	}
	defer f.Close()
	if names, _ := f.Readdirnames(1); len(names) > 0 {
		return "", fmt.Errorf("%q %w", dir, ErrNotEmpty)
	}
	return dir, nil
}

// Ended is closed when the history is no longer mounted.
func (m *Mounted) Ended() <-chan struct{} { return m.ended }

// Unmount ends the mount. If programs use files there, it reports that they are cut off.
func (m *Mounted) Unmount() (inUse bool, err error) {
	if m.server.Unmount() == nil {
		<-m.ended
		return false, nil
	}
	select {
	case <-m.ended:
		return false, nil
	default:
	}
	return true, detach(m.dir)
}

// warnWriter passes lines of a log on.
type warnWriter func(string)

func (w warnWriter) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

// warnings passes each text on once.
type warnings struct {
	warn func(string)

	mu   sync.Mutex
	seen map[string]bool
}

// maxWarnings is the number of texts after which warnings is silent.
const maxWarnings = 1000

func (w *warnings) add(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[text] || len(w.seen) >= maxWarnings {
		return
	}
	w.seen[text] = true
	w.warn(text)
	if len(w.seen) == maxWarnings {
		w.warn("further warnings are not shown")
	}
}
