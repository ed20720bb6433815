// Package dir is a remote in a folder on a disk or a network file system. A
// blob is a file. It is written in the folder tmp and then linked to its name,
// because a link is made at most once. When a call returns, the file and its
// parent folders are on disk.
//
// Inside the folder, no symbolic link is followed; the folder itself may be
// one. Files of other programs are ignored if their names cannot be blobs.
// docs/format/remote.md describes the layout.
package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/remote"
)

// Backend is a folder as a [remote.Backend].
type Backend struct {
	root string // absolute

	// durable has the folders, relative to root, whose own entries this
	// process knows to be on disk.
	durable sync.Map

	home home
	own  atomic.Bool // the folder is known to be a remote's, or empty

	// Replaced by tests: linkat, renameNew, (*os.File).ReadAt.
	link, rename move
	readAt       func(f *os.File, p []byte, off int64) (int, error)
}

// Open opens the folder of a path or a file URL. A relative path is relative
// to env.Dir; nothing else of env is used. If only the parent folder exists,
// the first write makes the folder. Until then, reads return
// remote.ErrNoStore. Writes return remote.ErrUnsupported if the folder is no
// remote and has other files. All calls use the folder that was found first.
// If the path leads to another one later, their error wraps a *disk.AwayError.
func Open(ctx context.Context, rawURL string, env remote.Env) (remote.Backend, error) {
	b, err := open(ctx, rawURL, env.Dir)
	if err != nil {
		return nil, wrapError("open", "", err)
	}
	return b, nil
}

func open(ctx context.Context, rawURL, dir string) (*Backend, error) {
	root, err := parsePath(rawURL, dir)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}

	b := &Backend{root: root, link: linkat, rename: renameNew, readAt: (*os.File).ReadAt}
	d, err := b.openRoot()
	if err == nil {
		return b, d.Close()
	}
	if _, statErr := os.Stat(root); errors.Is(statErr, fs.ErrNotExist) {
		err = noStore(checkFolder(filepath.Dir(root)))
	}
	if err != nil {
		return nil, err
	}

	return b, nil
}

func checkFolder(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return &fs.PathError{Op: "open", Path: path, Err: errNotFolder}
	}
	return err
}

// parsePath returns the absolute path for a URL or path.
func parsePath(rawURL, dir string) (string, error) {
	bad := func(reason string) (string, error) {
		return "", &kindError{remote.ErrURL, fmt.Errorf("%q: %s", remote.Redact(rawURL), reason)}
	}

	path := rawURL
	if i := strings.Index(rawURL, "://"); i >= 0 && strings.EqualFold(rawURL[:i], "file") {
		u, err := url.Parse(rawURL)
		switch {
		case err != nil:
			return bad("it cannot be parsed")
		case u.Host != "" || u.User != nil:
			return bad("write file:///path, with three slashes")
		case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
			return bad("'?' and '#' in the path are written %3F and %23")
		}
		path = u.Path
	}

	switch {
	case path == "":
		return bad("there is no path in it")
	case strings.ContainsRune(path, 0):
		return bad("no path has a NUL in it")
	case filepath.IsAbs(path):
		return filepath.Clean(path), nil
	case !filepath.IsAbs(dir):
		return bad("it is not known what the path is relative to")
	}

	return filepath.Join(dir, path), nil
}

// A move gives the file a name in another folder, if the name is free.
type move func(from *os.File, name string, to *os.File, newName string) error

func linkat(from *os.File, name string, to *os.File, newName string) error {
	return callRetrying("link", to, newName, func(fd int) error { return unix.Linkat(int(from.Fd()), name, fd, newName, 0) })
}

// placeFile gives a written file its final name if that is free: by a link or,
// without support for links, by renaming. It does not trust the answer. A
// network file system may repeat a request and then report that the name is
// taken, by the file itself. Old clients report success although another file
// has the name.
func (b *Backend) placeFile(t *temp, d *os.File, name string) error {
	err := b.link(t.folder, t.name, d, name)
	if !isUnsupported(err) {
		return b.settleMove(d, name, err, func(st *unix.Stat_t) (bool, error) {
			if st.Dev == t.st.Dev && st.Ino == t.st.Ino {
				return true, nil
			}
			if err != nil || st.Size != t.st.Size {
				return false, nil
			}
			return sameContent(t, d, name) // this file system gives every link its own inode number
		})
	}

	linkErr := err
	if err = b.rename(t.folder, t.name, d, name); isUnsupported(err) && !errors.Is(err, unix.EPERM) {
		return &kindError{remote.ErrUnsupported, fmt.Errorf("the file system has neither hard links (%w) nor a rename that replaces nothing (%w)", linkErr, err)}
	}

	return b.settleMove(d, name, err, func(st *unix.Stat_t) (bool, error) {
		_, statErr := lstat(t.folder, t.name)
		if errors.Is(statErr, fs.ErrNotExist) {
			return st.Size == t.st.Size, nil
		}
		return false, statErr
	})
}

// settleMove finds out whether a move took place. Err is the error of the move.
// isOurs reports whether the file that has the name now is ours.
func (b *Backend) settleMove(d *os.File, name string, err error, isOurs func(*unix.Stat_t) (bool, error)) error {
	st, statErr := lstat(d, name)
	if statErr != nil {
		if err == nil || errors.Is(err, fs.ErrExist) {
			err = statErr
		}
		return err
	}

	ours, lookErr := isOurs(st)
	switch {
	case ours:
		return nil
	case lookErr != nil:
		return &kindError{remote.ErrTemporary, lookErr} // unknown whose file it is
	case err == nil || errors.Is(err, fs.ErrExist):
		return describeObstacle(d, name, st)
	}

	return err
}

// isUnsupported reports whether a move failed because the file system does not
// support it. Many return EPERM then.
func isUnsupported(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains([]syscall.Errno{unix.EPERM, unix.ENOTSUP, unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL, unix.EMLINK}, errno)
}

// sameContent reports whether the file with a name has the written bytes.
func sameContent(t *temp, d *os.File, name string) (bool, error) {
	one, err := openAt(t.folder, t.name, unix.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer one.Close()
	two, err := openAt(d, name, unix.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer two.Close()
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	for off := int64(0); ; off += int64(len(a)) {
		n, errA := one.ReadAt(a, off)
		m, errB := two.ReadAt(b, off)
		for _, err := range []error{errA, errB} {
			if err != nil && err != io.EOF {
				return false, err
			}
		}
		if !bytes.Equal(a[:n], b[:m]) {
			return false, nil
		}
		if errA == io.EOF || errB == io.EOF {
			return errA == errB, nil
		}
	}
}

// checkForeign refuses a folder that is no remote and has other files, so that
// a remote is never mixed with them by mistake. Once a folder is a remote,
// other files are ignored.
func (b *Backend) checkForeign(d *os.File) error {
	if _, err := lstat(d, "kist.json"); !errors.Is(err, fs.ErrNotExist) {
		b.own.Store(err == nil)
		return err
	}

	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}

	if name := remote.FindForeign(names); name != "" {
		return &kindError{remote.ErrUnsupported, &remote.ForeignError{Folder: b.root, File: name}}
	}

	b.own.Store(true)
	return nil
}

var errNotFolder = errors.New("not a folder")

// kindError is an error of this package with its kind.
type kindError struct{ kind, err error }

func (e *kindError) Error() string { return e.err.Error() }

func (e *kindError) Unwrap() error { return e.err }

// noStore returns an ErrNoStore if err means that the remote's folder or its
// parent does not exist or is no folder.
func noStore(err error) error {
	switch at, ok := errors.AsType[*fs.PathError](err); {
	case ok && errors.Is(err, fs.ErrNotExist):
		return &kindError{remote.ErrNoStore, fmt.Errorf("folder %q does not exist", at.Path)}
	case errors.Is(err, errNotFolder) || errors.Is(err, syscall.ENOTDIR):
		return &kindError{remote.ErrNoStore, err}
	}
	return err
}

// wrapError returns err as an error of an operation.
func wrapError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	e := &remote.Error{Op: op, Name: name, Kind: kindOf(err), Err: err}
	if e.Kind == remote.ErrNotFound && errors.Is(err, syscall.ENOENT) {
		e.Err = nil // adds nothing
	}
	return e
}

// failStore is wrapError for an operation that stores. A missing file or folder
// then means that another process removed it just now, such as the file in
// tmp.
func failStore(op, name string, err error) error {
	if kindOf(err) == remote.ErrNotFound {
		err = &kindError{remote.ErrTemporary, err}
	}
	return wrapError(op, name, err)
}

func kindOf(err error) error {
	if known, ok := errors.AsType[*kindError](err); ok {
		return known.kind
	}

	switch errno, _ := errors.AsType[syscall.Errno](err); errno {
	case syscall.ENOENT:
		return remote.ErrNotFound
	case syscall.EACCES, syscall.EPERM, syscall.EROFS:
		return remote.ErrPermission
	case syscall.ENOSPC, syscall.EDQUOT:
		return remote.ErrFull
	case syscall.ESTALE, syscall.EINTR, syscall.ETIMEDOUT:
		return remote.ErrTemporary
	}

	return nil
}
