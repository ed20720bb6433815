package index

// touch notes that d differs from the base, and the index from its files.
func (x *Index) touch(d *Dir) {
	x.changed = true
	for ; d != nil && !d.dirty; d = d.parent {
		d.dirty = true
	}
}

// track notes that d's entry called name is about to be set or removed, and
// whether there is one.
func (x *Index) track(d *Dir, name string, exists bool) {
	if !d.inBase || x.fold {
		return
	}
	if _, ok := d.edits[name]; ok {
		return
	}
	if d.edits == nil {
		d.edits = make(map[string]bool)
	}
	d.edits[name] = exists
	if x.tracked++; x.tracked > x.file.maxTracked() {
		x.fold = true
	}
}

// forget forgets the trees of d and all above it.
func (d *Dir) forget() {
	for ; d != nil && !d.tree.ID.IsZero(); d = d.parent {
		d.tree = TreeInfo{}
	}
}
