// Package mount shows history as a file system of the system, by FUSE.
package mount

import (
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/kist-vcs/kist/tree/look/browse"
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
	Warn  func(string) // receives the reasons of failed reads, in the words of Words

	Words func(error) string
}

// Mounted is a mounted history.
type Mounted struct {
	folder *Folder
	server *fuse.Server
	ended  chan struct{}
}

// Mount shows a folder of a history in an empty folder. The caller calls Unmount, or waits
// for Ended.
func Mount(f *Folder, n *browse.Node, o Options) (*Mounted, error) {
	if names, _ := f.dir.Readdirnames(1); len(names) > 0 {
		return nil, fmt.Errorf("%q %w", f.path, ErrNotEmpty)
	}
	if _, err := os.Stat("/dev/fuse"); err != nil && isLinux {
		return nil, fmt.Errorf("%w (%v)", ErrNoFUSE, err)
	}
	path, err := f.mountFolder(&o)
	if err != nil {
		return nil, fmt.Errorf("mount %q: %w", f.path, err)
	}
	options := []string{"ro", "nosuid", "nodev"}
	if o.Other {
		options = append(options, "default_permissions")
	}
	server, err := fuse.NewServer(newFileSystem(n, o), path, &fuse.MountOptions{
		AllowOther: o.Other, Options: options, FsName: o.Name, Name: "kist",
		MaxWrite: maxRead, MaxReadAhead: maxRead, MaxBackground: 64, EnableSymlinkCaching: true,
		Logger: log.New(warnWriter(o.Warn), "", 0),
	})
	m := &Mounted{folder: f, server: server, ended: make(chan struct{})}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%w: the program fusermount3 is missing", ErrNoFUSE)
	case err != nil:
		if path != f.path { // f.mount has mounted it
			err = errors.Join(err, m.detachFolder())
		}
		return nil, fmt.Errorf("mount %q: %s", f.path, strings.TrimSpace(err.Error()))
	}
	addProcs()
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

// Ended is closed when the history is no longer mounted.
func (m *Mounted) Ended() <-chan struct{} { return m.ended }

// Unmount ends the mount. If programs use files there, it reports that they are cut off.
func (m *Mounted) Unmount() (inUse bool, err error) {
	if m.unmountFolder() == nil {
		<-m.ended
		return false, nil
	}
	select {
	case <-m.ended:
		return false, nil
	default:
	}
	return true, m.detachFolder()
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

func (w *warnings) addWarning(text string) {
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
