package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/remote"
)

// temps is the folder for files that are being written.
const temps = "tmp"

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
		err = call("fstat", tmp, t.name, func(int) error { return unix.Fstat(int(f.Fd()), &t.st) })
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
			return &kindError{nil, fmt.Errorf("read what is to be stored: %w", err)}
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
	return removed, fail("delete", temps, err)
}

func (b *Backend) removeTemps(ctx context.Context, before time.Time) (removed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}

	tmp, err := b.open(temps)
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
