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

// BuiltIndexes are the index files that were made for the next root. They lie among the
// copies of index files. A nil BuiltIndexes has none.
type BuiltIndexes struct {
	Files    []*BuiltIndex
	Replaced []rootlog.File         // the index files that they replace
	Inline   []pack.Name            // packs of others whose entries lay in a root
	Named    map[pack.Name]struct{} // all packs of others
}

// BuiltIndex is an index file that was made here.
type BuiltIndex struct {
	rootlog.File // without the name until Send
	file         *os.File
}

// IndexLimit is the number of entries of the largest index file that is written. Such a file has up to 1 GiB, which every store
// takes in one request.
const IndexLimit = 20_000_000

// BuildMerged makes index files of packs and their entries. It makes several if the sources have more than
// [Options.IndexLimit] entries: n at most. The entries of a pack are in one file. See [pack.MergeIndex] for packs and sources.
func (r *IndexFiles) BuildMerged(packs []pack.Info, n int, sources ...iter.Seq2[pack.Entry, error]) (*BuiltIndexes, error) {
	groups := [][]pack.Info{packs}
	if n > r.o.IndexLimit {
		var err error
		if groups, err = r.splitPacks(packs, sources); err != nil {
			return nil, fmt.Errorf("make an index file: %w", err)
		}
	}
	built := &BuiltIndexes{Named: map[pack.Name]struct{}{}}
	for _, group := range groups {
		x, err := r.Build(func(w io.Writer) error { return pack.MergeIndex(w, group, sources...) })
		if err != nil {
			built.Close()
			return nil, err
		}
		built.Files = append(built.Files, x)
	}
	return built, nil
}

// splitPacks divides packs into groups that have at most IndexLimit entries, or only one pack. A pack counts as one entry more.
func (r *IndexFiles) splitPacks(packs []pack.Info, sources []iter.Seq2[pack.Entry, error]) (groups [][]pack.Info, err error) {
	counts := map[pack.Name]int{}
	for _, source := range sources {
		for e, err := range source {
			if err != nil {
				return nil, err
			}
			counts[e.Pack.Name]++
		}
	}
	slices.SortFunc(packs, func(a, b pack.Info) int { return a.Name.Compare(b.Name) })
	start, n := 0, 0
	for i, p := range packs {
		count := counts[p.Name] + 1
		if n += count; n > r.o.IndexLimit && i > start {
			groups = append(groups, packs[start:i:i])
			start, n = i, count
		}
	}
	return append(groups, packs[start:]), nil
}

// Build makes an index file with the bytes that write writes. The caller closes it.
func (r *IndexFiles) Build(write func(io.Writer) error) (x *BuiltIndex, err error) {
	temp, err := r.newTemp()
	if err != nil {
		return nil, fmt.Errorf("make an index file: %w", err)
	}
	x = &BuiltIndex{}
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

// Send sends the index files under new names. After an error they are closed.
func (x *BuiltIndexes) Send(ctx context.Context, r *Remote) error {
	for _, f := range x.Files {
		var err error
		f.Name, err = r.putBlob(ctx, pack.Name.IndexPath, func(pack.Name) (io.ReaderAt, int64, error) { return f.file, f.Size, nil })
		if err != nil {
			x.Close()
			return fmt.Errorf("send an index file: %w", err)
		}
	}
	return nil
}

// Listed returns the index files as a root lists them.
func (x *BuiltIndexes) Listed() (files []rootlog.File) {
	if x != nil {
		for _, f := range x.Files {
			files = append(files, f.File)
		}
	}
	return files
}

// Paths returns the names of the index files on the remote.
func (x *BuiltIndexes) Paths() (paths []string) {
	for _, f := range x.Listed() {
		paths = append(paths, f.Name.IndexPath())
	}
	return paths
}

// KeepCopies makes the files the copies of index files that a root names now.
func (x *BuiltIndexes) KeepCopies(r *IndexFiles) {
	if x != nil {
		for _, f := range x.Files {
			f.KeepCopy(r)
		}
	}
}

// Close removes the files.
func (x *BuiltIndexes) Close() {
	if x != nil {
		for _, f := range x.Files {
			f.Close()
		}
	}
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

// Close removes the file.
func (x *BuiltIndex) Close() {
	x.file.Close()
	disk.Remove(x.file.Name())
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
// may name the index files. They must name live packs only, and no pack for which gone
// returns true. They must have every other pack of the replaced index files (IDX_REMAKE,
// IDX_LIVE_ONLY).
func (x *BuiltIndexes) FitsAfter(snap *Snapshot, due []rootlog.File, gone func(pack.Name) bool) bool {
	for _, f := range x.Replaced {
		i := slices.IndexFunc(snap.State.Indexes, func(have rootlog.File) bool { return have.Name == f.Name })
		if i < 0 || snap.Indexes[i] == nil {
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
		// If a pack is to be marked now, the index files may name no other copy of its objects.
		if !snap.IsLive(name) || gone(name) {
			return false
		}
	}
	return true
}
