package index

// CopyTrees remembers the trees that from remembers for directories which both
// have with the same content. It is how trees that were written from an index
// get into one that was loaded later.
func (x *Index) CopyTrees(from *Index) {
	if x == from {
		return
	}
	type pair struct{ to, from *Dir }
	pairs := []pair{{x.root, from.root}}
	for i := 0; i < len(pairs); i++ {
		p := pairs[i]
		for _, sub := range p.to.subs {
			if !sub.tree.ID.IsZero() {
				continue
			}
			if other := p.from.Subdir(sub.name); other != nil {
				pairs = append(pairs, pair{sub, other})
			}
		}
	}
	for i := len(pairs) - 1; i >= 0; i-- {
		if p := pairs[i]; p.to.tree.ID.IsZero() && !p.from.tree.ID.IsZero() && sameContent(p.to, p.from) {
			p.to.tree = p.from.tree
			x.touch(p.to)
		}
	}
}

// sameContent reports whether two directories make the same tree.
func sameContent(a, b *Dir) bool {
	if a.entries.n != b.entries.n || len(a.subs) != len(b.subs) {
		return false
	}
	for i, sub := range a.subs {
		o := b.subs[i]
		if sub.name != o.name || sub.mode != o.mode || sub.tree.ID.IsZero() || sub.tree.ID != o.tree.ID {
			return false
		}
	}
	i, j := 0, 0 // place in b's entries
	for e := range a.entries.all() {
		o := b.entries.blocks[i][j]
		if o.Stat = e.Stat; o != *e {
			return false
		}
		if j++; j == len(b.entries.blocks[i]) {
			i, j = i+1, 0
		}
	}
	return true
}
