package rebase

import (
	"context"
	"crypto/sha256"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/stage"
)

// patches finds commits by their changes.
type patches struct {
	r  *kist.Repository
	at map[[32]byte][]history.Commit // by the hash of the changed paths
}

// changes returns the changes of a commit from its only parent. It leaves out folders that
// came or went: whether a change makes its folder depends on other files.
func (p *patches) changes(ctx context.Context, c history.Commit) ([]tree.Change, error) {
	base, err := p.r.RecordedTree(ctx, commits.FirstParent(c.Commit))
	if err != nil {
		return nil, err
	}
	var list []tree.Change
	for change, err := range tree.Diff(ctx, p.r.Objects(), base, c.Tree, tree.DiffOptions{Recursive: true, Paired: true}) {
		if err != nil {
			return nil, err
		}
		if change.Old == nil && tree.IsDir(change.New) || change.New == nil && tree.IsDir(change.Old) {
			continue
		}
		list = append(list, change)
	}
	return list, nil
}

// key returns the hash of the changed paths.
func key(list []tree.Change) (sum [32]byte) {
	h := sha256.New()
	for _, c := range list {
		h.Write(append([]byte(c.Path), 0))
	}
	h.Sum(sum[:0])
	return sum
}

// add adds a commit. It skips a commit whose content has expired.
func (p *patches) add(ctx context.Context, c history.Commit) error {
	list, err := p.changes(ctx, c)
	if intact.IsAbsent(err) {
		return nil
	}
	p.at[key(list)] = append(p.at[key(list)], c)
	return err
}

// has reports whether a commit with the same changes was added. A commit without changes
// is like no other.
func (p *patches) has(ctx context.Context, c history.Commit) (bool, error) {
	if len(p.at) == 0 {
		return false, nil
	}
	list, err := p.changes(ctx, c)
	if intact.IsAbsent(err) || len(list) == 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, other := range p.at[key(list)] {
		theirs, err := p.changes(ctx, other)
		if err != nil {
			return false, err
		}
		if slices.EqualFunc(list, theirs, func(a, b tree.Change) bool {
			return a.Path == b.Path && stage.SameEntry(a.Old, b.Old) && stage.SameEntry(a.New, b.New)
		}) {
			return true, nil
		}
	}
	return false, nil
}
