package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/rootlog"
)

const (
	pieceSize  = 8 << 20 // how much of an index file is read at a time
	tempSuffix = ".tmp"  // of a copy that is being written
)

// indexFile is an index file of the remote whose copy is opened.
type indexFile struct {
	*pack.Index
	packs []pack.Info
	file  *os.File // nil: in memory
}

func (x *indexFile) close() {
	if x.file != nil {
		x.file.Close()
	}
}

// openIndexes returns the index files of a root, in its order. It opens them if need be.
// If there is no copy, it reads the file from the remote. It removes copies of other index
// files.
func (r *Remote) openIndexes(ctx context.Context, files []rootlog.File) ([]*indexFile, error) {
	opened := make([]*indexFile, len(files))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(r.o.Jobs)
	for i, f := range files {
		if opened[i] = r.indexes[f.Name]; opened[i] != nil {
			continue
		}
		group.Go(func() (err error) {
			opened[i], err = r.openIndex(gctx, f)
			return err
		})
	}
	err := group.Wait()
	for i, f := range files {
		if opened[i] != nil {
			r.indexes[f.Name] = opened[i]
		}
	}
	if err != nil {
		return nil, err
	}
	r.closeIndexes(files)
	return opened, nil
}

// closeIndexes closes the index files that are not among those to keep, and
// removes copies of such if there are some to keep.
func (r *Remote) closeIndexes(keep []rootlog.File) {
	kept := make(map[string]bool, len(keep))
	for _, f := range keep {
		kept[f.Name.String()] = true
	}
	for name, x := range r.indexes {
		if !kept[name.String()] {
			x.close()
			delete(r.indexes, name)
		}
	}
	if r.o.Dir == "" || len(keep) == 0 {
		return
	}
	copies, _ := disk.ReadDir(r.cache.path(indexFolder))
	for _, e := range copies {
		if !kept[e.Name()] && !r.isBeingWritten(e) {
			disk.Remove(filepath.Join(r.cache.path(indexFolder), e.Name()))
		}
	}
}

// isBeingWritten reports whether a file among the copies may be one that another
// process writes.
func (r *Remote) isBeingWritten(e fs.DirEntry) bool {
	info, err := e.Info()
	return strings.HasSuffix(e.Name(), tempSuffix) && (err != nil || r.o.Now().Sub(info.ModTime()) < 24*time.Hour)
}

// openIndex opens one index file. A copy that is damaged is read again.
func (r *Remote) openIndex(ctx context.Context, f rootlog.File) (*indexFile, error) {
	if r.o.Dir == "" {
		var b bytes.Buffer
		err := retry.Verified(func() error { b.Reset(); return r.readIndex(ctx, f, &b) })
		if err != nil {
			return nil, err
		}
		return newIndexFile(f, bytes.NewReader(b.Bytes()), nil)
	}
	if x, err := r.openCopy(f); err == nil {
		return x, nil
	}
	err := retry.Verified(func() error {
		_, err := r.writeCopy(func(w io.Writer) (pack.Name, error) { return f.Name, r.readIndex(ctx, f, w) })
		return err
	})
	if err != nil {
		return nil, err
	}
	x, err := r.openCopy(f)
	if err != nil { // the remote's file itself is damaged, not the copy
		disk.Remove(r.indexCopy(f.Name))
	}
	return x, err
}

// openCopy opens the copy of an index file.
func (r *Remote) openCopy(f rootlog.File) (*indexFile, error) {
	file, err := disk.Open(r.indexCopy(f.Name))
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() != f.Size {
		err = fmt.Errorf("%s: %d bytes, want %d", file.Name(), info.Size(), f.Size)
	}
	var x *indexFile
	if err == nil {
		x, err = newIndexFile(f, file, file)
	}
	if err != nil {
		file.Close()
	}
	return x, err
}

func newIndexFile(f rootlog.File, r io.ReaderAt, file *os.File) (*indexFile, error) {
	x, err := pack.OpenIndex(r, f.Size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name.IndexPath(), err)
	}
	return &indexFile{Index: x, packs: x.Packs(), file: file}, nil
}

// indexCopy returns the path of the copy of an index file.
func (r *Remote) indexCopy(name pack.Name) string {
	return filepath.Join(r.cache.path(indexFolder), name.String())
}

// writeCopy makes a file among the copies of index files, whole or not at all.
// Several processes may make the same one.
func (r *Remote) writeCopy(write func(io.Writer) (pack.Name, error)) (pack.Name, error) {
	temp, err := pack.NewName(r.o.Rand)
	if err != nil {
		return pack.Name{}, err
	}
	dir := r.cache.path(indexFolder)
	if err := disk.MkdirAll(dir, 0o777); err != nil {
		return pack.Name{}, err
	}
	var name pack.Name
	err = disk.Write(dir, temp.String()+tempSuffix, func(w io.Writer) (string, error) {
		name, err = write(w)
		return name.String(), err
	})
	return name, err
}

// checkIndex reads an index file from the remote and checks it.
func (r *Remote) checkIndex(ctx context.Context, f rootlog.File) error {
	return retry.Verified(func() error { return r.readIndex(ctx, f, io.Discard) })
}

// readIndex reads an index file from the remote once and writes it to w, whose
// content has no meaning after an error. If the file is not what the root says,
// the error is a [*remote.Error] that matches [remote.ErrDamaged].
func (r *Remote) readIndex(ctx context.Context, f rootlog.File, w io.Writer) error {
	name := f.Name.IndexPath()
	sum := sha256.New()
	buf := make([]byte, min(pieceSize, f.Size))
	for off := int64(0); off < f.Size; {
		want := buf[:min(int64(len(buf)), f.Size-off)]
		n, err := r.b.Get(ctx, name, want, off)
		if err != nil {
			return err
		}
		if n < len(want) {
			return damaged(name, fmt.Errorf("ends after %d of %d bytes", off+int64(n), f.Size))
		}
		sum.Write(want)
		if _, err := w.Write(want); err != nil {
			return err
		}
		off += int64(n)
	}
	if [sha256.Size]byte(sum.Sum(nil)) != f.Sum {
		return damaged(name, errors.New("the bytes do not have the hash that the root says"))
	}
	return nil
}

func damaged(name string, err error) error {
	return &remote.Error{Op: "get", Name: name, Kind: remote.ErrDamaged, Err: err}
}

// forgetIndex removes the copy of an index file that turned out to be damaged.
func (r *Remote) forgetIndex(f rootlog.File) {
	if x := r.indexes[f.Name]; x != nil && x.file != nil {
		if err := disk.Remove(r.indexCopy(f.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.o.Warn(err.Error())
		}
	}
}
