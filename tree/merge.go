package tree

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// Versions are the directories of a merge. A zero ID is an empty directory.
type Versions struct{ Base, Ours, Theirs object.ID }

// MergeOptions configure [Merge].
type MergeOptions struct {
	// Labels name the sides. Empty ones are "ours" and "theirs".
	Labels Labels

	// Favor is the side that wins each conflict of content: with its lines, or with its full
	// content if a file is not text.
	Favor MergeSide

	// Directories is the effect of renamed directories.
	Directories DirectoryRenames

	// Split cuts merged files into chunks. Merged files are deduplicated only
	// if it is the repository's chunker.
	Split SplitFunc
}

// MergeSide is one of the two sides of a merge.
type MergeSide uint8

// The sides of a merge.
const (
	NoSide MergeSide = iota
	Ours             // HEAD's version
	Theirs           // the merged commit's version
)

// ConflictKind is the way in which two sides disagree about a path.
type ConflictKind string

// The kinds of conflicts, with the content of the merged tree.
const (
	// ConflictContent: both changed a file or a symlink. Text is merged, with
	// markers. Otherwise ours stays, and theirs is put aside.
	ConflictContent ConflictKind = "content"

	// ConflictAddAdd: both added different entries. As with ConflictContent.
	ConflictAddAdd ConflictKind = "add/add"

	// ConflictType: one changed the type, the other type or content. Ours
	// stays, theirs is put aside.
	ConflictType ConflictKind = "type"

	// ConflictMode: both changed the mode, the metadata or the value of an attribute.
	// Those of ours stay. Content and other attributes may be merged.
	ConflictMode ConflictKind = "mode"

	// ConflictModifyDelete: one changed a file, the other deleted it. The
	// changed one stays.
	ConflictModifyDelete ConflictKind = "modify/delete"

	// ConflictFileDirectory: one has a directory where the other has
	// something else. The directory stays, the other is put aside.
	ConflictFileDirectory ConflictKind = "file/directory"

	// ConflictRenameRename: both moved a file, to different paths. The tree
	// has it at both paths, each in the version of its side.
	ConflictRenameRename ConflictKind = "rename/rename"

	// ConflictRenameDelete: one moved a file, the other deleted it. The moved
	// one stays.
	ConflictRenameDelete ConflictKind = "rename/delete"

	// ConflictLocation: one added a file to a directory that the other
	// renamed. The file is in the renamed directory. It stays at its path if
	// the new path is taken or not clear.
	ConflictLocation ConflictKind = "file location"
)

// Conflict is a path about which the sides disagree.
type Conflict struct {
	Path string
	Kind ConflictKind

	// The three versions of the entry; nil means absent. After a rename, an
	// entry may come from another path and have that name.
	Base, Ours, Theirs *object.Entry

	// From is the path of Base, if it differs from Path.
	From string

	// OursPath and TheirsPath are the paths of our and their version in the
	// merged tree, if these differ from Path: the version was put aside or
	// moved.
	OursPath, TheirsPath string

	// Markers is set if Path has a text with conflict markers in the merged
	// tree.
	Markers bool
}

// MergeResult is the result of [Merge].
type MergeResult struct {
	// Tree is the merged directory. With conflicts, it contains everything
	// needed to resolve them (see [ConflictKind]).
	Tree Info

	// Changes are the differences from ours to Tree, as a recursive, paired
	// [Diff] reports them.
	Changes []Change

	// Conflicts are in path order.
	Conflicts []Conflict
}

// Merge merges two directories, ours and theirs, that both came from base. A
// change on one side only is taken from that side. A change on both sides is
// merged or is a conflict. A zero ID means no directory.
//
//   - An entry's content is merged apart from its mode and metadata. A change
//     of mtime alone does not count, and ours is kept. Files that are not text
//     ([IsText]) cannot be merged.
//   - A directory's mode is also merged. A directory that one side removed
//     is kept if a change of the other side in it is kept.
//   - A file that one side moved and the other changed is merged at its new
//     path, if the new path is clear; see [DetectRenames].
//   - A file that one side added to a directory that the other renamed moves
//     along if opts.Directories says so.
//
// New nodes and contents are stored in rw. The memory used depends on the
// number of changes.
func Merge(ctx context.Context, rw object.ReadWriter, v Versions, opts MergeOptions) (*MergeResult, error) {
	opts.Labels = Labels{cmp.Or(opts.Labels.Ours, "ours"), cmp.Or(opts.Labels.Theirs, "theirs")}

	m := &merger{rw: rw, Versions: v, opts: opts}
	tree, err := m.mergeTrees(ctx)
	if err != nil {
		return nil, err
	}

	result := &MergeResult{Tree: tree, Conflicts: m.conflicts}
	slices.SortStableFunc(result.Conflicts, func(a, b Conflict) int { return ComparePaths(a.Path, b.Path) })
	for c, err := range Diff(ctx, rw, v.Ours, tree.ID, DiffOptions{Recursive: true, Paired: true}) {
		if err != nil {
			return nil, err
		}
		result.Changes = append(result.Changes, c)
	}

	return result, nil
}

// merger is the state of one merge.
type merger struct {
	rw object.ReadWriter
	Versions
	opts MergeOptions

	arrivals  arrivals            // entries that may follow a renamed directory
	both      []threeWay          // paths that both sides changed
	replaced  map[string]threeWay // directories that ours replaced by something else
	overDirs  map[string]overDir  // edits that replace a directory, by path
	movedAway map[string]bool     // paths in ours whose file followed a move of theirs
	asides    map[string]bool     // paths of versions put aside
	edits     []mergeEdit         // edits that turn ours into the result
	conflicts []Conflict
}

// mergeTrees returns the merged directory.
func (m *merger) mergeTrees(ctx context.Context) (Info, error) {
	if m.Ours == m.Theirs || m.Base == m.Theirs {
		return m.statTree(ctx, m.Ours)
	}
	if m.Base == m.Ours {
		return m.statTree(ctx, m.Theirs)
	}
	if err := m.compareSides(ctx); err != nil {
		return Info{}, err
	}

	found := m.arrivals.found
	if m.opts.Directories != IgnoreDirectoryRenames && len(found[0])+len(found[1]) > 0 {
		moved, err := m.followDirectories(ctx)
		if err != nil {
			return Info{}, err
		}
		if moved {
			m.both, m.edits = nil, nil
			if err := m.compareSides(ctx); err != nil {
				return Info{}, err
			}
		}
	}
	if err := m.followRenames(ctx); err != nil {
		return Info{}, err
	}

	for _, w := range m.both {
		if err := m.mergePath(ctx, w); err != nil {
			return Info{}, &PathError{w.path, err}
		}
	}

	if err := m.separateDirs(ctx); err != nil {
		return Info{}, err
	}
	if err := m.askAboutArrivals(ctx, found); err != nil {
		return Info{}, err
	}

	return m.applyEdits(ctx, m.Ours, m.sortEdits())
}

func (m *merger) statTree(ctx context.Context, root object.ID) (Info, error) {
	if root.IsZero() {
		return NewEditor(m.rw, Info{}).Finish(ctx)
	}
	return ReadInfo(ctx, m.rw, root)
}

// overDir is an entry of theirs that replaces a directory.
type overDir struct {
	edit   int           // number of the edit that sets it
	theirs *object.Entry // the entry in theirs
}

// mergeEdit is one call of an [Editor].
type mergeEdit struct {
	path  string
	op    mergeOp
	entry object.Entry
}

type mergeOp uint8

const (
	opNothing mergeOp = iota
	opSet
	opSetDir
	opOffer
	opRestore // opOffer of a directory that ours does not have
	opRemove
)

func (m *merger) addEdit(op mergeOp, path string, entry *object.Entry) {
	e := mergeEdit{path: path, op: op}
	if entry != nil {
		e.entry = *entry
	}
	m.edits = append(m.edits, e)
}

func (m *merger) addConflict(c Conflict) { m.conflicts = append(m.conflicts, c) }

// applyEdits returns a directory after edits in path order.
func (m *merger) applyEdits(ctx context.Context, root object.ID, edits []mergeEdit) (Info, error) {
	info, err := m.statTree(ctx, root)
	if err != nil {
		return Info{}, err
	}

	editor := NewEditor(m.rw, info)
	for _, e := range edits {
		switch e.op {
		case opSet:
			err = editor.Set(ctx, e.path, e.entry)
		case opSetDir:
			err = editor.SetDir(ctx, e.path, e.entry)
		case opOffer, opRestore:
			err = editor.Offer(ctx, e.path, e.entry)
		case opRemove:
			err = editor.Remove(ctx, e.path)
		}
		if err != nil {
			return Info{}, err
		}
	}

	return editor.Finish(ctx)
}

// sortEdits returns the edits in path order, without directories to restore that
// stay empty.
func (m *merger) sortEdits() []mergeEdit {
	slices.SortStableFunc(m.edits, func(a, b mergeEdit) int { return ComparePaths(a.path, b.path) })
	used := "" // the next path that an edit sets
	for i := len(m.edits) - 1; i >= 0; i-- {
		switch e := &m.edits[i]; e.op {
		case opSet, opSetDir:
			used = e.path
		case opRestore:
			if !Below(used, e.path) {
				e.op = opNothing
			}
		}
	}

	return m.edits
}

// threeWay is a path that both sides changed.
type threeWay struct {
	path               string
	base, ours, theirs *object.Entry

	merged *object.Entry // the merged version of ours, if any

	// After a rename:
	from     string // the path of base
	oursAt   string // the path in ours, if not path
	theirsAt string // the path in theirs, if not path
}

// diffSide iterates over the changes of a side, one change for each path.
func (m *merger) diffSide(ctx context.Context, side object.ID, paths ...string) iter.Seq2[Change, error] {
	return Diff(ctx, m.rw, m.Base, side, DiffOptions{Recursive: true, Paired: true, Paths: paths})
}

// compareSides finds the changes of both sides. A change of theirs alone becomes an
// edit. A path that both changed goes to m.both.
func (m *merger) compareSides(ctx context.Context) error {
	nextOurs, stop := iter.Pull2(m.diffSide(ctx, m.Ours))
	defer stop()

	nextTheirs, stop := iter.Pull2(m.diffSide(ctx, m.Theirs))
	defer stop()

	m.replaced, m.overDirs, m.arrivals = make(map[string]threeWay), make(map[string]overDir), arrivals{}

	o, errO, moreO := nextOurs()
	t, errT, moreT := nextTheirs()
	for moreO || moreT {
		if errO != nil {
			return errO
		}
		if errT != nil {
			return errT
		}
		order := 0
		switch {
		case !moreT:
			order = -1
		case !moreO:
			order = 1
		default:
			order = ComparePaths(o.Path, t.Path)
		}
		if order <= 0 {
			m.arrivals.noteChange(0, o)
		}
		if order >= 0 {
			m.arrivals.noteChange(1, t)
		}
		switch {
		case order < 0:
			m.keepOurs(o)
		case order > 0:
			if err := m.takeTheirs(ctx, t); err != nil {
				return err
			}
		default:
			w := threeWay{path: o.Path, base: o.Old, ours: o.New, theirs: t.New}
			m.both = append(m.both, w)
			m.noteReplaced(w)
		}
		if order <= 0 {
			o, errO, moreO = nextOurs()
		}
		if order >= 0 {
			t, errT, moreT = nextTheirs()
		}
	}

	return nil
}

// keepOurs records a change of ours alone, if it matters for changes of theirs.
func (m *merger) keepOurs(c Change) {
	if IsDir(c.Old) && c.New == nil {
		m.addEdit(opRestore, c.Path, c.Old)
	}
	m.noteReplaced(threeWay{path: c.Path, base: c.Old, ours: c.New})
}

func (m *merger) noteReplaced(w threeWay) {
	if IsDir(w.base) && w.ours != nil && !IsDir(w.ours) {
		m.replaced[w.path] = w
	}
}

// takeTheirs adds the edit for a change of theirs alone.
func (m *merger) takeTheirs(ctx context.Context, c Change) error {
	switch {
	case c.New == nil && IsDir(c.Old):
		m.addEdit(opOffer, c.Path, c.Old)
	case c.New == nil:
		m.addEdit(opRemove, c.Path, nil)
	case IsDir(c.New):
		m.addEdit(opSetDir, c.Path, c.New)
	case IsDir(c.Old):
		m.setOverDir(c.Path, c.New)
	case sameContent(c.Old, c.New): // the mtime of ours stays
		e, err := Find(ctx, m.rw, m.Ours, c.Path)
		if err != nil {
			return err
		}
		e.Mode, e.Meta, e.Attrs = c.New.Mode, c.New.Meta, c.New.Attrs
		m.addEdit(opSet, c.Path, &e)
	default:
		m.addEdit(opSet, c.Path, c.New)
	}

	return nil
}

// IsDir reports whether an entry is a directory. Nil is none.
func IsDir(e *object.Entry) bool { return e != nil && e.Type == object.TypeDir }

// setOverDir adds the edit that replaces a directory by an entry of theirs.
func (m *merger) setOverDir(path string, e *object.Entry) {
	m.overDirs[path] = overDir{len(m.edits), e}
	m.addEdit(opSet, path, e)
}

// followRenames finds the new paths of files that one side removed and the
// other side removed or changed. A file that became a directory counts as
// removed.
func (m *merger) followRenames(ctx context.Context) error {
	byOurs, byTheirs := map[string]bool{}, map[string]bool{}
	at := make(map[string]int, len(m.both))
	for i, w := range m.both {
		at[w.path] = i
		if w.base != nil && w.base.Type == object.TypeFile {
			if isNoFile(w.ours) {
				byOurs[w.path] = true
			}
			if isNoFile(w.theirs) {
				byTheirs[w.path] = true
			}
		}
	}

	ours, err := m.findMoves(ctx, m.Ours, byOurs)
	if err != nil {
		return err
	}

	theirs, err := m.findMoves(ctx, m.Theirs, byTheirs)
	if err != nil {
		return err
	}
	if len(ours)+len(theirs) == 0 {
		return nil
	}

	for i := range m.both {
		w := &m.both[i]
		o, t := ours[w.path], theirs[w.path]
		switch {
		case o == nil && t == nil:
		case byOurs[w.path] && byTheirs[w.path]:
			m.bothRemoved(*w, o, t, at)
		default:
			m.followRename(w, cmp.Or(o, t), at)
		}
	}

	return nil
}

// isNoFile reports whether an entry is no file.
func isNoFile(e *object.Entry) bool { return e == nil || e.Type == object.TypeDir }

// findMoves returns the new paths of files that a side removed, by old path.
func (m *merger) findMoves(ctx context.Context, side object.ID, removed map[string]bool) (map[string]*renameSide, error) {
	if len(removed) == 0 {
		return nil, nil
	}

	matcher := renameMatcher{r: m.rw}
	for c, err := range m.diffSide(ctx, side) {
		if err != nil {
			return nil, err
		}
		matcher.addSides(c)
	}

	err := matcher.matchFiles(ctx, func(old *renameSide) bool { return removed[old.path] })
	if err != nil {
		return nil, err
	}

	found := make(map[string]*renameSide)
	for i := range matcher.olds {
		if old := &matcher.olds[i]; removed[old.path] && old.to != nil && !old.ambiguous {
			found[old.path] = old.to
		}
	}

	return found, nil
}

// followRename merges a file that one side moved and the other changed at its
// new path. If the other side also has something at the new path, it does
// nothing.
func (m *merger) followRename(w *threeWay, to *renameSide, at map[string]int) {
	if i, ok := at[to.path]; ok {
		there := &m.both[i]
		if there.path != to.path || !isNoFile(there.ours) && !isNoFile(there.theirs) || IsDir(there.ours) || IsDir(there.theirs) {
			return
		}
		*there = threeWay{path: to.path} // it replaced a directory that both removed
	}

	from := w.path
	if isNoFile(w.ours) {
		*w = threeWay{path: to.path, base: w.base, ours: to.entry, theirs: w.theirs, from: from, theirsAt: from}
		return
	}
	if w.theirs == nil {
		m.addEdit(opRemove, from, nil)
	} else {
		m.addEdit(opSetDir, from, w.theirs)
	}
	if m.movedAway == nil {
		m.movedAway = make(map[string]bool)
	}

	m.movedAway[from] = true
	*w = threeWay{path: to.path, base: w.base, ours: w.ours, theirs: to.entry, from: from, oursAt: from}
}

// bothRemoved handles a file that both sides removed and at least one side
// moved.
func (m *merger) bothRemoved(w threeWay, ours, theirs *renameSide, at map[string]int) {
	switch {
	case theirs == nil:
		m.addConflict(Conflict{Path: ours.path, Kind: ConflictRenameDelete, Base: w.base, Ours: ours.entry, From: w.path})
	case ours == nil:
		m.addConflict(Conflict{Path: theirs.path, Kind: ConflictRenameDelete, Base: w.base, Theirs: theirs.entry, From: w.path})
	case ours.path != theirs.path:
		m.addConflict(Conflict{
			Path: w.path, Kind: ConflictRenameRename, Base: w.base, Ours: ours.entry, Theirs: theirs.entry,
			OursPath: ours.path, TheirsPath: theirs.path,
		})
	default: // moved to the same path; both may have changed it
		if i, ok := at[ours.path]; ok && m.both[i].base == nil {
			m.both[i].base, m.both[i].from = w.base, w.path
		}
	}
}
