package transfer

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// ownIndex is an index file that a push has made, for packs whose entries are
// too many to lie in a root.
type ownIndex struct {
	rootlog.File
	merged []pack.Name // packs of others whose entries it has, too
	copied string      // path of its copy
}

// fits reports whether the index file can be named by a root that follows what
// snap is of: all that it names of others is still inline, and live
// (IDX_REMAKE, IDX_LIVE_ONLY).
func (x *ownIndex) fits(snap *snapshot) bool {
	inline := map[pack.Name]bool{}
	for _, p := range snap.state.Packs {
		_, inline[p.Name] = snap.packs[p.Name]
	}
	return !slices.ContainsFunc(x.merged, func(name pack.Name) bool { return !inline[name] })
}

// minEntry is the least number of bytes that an entry takes in a root.
const minEntry = 36

// inlineOf returns packs as a root holds them.
func inlineOf(packs []*sentPack) []rootlog.Inline {
	list := make([]rootlog.Inline, len(packs))
	for i, s := range packs {
		list[i] = rootlog.Inline{Info: s.info, Entries: s.entries}
	}
	return list
}

// describe has c add the packs of a push to a root that follows what snap is
// of: inline, or by an index file if that is too much. A push of many objects
// makes one of them; a push of few also takes along what others have left
// inline. The index file x, if it is not nil, was made before; describe returns
// the one that c names, or nil.
func (p *push) describe(ctx context.Context, c *rootlog.Change, snap *snapshot, packs []*sentPack, x *ownIndex) (*ownIndex, error) {
	own := inlineOf(packs)
	objects := 0
	for _, o := range own {
		objects += len(o.Entries)
	}
	alone := objects > rootlog.MaxInline/minEntry || rootlog.InlineSize(own) > rootlog.MaxInline
	if len(packs) == 0 || !alone && rootlog.InlineSize(own)+rootlog.InlineSize(snap.state.Packs) <= rootlog.MaxInline {
		c.AddPacks = own
		return nil, nil
	}
	if x == nil || !x.fits(snap) {
		x = &ownIndex{}
		entries := make([]pack.Entry, 0, objects)
		for _, o := range own {
			entries = append(entries, o.Entries...)
		}
		if !alone {
			entries = x.merge(entries, snap)
		}
		if err := p.putIndex(ctx, x, entries); err != nil {
			return nil, err
		}
	}
	c.AddIndexes = []rootlog.File{x.File}
	// No more than it names: others may have come to lie in the root since.
	c.Merged = x.merged
	return x, nil
}

// merge adds to entries those of live packs of others that lie in a root.
func (x *ownIndex) merge(entries []pack.Entry, snap *snapshot) []pack.Entry {
	for _, p := range snap.state.Packs {
		if _, live := snap.packs[p.Name]; live {
			x.merged = append(x.merged, p.Name)
			entries = append(entries, p.Entries...)
		}
	}
	return entries
}

// ownIndexFile is the name of an index file that is being sent, in the folder of
// the process that sends it.
const ownIndexFile = "index"

// putIndex makes an index file of entries, which it sorts, and sends it.
func (p *push) putIndex(ctx context.Context, x *ownIndex, entries []pack.Entry) error {
	folder, err := p.own.makeFolder(ctx)
	if err != nil {
		return fmt.Errorf("make an index file: %w", err)
	}
	sum := sha256.New()
	err = disk.Write(folder, ownIndexFile+tempSuffix, func(w io.Writer) (string, error) {
		return ownIndexFile, pack.WriteIndex(io.MultiWriter(w, sum), entries)
	})
	if err != nil {
		return fmt.Errorf("make an index file: %w", err)
	}
	x.copied = filepath.Join(folder, ownIndexFile)
	file, err := disk.Open(x.copied)
	if err != nil {
		return fmt.Errorf("make an index file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("make an index file: %w", err)
	}
	x.Size, x.Sum = info.Size(), [sha256.Size]byte(sum.Sum(nil))
	x.Name, err = p.putBlob(ctx, pack.Name.IndexPath, func(pack.Name) (io.ReaderAt, int64, error) { return file, x.Size, nil })
	return err
}

// keepCopy keeps the copy of an index file that a root names now.
func (p *push) keepCopy(x *ownIndex) {
	err := disk.MkdirAll(p.cache.path(indexFolder), 0o777)
	if err == nil {
		err = disk.Rename(x.copied, p.indexCopy(x.Name))
	}
	if err != nil {
		p.o.Warn(fmt.Sprintf("an index file will be read from the remote: %v", err))
	}
}
