package transfer

import (
	"context"
	"io"

	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// minEntry is the least number of bytes that an entry takes in a root.
const minEntry = 36

// describe makes c add the packs of a push to a root that follows snap. A root lists
// few objects itself. For more, c names an index file, p.index. A push of many objects
// makes one of its own. A push of few also moves the entries into it that others left
// in the root.
func (p *push) describe(ctx context.Context, c *rootlog.Change, snap *snapshot, packs []*sentPack) error {
	own := make([]rootlog.Inline, len(packs))
	objects := 0
	for i, s := range packs {
		own[i] = rootlog.Inline{Info: s.info, Entries: s.entries}
		objects += len(s.entries)
	}
	alone := objects > rootlog.MaxInline/minEntry || rootlog.InlineSize(own) > rootlog.MaxInline
	if len(packs) == 0 || !alone && rootlog.InlineSize(own)+rootlog.InlineSize(snap.state.Packs) <= rootlog.MaxInline {
		c.AddPacks = own
		p.dropIndex()
		return nil
	}
	if p.index != nil && !p.index.fits(snap, nil, func(pack.Name) bool { return false }) {
		p.dropIndex()
	}
	if p.index == nil {
		if !alone {
			own = append(own, snap.inlinePacks()...)
		}
		var entries []pack.Entry
		for _, o := range own {
			entries = append(entries, o.Entries...)
		}
		x, err := p.buildIndex(func(w io.Writer) error { return pack.WriteIndex(w, entries) })
		if err != nil {
			return err
		}
		for _, o := range own[len(packs):] {
			x.inline = append(x.inline, o.Name)
			x.named[o.Name] = struct{}{}
		}
		if err := x.send(ctx, p.Remote); err != nil {
			return err
		}
		p.index = x
	}
	c.AddIndexes = []rootlog.File{p.index.File}
	// Only the packs that it names: others may have come into the root since.
	c.Merged = p.index.inline
	return nil
}

// dropIndex forgets the index file that was made for the next root.
func (p *push) dropIndex() {
	if p.index != nil {
		p.index.close()
		p.index = nil
	}
}

// inlinePacks returns the live packs whose entries lie in the root.
func (s *snapshot) inlinePacks() (list []rootlog.Inline) {
	for _, p := range s.state.Packs {
		if _, live := s.packs[p.Name]; live {
			list = append(list, p)
		}
	}
	return list
}
