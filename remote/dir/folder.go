package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote"
)

// openFolder opens the folder at a path below the root, "" for the root. The error
// is ErrNotFound if it does not exist or is no folder.
func (b *Backend) openFolder(dir string) (*os.File, error) {
	return b.openFolders(dir, func(d *os.File, _, name string) (*os.File, error) { return openChild(d, name) })
}

// makeFolder is openFolder, but makes missing folders. When it returns, every folder that
// is new, or new to this process, is on disk.
func (b *Backend) makeFolder(dir string) (*os.File, error) {
	if !b.own.Load() {
		if err := b.makeRoot(); err != nil {
			return nil, err
		}
	}

	return b.openFolders(dir, func(d *os.File, path, name string) (*os.File, error) {
		next, err := openChild(d, name)
		_, durable := b.durable.Load(path)
		if errors.Is(err, fs.ErrNotExist) {
			durable = false
			err = callRetrying("mkdir", d, name, func(fd int) error { return unix.Mkdirat(fd, name, 0o777) })
			if err == nil || errors.Is(err, fs.ErrExist) {
				next, err = openChild(d, name)
			}
		}
		if err == nil && !durable { // another process may have made it just now
			if err = syncFolder(d); err != nil {
				next.Close()
				return nil, err
			}
			b.durable.Store(path, true)
		}
		if known, ok := errors.AsType[*kindError](err); ok && known.kind == remote.ErrNotFound {
			return nil, known.err // a file in its way
		}
		return next, err
	})
}

// makeRoot makes the folder that is the remote, unless it was found before.
func (b *Backend) makeRoot() error {
	d, err := b.openRoot()
	if err == nil {
		defer d.Close()
		return b.checkForeign(d)
	}
	if isAway(err) || kindOf(err) != remote.ErrNoStore {
		return err
	}
	if err := os.Mkdir(b.root, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return noStore(err)
	}
	return disk.SyncDir(filepath.Dir(b.root))
}

// openFolders opens folder after folder, from the root to dir.
func (b *Backend) openFolders(dir string, next func(d *os.File, path, name string) (*os.File, error)) (*os.File, error) {
	d, err := b.openRoot()
	if err != nil || dir == "" {
		return d, err
	}

	at := ""
	for name := range strings.SplitSeq(dir, "/") {
		at = path.Join(at, name)
		below, err := next(d, at, name)
		d.Close()
		if err != nil {
			return nil, err
		}
		d = below
	}

	return d, nil
}

// openChild opens a folder in the folder d. If the name is something else, the
// error describes it. Its kind is ErrDamaged for a symbolic link, and
// ErrNotFound otherwise.
func openChild(d *os.File, name string) (*os.File, error) {
	f, err := openAt(d, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if st, statErr := lstat(d, name); statErr == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if err := checkRegular(d, name, st); err != nil {
			return nil, err
		}
		return nil, &kindError{remote.ErrNotFound, &fs.PathError{Op: "open", Path: filepath.Join(d.Name(), name), Err: errNotFolder}}
	}
	return nil, err
}

// openAt opens a file or folder in the folder d. It follows no symbolic link.
func openAt(d *os.File, name string, flags int, mode uint32) (*os.File, error) {
	var file int
	err := callRetrying("open", d, name, func(fd int) (err error) {
		file, err = unix.Openat(fd, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, mode)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(file), filepath.Join(d.Name(), name)), nil
}

// lstat describes a name in the folder d.
func lstat(d *os.File, name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := callRetrying("lstat", d, name, func(fd int) error { return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return &st, err
}

// checkRegular returns an error for anything but a file: ErrNotFound for a
// folder, which is no blob, and ErrDamaged otherwise.
func checkRegular(d *os.File, name string, st *unix.Stat_t) error {
	e := &fs.PathError{Op: "open", Path: filepath.Join(d.Name(), name)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		e.Err = errors.New("is a folder")
		return &kindError{remote.ErrNotFound, e}
	case unix.S_IFLNK:
		e.Err = errors.New("is a symbolic link, which is not followed")
	default:
		e.Err = errors.New("is not a regular file")
	}

	return &kindError{remote.ErrDamaged, e}
}

// callRetrying makes a system call for a name in the folder d. It repeats the call
// while signals interrupt it.
func callRetrying(op string, d *os.File, name string, do func(fd int) error) error {
	for {
		err := do(int(d.Fd()))
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return &fs.PathError{Op: op, Path: filepath.Join(d.Name(), name), Err: err}
		}
	}
}

// syncFolder syncs the names in the folder d, if the file system supports
// that.
func syncFolder(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// List implements [remote.Blobs]. It holds one folder at a time in memory.
func (b *Backend) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		if err := remote.CheckPrefix(prefix); err != nil {
			yield(remote.Info{}, err)
			return
		}
		if err := b.list(ctx, prefix, yield); err != nil && !errors.Is(err, errStop) {
			yield(remote.Info{}, wrapError("list", prefix, err))
		}
	}
}

// errStop ends a walk when the caller stops.
var errStop = errors.New("stop")

func (b *Backend) list(ctx context.Context, prefix string, yield func(remote.Info, error) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d, err := b.openFolder(strings.TrimSuffix(prefix, "/"))
	if err != nil {
		if kindOf(err) == remote.ErrNotFound {
			return nil
		}
		return err
	}
	defer d.Close()
	return walkFolder(ctx, d, prefix, yield)
}

// An entry is a file or folder in a folder.
type entry struct {
	name string // a folder's ends with a slash
	st   *unix.Stat_t
}

// walkFolder yields the blobs in the folder d and in the folders below. The names of
// d's blobs begin with prefix.
func walkFolder(ctx context.Context, d *os.File, prefix string, yield func(remote.Info, error) bool) error {
	entries, err := readFolder(ctx, d, prefix)
	if err != nil {
		return err
	}

	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name, isFolder := strings.CutSuffix(e.name, "/")
		if !isFolder {
			if !yield(infoOf(prefix+name, e.st), nil) {
				return errStop
			}
			continue
		}
		below, err := openChild(d, name)
		if kindOf(err) == remote.ErrNotFound || kindOf(err) == remote.ErrDamaged { // gone, or replaced, meanwhile
			continue
		}
		if err != nil {
			return err
		}
		err = walkFolder(ctx, below, prefix+e.name, yield)
		below.Close()
		if err != nil {
			return err
		}
	}

	return nil
}

// readFolder returns the files and folders in the folder d that can be or
// contain blobs, sorted by the names of the blobs.
func readFolder(ctx context.Context, d *os.File, prefix string) (entries []entry, err error) {
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}

	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if remote.CheckName(prefix+name) != nil || prefix+name == temps || prefix == temps+"/" {
			continue
		}
		st, err := lstat(d, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			entries = append(entries, entry{name, st})
		case unix.S_IFDIR:
			entries = append(entries, entry{name + "/", nil})
		}
	}

	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return entries, nil
}

const temps = remote.TempFolder

// A temp is a file without a final name.
type temp struct {
	folder *os.File
	name   string
	st     unix.Stat_t
}

func (t *temp) remove() { unlink(t.folder, t.name) } // RemoveTemps removes it otherwise

// writeTemp writes a file in the folder tmp and syncs it.
func writeTemp(ctx context.Context, tmp *os.File, body io.ReaderAt, size int64) (*temp, error) {
	t := &temp{folder: tmp, name: fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())}
	f, err := openAt(tmp, t.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o444)
	if err != nil {
		return nil, err
	}

	err = copyBody(ctx, f, body, size)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = callRetrying("fstat", tmp, t.name, func(int) error { return unix.Fstat(int(f.Fd()), &t.st) })
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		t.remove()
		return nil, err
	}

	return t, nil
}

// copyBody writes the first size bytes of a body.
func copyBody(ctx context.Context, w io.Writer, body io.ReaderAt, size int64) error {
	buf := make([]byte, min(size, 256<<10))
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := buf[:min(int64(len(buf)), size-off)]
		n, err := body.ReadAt(p, off)
		if n < len(p) {
			if err == io.EOF || err == nil {
				err = io.ErrUnexpectedEOF
			}
			return &kindError{nil, fmt.Errorf("read the bytes to store: %w", err)}
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
		off += int64(n)
	}

	return nil
}

// RemoveTemps removes the files of dead writers: files in the folder tmp that
// last changed before a time, by the clock of the file system. If a writer is
// still alive, its Put fails with remote.ErrTemporary. It returns the number
// of removed files.
func (b *Backend) RemoveTemps(ctx context.Context, before time.Time) (removed int, err error) {
	removed, err = b.removeTemps(ctx, before)
	return removed, wrapError("delete", temps, err)
}

func (b *Backend) removeTemps(ctx context.Context, before time.Time) (removed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}

	tmp, err := b.openFolder(temps)
	if kindOf(err) == remote.ErrNotFound {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer tmp.Close()
	names, err := tmp.Readdirnames(-1)
	if err != nil {
		return 0, err
	}

	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		st, err := lstat(tmp, name)
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && time.Unix(st.Mtim.Unix()).Before(before) {
			if err = unlink(tmp, name); err == nil {
				removed++
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
	}

	return removed, nil
}
