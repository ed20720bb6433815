// Package worktree works on the versioned files: it finds changes since they
// were staged, stores files as objects, and writes objects back as files.
//
// [Open] is for real folders. It opens every component of a path without
// following symlinks, and reads a folder of many files with few system calls.
// [New] is for any go-billy file system.
//
// docs/worktree.md has the promises to users.
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

// Options configure a [Worktree].
type Options struct {
	Chunker *chunker.Chunker // cuts file content; needed for storing

	// Objects has the chunk lists of known files. Some of them may come from
	// another chunker. It may be nil.
	Objects object.Reader

	// Now is the clock for the times at which files are read. Storing and
	// applying need it. It must not run backwards, but it may be wrong.
	Now func() time.Time

	// Jobs is how many files are read or written at once. Default: one for
	// each processor.
	Jobs int

	// Umask has the permission bits that written files and folders never get.
	Umask uint16

	// SetID keeps the set-user-ID and set-group-ID bits of entries when files
	// are written. Otherwise these bits are left out.
	SetID bool

	// Git permits changes of git's own folders. Otherwise no method makes, changes or
	// removes an entry with a form of the name .git, or below one.
	Git bool

	// Metadata records owners, extended attributes, devices and hard links, and the
	// times of folders.
	Metadata bool

	// Xattrs selects the extended attributes that are read and written, see [SelectXattrs].
	// Others are not recorded, and stay as they are in existing folders. Nil: all.
	Xattrs wantXattr

	// IgnoreFiles are the names of the files with ignore patterns. Patterns of a later one
	// take precedence. Default: [IgnoreFile].
	IgnoreFiles []string

	// RepoName is the path of the repository's own folder. No method reads or
	// writes it. Default ".kist".
	RepoName string

	// TempDir is the path of a folder for temporary files on the same file
	// system, normally ".kist/tmp". It is made if absent. If it cannot be
	// used, a temporary file lies beside the file that it becomes.
	TempDir string

	// Roots are the only paths that Scan sees, with the folders above them. Then
	// Apply refuses to write. A root that is missing, or empty though the index has
	// content of it, may be a disk that is not mounted: it is Unreadable. So is a
	// symlink as a root, or above one. Nil: everything.
	Roots []string

	// Remotes are the paths of folders with remotes of the repository. A scan reports them as
	// Nested, with [ErrRemote]: their content must not become part of itself.
	Remotes []string
}

// writtenMode returns the permission bits that a file gets if its entry has mode.
func (o *Options) writtenMode(mode uint16) uint16 {
	mode &^= o.Umask & 0o777
	if !o.SetID {
		mode &^= setID
	}
	return mode
}

// setID are the set-user-ID and set-group-ID bits.
const setID = 0o6000

// modeToRecord returns the mode to record for a path in the folder d, with the permission bits
// found. Known is the mode of its present entry. Bits that kist would not
// write stay recorded, and bits that come from d do not count.
func (o *Options) modeToRecord(d folder, found foundPerm, known uint16, isDir bool) uint16 {
	bits := found.alone
	hasACL := bits != found.all
	if bits == known || !hasACL && (bits == o.writtenMode(known) || bits == known&^(o.Umask&0o777)) {
		return known
	}
	inherits := inheritanceOf(d) // the ACL may be that of d
	if (!hasACL || inherits.acl != "") && found.all == inherits.newMode(o, known, isDir) {
		return known
	}
	return bits
}

// foundPerm are the permission bits of a path: all that the system reports, and those to record,
// which stand without an ACL if the entry does not get it.
type foundPerm struct{ all, alone uint16 }

// findPerm returns the permission bits of a path with stat data st. With an ACL, those of the
// group are the mask of the ACL: alone, they would give the owning group the rights of all whom
// the ACL names. Xattrs reads the extended attributes. An ACL that cannot be read does not count.
func (o *Options) findPerm(st *fileStat, xattrs func(wantXattr) (map[string][]byte, error)) foundPerm {
	found := foundPerm{st.perm(), st.perm()}
	if found.all&0o070 == 0 || st.entryType() == object.TypeSymlink || o.Metadata && o.Xattrs.selects(tree.AccessACL) {
		return found
	}
	all, err := xattrs(func(name string) bool { return name == tree.AccessACL })
	if err != nil || all[tree.AccessACL] == nil {
		return found
	}
	if acl, err := tree.DecodeACL(all[tree.AccessACL]); err == nil {
		found.alone &= acl.PermAlone() | ^uint16(0o777)
	}
	return found
}

// Worktree is a folder of versioned files. Paths are repository paths in the
// form that [tree.CleanPath] returns. A Worktree of [Open] is safe for concurrent use.
// Concurrent changes of the same file happen in any order.
type Worktree struct {
	fs                opener
	opt               Options
	repoDir, repoBase string // Options.RepoName, split

	gitMu sync.Mutex      // guards the following
	git   map[string]bool // by path: the folders of git that scans left out, and whether the index has them

	repo func() (fileStat, bool) // the repository's own folder, if there is one

	clockOnce sync.Once
	clockAt   time.Duration // how far the file system's clock is ahead of Now
	clockDev  uint64        // the device with this clock; 0: unknown

	early atomic.Pointer[EarlyWriter] // nil: no WriteEarly is under way

	unrecorded *Unrecorded // nil: they are not counted
}

// Errors of single paths.
var (
	// ErrGone means that, since the scan, the file was removed or replaced by
	// something else.
	ErrGone = errors.New("removed or replaced meanwhile")

	// ErrSpecial means that a path is a FIFO, a socket or a device. kist never
	// opens these.
	ErrSpecial = errors.New("special file")

	// ErrRemote means that a folder is a remote of the repository, see [Options.Remotes].
	ErrRemote = errors.New("a remote of this repository")

	errNotRegular = errors.New("not a regular file")
)

// Errors of a Worktree with [Options.Roots].
var (
	ErrNoRoots  = errors.New("no paths are configured")
	ErrReadOnly = errors.New("kist does not write to this worktree")
)

// New returns the Worktree of the files in fsys. Use it from one goroutine at a time,
// because billy promises nothing about concurrent use. Use [Open] for real folders.
func New(fsys billy.Filesystem, o Options) *Worktree {
	o.Jobs = 1
	return newWorktree(&pathFS{fsys}, o)
}

// OfMissing returns the Worktree of a folder that does not exist: it has no files, and nothing
// can be written.
func OfMissing(o Options) *Worktree { return newWorktree(missingFS{}, o) }

type missingFS struct{}

func (missingFS) openFolder(string) (folder, error) { return nil, fs.ErrNotExist }

func newWorktree(fsys opener, o Options) *Worktree {
	if o.Jobs <= 0 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	if o.RepoName == "" {
		o.RepoName = ".kist"
	}
	if o.IgnoreFiles == nil {
		o.IgnoreFiles = []string{IgnoreFile}
	}

	w := &Worktree{fs: fsys, opt: o}
	w.repoDir, w.repoBase = tree.Split(o.RepoName)
	w.repo = sync.OnceValues(w.findRepo)
	return w
}

// RootsOf returns the paths that a scan of w sees, see [Options.Roots]: only "" if that is nil.
func RootsOf(w *Worktree) []string {
	if w.opt.Roots == nil {
		return []string{""}
	}
	return w.opt.Roots
}

// findRepo looks for the repository's own folder.
func (w *Worktree) findRepo() (fileStat, bool) {
	parent, err := w.fs.openFolder(w.repoDir)
	if err != nil {
		return fileStat{}, false
	}
	defer parent.Close()
	st, err := parent.lstat(w.repoBase)
	return st, err == nil && st.isDir()
}

// isRepo reports whether st is the repository's own folder. It compares
// inodes, so the folder's name does not matter.
func (w *Worktree) isRepo(st *fileStat) bool {
	repo, ok := w.repo()
	return ok && repo.ino != 0 && repo.ino == st.ino && repo.dev == st.dev
}

// openFolder opens a folder of the worktree, but never the repository's own.
// The error is a [*fs.PathError].
func (w *Worktree) openFolder(path string) (folder, error) {
	for name := range strings.SplitSeq(path, "/") {
		if name == w.opt.RepoName || tree.Below(path, w.opt.RepoName) {
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

	if err := w.refuseRepo(d); err != nil {
		d.Close()
		return nil, pathError("open", path, err)
	}

	return d, nil
}

// IsMountPoint reports whether a file system is mounted on a folder of a worktree, or "" for
// the worktree's own. It is false for a worktree of [New].
func IsMountPoint(w *Worktree, dir string) (bool, error) {
	d, err := w.fs.openFolder(dir)
	if err != nil {
		return false, pathError("open", dir, err)
	}
	defer d.Close()

	of, ok := d.(*osFolder)
	if !ok {
		return false, nil
	}
	mounted, err := of.isMountPoint()
	if err != nil {
		return false, pathError("stat", dir, err)
	}
	return mounted, nil
}

// refuseRepo returns an error if d is the repository's own folder.
func (w *Worktree) refuseRepo(d folder) error {
	st, err := d.lstat("")
	if err == nil && w.isRepo(&st) {
		err = errRepository
	}
	return err
}

var errRepository = errors.New("the repository's own folder")

// pathError adds a path of the worktree to an error, unless the error has it
// already.
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

// cleanPath checks and cleans a path from a caller.
func cleanPath(path string) (string, error) {
	clean, err := tree.CleanPath(path)
	if err != nil {
		return "", fmt.Errorf("worktree: %w", err)
	}
	return clean, nil
}

// cutPath returns the first name of a path and the rest.
func cutPath(path string) (name, rest string) {
	name, rest, _ = strings.Cut(path, "/")
	return name, rest
}

// readClock returns the time by the file system's clock, which files' times
// can be compared with. It is in nanoseconds since 1970.
func (w *Worktree) readClock() int64 {
	w.clockOnce.Do(w.probeClock)
	return w.opt.Now().Add(w.clockAt).UnixNano()
}

// probeClock measures the difference between the file system's clock and ours
// by making a file. If that fails, the clocks count as equal.
func (w *Worktree) probeClock() {
	tmp, err := w.newTemp()
	if err != nil {
		return
	}
	defer tmp.close()

	at := tmp.newPlace(nil)
	f, err := at.dir.create(at.name, 0o600)
	if err != nil {
		return
	}
	defer at.removeTemp()
	defer f.Close()

	if st, err := f.stat(); err == nil && st.ino != 0 {
		w.clockAt = time.Unix(st.mtime.Sec, int64(st.mtime.Nsec)).Sub(w.opt.Now())
		w.clockDev = st.dev
	}
}
