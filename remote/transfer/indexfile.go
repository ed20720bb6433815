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
	"syscall"
	"time"

	"github.com/kist-vcs/kist/object"
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

// IndexFile is an index file of the remote whose copy is opened.
type IndexFile struct {
	*pack.Index
	PackInfos []pack.Info
	file      *os.File // nil: in memory
}

func (x *IndexFile) closeCopy() {
	if x.file != nil {
		x.file.Close()
	}
}

// IndexFiles are the open index files of a remote. Their copies lie in a folder of
// Options.Dir or, if that is empty, in memory.
type IndexFiles struct {
	b      remote.Backend
	o      *Options // of the Remote
	opened map[pack.Name]*IndexFile
	parts  map[pack.Name]*indexParts
}

// copiesDir returns the folder of the copies.
func (r *IndexFiles) copiesDir() string { return filepath.Join(r.o.Dir, indexFolder) }

// OpenAll returns the index files of a root, in its order. It opens a file that is not open
// yet. If there is no copy, it reads the file from the remote. It removes copies of other
// index files.
func (r *IndexFiles) OpenAll(ctx context.Context, files []rootlog.File) ([]*IndexFile, error) {
	opened, _, err := r.openFiles(ctx, files, func(rootlog.File) bool { return false })
	return opened, err
}

// openSome is OpenAll, but opens large files in parts, if there is no copy: those are the index files of a root with more
// than limit bytes in all, without the small ones. Each file is in one of the results.
func (r *IndexFiles) openSome(ctx context.Context, files []rootlog.File, limit int64) ([]*IndexFile, []*indexParts, error) {
	var total int64
	for _, f := range files {
		total += f.Size
	}
	return r.openFiles(ctx, files, func(f rootlog.File) bool { return total > limit && f.Size > limit/16 })
}

// openFiles opens the index files of a root: completely, or those for which inParts returns true in parts.
func (r *IndexFiles) openFiles(ctx context.Context, files []rootlog.File, inParts func(rootlog.File) bool) ([]*IndexFile, []*indexParts, error) {
	opened, parts := make([]*IndexFile, len(files)), make([]*indexParts, len(files))
	err := Parallel(ctx, r.o.Jobs, len(files), func(ctx context.Context, i int) (err error) {
		f := files[i]
		if opened[i] = r.opened[f.Name]; opened[i] != nil {
			return nil
		}
		if inParts(f) {
			if parts[i] = r.parts[f.Name]; parts[i] != nil {
				return nil
			}
			if opened[i], err = r.openCopy(f); err == nil {
				return nil
			}
			if parts[i], err = r.openParts(ctx, f); !IsBadCopy(err) && !errors.Is(err, pack.ErrDamaged) || errors.Is(err, remote.ErrNotFound) {
				return err
			}
		}
		opened[i], err = r.openFile(ctx, f)
		return err
	})
	for i, f := range files {
		if x := r.parts[f.Name]; opened[i] != nil {
			r.opened[f.Name] = opened[i]
			if x != nil {
				x.close()
				delete(r.parts, f.Name)
			}
		}
		if parts[i] != nil {
			r.parts[f.Name] = parts[i]
		}
	}
	if err != nil {
		return nil, nil, err
	}
	r.closeExcept(files)
	return opened, parts, nil
}

// closeExcept closes all index files except those in keep. Unless keep is empty, it also
// removes the other copies.
func (r *IndexFiles) closeExcept(keep []rootlog.File) {
	kept := make(map[string]bool, len(keep))
	for _, f := range keep {
		kept[f.Name.String()] = true
		kept[f.Name.String()+partsSuffix] = r.parts[f.Name] != nil
	}
	for name, x := range r.opened {
		if !kept[name.String()] {
			x.closeCopy()
			delete(r.opened, name)
		}
	}
	for name, x := range r.parts {
		if !kept[name.String()] {
			x.close()
			delete(r.parts, name)
		}
	}
	if r.o.Dir == "" || len(keep) == 0 {
		return
	}
	copies, _ := disk.ReadDir(r.copiesDir())
	for _, e := range copies {
		if !kept[e.Name()] && !r.isBeingWritten(e) {
			disk.Remove(filepath.Join(r.copiesDir(), e.Name()))
		}
	}
}

// isBeingWritten reports whether another process may be writing a file in the folder of
// the copies.
func (r *IndexFiles) isBeingWritten(e fs.DirEntry) bool {
	info, err := e.Info()
	return strings.HasSuffix(e.Name(), tempSuffix) && (err != nil || r.o.Now().Sub(info.ModTime()) < 24*time.Hour)
}

// openFile opens one index file. It replaces a damaged copy.
func (r *IndexFiles) openFile(ctx context.Context, f rootlog.File) (*IndexFile, error) {
	if r.o.Dir == "" {
		return r.openInMemory(ctx, f)
	}
	if x, err := r.openCopy(f); err == nil {
		return x, nil
	}
	err := retry.Verified(func() error { return r.writeCopy(ctx, f) })
	if errors.Is(err, syscall.EROFS) {
		return r.openInMemory(ctx, f)
	}
	if err != nil {
		return nil, err
	}
	x, err := r.openCopy(f)
	if err != nil { // the remote's file itself is damaged, not the copy
		disk.Remove(r.copyOf(f.Name))
	}
	return x, err
}

// openInMemory opens one index file without a copy.
func (r *IndexFiles) openInMemory(ctx context.Context, f rootlog.File) (*IndexFile, error) {
	var b bytes.Buffer
	err := retry.Verified(func() error { b.Reset(); return r.readFile(ctx, f, &b) })
	if err != nil {
		return nil, err
	}
	return NewIndexFile(f, bytes.NewReader(b.Bytes()), nil)
}

// openCopy opens the copy of an index file.
func (r *IndexFiles) openCopy(f rootlog.File) (*IndexFile, error) {
	file, err := disk.Open(r.copyOf(f.Name))
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() != f.Size {
		err = fmt.Errorf("%s: %d bytes, want %d", file.Name(), info.Size(), f.Size)
	}
	var x *IndexFile
	if err == nil {
		x, err = NewIndexFile(f, file, file)
	}
	if err != nil {
		file.Close()
	}
	return x, err
}

func NewIndexFile(f rootlog.File, r io.ReaderAt, file *os.File) (*IndexFile, error) {
	x, err := pack.OpenIndex(r, f.Size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name.IndexPath(), err)
	}
	return &IndexFile{Index: x, PackInfos: x.Packs(), file: file}, nil
}

// copyOf returns the path of the copy of an index file.
func (r *IndexFiles) copyOf(name pack.Name) string {
	return filepath.Join(r.copiesDir(), name.String())
}

// newTemp returns a name for a temporary file in the folder of the copies, and makes the
// folder.
func (r *IndexFiles) newTemp() (string, error) {
	name, err := pack.NewName(r.o.Rand)
	if err != nil {
		return "", err
	}
	return name.String() + tempSuffix, disk.MkdirAll(r.copiesDir(), 0o777)
}

// writeCopy copies an index file from the remote. After an error there is no new copy.
// Several processes may make the same copy at once.
func (r *IndexFiles) writeCopy(ctx context.Context, f rootlog.File) error {
	temp, err := r.newTemp()
	if err != nil {
		return err
	}
	return disk.Write(r.copiesDir(), temp, func(w io.Writer) (string, error) {
		return f.Name.String(), r.readFile(ctx, f, w)
	})
}

// CheckFile reads an index file from the remote and checks it.
func (r *IndexFiles) CheckFile(ctx context.Context, f rootlog.File) error {
	return retry.Verified(func() error { return r.readFile(ctx, f, io.Discard) })
}

// readFile reads an index file from the remote once and writes it to w. After an error, the
// content of w has no meaning. If the file does not have the size and hash in the root,
// the error is a [*remote.Error] that matches [remote.ErrDamaged].
func (r *IndexFiles) readFile(ctx context.Context, f rootlog.File, w io.Writer) error {
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
			return errDamaged(name, fmt.Errorf("ends after %d of %d bytes", off+int64(n), f.Size))
		}
		sum.Write(want)
		if _, err := w.Write(want); err != nil {
			return err
		}
		off += int64(n)
	}
	if [sha256.Size]byte(sum.Sum(nil)) != f.Sum {
		return errDamaged(name, errors.New("the bytes do not have the hash that the root says"))
	}
	return nil
}

func errDamaged(name string, err error) error {
	return &remote.Error{Op: "get", Name: name, Kind: remote.ErrDamaged, Err: err}
}

// ErrShortPack returns the error for a pack that ends too early, after end bytes.
func ErrShortPack(p pack.Info, end int64) error {
	return errDamaged(p.Name.Path(), fmt.Errorf("the pack ends after %d of %d bytes", end, p.Size))
}

// ForgetCopy removes the copy of an index file that turned out to be damaged.
func (r *IndexFiles) ForgetCopy(f rootlog.File) {
	if x := r.opened[f.Name]; x != nil && x.file != nil {
		r.removeCopy(r.copyOf(f.Name))
	}
}

// removeCopy removes a copy, if it is there.
func (r *IndexFiles) removeCopy(path string) {
	if err := disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.o.Warn(err.Error())
	}
}

// damagedCopy removes the copy of an index file, in which err was found, and returns the error for it.
func (r *IndexFiles) damagedCopy(f rootlog.File, x *IndexFile, err error) error {
	if x.file == nil {
		return fmt.Errorf("%s: %w", f.Name.IndexPath(), err)
	}
	r.removeCopy(r.copyOf(f.Name))
	return &object.DamageError{Name: r.copyOf(f.Name), Err: err, Kind: ErrCopyRemoved}
}

// Replace uses x in place of an index file of the remote.
func (r *IndexFiles) Replace(f rootlog.File, x *IndexFile) {
	if old := r.opened[f.Name]; old != nil {
		old.closeCopy()
	}
	r.opened[f.Name] = x
}

// OpenIntactCopy opens the copy of an index file. It returns nil if there is no intact
// copy.
func (r *IndexFiles) OpenIntactCopy(f rootlog.File) *IndexFile {
	x, err := r.openCopy(f)
	if err != nil {
		return nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(x.file, 0, f.Size)); err != nil || [sha256.Size]byte(sum.Sum(nil)) != f.Sum {
		x.closeCopy()
		return nil
	}
	return x
}
