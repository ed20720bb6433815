package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/remote"
)

// Put implements [remote.Blobs]. It fails if the name is taken.
func (b *Backend) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if err := remote.CheckInFolder("put", name, remote.CheckBlob(name)); err != nil {
		return err
	}
	return failStore("put", name, b.storeFile(ctx, name, body, size))
}

// Create implements [remote.Creator].
func (b *Backend) Create(ctx context.Context, name string, data []byte) error {
	if err := remote.CheckInFolder("create", name, remote.CheckRecord(name, len(data))); err != nil {
		return err
	}
	return failStore("create", name, b.storeFile(ctx, name, bytes.NewReader(data), int64(len(data))))
}

// Replace implements [remote.Replacer] by a rename.
func (b *Backend) Replace(ctx context.Context, name string, data []byte) error {
	if err := remote.CheckInFolder("replace", name, remote.CheckRecord(name, len(data))); err != nil {
		return err
	}
	return failStore("replace", name, b.replace(ctx, name, data))
}

func (b *Backend) replace(ctx context.Context, name string, data []byte) error {
	d, err := b.openFolder(folderOf(name))
	if err != nil {
		return err
	}
	defer d.Close()
	tmp, err := b.makeFolder(temps)
	if err != nil {
		return err
	}
	defer tmp.Close()

	t, err := writeTemp(ctx, tmp, bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}

	base := path.Base(name)
	err = callRetrying("rename", d, base, func(fd int) error { return unix.Renameat(int(tmp.Fd()), t.name, fd, base) })
	if err != nil {
		t.remove()
		return err
	}
	if err := syncFolder(d); err != nil {
		return err
	}

	return b.confirmFolder()
}

// Delete implements [remote.Blobs].
func (b *Backend) Delete(ctx context.Context, name string) error {
	if err := remote.CheckInFolder("delete", name, remote.CheckName(name)); err != nil {
		return err
	}
	err := b.remove(ctx, name)
	if kindOf(err) == remote.ErrNotFound {
		return nil
	}
	return wrapError("delete", name, err)
}

func (b *Backend) remove(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	d, err := b.openFolder(folderOf(name))
	if err != nil {
		return err
	}
	defer d.Close()
	base := path.Base(name)
	st, err := lstat(d, base)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil // no blob
	}
	if err := unlink(d, base); err != nil {
		return err
	}

	return syncFolder(d)
}

func unlink(d *os.File, name string) error {
	return callRetrying("unlink", d, name, func(fd int) error { return unix.Unlinkat(fd, name, 0) })
}

// storeFile makes a file under a free name.
func (b *Backend) storeFile(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	d, err := b.makeFolder(folderOf(name))
	if err != nil {
		return err
	}
	defer d.Close()
	base := path.Base(name)
	if err := isFree(d, base); err != nil {
		return err
	}

	tmp, err := b.makeFolder(temps)
	if err != nil {
		return err
	}
	defer tmp.Close()
	t, err := writeTemp(ctx, tmp, body, size)
	if err != nil {
		return err
	}
	defer t.remove()
	if err := b.placeFile(t, d, base); err != nil {
		return err
	}
	if err := syncFolder(d); err != nil {
		return err
	}

	return b.confirmFolder()
}

// isFree returns nil if no file or folder has the name.
func isFree(d *os.File, name string) error {
	st, err := lstat(d, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return describeObstacle(d, name, st)
}

// describeObstacle returns an ErrExists if a blob has the name, or otherwise an error
// that describes the obstacle.
func describeObstacle(d *os.File, name string, st *unix.Stat_t) error {
	if known, ok := errors.AsType[*kindError](checkRegular(d, name, st)); ok {
		return &kindError{remote.ErrUnsupported, fmt.Errorf("in the way of the blob: %w", known.err)} // a retry does not help
	}
	return &kindError{remote.ErrExists, &fs.PathError{Op: "link", Path: d.Name() + "/" + name, Err: fs.ErrExist}}
}

// piece is the most bytes copied between two checks of the context.
const piece = 4 << 20

// Get implements [remote.Blobs].
func (b *Backend) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if err := remote.CheckInFolder("get", name, remote.CheckName(name)); err != nil {
		return 0, err
	}
	n, err := b.get(ctx, name, p, off)
	if err != nil {
		return 0, wrapError("get", name, err)
	}
	return n, nil
}

func (b *Backend) get(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}

	d, st, err := b.findFile(ctx, name)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	f, err := openAt(d, path.Base(name), unix.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for n < len(p) && off+int64(n) < st.Size {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		m, err := b.readAt(f, p[n:min(n+piece, len(p))], off+int64(n))
		n += m
		if err == io.EOF {
			break
		}
		if errors.Is(err, unix.EIO) { // these bytes are unreadable; others may be intact
			err = &kindError{remote.ErrDamaged, err}
		}
		if err != nil {
			return n, err
		}
	}

	return n, nil
}

// Stat implements [remote.Blobs].
func (b *Backend) Stat(ctx context.Context, name string) (remote.Info, error) {
	if err := remote.CheckInFolder("stat", name, remote.CheckName(name)); err != nil {
		return remote.Info{}, err
	}
	d, st, err := b.findFile(ctx, name)
	if err != nil {
		return remote.Info{}, wrapError("stat", name, err)
	}
	defer d.Close()
	return infoOf(name, st), nil
}

// findFile opens the folder of a blob and describes the blob's file. The caller
// closes the folder.
func (b *Backend) findFile(ctx context.Context, name string) (*os.File, *unix.Stat_t, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}

	d, err := b.openFolder(folderOf(name))
	if err != nil {
		return nil, nil, err
	}
	st, err := lstat(d, path.Base(name))
	if err == nil {
		err = checkRegular(d, path.Base(name), st)
	}
	if err != nil {
		d.Close()
		return nil, nil, err
	}

	return d, st, nil
}

func infoOf(name string, st *unix.Stat_t) remote.Info {
	return remote.Info{Name: name, Size: st.Size, Modified: time.Unix(st.Mtim.Unix())}
}

// folderOf returns the folder of a blob, "" for the root.
func folderOf(name string) string {
	return strings.TrimSuffix(name[:len(name)-len(path.Base(name))], "/")
}
