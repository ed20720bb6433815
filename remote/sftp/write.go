package sftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/remote"
)

// Put implements [remote.Blobs]. It fails if the name is taken.
func (b *Backend) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if err := remote.CheckInFolder("put", name, remote.CheckBlob(name)); err != nil {
		return err
	}
	return b.call(ctx, "put", name, size, func(ctx context.Context, c *conn) error {
		return failStore(b.store(ctx, c, name, body, size))
	})
}

// Create implements [remote.Creator].
func (b *Backend) Create(ctx context.Context, name string, data []byte) error {
	if err := remote.CheckInFolder("create", name, remote.CheckRecord(name, len(data))); err != nil {
		return err
	}
	return b.call(ctx, "create", name, int64(len(data)), func(ctx context.Context, c *conn) error {
		return failStore(b.store(ctx, c, name, bytes.NewReader(data), int64(len(data))))
	})
}

// store makes a file under a free name.
func (b *Backend) store(ctx context.Context, c *conn, name string, body io.ReaderAt, size int64) error {
	if err := b.prepareRoot(c); err != nil {
		return err
	}
	folder := folderOf(name)
	var d *sftp.File
	var t *temp
	var group, settling errgroup.Group
	group.Go(func() (err error) { d, err = b.openFolder(c, folder); return err })
	group.Go(func() (err error) { t, err = b.createTemp(c); return err })
	err := group.Wait()
	if d != nil {
		defer func() { go d.Close() }()
	}
	if t == nil {
		return err
	}
	defer t.discard()
	if err != nil {
		return err
	}

	settling.Go(func() error { return b.syncParents(c, folder) })
	defer settling.Wait()
	if err := t.write(ctx, body, size); err != nil {
		return b.explainWrite(c, err)
	}
	if err := b.place(ctx, t, b.at(name)); err != nil {
		return b.explainWrite(c, err)
	}
	settling.Go(func() error { t.discard(); return nil })
	settling.Go(func() error { return syncFolder(c, d) })
	return settling.Wait()
}

// temp is a file without a final name.
type temp struct {
	*sftp.File
	c     *conn
	at    string
	moved bool // at is free
	ended sync.Once
}

// createTemp makes a file in the folder tmp, and that folder if need be. Files of dead writers stay there until
// RemoveTemps removes them.
func (b *Backend) createTemp(c *conn) (*temp, error) {
	at := b.at(fmt.Sprintf("%s/%016x%016x", remote.TempFolder, rand.Uint64(), rand.Uint64()))
	create := func() (*sftp.File, error) { return c.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL) }
	f, err := create()
	if errors.Is(err, fs.ErrNotExist) {
		if err = b.makeFolder(c, remote.TempFolder); err == nil {
			f, err = create()
		}
	}
	if err != nil {
		return nil, b.explainWrite(c, err)
	}
	return &temp{File: f, c: c, at: at}, nil
}

// discard closes a file and removes its first name. RemoveTemps removes it otherwise.
func (t *temp) discard() {
	t.ended.Do(func() {
		go t.Close() // its answer says nothing: the file was synced
		if !t.moved {
			_ = t.c.Remove(t.at)
		}
	})
}

// write writes the first size bytes of a body. They are on disk if the server can sync. If not, it has at least
// reported the end of its own writing. Packets go out in order, because some servers pass them on as a stream.
func (t *temp) write(ctx context.Context, body io.ReaderAt, size int64) error {
	source := &source{Reader: io.NewSectionReader(body, 0, size), stopped: ctx.Err}
	n, err := t.ReadFromWithConcurrency(source, int(min(inFlight, size/maxPacket+1)))
	switch {
	case source.err != nil:
		return source.err
	case err == nil && n < size:
		return errBody(io.ErrUnexpectedEOF)
	case err == nil:
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	if !t.c.has(extFsync) {
		return t.Close()
	}
	return t.Sync()
}

// source reads a body until stopped returns an error.
type source struct {
	io.Reader
	stopped func() error
	err     error // of the last read, but not io.EOF
}

func (s *source) Read(p []byte) (n int, err error) {
	if s.err = s.stopped(); s.err != nil {
		return 0, s.err
	}
	n, err = s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.err = errBody(err)
		return n, s.err
	}
	return n, err
}

func errBody(err error) error {
	return &callError{nil, fmt.Errorf("read the bytes to store: %w", err)}
}

// leastSpace is the free space below which a disk counts as full.
const leastSpace = 256 << 10

// explainWrite returns the reason for which a server refused to write. It gives none, but may know its free space.
func (b *Backend) explainWrite(c *conn, err error) error {
	if !hasCode(err, codeFailure) {
		return err
	}
	reason := "the server cannot write, and gives no reason: a quota may be used up"
	if c.has(extStatvfs) {
		if space, statErr := c.StatVFS(b.root); statErr == nil {
			const readOnly = 1
			switch {
			case space.Flag&readOnly != 0:
				return &callError{remote.ErrPermission, errors.New("the file system of the server is read-only")}
			case space.Bavail*space.Frsize < leastSpace || space.Favail == 0 && space.Files > 0:
				return &callError{remote.ErrFull, errors.New("the disk of the server is full")}
			}
		}
	}
	return &callError{nil, errors.New(reason)}
}

// Replace implements [remote.Replacer] by a rename that replaces.
func (b *Backend) Replace(ctx context.Context, name string, data []byte) error {
	if err := remote.CheckInFolder("replace", name, remote.CheckRecord(name, len(data))); err != nil {
		return err
	}
	return b.call(ctx, "replace", name, int64(len(data)), func(ctx context.Context, c *conn) error {
		return failStore(b.replace(ctx, c, name, data))
	})
}

func (b *Backend) replace(ctx context.Context, c *conn, name string, data []byte) error {
	if !c.has(extPosixRename) {
		return &callError{remote.ErrUnsupported, errors.New("the server cannot replace a file in one step: it lacks " + extPosixRename)}
	}
	t, err := b.createTemp(c)
	if err != nil {
		return err
	}
	defer t.discard()
	if err := t.write(ctx, bytes.NewReader(data), int64(len(data))); err != nil {
		return b.explainWrite(c, err)
	}
	if err := c.PosixRename(t.at, b.at(name)); err != nil {
		return b.explainWrite(c, err)
	}
	t.moved = true
	d, err := b.openFolder(c, folderOf(name))
	if err != nil {
		return err
	}
	if d != nil {
		defer func() { go d.Close() }()
	}
	return syncFolder(c, d)
}

// Delete implements [remote.Blobs].
func (b *Backend) Delete(ctx context.Context, name string) error {
	if err := remote.CheckInFolder("delete", name, remote.CheckName(name)); err != nil {
		return err
	}
	return b.call(ctx, "delete", name, 0, func(ctx context.Context, c *conn) error {
		var d *sftp.File
		var group errgroup.Group
		group.Go(func() error {
			if c.has(extFsync) {
				d, _ = c.Open(b.at(folderOf(name))) // if it is missing, so is the file
			}
			return nil
		})
		err := b.remove(c, name)
		_ = group.Wait() // never fails
		if d != nil {
			defer func() { go d.Close() }()
		}
		if err != nil {
			return err
		}
		return syncFolder(c, d)
	})
}

// remove removes a file. A missing one is no error, and neither is a folder, which is no blob.
func (b *Backend) remove(c *conn, name string) error {
	err := c.Remove(b.at(name))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if err = b.explainMissing(c, err); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	case isLost(err):
		return err
	}
	if info, statErr := c.Lstat(b.at(name)); statErr == nil && info.IsDir() || errors.Is(statErr, fs.ErrNotExist) {
		return nil
	}
	return b.explainWrite(c, err)
}

// RemoveTemps removes the files of dead writers: files in the folder tmp that last changed before a time, by the
// clock of the server. If a writer is still alive, its Put fails with remote.ErrTemporary. It returns the
// number of removed files.
func (b *Backend) RemoveTemps(ctx context.Context, before time.Time) (removed int, err error) {
	err = b.call(ctx, "delete", remote.TempFolder, 0, func(ctx context.Context, c *conn) error {
		infos, err := b.temps(c)
		if err != nil {
			return err
		}
		for _, info := range infos {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !info.ModTime().Before(before) {
				continue
			}
			switch err := c.Remove(b.at(path.Join(remote.TempFolder, info.Name()))); {
			case err == nil:
				removed++
			case !errors.Is(err, fs.ErrNotExist):
				return err
			}
		}
		return nil
	})
	return removed, err
}
