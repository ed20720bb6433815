package commits

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// StepOptions configure the steps of a revert, cherry-pick or rebase.
type StepOptions struct {
	Brief    bool // do not compute the changes of new commits
	Progress kist.Progress

	// Edit lets the user edit a commit's message. It may be nil if no step needs it.
	Edit func(ctx context.Context, message string) (string, error)

	// Run runs a command of the shell, and returns its exit status. It may be nil if no step
	// needs it.
	Run func(ctx context.Context, command string) (status int, err error)

	// Unstash applies State.Stash at the end of a rebase. It calls end to note the end of the
	// rebase, which it publishes with the new index. If it returns nil without that, the
	// stash stays in the list. It may be nil if there is no stash.
	Unstash func(ctx context.Context, r *kist.Repository, end func(tx *kist.Tx)) error
}

// StepsResult is the result of a revert, cherry-pick or rebase, also after an error.
type StepsResult struct {
	Commits   []*CommitResult // the new commits
	Nothing   []object.ID     // commits without an effect
	Stopped   object.ID       // the commit with conflicts, or to edit; zero: all steps are done
	Conflicts []tree.Conflict // conflicts to resolve; none: stopped to edit
	Failed    string          // the command that failed at Stopped, or left changes there
	Status    int             // its exit status
	Rest      []object.ID     // the commits after Stopped
}

// sequence carries out the steps of a revert, cherry-pick or rebase.
//
// Steps without conflicts are merged in the store alone. Then worktree, index and HEAD
// move to the last new commit, so a file that the steps change twice is written once.
// Before that, the state names this commit: after a kill, [Continue] and [Abort] know
// which content of the worktree comes from the operation. A step with conflicts is
// recorded before it begins, too.
type sequence struct {
	r *kist.Repository
	operation.State
	StepOptions
	result   *StepsResult
	partial  error  // paths that could not be written
	onto     string // the user's name for Onto
	noCommit bool   // steps only change worktree and index
	recorded bool   // the stored state has the operation
	ended    bool   // the operation is over
}

// RunSteps begins a rebase whose steps the caller planned. Index and worktree are clean. HEAD
// may be anywhere: it goes to state.Onto, and in the end to state.Branch. A state with a
// stash is recorded already. The reflog shows onto as the name of state.Onto.
func RunSteps(ctx context.Context, r *kist.Repository, state operation.State, onto string, o StepOptions) (*StepsResult, error) {
	s := &sequence{r: r, State: state, StepOptions: o, result: &StepsResult{}, onto: onto, recorded: !state.Stash.IsZero()}
	return s.runSteps(ctx)
}

// runSteps carries out the remaining steps until one has to wait for the user.
func (s *sequence) runSteps(ctx context.Context) (*StepsResult, error) {
	if !s.To.IsZero() { // an earlier run was killed
		if err := s.moveToBuilt(ctx, nil); err != nil {
			return s.result, err
		}
	}

	for len(s.Rest) > 0 || s.mustMoveOnto() {
		var err error
		switch {
		case len(s.Rest) > 0 && s.Rest[0].Do == operation.Reword:
			err = s.rewordHead(ctx)
		case len(s.Rest) > 0 && s.Rest[0].Do == operation.Edit, s.isNext(operation.Break):
			err = s.waitForUser(ctx)
		case s.isNext(operation.Exec):
			err = s.execCommand(ctx)
		default:
			err = s.advanceSteps(ctx)
		}
		if err != nil || !s.result.Stopped.IsZero() {
			for _, step := range s.Rest {
				if step.Do.Merges() {
					s.result.Rest = append(s.result.Rest, step.Commit)
				}
			}
			return s.result, errors.Join(s.partial, err)
		}
	}

	if s.mustUnstash() {
		err := s.Unstash(ctx, s.r, s.noteStepsDone)
		if err != nil && !stage.IsPartial(err) {
			return s.result, errors.Join(s.partial, err)
		}
		s.partial = errors.Join(s.partial, err)
	}
	if !s.ended {
		if err := s.r.Publish(ctx, s.noteStepsDone); err != nil {
			return s.result, err
		}
	}
	return s.result, s.partial
}

// isNext reports whether the next step is do. It is false until a rebase has moved HEAD to Onto.
func (s *sequence) isNext(do operation.Action) bool {
	return len(s.Rest) > 0 && s.Rest[0].Do == do && !s.mustMoveOnto()
}

// mustMoveOnto reports whether s is a rebase whose HEAD must still move to Onto.
func (s *sequence) mustMoveOnto() bool { return s.Operation == operation.Rebasing && s.Left.IsZero() }

// mustUnstash reports whether s must apply a stash before it ends.
func (s *sequence) mustUnstash() bool { return s.Unstash != nil && !s.Stash.IsZero() }

// built are finished steps whose commits no name reaches yet.
type built struct {
	rest    []operation.Step // the steps after these
	tip     object.ID
	c       *object.Commit // of tip
	moves   []headMove
	commits []*CommitResult
	nothing []object.ID
	needs   []object.ID // the commits that the new ones come from
	skipped []object.Skipped
}

// headMove is a move of HEAD with its reason in the reflog.
type headMove struct {
	id     object.ID
	reason string
}

// advanceSteps carries out the next steps that have no conflicts. If there are none, it
// writes the conflicts of the next step.
func (s *sequence) advanceSteps(ctx context.Context) error {
	before := s.State
	var b *built
	err := s.r.Update(ctx, func(tx *kist.Tx) (err error) {
		b, err = s.buildSteps(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	if len(b.rest) == len(s.Rest) && !s.mustMoveOnto() {
		return s.writeConflict(ctx)
	}

	s.To, s.Rest = b.tip, b.rest
	if err := s.moveToBuilt(ctx, b.moves); err != nil {
		return s.restoreState(ctx, before, err)
	}

	s.result.Nothing = append(s.result.Nothing, b.nothing...)
	for _, c := range b.commits {
		if !s.Brief {
			if err := showChanges(ctx, s.r, c); err != nil {
				return err
			}
		}
		s.result.Commits = append(s.result.Commits, c)
	}
	return nil
}

// dropped returns rest, the steps after one that made no commit. It removes reword and edit, and
// makes the next squash or fixup a pick: none of them may change the commit before.
func dropped(rest []operation.Step) []operation.Step {
	for len(rest) > 0 && (rest[0].Do == operation.Reword || rest[0].Do == operation.Edit) {
		rest = rest[1:]
	}
	next := slices.IndexFunc(rest, func(step operation.Step) bool { return step.Do.Merges() })
	if next >= 0 && rest[next].Do.Amends() {
		rest = slices.Clone(rest)
		rest[next].Do = operation.Pick
	}
	return rest
}

// buildSteps makes the commits of the next steps up to a conflict, and notes that HEAD is
// to move to the last one.
func (s *sequence) buildSteps(ctx context.Context, tx *kist.Tx) (*built, error) {
	head, c, err := compare.HeadCommit(ctx, s.r)
	if err != nil {
		return nil, err
	}
	if err := NothingStaged(ctx, s.r, c.Tree); err != nil {
		return nil, err
	}
	idx, err := s.r.Index()
	if err != nil {
		return nil, err
	}

	b := &built{rest: s.Rest, tip: head.ID, c: c, needs: []object.ID{head.ID}, skipped: idx.Skipped()}
	if s.mustMoveOnto() {
		b.tip = s.Onto
		b.moves = []headMove{{s.Onto, "rebase (start): checkout " + s.onto}}
		if b.c, err = object.ReadCommit(ctx, s.r.Objects(), s.Onto); err != nil {
			return nil, err
		}
		b.needs = append(b.needs, s.Onto)
	}
	if err := kist.CheckUsable(ctx, s.r, b.tip); err != nil {
		return nil, err
	}

	for len(b.rest) > 0 && b.rest[0].Do.Merges() {
		done, err := s.buildStep(ctx, tx, b)
		if err != nil {
			return nil, err
		}
		if !done {
			break
		}
	}
	if len(b.rest) == len(s.Rest) && !s.mustMoveOnto() {
		return b, nil
	}

	next := s.State
	next.To, next.Rest = b.tip, b.rest
	tx.NeedUsable(b.needs...)
	if s.mustMoveOnto() {
		tx.SetSpecial(refs.OrigHead, s.Start)
	}
	operation.SetState(tx, next)
	for _, c := range b.commits {
		c.Branch = head.Branch
	}
	if len(b.commits) > 0 {
		b.commits[0].Stats = tx.Stats() // of all
	}
	return b, nil
}

// buildStep makes the commit of the next step over b.tip. It returns false at conflicts.
func (s *sequence) buildStep(ctx context.Context, tx *kist.Tx, b *built) (bool, error) {
	step := b.rest[0]
	m, err := s.mergeOf(ctx, step, b.c)
	if err != nil {
		return false, err
	}
	b.needs = append(append(b.needs, step.Commit), m.needs...)
	if s.Operation == operation.Rebasing && step.Do == operation.Pick && len(m.from.Parents) == 1 && m.from.Parents[0] == b.tip {
		b.tip, b.c = step.Commit, m.from
		if n := len(b.moves); n > 0 && len(b.commits) == 0 {
			b.moves[n-1].id = b.tip
		} else {
			b.moves = append(b.moves, headMove{b.tip, "rebase: fast-forward"})
		}
		b.rest = b.rest[1:]
		return true, nil
	}

	rw := s.r.Unpurged(tx)
	merged, err := m.mergeOver(ctx, s.r, rw, b.c.Tree)
	if err != nil || len(merged.Conflicts) > 0 {
		return false, err
	}

	if !step.Do.Amends() && !m.empty {
		changed := merged.Tree.ID != b.c.Tree
		if changed {
			if changed, err = differ(ctx, rw, b.c.Tree, merged.Tree.ID); err != nil {
				return false, err
			}
		}
		if !changed {
			b.nothing, b.rest = append(b.nothing, step.Commit), dropped(b.rest[1:])
			return true, nil
		}
	}

	return true, s.commitStep(ctx, tx, b, m, merged.Tree)
}

// commitStep makes the commit of the next step, with a merged tree.
func (s *sequence) commitStep(ctx context.Context, tx *kist.Tx, b *built, m *threeWay, merged tree.Info) error {
	do := b.rest[0].Do
	c := kist.NewCommit(s.r, merged, m.state.Message, b.tip)
	switch {
	case do.Amends():
		c.Parents, c.Author = b.c.Parents, b.c.Author
	case do != operation.Revert:
		c.Author = m.from.Author
	}
	if len(b.skipped) > 0 {
		if err := c.SetSkipped(ctx, tx, b.skipped); err != nil {
			return err
		}
	}
	if err := kist.SignCommit(ctx, s.r, c); err != nil {
		return err
	}
	var err error
	if b.tip, err = tx.PutCommit(ctx, c); err != nil {
		return err
	}

	b.c, b.rest = c, b.rest[1:]
	b.moves = append(b.moves, headMove{b.tip, s.reflogReason(do, c)})
	unsigned := s.Operation == operation.Rebasing && len(m.from.Signature) > 0 && len(c.Signature) == 0
	b.commits = append(b.commits, &CommitResult{ID: b.tip, Commit: c, Unsigned: unsigned})
	return nil
}

// reflogReason returns the reason of a new commit for the reflog.
func (s *sequence) reflogReason(do operation.Action, c *object.Commit) string {
	what := string(s.Operation)
	if s.Operation == operation.Rebasing {
		what = fmt.Sprintf("rebase (%s)", do)
	}
	return what + ": " + c.Subject()
}

// mergeOf returns the merge that a step over the commit at makes.
func (s *sequence) mergeOf(ctx context.Context, step operation.Step, at *object.Commit) (*threeWay, error) {
	if step.Do == operation.Revert {
		return revertOf(ctx, s.r, step.Commit, s.Parent)
	}
	m, err := pickOf(ctx, s.r, step, s.Parent, at)
	if err == nil {
		m.empty = m.empty && s.Operation == operation.Rebasing
	}
	return m, err
}

// moveToBuilt brings worktree, index and HEAD to the commit To.
func (s *sequence) moveToBuilt(ctx context.Context, moves []headMove) error {
	head, err := s.r.Refs().Head()
	if err != nil {
		return err
	}

	moves = append(slices.Clone(moves), headMove{s.To, string(s.Operation) + ": continued"})
	return s.switchTo(ctx, head.ID, s.To, func(tx *kist.Tx) {
		for _, m := range moves {
			s.noteHeadMove(tx, head, m)
			head.ID = m.id
			if s.Operation == operation.Rebasing {
				head.Branch = ""
			}
		}
		s.Left, s.To, s.recorded = s.To, object.ID{}, true
		if len(s.Rest) == 0 && !s.mustUnstash() {
			s.noteStepsDone(tx)
		} else {
			operation.SetState(tx, s.State)
		}
	})
}

// noteHeadMove notes a move of HEAD's branch, or in a rebase of HEAD alone. If another process moved
// HEAD meanwhile, a detached one stays where that put it, and so does the branch.
func (s *sequence) noteHeadMove(tx *kist.Tx, head refs.Head, m headMove) {
	switch {
	case s.Operation == operation.Rebasing && head.Branch != "":
		tx.SetHead(refs.Head{ID: m.id}, m.reason)
	case head.ID != m.id:
		tx.MoveHead(head, m.id, m.reason)
	}
}

// restoreState puts back the recorded state before a step that did not begin because local
// changes are in its way.
func (s *sequence) restoreState(ctx context.Context, before operation.State, err error) error {
	if !errors.Is(err, stage.ErrLocalChanges) {
		return err
	}
	s.State = before
	if !s.recorded {
		return errors.Join(err, s.r.Publish(ctx, operation.ClearState))
	}
	return errors.Join(err, s.saveState(ctx))
}

// saveState records the state.
func (s *sequence) saveState(ctx context.Context) error {
	return s.r.Publish(ctx, func(tx *kist.Tx) { operation.SetState(tx, s.State) })
}

// writeConflict writes the next step, which has conflicts, to the worktree.
func (s *sequence) writeConflict(ctx context.Context) error {
	head, c, err := compare.HeadCommit(ctx, s.r)
	if err != nil {
		return err
	}
	step, rest := s.Rest[0], s.Rest[1:]
	done, err := s.mergeNextStep(ctx, head, c, c.Tree)
	if err != nil {
		return err
	}

	s.Rest = rest
	switch {
	case len(done.Conflicts) > 0:
		s.result.Stopped, s.result.Conflicts = step.Commit, done.Conflicts
	case done.Commit != nil:
		s.result.Commits = append(s.result.Commits, done.Commit)
		s.Left = done.Commit.ID
	case !s.noCommit:
		s.result.Nothing, s.Rest = append(s.result.Nothing, step.Commit), dropped(rest)
	}
	return nil
}

// mergeNextStep merges the next step into the worktree and the index, whose tree is ours. The
// recorded state has the step as the next one until that is done.
func (s *sequence) mergeNextStep(ctx context.Context, head refs.Head, at *object.Commit, ours object.ID) (*MergeResult, error) {
	before := s.State
	m, err := s.mergeOf(ctx, s.Rest[0], at)
	if err != nil {
		return nil, err
	}

	s.Doing, s.Left = "", head.ID
	if err := s.saveState(ctx); err != nil {
		return nil, err
	}

	message := m.state.Message
	m.head, m.ours, m.progress, m.state = head, ours, s.Progress, s.State
	m.state.Doing, m.state.Other, m.state.Message, m.state.Rest = s.Rest[0].Do, s.Rest[0].Commit, message, s.Rest[1:]
	m.noCommit = s.noCommit
	done, err := merge(ctx, s.r, m)
	if done == nil {
		return nil, s.restoreState(ctx, before, err)
	}
	s.partial = errors.Join(s.partial, err)
	s.recorded = true
	return done, nil
}

// rewordHead lets the user edit the message of HEAD's commit.
func (s *sequence) rewordHead(ctx context.Context) error {
	head, c, err := compare.HeadCommit(ctx, s.r)
	if err != nil {
		return err
	}
	message, err := s.Edit(ctx, c.Message)
	if err != nil {
		return err
	}

	rest := s.Rest[1:]
	return s.r.Update(ctx, func(tx *kist.Tx) error {
		id, changed := head.ID, *c
		if message != c.Message {
			changed.Message, changed.Committer = message, s.r.Stamp()
			if err := kist.SignCommit(ctx, s.r, &changed); err != nil {
				return err
			}
			if id, err = tx.PutCommit(ctx, &changed); err != nil {
				return err
			}
		}
		s.noteHeadMove(tx, head, headMove{id, s.reflogReason(operation.Reword, &changed)})
		s.Rest = rest
		operation.SetState(tx, s.State)
		return nil
	})
}

// waitForUser records that HEAD's commit waits for the user's changes.
func (s *sequence) waitForUser(ctx context.Context) error {
	head, err := s.r.Refs().Head()
	if err != nil {
		return err
	}
	s.Doing, s.Other, s.Left, s.Rest = operation.Edit, head.ID, head.ID, s.Rest[1:]
	s.result.Stopped = head.ID
	return s.saveState(ctx)
}

// execCommand runs the command of the next step. Until it succeeds and leaves no changes, HEAD's
// commit waits for the user: so a command that was killed does not run again.
func (s *sequence) execCommand(ctx context.Context) error {
	command := s.Rest[0].Command
	if err := s.waitForUser(ctx); err != nil {
		return err
	}
	status, err := s.Run(ctx, command)
	if err != nil {
		return err
	}
	state, err := operation.Current(s.r)
	if err == nil && state.Operation != operation.Rebasing {
		err = fmt.Errorf("after %q, a rebase is %w", command, operation.ErrNotInProgress)
	}
	if err != nil {
		return err
	}
	s.result.Failed, s.result.Status = command, status
	if status != 0 {
		return nil
	}
	left, err := stage.ReadStatus(ctx, s.r, stage.StatusOptions{NoUntracked: true})
	if err != nil || len(left.Staged)+len(left.Changed) > 0 {
		return err
	}
	s.result.Failed = ""

	head, err := s.r.Refs().Head() // the command may have moved it
	if err != nil {
		return err
	}
	s.Doing, s.Other, s.Left = "", object.ID{}, head.ID
	s.result.Stopped = object.ID{}
	return s.saveState(ctx)
}

// noteStepsDone notes that all steps are done. A rebase moves its branch to HEAD's commit.
func (s *sequence) noteStepsDone(tx *kist.Tx) {
	if s.Branch != "" {
		tx.NoteStep(s.returnToBranch)
	}
	s.noteNoOperation(tx)
}

// noteNoOperation notes that no operation is in progress any more.
func (s *sequence) noteNoOperation(tx *kist.Tx) {
	operation.ClearState(tx)
	tx.NoteStep(func(context.Context) error {
		s.ended = true
		return nil
	})
}

// returnToBranch moves the branch of a rebase to HEAD's commit, and HEAD to the branch.
func (s *sequence) returnToBranch(ctx context.Context) error {
	head, err := s.r.Refs().Head()
	if err != nil {
		return err
	}
	have, err := s.r.Refs().Get(s.Branch)
	if err != nil {
		return err
	}
	if have != head.ID {
		change := refs.Change{Name: s.Branch, Old: s.Start, New: head.ID, Reason: fmt.Sprintf("rebase (finish): %s onto %s", s.Branch, s.Onto)}
		if err := s.r.Refs().Update(ctx, []refs.Change{change}, s.r.Who()); err != nil {
			return err
		}
	}
	branch, _ := refs.BranchOf(s.Branch)
	back := refs.Head{Branch: branch, ID: head.ID}
	return s.r.Refs().SetHead(ctx, back, s.r.Who(), "rebase (finish): returning to "+s.Branch)
}

// showChanges computes the changes of a new commit. A failure is only a warning.
func showChanges(ctx context.Context, r *kist.Repository, c *CommitResult) error {
	old, err := r.RecordedTree(ctx, c.Commit.FirstParent())
	if err != nil {
		return err
	}
	from, to := compare.Side{Tree: old, Objects: r.Contents()}, compare.Side{Tree: c.Commit.Tree, Objects: r.Contents()}
	if c.Changes, err = compare.Diff(ctx, from, to, nil, true); err != nil {
		r.Options().Warn(fmt.Sprintf("the changes of the commit cannot be shown: %v", err))
		c.Unknown = true
	}
	return ctx.Err()
}

// wasKilled reports whether a process was killed while it wrote the next step.
func (s *sequence) wasKilled(head refs.Head) bool {
	return s.Doing == "" && s.To.IsZero() && head.ID == s.Left && len(s.Rest) > 0 && s.Rest[0].Do.Merges()
}

// completeKilled completes a step that a killed process wrote. It makes no commit, so the step
// waits for the user.
func (s *sequence) completeKilled(ctx context.Context, head refs.Head) error {
	if !s.wasKilled(head) {
		return nil
	}
	at, err := object.ReadCommit(ctx, s.r.Objects(), head.ID)
	if err != nil {
		return err
	}

	written, err := s.isInIndex(ctx, at)
	if err != nil {
		return err
	}
	if written {
		err = s.noteStepWaits(ctx, at)
	} else {
		var ours object.ID
		s.noCommit = true
		if ours, err = writeIndex(ctx, s.r); err == nil {
			_, err = s.mergeNextStep(ctx, head, at, ours)
		}
	}
	if err == nil {
		s.State, err = operation.Current(s.r)
	}
	return err
}

// isInIndex reports whether the next step, which was killed, is in the index: it was clean
// before, except for steps without a commit.
func (s *sequence) isInIndex(ctx context.Context, at *object.Commit) (bool, error) {
	idx, err := s.r.Index()
	if err != nil || len(idx.Conflicts()) > 0 || s.Rest[0].Do == operation.Apply {
		return err == nil && len(idx.Conflicts()) > 0, err
	}
	err = NothingStaged(ctx, s.r, at.Tree)
	if errors.Is(err, stage.ErrLocalChanges) {
		return true, nil
	}
	return false, err
}

// noteStepWaits records that the next step, which is in the index, waits for the user.
func (s *sequence) noteStepWaits(ctx context.Context, at *object.Commit) error {
	m, err := s.mergeOf(ctx, s.Rest[0], at)
	if err != nil {
		return err
	}
	s.Doing, s.Other, s.Message, s.Rest = s.Rest[0].Do, s.Rest[0].Commit, m.state.Message, s.Rest[1:]
	return s.saveState(ctx)
}
