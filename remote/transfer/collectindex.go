package transfer

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// builtIndex is an index file that was made for the next root. It lies among the
// copies of index files.
type builtIndex struct {
	rootlog.File // without the name until send
	file         *os.File
	replaced     []rootlog.File         // the index files that it replaces
	inline       []pack.Name            // packs of others whose entries lay in a root
	named        map[pack.Name]struct{} // all packs of others
}

// build makes an index file with the bytes that write writes. The caller closes it.
func (r *indexFiles) build(write func(io.Writer) error) (x *builtIndex, err error) {
	temp, err := r.newTemp()
	if err != nil {
		return nil, fmt.Errorf("make an index file: %w", err)
	}
	x = &builtIndex{named: map[pack.Name]struct{}{}}
	if x.file, err = disk.OpenFile(filepath.Join(r.dir(), temp), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666); err != nil {
		return nil, fmt.Errorf("make an index file: %w", err)
	}

	sum := sha256.New()
	err = write(io.MultiWriter(x.file, sum))
	if err == nil {
		x.Size, err = x.file.Seek(0, io.SeekCurrent)
	}
	if err != nil {
		x.close()
		return nil, fmt.Errorf("make an index file: %w", err)
	}
	x.Sum = [sha256.Size]byte(sum.Sum(nil))
	return x, nil
}

// send sends the index file under a new name. After an error it is closed.
func (x *builtIndex) send(ctx context.Context, r *Remote) (err error) {
	x.Name, err = r.putBlob(ctx, pack.Name.IndexPath, func(pack.Name) (io.ReaderAt, int64, error) { return x.file, x.Size, nil })
	if err != nil {
		x.close()
		return fmt.Errorf("send an index file: %w", err)
	}
	return nil
}

// keep makes the file the copy of an index file that a root names now.
func (x *builtIndex) keep(r *indexFiles) {
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

// close removes the file. X may be nil.
func (x *builtIndex) close() {
	if x != nil {
		x.file.Close()
		disk.Remove(x.file.Name())
	}
}

// entries yields the entries of the index file, by key.
func (x *builtIndex) entries() iter.Seq2[pack.Entry, error] {
	return func(yield func(pack.Entry, error) bool) {
		index, err := pack.OpenIndex(x.file, x.Size)
		if err != nil {
			yield(pack.Entry{}, err)
			return
		}
		index.All()(yield)
	}
}

// fits reports whether a root that follows snap, and replaces the index files in due,
// may name the index file. It must name live packs only, and no pack for which gone
// returns true. It must have every other pack of the replaced index files (IDX_REMAKE,
// IDX_LIVE_ONLY).
func (x *builtIndex) fits(snap *snapshot, due []rootlog.File, gone func(pack.Name) bool) bool {
	for _, f := range x.replaced {
		i := slices.IndexFunc(snap.state.Indexes, func(have rootlog.File) bool { return have.Name == f.Name })
		if i < 0 {
			return false
		}
		for _, p := range snap.indexes[i].packs {
			if _, named := x.named[p.Name]; snap.isLive(p.Name) && !named && !gone(p.Name) {
				return false
			}
		}
	}

	for _, f := range due {
		if !slices.ContainsFunc(x.replaced, func(r rootlog.File) bool { return r.Name == f.Name }) {
			return false
		}
	}

	inline := map[pack.Name]bool{}
	for _, p := range snap.state.Packs {
		inline[p.Name] = true
	}

	for _, name := range x.inline {
		if !inline[name] {
			return false
		}
	}

	for name := range x.named {
		// If a pack goes now, the index file may name no other copy of its objects.
		if !snap.isLive(name) || gone(name) {
			return false
		}
	}
	return true
}

// describe makes a change replace the index files in due and name our own packs: in the
// root, or by a new index file. That has the entries of all live packs that the replaced
// ones name, and of those in the root, except packs that go. Unreachable entries of packs
// that stay are among them: a push may rely on all that is live.
func (c *Collection) describe(ctx context.Context, change *rootlog.Change, due []rootlog.File, goes map[pack.Name]bool) error {
	gone := func(name pack.Name) bool { return goes[name] }
	own := c.ownInline(goes)
	needed := len(due) > 0 || len(own) < len(c.own.packs)
	if c.index != nil && (!needed || !c.index.fits(c.snap, due, gone)) {
		c.dropIndex()
	}
	if !needed {
		change.AddPacks = own
		return nil
	}
	if c.index == nil {
		var err error
		if c.index, err = c.merge(ctx, due, gone); err != nil {
			return err
		}
	}
	if c.index != nil {
		due = c.index.replaced
		change.AddIndexes = []rootlog.File{c.index.File}
		change.Merged = c.index.inline
	}

	for _, f := range due {
		change.Condemn = append(change.Condemn, f.Name.IndexPath())
	}
	return nil
}

// ownInline returns our own packs as a root holds them, or nil if there are none, or too
// many.
func (c *Collection) ownInline(goes map[pack.Name]bool) []rootlog.Inline {
	stay := slices.DeleteFunc(slices.Clone(c.snap.state.Packs), func(p rootlog.Inline) bool { return goes[p.Name] })
	if c.own.objects > maxInline || rootlog.InlineSize(c.own.inline)+rootlog.InlineSize(stay) > rootlog.MaxInline {
		return nil
	}
	return c.own.inline
}

// merge makes an index file that replaces those in due, and sends it. It returns nil if no
// pack is left to name.
func (c *Collection) merge(ctx context.Context, due []rootlog.File, gone func(pack.Name) bool) (*builtIndex, error) {
	var inline []pack.Name
	named := map[pack.Name]struct{}{}
	infos := map[pack.Name]pack.Info{}
	add := func(p pack.Info) bool {
		if !c.snap.isLive(p.Name) || gone(p.Name) { // IDX_LIVE_ONLY
			return false
		}
		infos[p.Name] = p
		named[p.Name] = struct{}{}
		return true
	}

	var sources []iter.Seq2[pack.Entry, error]
	for i, f := range c.snap.state.Indexes {
		if !slices.ContainsFunc(due, func(d rootlog.File) bool { return d.Name == f.Name }) {
			continue
		}
		for _, p := range c.snap.indexes[i].packs {
			add(p)
		}
		sources = append(sources, func(yield func(pack.Entry, error) bool) {
			for e, err := range c.snap.indexes[i].All() {
				if err != nil {
					err = c.snap.badIndex(i, err)
				}
				if !yield(e, err) {
					return
				}
			}
		})
	}

	for _, p := range c.snap.state.Packs {
		if add(p.Info) {
			inline = append(inline, p.Name)
			sources = append(sources, withoutErrors(p.Entries))
		}
	}

	for _, own := range c.own.indexes {
		sources = append(sources, own.entries())
	}
	for _, p := range c.own.packs {
		infos[p.Name] = p
	}
	if len(infos) == 0 {
		return nil, nil
	}

	x, err := c.r.indexes.build(func(w io.Writer) error {
		return pack.MergeIndex(w, slices.Collect(maps.Values(infos)), sources...)
	})
	if err != nil {
		return nil, err
	}

	x.replaced, x.inline, x.named = due, inline, named
	if err := x.send(ctx, c.r); err != nil {
		return nil, err
	}

	c.made[x.Name.IndexPath()] = x.Size
	c.stats.After += x.Size
	return x, nil
}

func withoutErrors(entries []pack.Entry) iter.Seq2[pack.Entry, error] {
	return func(yield func(pack.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}
