// Package rebase repeats the commits of a branch on top of another commit.
package rebase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/work/stash"
)

// StashMessage is the message of the stash for [Options.Autostash].
const StashMessage = "autostash"

// Options configure [Rebase].
type Options struct {
	Upstream  string // the commits that it lacks are repeated; empty: the upstream of HEAD's branch
	Branch    string // switch to it first; empty: stay
	Onto      string // the new base; empty: Upstream
	Autostash bool   // put local changes aside, and bring them back at the end
	ForkPoint bool   // leave out commits that Upstream once had, by its reflog

	// Exec are commands of the shell to run after each commit.
	Exec []string

	// EditTodo lets the user edit the list of steps. Nil: all commits are picked.
	EditTodo func(ctx context.Context, list string) (string, error)

	commits.StepOptions
}

// Result is the result of a rebase, also after an error.
type Result struct {
	commits.StepsResult
	UpToDate bool        // there was nothing to do
	Ended    bool        // the branch has moved, and no operation is in progress
	Branch   string      // its short name; "" for a detached HEAD
	Old, ID  object.ID   // the branch's commit before and now
	Upstream []object.ID // commits left out, because the upstream has the same changes

	// Kept is the stash of the local changes, if it conflicts with the new commits. Then
	// it is still in the list of stashes.
	Kept *stash.Listed

	stash  object.ID // of the local changes; zero: none
	staged bool      // stage the staged changes again
	o      commits.StepOptions
}

// newResult returns the result of a rebase before it goes on from a state.
func newResult(state operation.State, o commits.StepOptions) *Result {
	branch, _ := refs.BranchOf(state.Branch)
	result := &Result{Branch: branch, Old: state.Start, ID: state.Start, stash: state.Stash, o: o}
	result.o.Unstash = result.applyStash
	return result
}

// Rebase repeats the commits of HEAD's branch on another one, and moves the branch to the
// last new commit. It leaves out merge commits, and commits whose changes the upstream
// has, in the same lines or from the same content. It drops commits that have no effect
// any more. HEAD is detached meanwhile.
//
// It stops at conflicts as [commits.Revert] does, with [Continue], [Skip] and [Abort] to
// go on. The error is a [*stage.LocalChangesError], and nothing is done, if files have
// local changes and o.Autostash is not set. It is a [*TodoError] for a bad list of steps.
func Rebase(ctx context.Context, r *kist.Repository, o Options) (*Result, error) {
	if err := operation.NoOperation(r); err != nil {
		return nil, err
	}
	p, err := newPlan(ctx, r, o)
	if err != nil {
		return nil, err
	}
	changes, err := localChanges(ctx, r)
	if err != nil {
		return nil, err
	}
	if changes != nil && !o.Autostash {
		return nil, changes
	}
	if err := p.listSteps(ctx, o); err != nil {
		return nil, err
	}

	result := newResult(p.state, o.StepOptions)
	result.UpToDate, result.Upstream = p.upToDate, p.upstreamed
	if p.upToDate && !p.switches {
		return result, nil
	}
	if changes != nil {
		if err := p.stashChanges(ctx, o); err != nil {
			return nil, errors.Join(err, result.abortUnmoved(ctx, r))
		}
	}
	result.stash = p.state.Stash
	done, err := commits.RunSteps(ctx, r, p.state, p.onto, result.o)
	err = result.completeResult(r, done, err)
	if err != nil && !result.Ended {
		err = errors.Join(err, result.abortUnmoved(ctx, r))
	}
	return result, err
}

// abortUnmoved aborts a rebase that is recorded, but could not begin to move HEAD.
func (result *Result) abortUnmoved(ctx context.Context, r *kist.Repository) error {
	state, err := operation.Current(r)
	if err != nil || !state.Untouched() {
		return err
	}
	aborted, err := Abort(ctx, r, result.o.Progress)
	if aborted != nil {
		result.Kept = aborted.Kept
	}
	return err
}

// Continue commits the resolved step and goes on.
func Continue(ctx context.Context, r *kist.Repository, o commits.StepOptions) (*Result, error) {
	return resume(ctx, r, o, commits.Continue)
}

// Skip gives up the step at hand and goes on.
func Skip(ctx context.Context, r *kist.Repository, o commits.StepOptions) (*Result, error) {
	return resume(ctx, r, o, commits.Skip)
}

// Abort brings back the branch, and the local changes that were put aside.
func Abort(ctx context.Context, r *kist.Repository, progress kist.Progress) (*Result, error) {
	state, err := operation.Current(r)
	if err != nil {
		return nil, err
	}
	result := newResult(state, commits.StepOptions{Progress: progress})
	result.staged = true
	err = commits.Abort(ctx, r, operation.Rebasing, result.o)
	if err != nil && !stage.IsPartial(err) {
		return nil, err
	}
	result.Ended = true
	return result, err
}

// resume goes on with a rebase in progress.
func resume(ctx context.Context, r *kist.Repository, o commits.StepOptions, f func(context.Context, *kist.Repository, operation.Operation, commits.StepOptions) (*commits.StepsResult, error)) (*Result, error) {
	state, err := operation.Current(r)
	if err != nil {
		return nil, err
	}
	result := newResult(state, o)
	done, err := f(ctx, r, operation.Rebasing, result.o)
	if done == nil {
		return nil, err
	}
	return result, result.completeResult(r, done, err)
}

// completeResult completes a result after steps.
func (result *Result) completeResult(r *kist.Repository, done *commits.StepsResult, err error) error {
	result.StepsResult = *done
	if err != nil && !stage.IsPartial(err) || !result.Stopped.IsZero() {
		return err
	}
	head, herr := r.Refs().Head()
	if herr != nil {
		return errors.Join(err, herr)
	}
	result.Ended, result.ID = true, head.ID
	return err
}

// applyStash applies the stash of the local changes, even if it has left the list, and drops it.
// It publishes the changes that end notes with the new index. If the changes conflict with the new commits,
// the stash is in the list afterwards.
func (result *Result) applyStash(ctx context.Context, r *kist.Repository, end func(tx *kist.Tx)) error {
	list, err := stash.List(r)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(e stash.Listed) bool { return e.New == result.stash })

	if result.staged { // files and index may still have the changes, or some of them
		if _, err := checkout.Reset(ctx, r, "HEAD", checkout.ResetMixed, nil); err != nil {
			return err
		}
	}
	o := stash.ApplyOptions{Index: result.staged, Names: end, Progress: result.o.Progress}
	applied, err := stash.Apply(ctx, r, result.stash, o)
	if errors.Is(err, stash.ErrStaged) {
		o.Index = false
		applied, err = stash.Apply(ctx, r, result.stash, o)
	}
	switch {
	case errors.Is(err, stage.ErrLocalChanges) || err == nil && len(applied.Conflicts) > 0:
		if i < 0 {
			entry, err := stash.StoreDropped(ctx, r, result.stash, "On "+cmp.Or(result.Branch, "(no branch)")+": "+StashMessage)
			result.Kept = &entry
			return err
		}
		result.Kept = &list[i]
		return nil
	case err != nil || i < 0:
		return err
	}
	return stash.Drop(ctx, r, list[i])
}

// localChanges returns an error with the tracked files that have changes, or nil.
func localChanges(ctx context.Context, r *kist.Repository) (changes, err error) {
	s, err := stage.ReadStatus(ctx, r, stage.StatusOptions{NoUntracked: true})
	if err != nil {
		return nil, err
	}
	var list []stage.Obstacle
	for _, c := range s.Staged {
		list = append(list, stage.Obstacle{Path: c.Path, Reason: checkout.StagedReason})
	}
	for _, c := range s.Conflicts {
		list = append(list, stage.Obstacle{Path: c.Path, Reason: "unresolved conflict"})
	}
	for _, f := range s.Changed {
		list = append(list, stage.Obstacle{Path: f.Path, Reason: "a change is not staged"})
	}
	return stage.ObstacleError(list), nil
}

// plan is the planned work of a rebase.
type plan struct {
	r          *kist.Repository
	state      operation.State
	onto       string // the user's name for it
	commits    []history.Commit
	exec       []string
	upToDate   bool
	switches   bool // HEAD is elsewhere
	upstreamed []object.ID
	fork       object.ID // an earlier commit of the upstream, whose commits are left out; zero: none
}

// stashChanges puts the local changes aside. It records the rebase before they leave the worktree: after
// a kill, [Abort] brings them back.
func (p *plan) stashChanges(ctx context.Context, o Options) error {
	record := func(tx *kist.Tx, id object.ID) {
		state := p.state
		state.Stash = id
		operation.SetState(tx, state)
	}
	entry, err := stash.Push(ctx, p.r, stash.PushOptions{Message: StashMessage, Progress: o.Progress, Recording: record})
	p.state.Stash = entry.New
	return err
}

// newPlan finds the commits to repeat.
func newPlan(ctx context.Context, r *kist.Repository, o Options) (*plan, error) {
	head, err := start(ctx, r, o.Branch)
	if err != nil {
		return nil, err
	}
	if o.Upstream == "" {
		if head.Branch == "" {
			return nil, fmt.Errorf("HEAD is detached: %w", kist.ErrNoUpstream)
		}
		follows, err := kist.UpstreamOf(r, head.Branch)
		if err != nil {
			return nil, err
		}
		o.Upstream = follows.Tracking()
	}
	upstream, err := r.Resolve(ctx, o.Upstream)
	if err != nil {
		return nil, err
	}

	present, err := r.Refs().Head()
	if err != nil {
		return nil, err
	}
	p := &plan{r: r, onto: o.Upstream, exec: o.Exec, switches: head != present, state: operation.State{Operation: operation.Rebasing, Start: head.ID, Onto: upstream}}
	if head.Branch != "" {
		p.state.Branch = refs.Heads + head.Branch
	}
	if o.Onto != "" {
		p.onto = o.Onto
		if p.state.Onto, err = r.Resolve(ctx, o.Onto); err != nil {
			return nil, err
		}
	}

	if o.ForkPoint {
		if p.fork, err = forkPoint(ctx, r, o.Upstream, head.ID); err != nil {
			return nil, err
		}
	}
	if p.upToDate, err = p.isUpToDate(ctx, upstream); err != nil {
		return nil, err
	}
	if p.upToDate = p.upToDate && o.EditTodo == nil && len(o.Exec) == 0; p.upToDate {
		if p.switches {
			p.onto, p.state.Onto = o.Branch, p.state.Start
		}
		return p, nil
	}
	return p, p.chooseCommits(ctx, upstream)
}

// forkPoint returns the best common ancestor of a commit and of all commits that a branch
// was at, if the branch was there itself. Otherwise it returns zero.
func forkPoint(ctx context.Context, r *kist.Repository, branch string, head object.ID) (object.ID, error) {
	name, err := r.Refs().Expand(ctx, branch)
	if err != nil {
		return object.ID{}, nil // a commit, and no branch
	}
	was := map[object.ID]bool{}
	entries, _ := r.Refs().Log(name) // without damaged ones
	for _, e := range entries {
		was[e.New], was[e.Old] = true, true
	}
	delete(was, object.ID{})
	known := slices.Collect(maps.Keys(was))
	known = slices.DeleteFunc(known, func(id object.ID) bool {
		_, err := object.ReadCommit(ctx, r.Objects(), id) // gc may have removed it
		return err != nil
	})
	if len(known) == 0 {
		return object.ID{}, ctx.Err()
	}
	bases, err := history.MergeBases(ctx, r.Objects(), head, known...)
	if err != nil || len(bases) != 1 || !was[bases[0]] {
		return object.ID{}, err
	}
	return bases[0], nil
}

// start returns the branch or commit to rebase.
func start(ctx context.Context, r *kist.Repository, rev string) (refs.Head, error) {
	if rev == "" {
		head, err := r.Refs().Head()
		if err == nil && head.Unborn() {
			err = kist.ErrUnborn
		}
		return head, err
	}
	if refs.CheckName(refs.Heads+rev) == nil {
		id, err := r.Refs().Get(refs.Heads + rev)
		if err == nil || !errors.Is(err, refs.ErrNotFound) {
			return refs.Head{Branch: rev, ID: id}, err
		}
	}
	id, err := r.Resolve(ctx, rev)
	return refs.Head{ID: id}, err
}

// isUpToDate reports whether the commits are on the new base already, in one line.
func (p *plan) isUpToDate(ctx context.Context, upstream object.ID) (bool, error) {
	onto := p.state.Onto
	for _, id := range []object.ID{onto, upstream} {
		bases, err := history.MergeBases(ctx, p.r.Objects(), id, p.state.Start)
		if err != nil || len(bases) != 1 || bases[0] != onto || !p.fork.IsZero() && p.fork != onto {
			return false, err
		}
	}
	for c, err := range history.Walk(ctx, p.r.Objects(), []object.ID{p.state.Start}, history.Options{Exclude: []object.ID{onto}}) {
		if err != nil || len(c.Parents) > 1 {
			return false, err
		}
	}
	return true, nil
}

// chooseCommits finds the commits to repeat, oldest first.
func (p *plan) chooseCommits(ctx context.Context, upstream object.ID) error {
	theirs := &patches{r: p.r, at: map[[32]byte][]history.Commit{}}
	only := func(id object.ID, without []object.ID, visit func(history.Commit) error) error {
		o := history.Options{Exclude: without, Topo: true}
		for c, err := range history.Walk(ctx, p.r.Objects(), []object.ID{id}, o) {
			if err == nil && len(c.Parents) < 2 {
				err = visit(c)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}

	err := only(upstream, []object.ID{p.state.Start}, func(c history.Commit) error { return theirs.addCommit(ctx, c) })
	if err != nil {
		return err
	}
	without := []object.ID{upstream}
	if !p.fork.IsZero() {
		without = append(without, p.fork)
	}
	err = only(p.state.Start, without, func(c history.Commit) error {
		has, err := theirs.hasSame(ctx, c)
		if has {
			p.upstreamed = append(p.upstreamed, c.ID)
		} else {
			p.commits = append(p.commits, c)
		}
		return err
	})
	slices.Reverse(p.commits)
	slices.Reverse(p.upstreamed)
	return err
}

// listSteps makes the list of steps; the user may edit it.
func (p *plan) listSteps(ctx context.Context, o Options) error {
	if p.upToDate {
		return nil
	}
	if o.EditTodo == nil {
		for _, c := range p.commits {
			p.state.Rest = append(p.state.Rest, operation.Step{Do: operation.Pick, Commit: c.ID})
			for _, command := range p.exec {
				p.state.Rest = append(p.state.Rest, operation.Step{Do: operation.Exec, Command: command})
			}
		}
		return nil
	}
	text, err := o.EditTodo(ctx, p.todoText())
	if err != nil {
		return err
	}
	p.state.Rest, err = p.parseTodo(ctx, text)
	return err
}
