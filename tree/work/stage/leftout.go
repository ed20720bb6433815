package stage

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// LeftOutFolder is the new state of a folder that is left out of the worktree.
type LeftOutFolder struct {
	Path  string
	Entry *object.Entry // with the folder's tree; nil: the folder is removed

	was object.ID // the tree on which Entry was based; zero: the folder is new
}

// CheckPaths returns a [*index.LeftOutError] if a path is, or lies in, a folder that is left out of
// the worktree. A command calls it for the paths that its user named, if it needs their files.
func CheckPaths(idx *index.Index, paths ...string) error {
	for _, path := range paths {
		if d := index.LeftOutAt(idx, path); d != nil {
			return &index.LeftOutError{Path: path, Dir: d.Path()}
		}
	}
	return nil
}

// IndexedIn is [Indexed], but also finds paths in folders that are left out. It reads their trees
// from objects.
func IndexedIn(ctx context.Context, objects object.Reader, idx *index.Index, path string) (*object.Entry, error) {
	d := index.LeftOutAt(idx, path)
	if d == nil || d.Path() == path {
		return Indexed(idx, path), nil
	}
	t, _ := d.Tree()
	e, err := tree.Find(ctx, objects, t.ID, strings.TrimPrefix(path, d.Path()+"/"))
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
		return nil, nil
	}
	return &e, err
}

// LeftOut divides the changes of a command: those of the worktree, and those of folders that
// are left out. The latter become new trees of these folders.
type LeftOut struct {
	idx  *index.Index // as before the changes
	cone *tree.Cone

	folders map[string]*leftOutEdits
	placed  []string // the new files in the worktree
}

// leftOutEdits are the changes of one folder.
type leftOutEdits struct {
	entry   *object.Entry            // the folder's new properties; nil: they stay, or the folder is removed
	removed bool                     // if it is empty afterwards
	whole   *tree.Info               // the tree to change; nil: that of the folder now
	at      map[string]*object.Entry // by path below the folder; nil: the path is removed
}

// NewLeftOut returns a LeftOut for changes of idx. New folders outside of the cone are left out.
func NewLeftOut(idx *index.Index, cone *tree.Cone) *LeftOut {
	return &LeftOut{idx: idx, cone: cone, folders: map[string]*leftOutEdits{}}
}

// folderAt returns the path of the outermost folder that is left out, above a path, or at it
// if isDir is true. It reports false if there is none.
func (l *LeftOut) folderAt(path string, isDir bool) (string, bool) {
	d := l.idx.Root()
	for at := 0; at < len(path); {
		end := len(path)
		if n := strings.IndexByte(path[at:], '/'); n >= 0 {
			end = at + n
		}
		if end == len(path) && !isDir {
			break
		}
		if d != nil {
			d = d.Subdir(path[at:end])
		}
		folder := path[:end]
		if d != nil && d.LeftOut() || d == nil && !l.cone.Has(folder) {
			return folder, true
		}
		at = end + 1
	}
	return "", false
}

// isNone reports whether no folder is left out, now or by later changes.
func (l *LeftOut) isNone() bool { return l.cone == nil && !index.HasLeftOut(l.idx) }

// Whole is [tree.DiffOptions.Whole] for comparisons of trees whose folders need not be read: those
// at which the outermost folder is left out, now or by later changes. It is nil if there are none.
func (l *LeftOut) Whole() func(path string) bool {
	if l.isNone() {
		return nil
	}
	return func(path string) bool {
		folder, ok := l.folderAt(path, true)
		return ok && folder == path
	}
}

// IsAt reports whether the index has a folder with the same tree as e at path, which is left
// out. Without e, it reports whether the index has nothing there.
func (l *LeftOut) IsAt(path string, e *object.Entry) bool {
	d := l.idx.Dir(path)
	if !tree.IsDir(e) {
		return d == nil
	}
	if d == nil || !d.LeftOut() {
		return false
	}
	t, _ := d.Tree()
	return t.ID == e.Content.ID
}

// replaceFolder takes a change of a folder as a whole, before the changes in it.
func (l *LeftOut) replaceFolder(c tree.Change) {
	f := &leftOutEdits{at: map[string]*object.Entry{}, whole: &tree.Info{}, removed: true}
	if e := c.New; tree.IsDir(e) {
		f.entry, f.removed = e, false
		*f.whole = tree.Info{ID: e.Content.ID, Files: e.Files, Bytes: e.Size}
	}
	l.folders[c.Path] = f
}

// TakeOps takes the operations in folders that are left out, and returns the others, for
// the worktree.
func (l *LeftOut) TakeOps(ops []worktree.Op) []worktree.Op {
	if l.isNone() {
		return ops
	}
	var rest []worktree.Op
	for _, op := range ops {
		if !l.take(op.Path, op.New) {
			rest = append(rest, op)
		} else if op.Old != nil { // a file gives way to the folder
			rest = append(rest, worktree.Op{Path: op.Path, Old: op.Old})
		}
	}
	return rest
}

// TakeChanges is TakeOps for changes of the index, after all operations.
func (l *LeftOut) TakeChanges(changes []tree.Change) []tree.Change {
	if l.isNone() {
		return changes
	}
	var rest []tree.Change
	for _, c := range changes {
		if !l.take(c.Path, c.New) {
			rest = append(rest, c)
		}
	}
	return rest
}

// SplitChanges returns the changes of idx in the worktree, and those in folders that are left out.
func SplitChanges(idx *index.Index, cone *tree.Cone, changes []tree.Change) (inside, leftOut []tree.Change) {
	l := NewLeftOut(idx, cone)
	if l.isNone() {
		return changes, nil
	}
	for _, c := range changes {
		if l.take(c.Path, c.New) {
			leftOut = append(leftOut, c)
		} else {
			inside = append(inside, c)
		}
	}
	return inside, leftOut
}

// NoteChanges stores the trees that changes of idx need in folders that are left out. It notes
// the changes, and after them edit.
func NoteChanges(ctx context.Context, tx *kist.Tx, idx *index.Index, changes []tree.Change, edit func(*index.Index) error) error {
	l := NewLeftOut(idx, tx.Repository().Config().Cone())
	rest := l.TakeChanges(changes)
	folders, err := l.Folders(ctx, tx.Repository().Unpurged(tx))
	if err != nil {
		return err
	}
	tx.EditIndex(idx, func(idx *index.Index) error {
		if err := stageLeftOut(idx, folders, true); err != nil {
			return err
		}
		return cmp.Or(StageChanges(idx, rest), stageLeftOut(idx, folders, false), edit(idx))
	})
	return nil
}

// take takes the new entry of a path if the path is or lies in a folder that is left out.
func (l *LeftOut) take(path string, entry *object.Entry) bool {
	at := l.idx.Dir(path)
	folder, ok := l.folderAt(path, tree.IsDir(entry) || entry == nil && at != nil && at.LeftOut())
	if !ok {
		if entry != nil && !tree.IsDir(entry) {
			l.placed = append(l.placed, path)
		}
		return false
	}
	f := l.folders[folder]
	if f == nil {
		f = &leftOutEdits{at: map[string]*object.Entry{}}
		l.folders[folder] = f
	}
	if path == folder {
		f.entry, f.removed = entry, entry == nil
	} else {
		f.at[path[len(folder)+1:]] = entry
	}
	return true
}

// Folders returns the new states of the folders, sorted. It stores their trees.
func (l *LeftOut) Folders(ctx context.Context, rw object.ReadWriter) ([]LeftOutFolder, error) {
	var list []LeftOutFolder
	placed := make(map[string]bool, len(l.placed))
	for _, path := range l.placed {
		placed[path] = true
	}
	for _, path := range slices.SortedFunc(maps.Keys(l.folders), tree.ComparePaths) {
		if placed[path] { // a file takes the place of the folder
			continue
		}
		f := l.folders[path]
		state, err := f.edit(ctx, rw, l.idx.Dir(path))
		if err != nil {
			return nil, err
		}
		state.Path = path
		list = append(list, state)
	}
	return list, nil
}

// edit stores the folder's new tree. d is the folder now, or nil.
func (f *leftOutEdits) edit(ctx context.Context, rw object.ReadWriter, d *index.Dir) (s LeftOutFolder, err error) {
	var base tree.Info
	if d != nil && d.LeftOut() {
		base, _ = d.Tree()
		s.was = base.ID
	}
	if f.whole != nil {
		base = *f.whole
	}
	info := base
	if len(f.at) > 0 || base.ID.IsZero() { // otherwise, no tree is read
		if info, err = f.editTree(ctx, rw, base); err != nil {
			return s, err
		}
	}
	if empty, _ := object.EmptyTree(); f.removed && info.ID == empty {
		return s, nil
	}
	e := object.Entry{Type: object.TypeDir, Mode: 0o755}
	switch {
	case f.entry != nil:
		e = *f.entry
	case d != nil:
		e = d.Properties()
	}
	e.Content, e.Files, e.Size = info.Key(), info.Files, info.Bytes
	s.Entry = &e
	return s, nil
}

// editTree makes the changes in a tree.
func (f *leftOutEdits) editTree(ctx context.Context, rw object.ReadWriter, base tree.Info) (tree.Info, error) {
	editor := tree.NewEditor(rw, base)
	for _, path := range slices.SortedFunc(maps.Keys(f.at), tree.ComparePaths) {
		if err := editLeftOut(ctx, editor, path, f.at[path]); err != nil {
			return tree.Info{}, err
		}
	}
	return editor.Finish(ctx)
}

// editLeftOut makes one change. A removed folder stays if something is in it afterwards.
func editLeftOut(ctx context.Context, editor *tree.Editor, path string, e *object.Entry) error {
	switch {
	case e == nil:
		return editor.RemoveOrOffer(ctx, path)
	case tree.IsDir(e):
		return editor.SetDir(ctx, path, *e)
	}
	return editor.Set(ctx, path, *e)
}

// stageLeftOut puts the new states of folders into the index. First only the removals, and
// later the rest. The error is [ErrChanged] if another process changed one of them.
func stageLeftOut(idx *index.Index, folders []LeftOutFolder, removals bool) error {
	for _, f := range folders {
		if (f.Entry == nil) != removals {
			continue
		}
		d := idx.Dir(f.Path)
		var now tree.Info
		if d != nil && d.LeftOut() {
			now, _ = d.Tree()
		}
		if now.ID != f.was {
			return ErrChanged
		}
		if removals {
			idx.Remove(f.Path)
			continue
		}
		if err := index.SetLeftOut(idx, f.Path, *f.Entry); err != nil {
			return err
		}
	}
	return nil
}

// Opening has folders that were left out, and whose own files get into the worktree.
type Opening struct {
	folders []string // in the order in which they are opened
}

// OpenAbove opens the folders above paths in idx, and makes missing ones. The caller writes their
// own files, and does not store idx.
func OpenAbove(ctx context.Context, r object.Reader, idx *index.Index, paths []string) (*Opening, error) {
	o := &Opening{}
	for _, path := range paths {
		for i, c := range path {
			if c != '/' {
				continue
			}
			dir := path[:i]
			d := idx.Dir(dir)
			if d == nil && idx.Entry(dir) == nil {
				if err := idx.SetDir(dir, object.Entry{Mode: 0o755}); err != nil {
					return nil, err
				}
			}
			if d == nil || !d.LeftOut() {
				continue
			}
			if err := index.OpenLeftOut(ctx, idx, r, dir); err != nil {
				return nil, err
			}
			o.folders = append(o.folders, dir)
		}
	}
	return o, nil
}

// OpenIn opens the folders of a cone in idx, and returns them. The caller writes their files, and
// does not store idx.
func OpenIn(ctx context.Context, r object.Reader, idx *index.Index, cone *tree.Cone) (*Opening, error) {
	o := &Opening{}
	var todo []string
	for path := range index.LeftOutDirs(idx) {
		todo = append(todo, path)
	}
	for len(todo) > 0 {
		path := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !cone.Has(path) {
			continue
		}
		if err := index.OpenLeftOut(ctx, idx, r, path); err != nil {
			return nil, err
		}
		o.folders = append(o.folders, path)
		for _, sub := range idx.Dir(path).Subdirs() {
			todo = append(todo, tree.Join(path, sub.Name()))
		}
	}
	return o, nil
}

// Folders returns the paths of the folders.
func (o *Opening) Folders() []string { return o.folders }

// Ops returns the operations that write the own files of the opened folders of idx, except at paths
// that ops change.
func (o *Opening) Ops(idx *index.Index, ops []worktree.Op) []worktree.Op {
	if len(o.folders) == 0 {
		return nil
	}
	changed := make(map[string]bool, len(ops))
	for _, op := range ops {
		changed[op.Path] = true
	}
	var list []worktree.Op
	for _, dir := range o.folders {
		d := idx.Dir(dir)
		if d == nil {
			continue
		}
		if e := d.Properties(); !changed[dir] {
			list = append(list, worktree.Op{Path: dir, New: &e})
		}
		for e := range d.Entries() {
			if path := tree.Join(dir, e.Name); !changed[path] {
				entry := e.Object()
				list = append(list, worktree.Op{Path: path, New: &entry})
			}
		}
	}
	return list
}

// apply opens the same folders in another state of the index.
func (o *Opening) apply(ctx context.Context, r object.Reader, idx *index.Index) error {
	if o == nil {
		return nil
	}
	for _, dir := range o.folders {
		if err := index.OpenLeftOut(ctx, idx, r, dir); err != nil {
			return err
		}
	}
	return nil
}

// StageChanges stages the new entries of changes, without stat data.
func StageChanges(idx *index.Index, changes []tree.Change) error {
	for _, c := range changes {
		if err := setEntry(idx, c.Path, c.New); err != nil {
			return err
		}
	}
	return nil
}

// setEntry stages e at path without stat data. A nil entry removes the path.
func setEntry(idx *index.Index, path string, e *object.Entry) error {
	switch {
	case e == nil:
		idx.Remove(path)
		return nil
	case e.Type == object.TypeDir:
		return idx.SetDir(path, *e)
	}
	return idx.Set(path, index.NewEntry(*e, index.Stat{}))
}
