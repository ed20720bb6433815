// Package worktree works on the files that are versioned: it finds what has
// changed since it was staged, stores files as objects, and writes objects
// back as files, on any go-billy file system.
//
// [OS] is a billy file system on a real folder. It opens every component of a
// path without following symlinks, and gives a [Worktree] ways to read a
// folder of many files with few system calls.
//
// What a user may rely on is written down in docs/worktree.md.
package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-git/go-billy/v5"

	"github.com/kist-vcs/kist/chunker"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// Options are what a [Worktree] needs besides its files.
type Options struct {
	Chunker *chunker.Chunker // how file content is cut; needed for storing

	// Objects has the lists of chunks of files that are known, some of which may
	// be cut as another chunker does. nil: there are none.
	Objects object.Reader

	// Now is the clock, by which it is noted when a file was read; needed for
	// storing and applying. It must go on as time does, but need not be right.
	Now func() time.Time

	// Jobs is how many files are read or written at once. Default: one for
	// each processor.
	Jobs int

	// Umask has the permission bits that no file or folder gets that is written.
	Umask uint16

	// SetID lets files be written that run as their owner or group: with the
	// set-user-ID and set-group-ID bits of their entries.
	SetID bool

	// RepoName is the name of the repository's own folder in the root, which
	// no method looks into or writes to. Default ".kist".
	RepoName string

	// TempDir is the path of a folder for temporary files on the same file
	// system, normally ".kist/tmp". It is made if absent. Where it cannot be
	// used, temporary files lie beside those they become.
	TempDir string
}

// written returns the permission bits with which an entry of a mode is written.
func (o *Options) written(mode uint16) uint16 {
	mode &^= o.Umask & 0o777
	if !o.SetID {
		mode &^= setID
	}
	return mode
}

// setID has the set-user-ID and set-group-ID bits.
const setID = 0o6000

// recorded returns the mode to record for permission bits that are found at an
// entry with the mode known. Bits that would not be written stay recorded.
func (o *Options) recorded(found, known uint16) uint16 {
	if found == o.written(known) || found == known&^(o.Umask&0o777) {
		return known
	}
	return found
}

// Worktree is a folder of versioned files. Paths are repository paths as
// [tree.CleanPath] makes them. A Worktree is safe for concurrent use, as far as
// changing the same files from two sides can be.
type Worktree struct {
	fs   opener
	opt  Options
	repo func() (fileStat, bool) // the repository's own folder, if there is one

	foldsCase func() bool // names that differ in case only are the same

	clockOnce sync.Once
	clockAt   time.Duration // how far the file system's clock is ahead of Now
	clockDev  uint64        // the file system with this clock; 0: it was not found

	ahead atomic.Pointer[Ahead] // nil: nothing is written ahead
}

// Errors of single paths.
var (
	// ErrGone says that a file was removed, or something else took its place,
	// since it was found.
	ErrGone = errors.New("gone meanwhile")

	// ErrSpecial says that a path is a FIFO, a socket or a device, which is
	// never opened.
	ErrSpecial = errors.New("special file")

	errNotRegular = errors.New("not a regular file")
)

// New returns the Worktree of the files in fsys. Use [OS] for real folders.
// Other file systems are used by one goroutine at a time.
func New(fsys billy.Filesystem, o Options) *Worktree {
	if o.Jobs <= 0 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	if o.RepoName == "" {
		o.RepoName = ".kist"
	}
	w := &Worktree{opt: o}
	if op, ok := fsys.(opener); ok {
		w.fs = op
	} else {
		w.fs = &pathFS{fs: fsys}
	}
	w.repo = sync.OnceValues(w.findRepo)
	w.foldsCase = sync.OnceValue(w.findFold)
	return w
}

// findRepo looks for the repository's own folder.
func (w *Worktree) findRepo() (fileStat, bool) {
	root, err := w.fs.openFolder("")
	if err != nil {
		return fileStat{}, false
	}
	defer root.Close()
	st, err := root.lstat(w.opt.RepoName)
	return st, err == nil && st.isDir()
}

// isRepo reports whether st is the repository's own folder, under whatever
// name it was found.
func (w *Worktree) isRepo(st *fileStat) bool {
	repo, ok := w.repo()
	return ok && repo.ino != 0 && repo.ino == st.ino && repo.dev == st.dev
}

// openFolder opens a folder of the worktree, never the repository's own. The
// error is a [*fs.PathError].
func (w *Worktree) openFolder(path string) (folder, error) {
	for name := range strings.SplitSeq(path, "/") {
		if name == w.opt.RepoName {
			return nil, pathError("open", path, errRepository)
		}
	}
	d, err := w.fs.openFolder(path)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	if path == "" {
		return d, nil
	}
	st, err := d.self()
	if err == nil && w.isRepo(&st) {
		err = errRepository
	}
	if err != nil {
		d.Close()
		return nil, pathError("open", path, err)
	}
	return d, nil
}

var errRepository = errors.New("the repository's own folder")

// pathError adds a path of the worktree to an error, once.
func pathError(op, path string, err error) error {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		if inner.Path == path {
			return err
		}
		err = inner.Err
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// cleanPaths checks paths from outside.
func cleanPath(path string) (string, error) {
	clean, err := tree.CleanPath(path)
	if err != nil {
		return "", fmt.Errorf("worktree: %w", err)
	}
	return clean, nil
}

// cutPath cuts the first name off a path.
func cutPath(path string) (name, rest string) {
	name, rest, _ = strings.Cut(path, "/")
	return name, rest
}

// readClock returns the time in nanoseconds since 1970 by the file system's
// clock, with which files' times can be compared.
func (w *Worktree) readClock() int64 {
	w.clockOnce.Do(w.probeClock)
	return w.opt.Now().Add(w.clockAt).UnixNano()
}

// probeClock compares the file system's clock with ours by making a file. If
// that does not work, they are taken to agree.
func (w *Worktree) probeClock() {
	tmp, err := w.newTemp()
	if err != nil {
		return
	}
	defer tmp.close()
	at := tmp.stage(nil)
	f, err := at.dir.create(at.name, 0o600)
	if err != nil {
		return
	}
	defer at.drop()
	defer f.Close()
	if st, err := f.stat(); err == nil && st.ino != 0 {
		w.clockAt = time.Unix(st.mtime.Sec, int64(st.mtime.Nsec)).Sub(w.opt.Now())
		w.clockDev = st.dev
	}
}
