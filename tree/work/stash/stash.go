// Package stash puts changes aside: it records index and worktree as a commit, the
// stash, and goes back to HEAD. The stashes are the entries of the log of [refs.Stash].
package stash

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/work/checkout"
)

var (
	// ErrNothing means that there are no changes to stash.
	ErrNothing = errors.New("no local changes to save")

	// ErrNotChosen means that the user chose none of the changes.
	ErrNotChosen = errors.New("no changes selected")

	// ErrNone is matched by the error for a stash that does not exist.
	ErrNone = errors.New("no such stash")

	// ErrNotStash is matched by the error for a commit that is not a stash.
	ErrNotStash = errors.New("is not a stash")

	// ErrStaged means that the staged changes of a stash conflict with the index.
	ErrStaged = errors.New("the staged changes of the stash conflict with the index")
)

// Listed is a stash in the list.
type Listed struct {
	N int // 0 is the newest
	refs.LogEntry
}

// Name returns the revision of a stash, as in "stash@{1}".
func (e *Listed) Name() string { return fmt.Sprintf("stash@{%d}", e.N) }

// List returns the stashes, newest first.
func List(r *kist.Repository) ([]Listed, error) {
	log, err := r.Refs().Log(refs.Stash)
	list := make([]Listed, len(log))
	for i, e := range log {
		list[i] = Listed{i, e}
	}
	return list, err
}

// Find returns the stash that a name such as "stash@{1}" or "1" means; "" is the newest.
// Any other name is a revision, and its commit becomes an entry with the number -1. The
// error matches [ErrNone] or is that of [kist.Repository.Resolve].
func Find(ctx context.Context, r *kist.Repository, name string) (Listed, error) {
	list, err := List(r)
	if err != nil {
		return Listed{}, err
	}
	text := strings.TrimPrefix(strings.TrimPrefix(name, "refs/"), "stash")
	if inside, ok := strings.CutPrefix(text, "@{"); ok {
		text = strings.TrimSuffix(inside, "}")
	}
	n, err := strconv.ParseUint(text, 10, 31)
	switch {
	case text != "" && err != nil:
		id, err := r.Resolve(ctx, name)
		return Listed{-1, refs.LogEntry{New: id}}, err
	case len(list) == 0:
		return Listed{}, fmt.Errorf("%w: there is none", ErrNone)
	case int(n) >= len(list):
		return Listed{}, fmt.Errorf("%w: stash@{%d}; there are %d", ErrNone, n, len(list))
	}
	return list[n], nil
}

// Drop removes a stash from the list. The error is a [*refs.MovedError] if the list has
// changed since the caller read it.
func Drop(ctx context.Context, r *kist.Repository, e Listed) error {
	return r.Publish(ctx, kist.Step(func(ctx context.Context) error { return r.Refs().DropEntry(ctx, refs.Stash, e.N, e.New) }))
}

// Clear removes all stashes, and returns how many.
func Clear(ctx context.Context, r *kist.Repository) (int, error) {
	list, err := List(r)
	for i := len(list) - 1; i >= 0 && err == nil; i-- {
		err = Drop(ctx, r, list[i])
	}
	return len(list), err
}

// Parts are the commits of a stash.
type Parts struct {
	Stash     *object.Commit
	Base      object.ID // HEAD's commit when the stash was made
	Index     object.ID // the commit of the index
	Untracked object.ID // the commit of the untracked files; zero: they were not stashed
}

// Read returns the parts of a stash.
func Read(ctx context.Context, r *kist.Repository, id object.ID) (Parts, error) {
	c, err := object.ReadCommit(ctx, r.Objects(), id)
	if err != nil {
		return Parts{}, err
	}
	p := Parts{Stash: c}
	switch len(c.Parents) {
	case 3:
		p.Untracked = c.Parents[2]
		fallthrough
	case 2:
		p.Base, p.Index = c.Parents[0], c.Parents[1]
		return p, nil
	}
	return p, fmt.Errorf("commit %s %w", id.Short(), ErrNotStash)
}

// Branch makes a branch where HEAD was when a stash was made, switches to it, and pops
// the stash with its staged changes.
func Branch(ctx context.Context, r *kist.Repository, name string, e Listed, progress kist.Progress) (*Applied, error) {
	parts, err := Read(ctx, r, e.New)
	if err != nil {
		return nil, err
	}
	if _, err := checkout.Switch(ctx, r, checkout.SwitchOptions{Rev: parts.Base.String(), Create: name, Progress: progress}); err != nil {
		return nil, err
	}
	return Pop(ctx, r, e, ApplyOptions{Index: true, Progress: progress})
}
