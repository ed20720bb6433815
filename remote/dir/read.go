package dir

import (
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/remote"
)

// piece is the most bytes copied between two checks of the context.
const piece = 4 << 20

// Get implements [remote.Blobs].
func (b *Backend) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if err := check("get", name, remote.CheckName(name)); err != nil {
		return 0, err
	}
	n, err := b.get(ctx, name, p, off)
	if err != nil {
		return 0, fail("get", name, err)
	}
	return n, nil
}

func (b *Backend) get(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, errors.New("negative offset")
	}

	d, err := b.open(folderOf(name))
	if err != nil {
		return 0, err
	}
	defer d.Close()
	st, err := lstat(d, path.Base(name))
	if err == nil {
		err = checkRegular(d, path.Base(name), st)
	}
	if err != nil {
		return 0, err
	}

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
	if err := check("stat", name, remote.CheckName(name)); err != nil {
		return remote.Info{}, err
	}
	info, err := b.stat(ctx, name)
	if err != nil {
		return remote.Info{}, fail("stat", name, err)
	}
	return info, nil
}

func (b *Backend) stat(ctx context.Context, name string) (info remote.Info, err error) {
	if err := ctx.Err(); err != nil {
		return info, err
	}

	d, err := b.open(folderOf(name))
	if err != nil {
		return info, err
	}
	defer d.Close()
	st, err := lstat(d, path.Base(name))
	if err == nil {
		err = checkRegular(d, path.Base(name), st)
	}

	return infoOf(name, st), err
}

func infoOf(name string, st *unix.Stat_t) remote.Info {
	return remote.Info{Name: name, Size: st.Size, Modified: time.Unix(st.Mtim.Unix())}
}

// folderOf returns the folder of a blob, "" for the root.
func folderOf(name string) string {
	return strings.TrimSuffix(name[:len(name)-len(path.Base(name))], "/")
}
