package commits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// ErrNotFastForward means that a merge would need a merge commit.
var ErrNotFastForward = errors.New("not a fast-forward")

// ErrNoCommonHistory means that two commits have no common ancestor.
var ErrNoCommonHistory = errors.New("no common history")

// MergeOptions configure [Merge].
type MergeOptions struct {
	Rev             string
	Message         string // message of the merge commit; empty: a default one
	FastForwardOnly bool   // fail rather than make a commit
	NoFastForward   bool   // make a commit even if a fast-forward is possible
	NoCommit        bool   // stop before the commit
	Squash          bool   // leave the merged changes staged; no merge is in progress
	Discard         bool   // keep our tree: the strategy "ours"
	Favor           tree.MergeSide
	Unrelated       bool // merge without a common history, or if its content has expired

	// Verify returns an error for a commit that must not be merged, such as one without a good
	// signature. Nil accepts all.
	Verify func(ctx context.Context, id object.ID) error

	Progress kist.Progress
}

// MergeResult is the result of [Merge].
type MergeResult struct {
	UpToDate    bool            // there was nothing to do
	FastForward bool            // the branch was moved without a merge commit
	Squashed    bool            // the changes are staged, and HEAD stays
	Old, ID     object.ID       // HEAD's commit before and after
	Commit      *CommitResult   // the merge commit, if there is one
	Conflicts   []tree.Conflict // conflicts to resolve; then there is no commit yet
}

// Merge merges another commit into HEAD's branch. If both sides changed the
// same lines or paths, the conflicts stay in the worktree and the index, and
// the user ends the merge with a commit. Nothing may be staged before. Changes
// in the worktree stay if the merge does not touch these paths; otherwise they
// are a [*stage.LocalChangesError]. If only some paths cannot be written, the
// rest is done, and the error is a [*worktree.ApplyError].
func Merge(ctx context.Context, r *kist.Repository, o MergeOptions) (*MergeResult, error) {
	if err := operation.NoOperation(r); err != nil {
		return nil, err
	}

	to, err := o.findOther(ctx, r)
	if err != nil {
		return nil, err
	}
	other := to.Commit

	head, err := r.Refs().Head()
	if err != nil {
		return nil, err
	}

	for _, id := range []object.ID{other, head.ID} {
		if err := kist.CheckUsable(ctx, r, id); err != nil {
			return nil, err
		}
	}

	if head.Unborn() {
		if o.NoFastForward || o.Squash {
			return nil, fmt.Errorf("a merge commit needs two parents: %w", kist.ErrUnborn)
		}
		return fastForward(ctx, r, head, checkout.Tips{To: to, Progress: o.Progress}, o.Rev)
	}

	ours, err := object.ReadCommit(ctx, r.Objects(), head.ID)
	if err != nil {
		return nil, err
	}

	bases, err := history.MergeBases(ctx, r.Objects(), head.ID, other)
	if err != nil {
		return nil, err
	}
	var best object.ID
	if len(bases) > 0 {
		best = bases[0]
	}
	switch {
	case best.IsZero() && !o.Unrelated:
		return nil, ErrNoCommonHistory
	case best == other:
		return &MergeResult{UpToDate: true, Old: head.ID, ID: head.ID}, nil
	case best == head.ID && o.mayForward():
		return fastForward(ctx, r, head, checkout.Tips{From: checkout.Tip{Commit: head.ID, Tree: ours.Tree}, To: to, Progress: o.Progress}, o.Rev)
	case o.FastForwardOnly && !(best == head.ID && o.Squash):
		return nil, ErrNotFastForward
	}

	return mergeOver(ctx, r, bases, o, &threeWay{
		ours: ours.Tree, theirs: to.Tree, labels: tree.Labels{Ours: "HEAD", Theirs: o.Rev}, noCommit: o.NoCommit, needs: bases,
		state: operation.State{Operation: operation.Merging, Other: other, Message: o.Message}, head: head, progress: o.Progress, favor: o.Favor,
	})
}

// findOther returns the commit to merge, after a check of its signature.
func (o *MergeOptions) findOther(ctx context.Context, r *kist.Repository) (checkout.Tip, error) {
	id, c, err := r.ReadCommit(ctx, o.Rev)
	if err == nil && o.Verify != nil {
		err = o.Verify(ctx, id)
	}
	if err != nil {
		return checkout.Tip{}, err
	}
	return checkout.Tip{Commit: id, Tree: c.Tree}, nil
}

// mayForward reports whether a merge may move the branch without a commit.
func (o *MergeOptions) mayForward() bool { return !o.NoFastForward && !o.Squash && !o.Discard }

// mergeOver carries out m. If there are several merge bases, it first merges them into one.
func mergeOver(ctx context.Context, r *kist.Repository, bases []object.ID, o MergeOptions, m *threeWay) (*MergeResult, error) {
	var err error
	switch {
	case o.Squash:
		m.squash = true
		m.state.Message, err = squashMessage(ctx, r, m.head.ID, m.state.Other)
	case o.Message == "":
		m.state.Message, err = mergeMessage(ctx, r, o.Rev, m.head)
	}
	if err != nil {
		return nil, err
	}
	if err := NothingStaged(ctx, r, m.ours); err != nil {
		return nil, err
	}

	m.base = func(ctx context.Context, rw object.ReadWriter) (object.ID, error) {
		if o.Discard {
			return m.theirs, nil
		}
		base, err := newBaseFinder(r, rw).mergedTree(ctx, bases)
		if o.Unrelated && errors.Is(err, object.ErrExpired) { // merge as if there were no common history
			m.needs = nil
			return object.ID{}, nil
		}
		return base, err
	}

	return merge(ctx, r, m)
}

// mergeMessage returns the default message of a merge commit.
func mergeMessage(ctx context.Context, r *kist.Repository, rev string, head refs.Head) (string, error) {
	what, name := "commit", rev
	full, err := r.Refs().Expand(ctx, rev)
	if err != nil && !errors.Is(err, refs.ErrNotFound) {
		return "", err
	}

	for prefix, kind := range map[string]string{refs.Heads: "branch", refs.Tags: "tag", refs.Remotes: "remote-tracking branch"} {
		if short, ok := strings.CutPrefix(full, prefix); ok {
			what, name = kind, short
		}
	}

	return fmt.Sprintf("Merge %s '%s'", what, name) + IntoBranch(head), nil
}

// IntoBranch returns the end of a merge's default message, which names the branch of head. It
// is empty for the usual branches of a repository, main and master.
func IntoBranch(head refs.Head) string {
	switch head.Branch {
	case kist.DefaultBranch, "master":
		return ""
	case "":
		return " into HEAD"
	}

	return " into " + head.Branch
}

// fastForward moves the branch of head to s.To, the commit of rev.
func fastForward(ctx context.Context, r *kist.Repository, head refs.Head, s checkout.Tips, rev string) (*MergeResult, error) {
	s.Names = func(tx *kist.Tx) {
		if !head.Unborn() {
			tx.SetSpecial(refs.OrigHead, head.ID)
		}
		tx.MoveHead(head, s.To.Commit, "merge "+rev+": Fast-forward")
	}

	err := checkout.SwitchTree(ctx, r, s)
	if err != nil && !stage.IsPartial(err) {
		return nil, err
	}

	return &MergeResult{FastForward: true, Old: head.ID, ID: s.To.Commit}, err
}

// NothingStaged makes sure that the index matches a tree. Other staged changes
// would get into the merge commit, or be lost if the merge is aborted.
func NothingStaged(ctx context.Context, r *kist.Repository, head object.ID) error {
	staged, err := compare.OfIndex(ctx, r)
	if err != nil {
		return err
	}

	changes, err := compare.DiffWith(ctx, compare.Side{Tree: head, Objects: r.Contents()}, staged, tree.DiffOptions{Recursive: true, Paired: true})
	if err != nil {
		return err
	}

	var list []stage.Obstacle
	for _, c := range changes {
		list = append(list, stage.Obstacle{Path: c.Path, Reason: checkout.StagedReason})
	}

	return stage.ObstacleError(list)
}

// threeWay is a merge of three trees into worktree, index and a commit.
type threeWay struct {
	head         refs.Head
	ours, theirs object.ID
	base         func(ctx context.Context, rw object.ReadWriter) (object.ID, error)
	labels       tree.Labels
	needs        []object.ID // further commits that the trees come from
	state        operation.State
	noCommit     bool
	squash       bool // no merge is in progress afterwards
	favor        tree.MergeSide
	apply        *ApplyOptions // of [Apply]
	progress     kist.Progress
	stats        volume.Stats // objects stored before the commit

	// Of a step: its commit. Empty: the commit has no changes, but is repeated.
	from  *object.Commit
	empty bool
}

// mergeOver merges m with the tree ours, in the store alone.
func (m *threeWay) mergeOver(ctx context.Context, r *kist.Repository, rw object.ReadWriter, ours object.ID) (*tree.MergeResult, error) {
	base, err := m.base(ctx, rw)
	if err != nil {
		return nil, err
	}
	versions := tree.Versions{Base: base, Ours: ours, Theirs: m.theirs}
	o := tree.MergeOptions{Labels: m.labels, Favor: m.favor, Directories: r.Config().DirectoryRenames(), Split: r.Chunker().Split}
	return tree.Merge(ctx, rw, versions, o)
}

// merge carries out a threeWay and makes the commit if there are no conflicts.
// After an error the result is nil, unless only some paths could not be
// written.
func merge(ctx context.Context, r *kist.Repository, m *threeWay) (*MergeResult, error) {
	result := &MergeResult{Old: m.head.ID, ID: m.head.ID, Squashed: m.squash}
	applyErr := r.Update(ctx, func(tx *kist.Tx) (err error) {
		result.Conflicts, err = mergeTrees(ctx, tx, m)
		return err
	})
	if applyErr != nil && !stage.IsPartial(applyErr) {
		return nil, applyErr
	}
	if len(result.Conflicts) > 0 || m.noCommit || m.squash {
		return result, applyErr
	}

	var err error
	result.Commit, err = Commit(ctx, r, CommitOptions{step: m.from != nil})
	switch {
	case errors.Is(err, ErrNothingToCommit):
		err = r.Publish(ctx, func(tx *kist.Tx) { operation.EndStep(tx, m.state) })
	case err == nil:
		result.ID = result.Commit.ID
		result.Commit.Stats = m.stats.Plus(result.Commit.Stats)
	}

	if err != nil {
		return nil, err
	}

	return result, applyErr
}

// mergeTrees writes the merged tree to worktree and index and records that a
// merge is in progress.
func mergeTrees(ctx context.Context, tx *kist.Tx, m *threeWay) ([]tree.Conflict, error) {
	r := tx.Repository()
	rw := r.Unpurged(tx)
	merged, err := m.mergeOver(ctx, r, rw, m.ours)
	if err != nil {
		return nil, err
	}

	idx, err := r.Index()
	if err != nil {
		return nil, err
	}

	marks := conflictMarks(merged.Conflicts)
	var unstaged *applied
	if m.apply != nil {
		if unstaged, err = m.apply.finishMerge(ctx, rw, m.ours, merged); err != nil {
			return nil, err
		}
	}
	opening, err := stage.OpenAbove(ctx, rw, idx, append(markedPaths(marks), unstaged.paths()...))
	if err != nil {
		return nil, err
	}
	var ops []worktree.Op
	for _, c := range merged.Changes {
		ops = append(ops, worktree.Op{Path: c.Path, Old: idx.Entry(c.Path), New: c.New})
	}
	ops = append(ops, opening.Ops(idx, ops)...)
	checked := append(ops[:len(ops):len(ops)], marked(idx, ops, marks)...)

	names := func(tx *kist.Tx) { operation.SetState(tx, m.state) }
	if m.squash {
		names = func(tx *kist.Tx) { operation.SetSquashed(tx, m.state.Message) }
	}
	if m.apply != nil {
		ops, checked, names = append(ops, unstaged.ops...), append(checked, unstaged.ops...), m.apply.Names
	}

	if err := stage.CheckOps(ctx, r, idx, checked, unstaged.findObstacles()); err != nil {
		return nil, err
	}

	err = stage.ApplyOps(ctx, r, idx, ops, stage.ApplyOptions{
		Tx:           tx,
		Replaces:     true,
		AllOrNothing: true,
		Progress:     m.progress,
		Needs:        append(m.needs, m.head.ID, m.state.Other),
		Edit: func(idx *index.Index) error {
			for _, c := range marks {
				if err := idx.SetConflict(c.Path, c.Base, c.Ours, c.Theirs); err != nil {
					return err
				}
			}
			return nil
		},
		Staged:  unstaged.stagedChanges(),
		Opening: opening,
		Names:   names,
	})

	m.stats = tx.Stats()
	return merged.Conflicts, err
}

// marked returns operations for the paths in conflict that ops do not write. They
// are only for checks: an abort of the merge would overwrite local changes there.
func marked(idx *index.Index, ops []worktree.Op, marks []index.Conflict) []worktree.Op {
	changed := map[string]bool{}
	for _, op := range ops {
		changed[op.Path] = true
	}

	var same []worktree.Op
	for _, c := range marks {
		if e := idx.Entry(c.Path); e != nil && !changed[c.Path] {
			changed[c.Path] = true
			o := e.Object()
			same = append(same, worktree.Op{Path: c.Path, Old: e, New: &o})
		}
	}

	return same
}

// markedPaths returns the paths of marks.
func markedPaths(marks []index.Conflict) []string {
	paths := make([]string, len(marks))
	for i, mark := range marks {
		paths[i] = mark.Path
	}
	return paths
}

// ConflictPaths returns the paths that the user must decide on, as status
// lists them: the paths of conflicts, and those of versions put aside.
func ConflictPaths(conflicts []tree.Conflict) []string {
	var paths []string
	paths = append(paths, markedPaths(conflictMarks(conflicts))...)

	slices.SortFunc(paths, tree.ComparePaths)
	return slices.Compact(paths)
}

// conflictMarks returns the paths to mark as conflicts in the index. They
// include versions put aside, so that the user must decide whether these
// become part of the commit.
func conflictMarks(conflicts []tree.Conflict) []index.Conflict {
	var marks []index.Conflict
	for _, c := range conflicts {
		at := index.Conflict{Path: c.Path, Base: c.Base, Ours: c.Ours, Theirs: c.Theirs}
		ours := index.Conflict{Path: c.OursPath, Ours: c.Ours}
		theirs := index.Conflict{Path: c.TheirsPath, Theirs: c.Theirs}
		switch c.Kind {
		case tree.ConflictFileDirectory: // the folder needs no decision
			at.Path = ""
			if !tree.IsDir(c.Base) {
				ours.Base, theirs.Base = c.Base, c.Base
			}
		case tree.ConflictRenameRename:
			at.Ours, at.Theirs = nil, nil
		}
		for _, mark := range []index.Conflict{at, ours, theirs} {
			if mark.Path != "" {
				marks = append(marks, mark)
			}
		}
	}

	return marks
}
