package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/remote"
)

// maxPacket is the most bytes that package sftp requests at once.
const maxPacket = 32 << 10

// Get implements [remote.Blobs].
func (b *Backend) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if err := remote.CheckInFolder("get", name, remote.CheckName(name)); err != nil {
		return 0, err
	}
	n := 0
	err := b.call(ctx, "get", name, int64(len(p)), func(ctx context.Context, c *conn) (err error) {
		if off < 0 {
			return &callError{nil, errors.New("negative offset")}
		}
		if len(p) == 0 { // the server may open a folder
			_, err = c.describe(b.at(name))
		} else {
			n, err = c.read(b.at(name), p, off)
		}
		return b.explainMissing(c, err)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// read reads a part of a file. Its size, which read asks for at the same time, saves the request that finds the end.
func (c *conn) read(at string, p []byte, off int64) (int, error) {
	var group errgroup.Group
	var size int64
	group.Go(func() error {
		info, err := c.describe(at)
		if err == nil {
			size = info.Size()
		}
		return err
	})
	f, err := c.Open(at)
	sizeErr := group.Wait()
	if err != nil {
		return 0, c.explainFailure(at, err)
	}
	defer func() { go f.Close() }() // its answer says nothing
	if sizeErr != nil {
		return 0, sizeErr
	}
	n, err := readFull(f, p[:max(0, min(int64(len(p)), size-off))], off)
	if err != nil {
		return 0, c.explainFailure(at, err)
	}
	return n, nil
}

// readFull reads until p is full or the file ends. A server may answer a request with fewer bytes than the
// file has: only an answer without bytes is the end.
func readFull(f io.ReaderAt, p []byte, off int64) (n int, err error) {
	for n < len(p) {
		rest := p[n:]
		if n > 0 { // perhaps the end: one request
			rest = rest[:min(len(rest), maxPacket)]
		}
		m, err := f.ReadAt(rest, off+int64(n))
		n += m
		if err == io.EOF && m == 0 {
			break
		}
		if err != nil && err != io.EOF {
			return n, err
		}
	}
	return n, nil
}

// explainFailure looks at the file of a read that failed without a reason.
func (c *conn) explainFailure(at string, err error) error {
	if !hasCode(err, codeFailure, codeBadMessage) {
		return err
	}
	if _, statErr := c.describe(at); statErr != nil {
		return statErr
	}
	return &callError{remote.ErrDamaged, errors.New("the server cannot read it")} // others may be intact
}

// describe returns the properties of a file. A folder is fs.ErrNotExist, and anything else an ErrDamaged.
func (c *conn) describe(at string) (fs.FileInfo, error) {
	info, err := c.Lstat(at)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%q is a folder: %w", at, fs.ErrNotExist)
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, &callError{remote.ErrDamaged, errors.New("it is a symbolic link, which is not followed")}
	case !info.Mode().IsRegular():
		return nil, &callError{remote.ErrDamaged, errors.New("it is not a regular file")}
	}
	return info, nil
}

// explainMissing returns an ErrNoStore for a missing file if the folder of the remote does not exist.
func (b *Backend) explainMissing(c *conn, err error) error {
	if !errors.Is(err, fs.ErrNotExist) || b.found.Load() {
		return err
	}
	switch info, statErr := c.Client.Stat(b.root); {
	case errors.Is(statErr, fs.ErrNotExist):
		return &callError{remote.ErrNoStore, fmt.Errorf("folder %q does not exist on the server", b.root)}
	case statErr != nil:
		return statErr
	case !info.IsDir():
		return &callError{remote.ErrNoStore, fmt.Errorf("%q is not a folder", b.root)}
	}
	b.found.Store(true)
	return err
}

// Stat implements [remote.Blobs].
func (b *Backend) Stat(ctx context.Context, name string) (info remote.Info, err error) {
	if err := remote.CheckInFolder("stat", name, remote.CheckName(name)); err != nil {
		return remote.Info{}, err
	}
	err = b.call(ctx, "stat", name, 0, func(ctx context.Context, c *conn) error {
		st, err := c.describe(b.at(name))
		if err != nil {
			return b.explainMissing(c, err)
		}
		info = remote.Info{Name: name, Size: st.Size(), Modified: st.ModTime()}
		return nil
	})
	return info, err
}

// ahead is the number of folders that a list reads before it needs them: each takes four round trips.
const ahead = 64

// List implements [remote.Blobs]. It holds some folders at a time in memory.
func (b *Backend) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		if err := remote.CheckPrefix(prefix); err != nil {
			yield(remote.Info{}, err)
			return
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		if err := b.walk(ctx, <-b.readAhead(ctx, prefix), yield); err != nil && !errors.Is(err, errStop) {
			yield(remote.Info{}, convert(ctx, "list", prefix, err))
		}
	}
}

// errStop ends a walk when the caller stops.
var errStop = errors.New("stop")

// folder is a folder as read.
type folder struct {
	entries []remote.Info // sorted; the name of a folder ends with a slash
	err     error
}

// readAhead reads a folder, in a goroutine.
func (b *Backend) readAhead(ctx context.Context, prefix string) <-chan folder {
	result := make(chan folder, 1)
	go func() {
		var f folder
		f.err = b.call(ctx, "list", prefix, 0, func(_ context.Context, c *conn) (err error) {
			f.entries, err = b.readFolder(c, prefix)
			return err
		})
		result <- f
	}()
	return result
}

// walk yields the blobs in a folder and in the folders below.
func (b *Backend) walk(ctx context.Context, f folder, yield func(remote.Info, error) bool) error {
	if f.err != nil {
		return f.err
	}
	var below []string
	for _, e := range f.entries {
		if strings.HasSuffix(e.Name, "/") {
			below = append(below, e.Name)
		}
	}

	var reading []<-chan folder
	for _, e := range f.entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !strings.HasSuffix(e.Name, "/") {
			if !yield(e, nil) {
				return errStop
			}
			continue
		}
		for len(reading) < ahead && len(below) > 0 {
			reading, below = append(reading, b.readAhead(ctx, below[0])), below[1:]
		}
		next := <-reading[0]
		reading = reading[1:]
		if err := b.walk(ctx, next, yield); err != nil {
			return err
		}
	}
	return nil
}

// readFolder returns the files and folders in a folder that can be or contain blobs.
func (b *Backend) readFolder(c *conn, prefix string) ([]remote.Info, error) {
	infos, err := c.ReadDir(b.at(prefix)) // not with ctx: a server that does not answer has to lose its connection
	if err != nil {
		return nil, b.isNoFolder(c, prefix, err)
	}

	var entries []remote.Info
	for _, info := range infos {
		name := prefix + info.Name()
		if remote.CheckName(name) != nil || name == remote.TempFolder || prefix == remote.TempFolder+"/" {
			continue
		}
		switch {
		case info.IsDir():
			entries = append(entries, remote.Info{Name: name + "/"})
		case info.Mode().IsRegular():
			entries = append(entries, remote.Info{Name: name, Size: info.Size(), Modified: info.ModTime()})
		}
	}
	slices.SortFunc(entries, func(a, b remote.Info) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(entries, func(a, b remote.Info) bool { return a.Name == b.Name }), nil
}

// isNoFolder returns nil for the error of a list if there is no such folder: the list is empty.
func (b *Backend) isNoFolder(c *conn, prefix string, err error) error {
	if hasCode(err, codeFailure, codeBadMessage) { // perhaps a file
		if info, statErr := c.Lstat(b.at(prefix)); statErr == nil && !info.IsDir() {
			err = fs.ErrNotExist
		}
	}
	if err = b.explainMissing(c, err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// temps are the files in the folder for files that are being written.
func (b *Backend) temps(c *conn) ([]fs.FileInfo, error) {
	infos, err := c.ReadDir(b.at(remote.TempFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return slices.DeleteFunc(infos, func(info fs.FileInfo) bool { return !info.Mode().IsRegular() || path.Base(info.Name()) != info.Name() }), err
}
