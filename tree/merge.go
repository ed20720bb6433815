package tree

import (
	"context"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// MergeOptions says how [Merge] goes about it.
type MergeOptions struct {
	// Labels name the sides. Empty ones are "ours" and "theirs".
	Labels Labels

	// Text merges three texts, as [MergeText] does; nil: MergeText.
	Text func(base, ours, theirs []byte, labels Labels) (merged []byte, conflicts bool)

	// Split cuts merged files into chunks. It has to be the chunker of the
	// repository for the files to be deduplicated; nil cuts evenly.
	Split SplitFunc

	// Renames says how files that were moved are found.
	Renames RenameOptions
}

// ConflictKind says in what two sides disagree about a path.
type ConflictKind string

// The kinds of conflicts. In the merged tree there is
const (
	// ConflictContent: both changed a file or a symlink. Text is merged, with
	// markers; of anything else ours stays, and theirs is put aside.
	ConflictContent ConflictKind = "content"

	// ConflictAddAdd: both added something else. As with ConflictContent.
	ConflictAddAdd ConflictKind = "add/add"

	// ConflictType: one changed the type, the other type or content. Ours
	// stays, theirs is put aside.
	ConflictType ConflictKind = "type"

	// ConflictMode: both changed the mode or metadata, content may be merged.
	// Mode and metadata of ours stay.
	ConflictMode ConflictKind = "mode"

	// ConflictModifyDelete: one changed a file, the other deleted it. The
	// changed one stays.
	ConflictModifyDelete ConflictKind = "modify/delete"

	// ConflictFileDirectory: one has a directory where the other has
	// something else. The directory stays, the other is put aside.
	ConflictFileDirectory ConflictKind = "file/directory"

	// ConflictRenameRename: both moved a file, to different places. It is in
	// both, as each side has it.
	ConflictRenameRename ConflictKind = "rename/rename"

	// ConflictRenameDelete: one moved a file, the other deleted it. The moved
	// one stays.
	ConflictRenameDelete ConflictKind = "rename/delete"
)

// Conflict is a path about which the sides disagree.
type Conflict struct {
	Path string
	Kind ConflictKind

	// What the three versions have; nil: nothing. After a rename an entry may
	// come from another path, and has its name.
	Base, Ours, Theirs *object.Entry

	// From is where Base was, if it was not at Path.
	From string

	// OursPath and TheirsPath are where the merged tree has the version of
	// ours and of theirs, if it is not at Path but put aside, or moved.
	OursPath, TheirsPath string

	// Markers says that the merged tree has a text with conflict markers at
	// Path.
	Markers bool
}

// MergeResult is what [Merge] found.
type MergeResult struct {
	// Tree is the merged directory. If there are conflicts it holds what a
	// person needs to resolve them (see [ConflictKind]).
	Tree Info

	// Changes lead from ours to Tree, as a recursive [Diff] reports them, one
	// for each path (Paired).
	Changes []Change

	// Conflicts are in path order.
	Conflicts []Conflict
}

// Merge makes one directory of two, ours and theirs, that both came from
// base: what only one side changed is taken from that side, what both changed
// is merged or is a conflict. A zero ID stands for no directory.
//
//   - An entry's content and its mode and metadata are merged separately. A
//     change of mtime alone is none, and gives ours. Files that are not text
//     ([IsText]) cannot be merged.
//   - A directory's mode is merged, too. One that a side removed stays if the
//     other side has something in it that stays.
//   - A file that one side moved and the other changed is merged at its new
//     place, if it is clear which file it became; see [DetectRenames].
//
// New nodes and contents are stored in rw. The memory used goes with the
// number of changes.
func Merge(ctx context.Context, rw object.ReadWriter, base, ours, theirs object.ID, opts MergeOptions) (*MergeResult, error) {
	if opts.Labels.Ours == "" {
		opts.Labels.Ours = "ours"
	}
	if opts.Labels.Theirs == "" {
		opts.Labels.Theirs = "theirs"
	}
	if opts.Text == nil {
		opts.Text = MergeText
	}
	m := &merger{ctx: ctx, rw: rw, base: base, ours: ours, theirs: theirs, opts: opts}
	tree, err := m.run()
	if err != nil {
		return nil, err
	}
	result := &MergeResult{Tree: tree, Conflicts: m.conflicts}
	slices.SortStableFunc(result.Conflicts, func(a, b Conflict) int { return ComparePaths(a.Path, b.Path) })
	for c, err := range Diff(ctx, rw, ours, tree.ID, DiffOptions{Recursive: true, Paired: true}) {
		if err != nil {
			return nil, err
		}
		result.Changes = append(result.Changes, c)
	}
	return result, nil
}

// merger is the state of one merge.
type merger struct {
	ctx                context.Context
	rw                 object.ReadWriter
	base, ours, theirs object.ID
	opts               MergeOptions

	both      []threeWay          // paths that both sides changed
	replaced  map[string]threeWay // directories in whose place ours has something else
	overDirs  map[string]overDir  // edits that put something in the place of a directory, by path
	movedAway map[string]bool     // paths in ours whose file was moved along with theirs
	asides    map[string]bool     // where versions were put aside
	edits     []mergeEdit         // what is to be done to ours
	conflicts []Conflict
}

// run returns the merged directory.
func (m *merger) run() (Info, error) {
	if m.ours == m.theirs || m.base == m.theirs {
		return m.stat(m.ours)
	}
	if m.base == m.ours {
		return m.stat(m.theirs)
	}
	if err := m.compare(); err != nil {
		return Info{}, err
	}
	if err := m.followRenames(); err != nil {
		return Info{}, err
	}
	for _, w := range m.both {
		if err := m.resolve(w); err != nil {
			return Info{}, &PathError{w.path, err}
		}
	}
	if err := m.separate(); err != nil {
		return Info{}, err
	}
	return m.apply()
}

func (m *merger) stat(root object.ID) (Info, error) {
	if root.IsZero() {
		return NewEditor(m.rw, Info{}).Finish(m.ctx)
	}
	return Stat(m.ctx, m.rw, root)
}

// overDir is something that theirs has in the place of a directory.
type overDir struct {
	edit   int           // that puts it there
	theirs *object.Entry // as theirs has it
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

func (m *merger) edit(op mergeOp, path string, entry *object.Entry) {
	e := mergeEdit{path: path, op: op}
	if entry != nil {
		e.entry = *entry
	}
	m.edits = append(m.edits, e)
}

func (m *merger) conflict(c Conflict) { m.conflicts = append(m.conflicts, c) }

// apply makes the edits.
func (m *merger) apply() (Info, error) {
	ours, err := m.stat(m.ours)
	if err != nil {
		return Info{}, err
	}
	editor := NewEditor(m.rw, ours)
	for _, e := range m.sorted() {
		switch e.op {
		case opSet:
			err = editor.Set(m.ctx, e.path, e.entry)
		case opSetDir:
			err = editor.SetDir(m.ctx, e.path, e.entry)
		case opOffer, opRestore:
			err = editor.Offer(m.ctx, e.path, e.entry)
		case opRemove:
			err = editor.Remove(m.ctx, e.path)
		}
		if err != nil {
			return Info{}, err
		}
	}
	return editor.Finish(m.ctx)
}

// sorted returns the edits in path order, without directories to restore that
// nothing is put into.
func (m *merger) sorted() []mergeEdit {
	slices.SortStableFunc(m.edits, func(a, b mergeEdit) int { return ComparePaths(a.path, b.path) })
	used := "" // what comes next that is put somewhere
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
