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
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/operation"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/view"
	"github.com/kist-vcs/kist/tree/worktree"
)

// ErrNotFastForward says that a merge would need a commit of its own.
var ErrNotFastForward = errors.New("not a fast-forward")

// ErrNoCommonHistory says that two commits have no ancestor in common.
var ErrNoCommonHistory = errors.New("no common history")

// MergeOptions say how [Merge] merges.
type MergeOptions struct {
	Rev             string
	Message         string // of the merge commit; empty: one is made
	FastForwardOnly bool   // fail rather than make a commit
	NoFastForward   bool   // make a commit even if it is not needed
	NoCommit        bool   // stop before the commit
	Unrelated       bool   // merge what has no common history, or one whose content has expired and is gone
	Progress        kist.Progress
}

// MergeResult tells what came of a merge.
type MergeResult struct {
	UpToDate    bool            // there was nothing to do
	FastForward bool            // the branch was moved, no commit was made
	Old, ID     object.ID       // where HEAD was, and is now
	Commit      *CommitResult   // what was committed, if anything was
	Conflicts   []tree.Conflict // left to be resolved; then there is no commit yet
}

// Merge brings another commit's changes into HEAD's branch. Where both sides
// changed the same, the conflicts are left in the worktree and the index to be
// resolved, and a commit ends the merge. Nothing may be staged before; changes
// in the worktree stay if the merge does not touch them, and otherwise are a
// [*LocalChangesError]. If only some paths cannot be written, the rest is done,
// and the error is a [*worktree.ApplyError].
func Merge(ctx context.Context, r *kist.Repository, o MergeOptions) (*MergeResult, error) {
	if err := operation.NoOperation(r); err != nil {
		return nil, err
	}
	other, theirs, err := r.ReadCommit(ctx, o.Rev)
	if err != nil {
		return nil, err
	}
	head, err := r.Refs().Head()
	if err != nil {
		return nil, err
	}
	to := checkout.Tip{Commit: other, Tree: theirs.Tree}
	for _, id := range []object.ID{other, head.ID} {
		if err := intact.Usable(ctx, r, id); err != nil {
			return nil, err
		}
	}
	if head.Unborn() {
		if o.NoFastForward {
			return nil, fmt.Errorf("a merge commit needs two parents: %w", kist.ErrUnborn)
		}
		return fastForward(ctx, r, head, checkout.Tips{To: to, Progress: o.Progress}, o.Rev)
	}
	ours, err := object.ReadCommit(ctx, r.Objects(), head.ID)
	if err != nil {
		return nil, err
	}
	bases, err := history.MergeBases(ctx, r.Objects(), head.ID, other)
	switch {
	case err != nil:
		return nil, err
	case len(bases) == 0 && !o.Unrelated:
		return nil, ErrNoCommonHistory
	case len(bases) > 0 && bases[0] == other:
		return &MergeResult{UpToDate: true, Old: head.ID, ID: head.ID}, nil
	case len(bases) > 0 && bases[0] == head.ID && !o.NoFastForward:
		return fastForward(ctx, r, head, checkout.Tips{From: checkout.Tip{Commit: head.ID, Tree: ours.Tree}, To: to, Progress: o.Progress}, o.Rev)
	case o.FastForwardOnly:
		return nil, ErrNotFastForward
	}
	return mergeOver(ctx, r, bases, o, &threeWay{
		ours: ours.Tree, theirs: theirs.Tree, labels: tree.Labels{Ours: "HEAD", Theirs: o.Rev}, noCommit: o.NoCommit, needs: bases,
		state: operation.State{Operation: operation.Merging, Other: other, Message: o.Message}, head: head, progress: o.Progress,
	})
}

// mergeOver carries out m over the base of several merge bases.
func mergeOver(ctx context.Context, r *kist.Repository, bases []object.ID, o MergeOptions, m *threeWay) (*MergeResult, error) {
	if o.Message == "" {
		var err error
		if m.state.Message, err = mergeMessage(ctx, r, o.Rev, m.head); err != nil {
			return nil, err
		}
	}
	if err := NothingStaged(ctx, r, m.ours); err != nil {
		return nil, err
	}
	m.base = func(ctx context.Context, rw object.ReadWriter) (object.ID, error) {
		base, err := newBaseFinder(r, rw).tree(ctx, bases)
		if o.Unrelated && errors.Is(err, intact.ErrExpired) { // as if nothing were known of it
			m.needs = nil
			return object.ID{}, nil
		}
		return base, err
	}
	result, err := merge(ctx, r, m)
	if result == nil {
		return nil, err
	}
	return &MergeResult{Old: m.head.ID, ID: result.id, Commit: result.commit, Conflicts: result.conflicts}, err
}

// mergeMessage returns what a merge commit says if it is not told otherwise.
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
	text := fmt.Sprintf("Merge %s '%s'", what, name)
	if head.Branch != "" && head.Branch != kist.DefaultBranch {
		text += " into " + head.Branch
	}
	return text, nil
}

// fastForward moves the branch of head to s.To, the commit of rev.
func fastForward(ctx context.Context, r *kist.Repository, head refs.Head, s checkout.Tips, rev string) (*MergeResult, error) {
	s.Publish = func(ctx context.Context) error {
		if !head.Unborn() {
			if err := r.Refs().SetSpecial(ctx, refs.OrigHead, head.ID); err != nil {
				return err
			}
		}
		return checkout.MoveHead(ctx, r, head, s.To.Commit, "merge "+rev+": Fast-forward")
	}
	err := checkout.SwitchTree(ctx, r, s)
	if err != nil && !stage.IsPartial(err) {
		return nil, err
	}
	return &MergeResult{FastForward: true, Old: head.ID, ID: s.To.Commit}, err
}

// NothingStaged makes sure that the index holds what a tree does: what else is
// staged would be committed with a merge, and lost with its end.
func NothingStaged(ctx context.Context, r *kist.Repository, head object.ID) error {
	staged, err := view.OfIndex(ctx, r)
	if err != nil {
		return err
	}
	changes, err := view.DiffWith(ctx, view.View{Tree: head, Objects: r.Contents()}, staged, tree.DiffOptions{Recursive: true, Paired: true})
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
	needs        []object.ID // commits beside HEAD's and state's that the trees are of
	state        operation.State
	noCommit     bool
	progress     kist.Progress
	stats        volume.Stats // what was stored, before the commit
}

// merged is what came of a threeWay.
type merged struct {
	id        object.ID     // HEAD's commit now
	commit    *CommitResult // nil: none was made
	conflicts []tree.Conflict
}

// merge carries out a threeWay, and makes the commit if it can. The result is
// nil if there is an error, unless that is partial.
func merge(ctx context.Context, r *kist.Repository, m *threeWay) (*merged, error) {
	result := &merged{id: m.head.ID}
	applyErr := kist.RetryStale(func() (err error) {
		result.conflicts, err = mergeTrees(ctx, r, m)
		return err
	})
	if applyErr != nil && !stage.IsPartial(applyErr) {
		return nil, applyErr
	}
	if len(result.conflicts) > 0 || m.noCommit {
		return result, applyErr
	}
	var err error
	result.commit, err = Commit(ctx, r, CommitOptions{})
	switch {
	case errors.Is(err, ErrNothingToCommit):
		err = operation.EndStep(ctx, r, m.state)
	case err == nil:
		result.id = result.commit.ID
		result.commit.Stats = addStats(m.stats, result.commit.Stats)
	}
	if err != nil {
		return nil, err
	}
	return result, applyErr
}

// mergeTrees brings the result of a merge into worktree and index, and notes
// that it is under way.
func mergeTrees(ctx context.Context, r *kist.Repository, m *threeWay) ([]tree.Conflict, error) {
	session := r.Objects().Begin(volume.SessionOptions{})
	defer session.Close()
	rw := r.Unpurged(session)
	base, err := m.base(ctx, rw)
	if err != nil {
		return nil, err
	}
	merged, err := tree.Merge(ctx, rw, tree.Versions{Base: base, Ours: m.ours, Theirs: m.theirs}, tree.MergeOptions{Labels: m.labels, Split: r.Chunker().Split})
	if err != nil {
		return nil, err
	}
	idx, err := r.Index()
	if err != nil {
		return nil, err
	}
	marks := conflictMarks(merged.Conflicts)
	var ops []worktree.Op
	for _, c := range merged.Changes {
		ops = append(ops, worktree.Op{Path: c.Path, Old: idx.Entry(c.Path), New: c.New})
	}
	if err := stage.CheckOps(ctx, r, idx, append(ops[:len(ops):len(ops)], marked(idx, ops, marks)...), nil); err != nil {
		return nil, err
	}
	err = stage.ApplyOps(ctx, r, idx, ops, stage.ApplyOptions{
		Session:      session,
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
		Publish: func(ctx context.Context) error { return operation.SetState(ctx, r, m.state) },
	})
	m.stats = session.Stats()
	return merged.Conflicts, err
}

// marked returns operations that leave the paths as they are that have a
// conflict and are not changed. Local changes there would be lost when the merge
// is aborted.
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

// ConflictPaths returns the paths that conflicts leave to be decided on, as
// status lists them. Besides the paths of the conflicts, these are the paths at
// which a version was put aside.
func ConflictPaths(conflicts []tree.Conflict) []string {
	var paths []string
	for _, mark := range conflictMarks(conflicts) {
		paths = append(paths, mark.Path)
	}
	slices.SortFunc(paths, tree.ComparePaths)
	return slices.Compact(paths)
}

// conflictMarks returns the paths to be marked in the index because of
// conflicts: also those at which a version was put aside, so that it neither
// gets into the commit nor is left out of it without somebody's decision.
func conflictMarks(conflicts []tree.Conflict) []index.Conflict {
	var marks []index.Conflict
	for _, c := range conflicts {
		at := index.Conflict{Path: c.Path, Base: c.Base, Ours: c.Ours, Theirs: c.Theirs}
		ours := index.Conflict{Path: c.OursPath, Ours: c.Ours}
		theirs := index.Conflict{Path: c.TheirsPath, Theirs: c.Theirs}
		switch c.Kind {
		case tree.ConflictFileDirectory: // the folder needs no decision
			at.Path = ""
			if !view.IsFolder(c.Base) {
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
