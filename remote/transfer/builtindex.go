package transfer

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// BuiltIndex is an index file that was made for the next root. It lies among the
// copies of index files.
type BuiltIndex struct {
	rootlog.File // without the name until Send
	file         *os.File
	Replaced     []rootlog.File         // the index files that it replaces
	Inline       []pack.Name            // packs of others whose entries lay in a root
	Named        map[pack.Name]struct{} // all packs of others
}

// Build makes an index file with the bytes that write writes. The caller closes it.
func (r *IndexFiles) Build(write func(io.Writer) error) (x *BuiltIndex, err error) {
	temp, err := r.newTemp()
	if err != nil {
		return nil, fmt.Errorf("make an index file: %w", err)
	}
	x = &BuiltIndex{Named: map[pack.Name]struct{}{}}
	if x.file, err = disk.OpenFile(filepath.Join(r.copiesDir(), temp), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666); err != nil {
		return nil, fmt.Errorf("make an index file: %w", err)
	}

	sum := sha256.New()
	err = write(io.MultiWriter(x.file, sum))
	if err == nil {
		x.Size, err = x.file.Seek(0, io.SeekCurrent)
	}
	if err != nil {
		x.Close()
		return nil, fmt.Errorf("make an index file: %w", err)
	}
	x.Sum = [sha256.Size]byte(sum.Sum(nil))
	return x, nil
}

// Send sends the index file under a new name. After an error it is closed.
func (x *BuiltIndex) Send(ctx context.Context, r *Remote) (err error) {
	x.Name, err = r.putBlob(ctx, pack.Name.IndexPath, func(pack.Name) (io.ReaderAt, int64, error) { return x.file, x.Size, nil })
	if err != nil {
		x.Close()
		return fmt.Errorf("send an index file: %w", err)
	}
	return nil
}

// KeepCopy makes the file the copy of an index file that a root names now.
func (x *BuiltIndex) KeepCopy(r *IndexFiles) {
	err := x.file.Sync()
	if err == nil {
		err = disk.Rename(x.file.Name(), r.copyOf(x.Name))
	}
	if err != nil {
		r.o.Warn(fmt.Sprintf("an index file will be read from the remote: %v", err))
		disk.Remove(x.file.Name())
	}
	x.file.Close()
}

// Close removes the file. X may be nil.
func (x *BuiltIndex) Close() {
	if x != nil {
		x.file.Close()
		disk.Remove(x.file.Name())
	}
}

// Entries yields the entries of the index file, by key.
func (x *BuiltIndex) Entries() iter.Seq2[pack.Entry, error] {
	return func(yield func(pack.Entry, error) bool) {
		index, err := pack.OpenIndex(x.file, x.Size)
		if err != nil {
			yield(pack.Entry{}, err)
			return
		}
		index.All()(yield)
	}
}

// FitsAfter reports whether a root that follows snap, and replaces the index files in due,
// may name the index file. It must name live packs only, and no pack for which gone
// returns true. It must have every other pack of the replaced index files (IDX_REMAKE,
// IDX_LIVE_ONLY).
func (x *BuiltIndex) FitsAfter(snap *Snapshot, due []rootlog.File, gone func(pack.Name) bool) bool {
	for _, f := range x.Replaced {
		i := slices.IndexFunc(snap.State.Indexes, func(have rootlog.File) bool { return have.Name == f.Name })
		if i < 0 {
			return false
		}
		for _, p := range snap.Indexes[i].PackInfos {
			if _, named := x.Named[p.Name]; snap.IsLive(p.Name) && !named && !gone(p.Name) {
				return false
			}
		}
	}

	for _, f := range due {
		if !slices.ContainsFunc(x.Replaced, func(r rootlog.File) bool { return r.Name == f.Name }) {
			return false
		}
	}

	inline := map[pack.Name]bool{}
	for _, p := range snap.State.Packs {
		inline[p.Name] = true
	}

	for _, name := range x.Inline {
		if !inline[name] {
			return false
		}
	}

	for name := range x.Named {
		// If a pack is to be marked now, the index file may name no other copy of its objects.
		if !snap.IsLive(name) || gone(name) {
			return false
		}
	}
	return true
}
