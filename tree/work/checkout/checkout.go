// Package checkout changes the worktree and the index to match a commit: it
// switches branches, resets, restores, extracts, removes and moves files.
package checkout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// SwitchOptions configure [Switch].
type SwitchOptions struct {
	Rev      string // a branch or any other revision, which detaches HEAD; empty: HEAD
	Create   string // make this branch at Rev and switch to it
	Reset    bool   // Create may exist: then move it
	Detach   bool   // switch to the branch's commit, not to the branch
	Force    bool   // discard local changes and untracked content in the way, and end an operation in progress
	Progress kist.Progress
}

// Switch moves HEAD, the index and the worktree to another commit. Local
// changes stay at paths that are equal in both commits. Elsewhere they are a
// [*stage.LocalChangesError]. If only some paths cannot be written, the rest
// is done, and the error is a [*worktree.ApplyError].
func Switch(ctx context.Context, r *kist.Repository, o SwitchOptions) (refs.Head, error) {
	old, err := r.Refs().Head()
	if err != nil {
		return old, err
	}
	if !o.Force {
		if err := operation.NoOperation(r); err != nil {
			return old, err
		}
	}

	next, changes, err := checkoutTarget(ctx, r, old, o)
	if err != nil {
		return old, err
	}

	from, to, err := switchTrees(ctx, r, old.ID, next.ID, o.Force)
	if err != nil {
		return old, err
	}

	names := func(tx *kist.Tx) {
		tx.Move(changes...)
		if next != old {
			tx.SetHead(next, refs.CheckoutReason(old, next))
		}
		if o.Force {
			operation.ClearState(tx)
		}
	}

	err = SwitchTree(ctx, r, Tips{From: Tip{old.ID, from}, To: Tip{next.ID, to}, Force: o.Force, Progress: o.Progress, Names: names})
	if err != nil && !stage.IsPartial(err) {
		return old, err
	}

	return next, err
}

// switchTrees returns the trees of the commits to switch between. The content
// of the first commit may be missing if force is set or its loss was accepted.
// If both are the same commit, the content of neither is needed.
func switchTrees(ctx context.Context, r *kist.Repository, old, next object.ID, force bool) (from, to object.ID, err error) {
	read := func(ctx context.Context, commit object.ID) (object.ID, error) {
		return kist.CommitTree(ctx, r, commit)
	}

	if force || old == next || r.Objects().IsLost(object.Key{Kind: object.KindCommit, ID: old}) {
		read = r.RecordedTree
	}
	if from, err = read(ctx, old); err != nil || old == next && !force {
		return from, from, err
	}
	to, err = kist.CommitTree(ctx, r, next)
	return from, to, err
}

// checkoutTarget returns the new HEAD, and the changes of branches to make
// first.
func checkoutTarget(ctx context.Context, r *kist.Repository, old refs.Head, o SwitchOptions) (refs.Head, []refs.Change, error) {
	rev := o.Rev
	if rev == "" || rev == "@" {
		rev = "HEAD"
	}
	if o.Create != "" {
		return createTarget(ctx, r, old, o, rev)
	}
	if !o.Detach && (rev == "HEAD" || old.Unborn() && rev == old.Branch) {
		return old, nil, nil
	}

	branch, err := branchName(ctx, r, rev)
	if err != nil {
		return refs.Head{}, nil, err
	}
	if branch != "" {
		id, err := r.Resolve(ctx, refs.Heads+branch)
		if o.Detach {
			branch = ""
		}
		return refs.Head{Branch: branch, ID: id}, nil, err
	}

	id, err := r.Resolve(ctx, rev)
	return refs.Head{ID: id}, nil, err
}

// createTarget is checkoutTarget for a new branch.
func createTarget(ctx context.Context, r *kist.Repository, old refs.Head, o SwitchOptions, rev string) (refs.Head, []refs.Change, error) {
	if old.Unborn() && rev == "HEAD" { // the unborn branch gets another name
		_, err := CheckNew(r, refs.Heads, o.Create, o.Reset)
		return refs.Head{Branch: o.Create}, nil, err
	}

	change, err := NewBranch(ctx, r, o.Create, rev, o.Reset)
	return refs.Head{Branch: o.Create, ID: change.New}, []refs.Change{change}, err
}

// branchName returns the branch that a revision names by its short name or as
// an earlier checkout, or "". A branch comes before a tag of the same name.
// (Where a command wants a commit, the tag comes first.)
func branchName(ctx context.Context, r *kist.Repository, rev string) (string, error) {
	if refs.CheckName(refs.Heads+rev) == nil {
		_, err := r.Refs().Get(refs.Heads + rev)
		if err == nil || !errors.Is(err, refs.ErrNotFound) {
			return rev, err
		}
	}

	if !strings.HasPrefix(rev, "@{") {
		return "", nil
	}
	name, err := r.Refs().Expand(ctx, rev)
	if errors.Is(err, refs.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}

	if branch, ok := refs.BranchOf(name); ok {
		return branch, nil
	}
	return "", nil
}

// CheckNew makes sure that a branch or tag can be created. Prefix selects
// which. If the ref exists and may, CheckNew returns its present value.
func CheckNew(r *kist.Repository, prefix, name string, mayExist bool) (object.ID, error) {
	if err := refs.CheckShort(name); err != nil {
		return object.ID{}, err
	}

	full := prefix + name
	id, err := r.Refs().Get(full)
	switch {
	case err == nil && !mayExist:
		what := map[string]string{refs.Heads: "branch", refs.Tags: "tag"}[prefix]
		return id, fmt.Errorf("%s %q %w", what, name, kist.ErrNameTaken)
	case err == nil || !errors.Is(err, refs.ErrNotFound):
		return id, err
	}

	return object.ID{}, r.Refs().CheckFree(full, nil)
}

// NewBranch returns the change that makes a branch at the commit of a revision. With
// force, it moves a branch that exists.
func NewBranch(ctx context.Context, r *kist.Repository, name, rev string, force bool) (refs.Change, error) {
	was, err := CheckNew(r, refs.Heads, name, force)
	if err != nil {
		return refs.Change{}, err
	}
	id, err := r.Resolve(ctx, rev)
	if err != nil {
		return refs.Change{}, err
	}

	reason := "branch: created from " + rev
	if !was.IsZero() {
		reason = "branch: reset to " + rev
	}
	return refs.Change{Name: refs.Heads + name, Old: was, New: id, Reason: reason}, nil
}

// Tip is a tree, and the commit that must stay for it. It is zero before the first commit. It is no
// [compare.Side]: a switch reads both of its trees from the same store, and tips are compared.
type Tip struct{ Commit, Tree object.ID }

// Tips describe a switch from one tree to another. Their commits may be the same, as for a stash.
type Tips struct {
	From, To Tip
	Force    bool // discard staged and changed content, and untracked content in the way
	KeepGit  bool // leave git's own folders as they are, whatever the configuration says
	Progress kist.Progress
	Names    func(tx *kist.Tx) // notes the move of HEAD, which follows that of the index
}

// SwitchTree brings worktree and index from one tree to another, and then changes the names
// that s.Names notes. Staged and changed content stays at paths that are equal in both
// trees. Elsewhere it is an obstacle, except with s.Force.
//
// A kill at any moment leaves each file old or new. The command can be repeated:
// a file with its new content is no obstacle.
func SwitchTree(ctx context.Context, r *kist.Repository, s Tips) error {
	load := r.Index
	if s.Force { // even if the index was lost
		load = func() (*index.Index, error) { return index.Load(r.Dir()) }
	}

	idx, err := load()
	if err != nil {
		return err
	}
	p, err := PlanSwitch(ctx, r, idx, r.Objects(), s)
	if err != nil {
		return err
	}
	return p.Apply(ctx, r)
}

// Planned is a switch that can be carried out.
type Planned struct {
	stage.ApplyOptions
	idx *index.Index
	ops []worktree.Op
}

// PlanSwitch plans a switch from the tree that idx has. The trees are read from objects. Errors
// are as for [SwitchTree].
func PlanSwitch(ctx context.Context, r *kist.Repository, idx *index.Index, objects object.Reader, s Tips) (*Planned, error) {
	from, to := s.From, s.To
	o := stage.ApplyOptions{Progress: s.Progress, KeepGit: s.KeepGit, Replaces: true, Names: s.Names, Needs: []object.ID{from.Commit, to.Commit}}
	switch {
	case s.Force:
		o.Needs = []object.ID{to.Commit}
	case from == to:
		o.Needs = nil
	case from.Tree.IsZero(): // also if the loss of its commit was accepted
		o.Needs = []object.ID{to.Commit}
	}

	var ops []worktree.Op
	var err error
	if s.Force {
		o.Edit, o.GiveUp = clearNotes, true
		var f Forced
		if f, err = ForceOps(ctx, r, idx, compare.Side{Tree: to.Tree, Commit: to.Commit, Objects: r.Contents()}, nil); err == nil {
			ops, o.Whole, o.Unchanged, o.Lost = f.Ops, f.Whole, f.Unchanged, f.Lost
			var clear []worktree.Op
			clear, err = clearOps(ctx, r, idx, ops)
			ops = append(ops, clear...)
		}
	} else {
		s := switcher{objects: objects, idx: idx, leftOut: stage.NewLeftOut(idx, r.Config().Cone())}
		if o.Lost, err = s.compareTrees(ctx, from.Tree, to); err == nil {
			err = stage.CheckOps(ctx, r, idx, s.ops, s.obstacles)
		}
		ops, o.Whole = s.ops, s.whole
	}
	return &Planned{o, idx, ops}, err
}

// Apply carries out the switch.
func (p *Planned) Apply(ctx context.Context, r *kist.Repository) error {
	return stage.ApplyOps(ctx, r, p.idx, p.ops, p.ApplyOptions)
}

// clearNotes removes the conflicts and the notes about unreadable paths from
// an index.
func clearNotes(idx *index.Index) error {
	idx.ClearSkipped("")
	return ClearConflicts(idx, nil)
}

// switcher finds the operations that lead from one tree to another.
type switcher struct {
	objects object.Reader
	idx     *index.Index
	leftOut *stage.LeftOut // nil: the index has all folders

	ops       []worktree.Op
	whole     []tree.Change    // of folders that are left out
	obstacles []stage.Obstacle // the index has something else staged
	replaced  bool             // a folder is replaced
}

// compareTrees finds the operations and obstacles. It returns the lost folders of the second tree. A
// folder whose content the index does not know counts as empty. Of folders that are left out, it
// reads only those with staged changes.
func (s *switcher) compareTrees(ctx context.Context, from object.ID, to Tip) ([]compare.LostFolder, error) {
	known := compare.NewKnown(s.objects)
	known.Hide(s.idx)
	o := tree.DiffOptions{Recursive: true, Paired: true}
	if s.leftOut != nil {
		o.Whole = s.leftOut.Whole()
	}
	for c, err := range tree.Diff(ctx, known, from, to.Tree, o) {
		if err != nil {
			return nil, err
		}
		if o.Whole == nil || !o.Whole(c.Path) || !isWhole(c) {
			err = s.addChange(ctx, c)
		} else if !s.addWhole(c) { // something in the folder is staged
			err = s.addBelow(ctx, known, c.Path, from, to.Tree)
		}
		if err != nil {
			return nil, err
		}
	}
	if s.replaced {
		s.obstacles = append(s.obstacles, stagedBelow(s.idx, s.ops)...)
	}
	s.obstacles = append(s.obstacles, stagedAbove(s.idx, s.ops)...)
	return known.LostIn(ctx, compare.Side{Tree: to.Tree, Commit: to.Commit, Objects: s.objects})
}

// addChange adds the operation for a change of one path.
func (s *switcher) addChange(ctx context.Context, c tree.Change) error {
	if _, ok := s.idx.Conflict(c.Path); ok {
		s.obstacles = append(s.obstacles, stage.Obstacle{Path: c.Path, Reason: "unresolved conflict"})
		return nil
	}
	have, err := stage.IndexedIn(ctx, s.objects, s.idx, c.Path)
	if err != nil {
		return err
	}
	switch {
	case stage.SameEntry(have, c.Old):
		s.ops = append(s.ops, worktree.Op{Path: c.Path, Old: s.idx.Entry(c.Path), New: c.New})
		s.replaced = s.replaced || tree.IsDir(c.Old) && c.New != nil && !tree.IsDir(c.New)
	case stage.SameEntry(have, c.New):
	case have == nil && !tree.IsDir(c.Old) && tree.IsDir(c.New): // the removal of the file is staged
		s.ops = append(s.ops, worktree.Op{Path: c.Path, New: c.New})
	case c.New == nil && tree.IsDir(have) != tree.IsDir(c.Old): // the removed entry is no longer staged
	default:
		s.obstacles = append(s.obstacles, stage.Obstacle{Path: c.Path, Reason: StagedReason})
	}
	return nil
}

// isWhole reports whether the content of a folder is part of a change.
func isWhole(c tree.Change) bool {
	return tree.IsDir(c.Old) != tree.IsDir(c.New) || tree.IsDir(c.New) && c.Old.Content != c.New.Content
}

// addWhole adds a change of a folder that is left out. It reports false, and adds nothing, if the
// index has neither of the two versions: then its content must be compared.
func (s *switcher) addWhole(c tree.Change) bool {
	if _, ok := s.idx.Conflict(c.Path); ok {
		return false
	}
	have := stage.Indexed(s.idx, c.Path)
	switch {
	case s.leftOut.IsAt(c.Path, c.New) && stage.SameEntry(have, c.New):
		return true
	case !s.leftOut.IsAt(c.Path, c.Old) || !stage.SameEntry(have, c.Old):
		return false
	}
	if c.Old != nil && !tree.IsDir(c.Old) || c.New != nil && !tree.IsDir(c.New) { // a file comes or gives way
		op := worktree.Op{Path: c.Path, Old: s.idx.Entry(c.Path)}
		if !tree.IsDir(c.New) {
			op.New, s.replaced = c.New, true
		}
		s.ops = append(s.ops, op)
	}
	if c.New == nil || tree.IsDir(c.New) {
		s.whole = append(s.whole, c)
	}
	return true
}

// addBelow adds the operations for a folder, path by path.
func (s *switcher) addBelow(ctx context.Context, r object.Reader, folder string, from, to object.ID) error {
	for c, err := range tree.Diff(ctx, r, from, to, tree.DiffOptions{Paths: []string{folder}, Recursive: true, Paired: true}) {
		if err == nil {
			err = s.addChange(ctx, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// splitWhole returns the operations of single paths, and as changes the ones that replace folders which are left out.
func splitWhole(l *stage.LeftOut, ops []worktree.Op) (rest []worktree.Op, whole []tree.Change) {
	isAt := l.Whole()
	if isAt == nil {
		return ops, nil
	}
	for _, op := range ops {
		removed := op.New == nil && op.Old == nil // not a file
		if !isAt(op.Path) || !removed && !tree.IsDir(op.New) {
			rest = append(rest, op)
			continue
		}
		whole = append(whole, tree.Change{Path: op.Path, New: op.New})
		if op.Old != nil { // a file gives way to the folder
			rest = append(rest, worktree.Op{Path: op.Path, Old: op.Old})
		}
	}
	return rest, whole
}

// stagedAbove returns the staged files in places where ops need a folder and
// do not make one.
func stagedAbove(idx *index.Index, ops []worktree.Op) []stage.Obstacle {
	folders := map[string]bool{} // files that become folders
	var obstacles []stage.Obstacle
	last := ""
	for _, op := range ops {
		if op.Old != nil && tree.IsDir(op.New) {
			folders[op.Path] = true
		}
		dir, _ := tree.Split(op.Path)
		if op.New == nil || dir == last {
			continue
		}
		for last = dir; dir != "" && idx.Dir(dir) == nil; dir, _ = tree.Split(dir) {
			if idx.Entry(dir) != nil && !folders[dir] {
				obstacles = append(obstacles, stage.Obstacle{Path: dir, Reason: StagedReason})
			}
		}
	}

	return obstacles
}

// stagedBelow returns the staged files in folders that ops replace, except
// files that ops remove.
func stagedBelow(idx *index.Index, ops []worktree.Op) []stage.Obstacle {
	removed := map[string]bool{}
	for _, op := range ops {
		if op.New == nil {
			removed[op.Path] = true
		}
	}

	var obstacles []stage.Obstacle
	for _, op := range ops {
		d := idx.Dir(op.Path)
		if d == nil || op.New == nil || tree.IsDir(op.New) {
			continue
		}
		for path := range d.All() {
			if !removed[path] {
				obstacles = append(obstacles, stage.Obstacle{Path: path, Reason: StagedReason})
			}
		}
	}

	return obstacles
}

// StagedReason is the reason of an obstacle for a staged change.
const StagedReason = "a change is staged"

// Forced has the results of [ForceOps].
type Forced struct {
	Ops       []worktree.Op
	Whole     []tree.Change        // of folders that are left out, with everything in them
	Unchanged []worktree.Refreshed // the files that were read and proved unchanged
	Lost      []compare.LostFolder // the lost folders of the tree
}

// ForceOps returns the operations that make index and worktree equal to a tree
// at the given paths (nil: all), whatever these contain now. Untracked files stay, unless a file
// must take their path. Of folders that are left out, it reads nothing.
func ForceOps(ctx context.Context, r *kist.Repository, idx *index.Index, to compare.Side, paths []string) (f Forced, err error) {
	l := stage.NewLeftOut(idx, r.Config().Cone())
	ops, lost, err := changeOps(ctx, r, idx, to, tree.DiffOptions{Paths: paths, Recursive: true, Paired: true, Whole: l.Whole()})
	if err != nil {
		return f, err
	}
	planned := map[string]bool{}
	for _, op := range ops {
		planned[op.Path] = true
	}

	found, err := r.Worktree().Scan(ctx, idx, worktree.ScanOptions{Paths: paths, NoUntracked: true})
	if err != nil {
		return f, err
	}

	found = slices.DeleteFunc(found, func(f *worktree.Found) bool { return planned[f.Path] })

	// An unchanged file must keep its time, because build tools compare times.
	found, unchanged, err := r.Worktree().Confirm(ctx, found)
	if err != nil {
		return f, err
	}

	for _, f := range found {
		e, err := tree.Find(ctx, to.Objects, to.Tree, f.Path)
		if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
			continue
		}
		if object.IsUnreadable(err) && f.Old != nil { // the index has the same lost folder
			e, err = f.Old.Object(), nil
		}
		if err != nil {
			return Forced{}, err
		}
		ops = append(ops, worktree.Op{Path: f.Path, Old: f.Old, New: &e})
	}

	f = Forced{Unchanged: unchanged, Lost: lost}
	f.Ops, f.Whole = splitWhole(l, ops)
	return f, nil
}

// changeOps returns the operations for the differences of the index from a tree. It also returns the lost
// folders of the tree.
func changeOps(ctx context.Context, r *kist.Repository, idx *index.Index, to compare.Side, o tree.DiffOptions) ([]worktree.Op, []compare.LostFolder, error) {
	from, err := compare.FromKnown(ctx, r, idx)
	if err != nil {
		return nil, nil, err
	}
	changes, lost, err := compare.DiffKnown(ctx, from, to, o)
	ops := make([]worktree.Op, len(changes))
	for i, c := range changes {
		ops[i] = worktree.Op{Path: c.Path, Old: idx.Entry(c.Path), New: c.New}
	}
	return ops, lost, err
}
