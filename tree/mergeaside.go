package tree

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// separateDirs resolves paths that were directories in base, if one side replaced
// the directory and the other side has something in it that stays. The
// directory stays, and the other entry is put aside.
func (m *merger) separateDirs(ctx context.Context) error {
	for i := 0; i < len(m.edits) && len(m.replaced) > 0; i++ {
		if op := m.edits[i].op; op != opSet && op != opSetDir {
			continue
		}
		for dir, _ := Split(m.edits[i].path); dir != ""; dir, _ = Split(dir) {
			w, ok := m.replaced[dir]
			if !ok {
				continue
			}
			delete(m.replaced, dir)
			theirs, err := Find(ctx, m.rw, m.Theirs, dir)
			if err != nil {
				return err
			}
			aside, err := m.putAside(ctx, dir, m.opts.Labels.Ours, cmp.Or(w.merged, w.ours))
			if err != nil {
				return err
			}
			m.addEdit(opSetDir, dir, &theirs)
			m.addConflict(Conflict{Path: dir, Kind: ConflictFileDirectory, Base: w.base, Ours: w.ours, Theirs: &theirs, OursPath: aside})
		}
	}

	for _, path := range slices.SortedFunc(maps.Keys(m.overDirs), ComparePaths) {
		over := m.overDirs[path]
		stays, err := m.staysBelow(ctx, path)
		if err != nil {
			return err
		}
		if !stays {
			continue
		}
		dir, err := Find(ctx, m.rw, m.Ours, path)
		if err != nil {
			return err
		}
		there := &m.edits[over.edit]
		there.op = opNothing
		aside, err := m.putAside(ctx, path, m.opts.Labels.Theirs, &there.entry)
		if err != nil {
			return err
		}
		base, err := Find(ctx, m.rw, m.Base, path)
		if err != nil {
			return err
		}
		m.addConflict(Conflict{Path: path, Kind: ConflictFileDirectory, Base: &base, Ours: &dir, Theirs: over.theirs, TheirsPath: aside})
	}

	return nil
}

// staysBelow reports whether ours added or changed something in a directory
// that theirs removed.
func (m *merger) staysBelow(ctx context.Context, dir string) (bool, error) {
	for c, err := range m.diffSide(ctx, m.Ours, dir) {
		if err != nil {
			return false, err
		}
		if c.Path != dir && c.New != nil && (!IsDir(c.New) || !IsDir(c.Old)) && !m.movedAway[c.Path] {
			return true, nil
		}
	}
	return false, nil
}

// putAside sets a version of path under a free name next to it, and returns that path.
func (m *merger) putAside(ctx context.Context, path, label string, e *object.Entry) (string, error) {
	dir, name := Split(path)
	label = "~" + strings.NewReplacer("/", "_", "\x00", "_").Replace(label)
	label = label[:min(len(label), object.MaxNameSize/2)]
	for n := 0; ; n++ {
		suffix := label
		if n > 0 {
			suffix += fmt.Sprint("_", n)
		}
		aside := Join(dir, name[:min(len(name), object.MaxNameSize-len(suffix))]+suffix)
		free, err := m.isFree(ctx, aside)
		if err != nil {
			return "", err
		}
		if free {
			if m.asides == nil {
				m.asides = make(map[string]bool)
			}
			m.asides[aside] = true
			m.addEdit(opSet, aside, e)
			return aside, nil
		}
	}
}

// isFree reports whether path is free in both sides and among the versions put
// aside. No other edit makes a new path.
func (m *merger) isFree(ctx context.Context, path string) (bool, error) {
	if _, name := Split(path); object.CheckName(name) != nil || object.IsGitName(name) {
		return false, nil
	}
	if m.asides[path] {
		return false, nil
	}

	d := differ{r: m.rw}
	for _, side := range []object.ID{m.Ours, m.Theirs} {
		if e, err := d.findEntry(ctx, side, path); e != nil || err != nil {
			return false, err
		}
	}

	return true, nil
}

// mergePath merges a path that both sides changed, or adds a conflict.
func (m *merger) mergePath(ctx context.Context, w threeWay) error {
	b, o, t := w.base, w.ours, w.theirs
	switch {
	case o == nil && t == nil:
	case o == nil || t == nil:
		m.mergeRemoved(w)
	case IsDir(o) && IsDir(t):
		m.mergeDirectories(w)
	case IsDir(b) && IsDir(o):
		m.setOverDir(w.path, t)
	case IsDir(b) && IsDir(t): // separateDirs handles m.replaced
	case IsDir(o) || IsDir(t):
		return m.fileAndDirectory(ctx, w)
	default:
		return m.mergeFiles(ctx, w)
	}

	return nil
}

// mergeRemoved handles a path that one side removed and the other changed.
func (m *merger) mergeRemoved(w threeWay) {
	left, op := w.ours, opOffer
	if left == nil {
		left, op = w.theirs, opRestore
	}

	switch {
	case IsDir(w.base) && IsDir(left):
		m.addEdit(op, w.path, left) // it stays only if something in it stays
		return
	case IsDir(w.base) || IsDir(left):
		// The directory's or the file's removal was part of both changes.
	default:
		m.addConflict(Conflict{Path: w.path, Kind: ConflictModifyDelete, Base: w.base, Ours: w.ours, Theirs: w.theirs})
	}

	switch {
	case w.ours != nil:
	case IsDir(left):
		m.addEdit(opSetDir, w.path, left)
	default:
		m.addEdit(opSet, w.path, left)
	}
}

// mergeDirectories merges the properties of a directory that both sides have.
func (m *merger) mergeDirectories(w threeWay) {
	merged, base := *w.ours, w.base
	if !IsDir(base) { // both made it: mode and metadata of ours stay
		base = &object.Entry{Mode: w.theirs.Mode, Meta: w.theirs.Meta}
	}
	clean := mergeProperties(base, w.ours, w.theirs, &merged)
	if !clean {
		m.addConflict(Conflict{Path: w.path, Kind: ConflictMode, Base: w.base, Ours: w.ours, Theirs: w.theirs})
	}
	if !sameProperties(&merged, w.ours) {
		m.addEdit(opSetDir, w.path, &merged)
	}
}

// fileAndDirectory handles a path that is a directory on one side only and was
// none in base.
func (m *merger) fileAndDirectory(ctx context.Context, w threeWay) error {
	c := Conflict{Path: w.path, Kind: ConflictFileDirectory, Base: w.base, Ours: w.ours, Theirs: w.theirs}
	var err error
	if IsDir(w.ours) {
		c.TheirsPath, err = m.putAside(ctx, w.path, m.opts.Labels.Theirs, w.theirs)
	} else {
		c.OursPath, err = m.putAside(ctx, w.path, m.opts.Labels.Ours, w.ours)
		m.addEdit(opSetDir, w.path, w.theirs)
	}
	m.addConflict(c)
	return err
}

// mergeFiles merges two entries that are no directories.
func (m *merger) mergeFiles(ctx context.Context, w threeWay) error {
	b, o, t := w.base, w.ours, w.theirs
	if IsDir(b) {
		b = nil // its removal was part of both changes
	}

	merged := *o
	c := Conflict{Path: w.path, Base: b, Ours: o, Theirs: t, From: w.from}
	switch {
	case sameContent(o, t) || b != nil && sameContent(b, t):
	case b != nil && sameContent(b, o):
		takeContent(&merged, t)
	default:
		if err := m.mergeContents(ctx, w, b, &merged, &c); err != nil {
			return err
		}
	}

	switch {
	case o.Type == t.Type:
		if !mergeProperties(b, o, t, &merged) && c.Kind == "" {
			c.Kind = ConflictMode
		}
	case merged.Type == t.Type: // the type of theirs, with its mode
		merged.Mode, merged.Meta, merged.Attrs = t.Mode, t.Meta, t.Attrs
	}

	if c.Kind != "" {
		m.addConflict(c)
	}
	if w.oursAt != "" || !isIdentical(&merged, o) {
		m.setMerged(w.path, &merged)
	}

	return nil
}

// mergeContents merges the contents of two files that both sides changed, or makes c a conflict.
func (m *merger) mergeContents(ctx context.Context, w threeWay, b, merged *object.Entry, c *Conflict) error {
	ok, err := m.mergeTexts(ctx, w, b, merged, c)
	switch {
	case err != nil || ok:
	case m.opts.Favor == Theirs && w.ours.Type == w.theirs.Type:
		takeContent(merged, w.theirs)
	case m.opts.Favor == NoSide || w.ours.Type != w.theirs.Type:
		c.Kind = conflictKind(b, w.ours, w.theirs)
		c.TheirsPath, err = m.putAside(ctx, w.path, m.opts.Labels.Theirs, w.theirs)
	}
	return err
}

// takeContent gives e the content of other. It keeps the properties of e.
func takeContent(e, other *object.Entry) {
	own := *e
	*e = *other
	e.Mode, e.Meta, e.Attrs = own.Mode, own.Meta, own.Attrs
}

// setMerged sets the merged file at path.
func (m *merger) setMerged(path string, e *object.Entry) {
	if r, ok := m.replaced[path]; ok {
		r.merged = e
		m.replaced[path] = r
	}
	if over, ok := m.overDirs[path]; ok {
		m.edits[over.edit].entry = *e
		return
	}
	m.addEdit(opSet, path, e)
}

// mergeTexts merges two files as text. It reports false if one of the three
// versions is not text.
func (m *merger) mergeTexts(ctx context.Context, w threeWay, b *object.Entry, merged *object.Entry, c *Conflict) (bool, error) {
	if w.ours.Type != object.TypeFile || w.theirs.Type != object.TypeFile || b != nil && b.Type != object.TypeFile {
		return false, nil
	}

	var data [3][]byte
	for i, e := range []*object.Entry{b, w.ours, w.theirs} {
		var ok bool
		var err error
		if data[i], ok, err = readText(ctx, m.rw, e); err != nil || !ok {
			return false, err
		}
	}

	labels := m.opts.Labels
	if w.oursAt != w.theirsAt {
		labels.Ours += ":" + cmp.Or(w.oursAt, w.path)
		labels.Theirs += ":" + cmp.Or(w.theirsAt, w.path)
	}

	text, conflicts := mergeText(data, labels, m.opts.Favor)
	if conflicts {
		c.Kind, c.Markers = conflictKind(b, w.ours, w.theirs), true
	}

	return true, storeContent(ctx, m.rw, m.opts.Split, text, merged)
}

// conflictKind returns the kind of a conflict about content.
func conflictKind(b, o, t *object.Entry) ConflictKind {
	switch {
	case b == nil:
		return ConflictAddAdd
	case b.Type != o.Type || b.Type != t.Type:
		return ConflictType
	}
	return ConflictContent
}

// mergeProperties merges mode, metadata and each attribute into merged, which starts with
// those of ours. It reports false if both sides changed one of them; then ours is kept.
func mergeProperties(b, o, t, merged *object.Entry) bool {
	clean := true
	switch {
	case o.Mode == t.Mode || b != nil && b.Mode == t.Mode:
	case b != nil && b.Mode == o.Mode:
		merged.Mode = t.Mode
	default:
		clean = false
	}

	switch {
	case sameMetadata(o.Meta, t.Meta) || b != nil && sameMetadata(b.Meta, t.Meta):
	case b != nil && sameMetadata(b.Meta, o.Meta):
		merged.Meta = t.Meta
	default:
		clean = false
	}

	attrs, ok := mergeAttrs(b, o, t)
	merged.SetAttrs(attrs)
	return clean && ok
}

// mergeAttrs merges attributes by key. It reports false if both sides changed the value of a
// key; then the value of ours is kept.
func mergeAttrs(b, o, t *object.Entry) (merged map[string]string, clean bool) {
	if maps.Equal(o.Attrs, t.Attrs) {
		return o.Attrs, true
	}
	changed := map[string]string{} // has the keys of base and theirs
	var base map[string]string
	if b != nil {
		base = b.Attrs
		maps.Copy(changed, base)
	}
	maps.Copy(changed, t.Attrs)

	merged, clean = map[string]string{}, true
	maps.Copy(merged, o.Attrs)
	for key := range changed {
		was, had := base[key]
		mine, have := o.Attrs[key]
		now, has := t.Attrs[key]
		switch {
		case has == had && now == was, has == have && now == mine:
		case have != had || mine != was:
			clean = false
		case has:
			merged[key] = now
		default:
			delete(merged, key)
		}
	}
	return merged, clean
}
