package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/lent"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/worktree"
)

// ApplyOptions configure [ApplyOps].
type ApplyOptions struct {
	Stage        staging
	Tx           *kist.Tx // has the new objects that operations use; nil: all are published
	Progress     kist.Progress
	KeepGit      bool // leave git's own folders as they are, whatever the configuration says
	Replaces     bool // remove a file if its replacement was purged
	GiveUp       bool // remove lent files without asking the remotes for their content
	AllOrNothing bool // stage nothing if interrupted, because the command cannot be repeated with a partly staged result

	Unchanged []worktree.Refreshed         // files whose content is still the staged one
	Needs     []object.ID                  // commits that the operations come from; they must be usable at the end
	Lost      []compare.LostFolder         // lost folders of these commits
	Whole     []tree.Change                // changes of folders that are left out, with everything in them
	Staged    []tree.Change                // further changes of the index, after the operations
	Edit      func(idx *index.Index) error // further changes of the index; may be nil
	Opening   *Opening                     // folders that idx has open, unlike the stored index; may be nil
	Names     func(tx *kist.Tx)            // notes changes of names, to publish after the index; may be nil
}

// staging selects how operations on the worktree change the index.
type staging uint8

const (
	stageAll  staging = iota // stage the results
	StageStat                // the results are staged already: only update stat data
	StageNone                // leave the index alone
)

// ApplyOps carries out ops in the worktree and stages the results. It
// overwrites local changes: call [CheckOps] first.
//
// Paths that could not be written are in a [*worktree.ApplyError]. They are
// staged all the same, because the user wanted that state. But if the error
// stopped the work, ApplyOps stages only the written paths, or nothing if
// o.AllOrNothing is set, and publishes nothing.
//
// A lent file that ops remove or replace is a [*GiveUpError], and nothing is changed, if no remote keeps its content, or if one cannot be
// asked. With o.GiveUp, ApplyOps does not ask.
func ApplyOps(ctx context.Context, r *kist.Repository, idx *index.Index, ops []worktree.Op, o ApplyOptions) error {
	if len(ops) == 0 && o.isEmpty() {
		return nil
	}

	source, tx := r.Contents(), o.Tx
	if tx == nil {
		tx = r.Begin(volume.SessionOptions{})
		defer tx.Close()
	} else {
		source = r.Unpurged(tx)
	}
	ops, folders, err := o.takeLeftOut(ctx, tx, idx, ops)
	if err != nil {
		return err
	}

	todo, kept := withoutWrites(r.Worktree(), prepare(r, idx, ops))
	leaving, onlyAway, err := askRemotes(ctx, r, todo, o.GiveUp)
	if err != nil {
		return err
	}
	applied, applyErr := r.Worktree().Apply(ctx, source, todo, worktree.ApplyOptions{
		KeepGit: o.KeepGit, PassFrom: lent.MinSize, Sources: leaving.sources, Progress: ApplyProgress(ops, o.Progress),
	})
	written := writtenLent(applied)
	noteOnlyAway(r, onlyAway)
	done := applyErr == nil || IsPartial(applyErr)
	if !done && o.AllOrNothing {
		return applyErr
	}
	if failed := (*worktree.ApplyError)(nil); o.Replaces && errors.As(applyErr, &failed) {
		if err := clearPurged(ctx, r, idx, todo, failed); err != nil {
			return err
		}
	}
	applied = append(applied, kept...)
	if done && (applyErr != nil || len(todo) != len(ops) || len(kept) > 0) {
		applied = append(applied, unwritten(ops, applied)...)
		slices.SortFunc(applied, func(a, b worktree.Applied) int { return tree.ComparePaths(a.Path, b.Path) })
	}

	// Stage the written paths even if the operation was interrupted.
	tx.NeedUsable(o.Needs...)
	tx.EditIndex(nil, func(idx *index.Index) error {
		if !done {
			return o.stageOps(idx, applied, done)
		}
		if err := o.Opening.apply(ctx, r.Objects(), idx); err != nil {
			return err
		}
		return o.stageAllOf(idx, applied, folders)
	})
	if done && o.Names != nil {
		o.Names(tx)
	}
	err = tx.Publish(context.WithoutCancel(ctx))
	recordLent(context.WithoutCancel(ctx), r, written, false)

	return cmp.Or(err, compare.WithLost(applyErr, o.Lost))
}

// AskRemotes makes sure that remotes have the content that operations write, and keep that of the lent files which they remove. It
// returns the bytes of these files, see [leaving.giveUp]. [ApplyOps] asks, too; other callers do before they change anything else.
func AskRemotes(ctx context.Context, r *kist.Repository, ops []worktree.Op, giveUp bool) (int64, error) {
	_, bytes, err := askRemotes(ctx, r, ops, giveUp)
	return bytes, err
}

// askRemotes is AskRemotes, and also returns the content of these files.
func askRemotes(ctx context.Context, r *kist.Repository, ops []worktree.Op, giveUp bool) (*leaving, int64, error) {
	l, err := findLeaving(ctx, r, ops)
	if err == nil {
		err = reachContent(ctx, r, ops, l.needed)
	}
	if err != nil {
		return nil, 0, err
	}
	bytes, err := l.giveUp(ctx, r, giveUp)
	return l, bytes, err
}

// isEmpty reports whether there is nothing to do beside operations.
func (o *ApplyOptions) isEmpty() bool {
	return len(o.Unchanged)+len(o.Lost)+len(o.Whole)+len(o.Staged) == 0 && o.Edit == nil && o.Names == nil
}

// takeLeftOut returns the operations without those in folders that are left out, and the new states of
// these folders. Their trees are stored.
func (o *ApplyOptions) takeLeftOut(ctx context.Context, tx *kist.Tx, idx *index.Index, ops []worktree.Op) ([]worktree.Op, []LeftOutFolder, error) {
	l := NewLeftOut(idx, tx.Repository().Config().Cone())
	for _, c := range o.Whole {
		l.replaceFolder(c)
	}
	ops = l.TakeOps(ops)
	if o.Stage != stageAll { // operations do not change the index
		clear(l.folders)
	}
	o.Staged = l.TakeChanges(o.Staged)
	folders, err := l.Folders(ctx, tx.Repository().Unpurged(tx))
	for _, f := range folders {
		if f.Entry == nil && !f.was.IsZero() { // the worktree may have an empty folder there
			ops = append(ops, worktree.Op{Path: f.Path})
		}
	}
	return ops, folders, err
}

// stageAllOf makes all changes of the index after the operations.
func (o *ApplyOptions) stageAllOf(idx *index.Index, applied []worktree.Applied, folders []LeftOutFolder) error {
	if err := stageLeftOut(idx, folders, true); err != nil {
		return err
	}
	return cmp.Or(o.stageOps(idx, applied, true), stageLeftOut(idx, folders, false), StageChanges(idx, o.Staged), o.editIndex(idx))
}

// editIndex makes the further changes of the index.
func (o *ApplyOptions) editIndex(idx *index.Index) error {
	if o.Edit == nil {
		return nil
	}
	return o.Edit(idx)
}

// stageOps changes the index after the operations. done is false if they were
// interrupted.
func (o *ApplyOptions) stageOps(idx *index.Index, applied []worktree.Applied, done bool) error {
	if err := stageApplied(idx, applied, o.Stage); err != nil {
		return err
	}
	noteUnchanged(idx, o.Unchanged)
	if o.Stage == stageAll {
		if err := compare.StageLost(idx, o.Lost, done); err != nil {
			return err
		}
	}
	return nil
}

// IsPartial reports whether err means that some paths could not be written and
// all others were.
func IsPartial(err error) bool {
	var failed *worktree.ApplyError
	return errors.As(err, &failed) && !failed.Stopped
}

// prepare adapts ops to the worktree:
//
//   - The user's current folder is not removed.
//   - Folders that are tracked as read-only get an operation if something in
//     them changes. It makes them writable first and read-only afterwards.
func prepare(r *kist.Repository, idx *index.Index, ops []worktree.Op) []worktree.Op {
	stays := func(op worktree.Op) bool { return op.Old == nil && op.New == nil && tree.Below(r.At(), op.Path) }
	if r.At() != "" && slices.ContainsFunc(ops, stays) {
		ops = slices.DeleteFunc(slices.Clone(ops), stays)
	}
	list := slices.Clip(ops)
	folders := readOnlyFolders(r, idx, ops)
	for _, path := range slices.Sorted(maps.Keys(folders)) {
		properties := folders[path]
		list = append(list, worktree.Op{Path: path, New: &properties})
	}

	return list
}

// readOnlyFolders returns the properties, by path, of folders that are tracked as
// read-only and in which ops change something. It leaves out folders with an
// operation of their own, and folders that the user replaced by something
// else. A missing folder is included only if an operation writes into it.
func readOnlyFolders(r *kist.Repository, idx *index.Index, ops []worktree.Op) map[string]object.Entry {
	folders := map[string]object.Entry{}
	last := ""
	for _, op := range ops {
		path, _ := tree.Split(op.Path)
		if path == last || path == "" {
			continue
		}
		last = path
		if d := idx.Dir(path); d != nil && d.Mode()&0o300 != 0o300 {
			folders[path] = d.Properties()
		}
	}

	if len(folders) == 0 {
		return nil
	}

	made := map[string]bool{} // folders that an operation writes into
	for _, op := range ops {
		if op.Old == nil {
			delete(folders, op.Path)
		}
		if dir, _ := tree.Split(op.Path); op.New != nil {
			made[dir] = true
		}
	}

	maps.DeleteFunc(folders, func(path string, _ object.Entry) bool {
		info, err := r.Worktree().Lstat(path)
		return err == nil && info.Type != object.TypeDir || err != nil && !made[path]
	})

	return folders
}

// unwritten returns a result without stat data for each operation that is not in applied.
func unwritten(ops []worktree.Op, applied []worktree.Applied) []worktree.Applied {
	done := make(map[string]bool, len(applied))
	for _, a := range applied {
		done[a.Path] = true
	}

	var rest []worktree.Applied
	for _, op := range ops {
		if done[op.Path] {
			continue
		}
		rest = append(rest, worktree.Applied{Path: op.Path, New: op.New})
	}

	return rest
}

// stageApplied stages the results in the worktree. It clears each item of
// applied that it has staged: with a million files, both lists would need too
// much memory.
func stageApplied(idx *index.Index, applied []worktree.Applied, how staging) error {
	if how == StageNone {
		return nil
	}

	// Remove paths first, a folder after its content. A folder that still
	// holds something else stays.
	for _, a := range slices.Backward(applied) {
		if a.New != nil || how != stageAll {
			continue
		}
		if d := idx.Dir(a.Path); d == nil || d.Len() == 0 && len(d.Subdirs()) == 0 && !d.LeftOut() {
			idx.Remove(a.Path)
		}
	}

	for i, a := range applied {
		applied[i] = worktree.Applied{}
		var err error
		switch {
		case a.New == nil:
		case how == StageStat:
			e := index.NewEntry(*a.New, a.Stat)
			if have := idx.Entry(a.Path); have != nil && have.SameContent(&e) {
				idx.SetStat(a.Path, a.Stat)
			}
		case a.New.Type == object.TypeDir:
			err = idx.SetDir(a.Path, *a.New)
		default:
			err = idx.Set(a.Path, index.NewEntry(*a.New, a.Stat))
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// noteUnchanged updates the stat data of files that were read and still have
// the staged content, so that they need not be read again.
func noteUnchanged(idx *index.Index, unchanged []worktree.Refreshed) {
	for _, u := range unchanged {
		if e := idx.Entry(u.Path); e != nil && e.SameContent(u.Old) {
			idx.SetStat(u.Path, u.Stat)
		}
	}
}

// CheckOps makes sure that ops destroy nothing that exists only in the
// worktree. Its error lists all obstacles, including those in known.
func CheckOps(ctx context.Context, r *kist.Repository, idx *index.Index, ops []worktree.Op, known []Obstacle) error {
	ops = NewLeftOut(idx, r.Config().Cone()).TakeOps(ops)
	found, err := r.Worktree().Check(ctx, idx, ops)
	if err != nil {
		return err
	}
	only, err := OnlyCopies(r, ops)
	if err != nil {
		return err
	}
	return ObstacleError(append(append(known, Obstacles(r, ops, found)...), only...))
}

// Obstacles converts the obstacles of a worktree. It adds the user's current
// folder if a file is about to replace it.
func Obstacles(r *kist.Repository, ops []worktree.Op, found []worktree.Obstacle) []Obstacle {
	var list []Obstacle
	for _, o := range found {
		why := o.Reason.String()
		if o.Err != nil {
			why += ": " + ReasonWithoutPath(o.Err)
		}
		list = append(list, Obstacle{o.Path, why})
	}

	if r.At() == "" {
		return list
	}

	for _, op := range ops {
		if op.New != nil && op.New.Type != object.TypeDir && tree.Below(r.At(), op.Path) {
			list = append(list, Obstacle{op.Path, "the current folder"})
		}
	}

	return list
}

// ObstacleError returns a [*LocalChangesError] with the obstacles, or nil if
// there are none.
func ObstacleError(list []Obstacle) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b Obstacle) int { return tree.ComparePaths(a.Path, b.Path) })
	list = slices.CompactFunc(list, func(a, b Obstacle) bool { return a.Path == b.Path })
	return &LocalChangesError{list}
}

// ApplyProgress adds the total of ops to the progress of a worktree.
func ApplyProgress(ops []worktree.Op, progress kist.Progress) func(files, bytes int64) {
	if progress == nil {
		return nil
	}
	var total kist.Amount
	for _, op := range ops {
		if op.New != nil && op.New.Type != object.TypeDir {
			total.Files++
			total.Bytes += int64(op.New.Size)
		}
	}

	return func(files, bytes int64) { progress(kist.Amount{Files: files, Bytes: bytes}, total) }
}

// Outermost returns paths sorted, without duplicates and paths below others.
func Outermost(paths []string) []string {
	var outer []string
	for _, path := range slices.SortedFunc(slices.Values(paths), tree.ComparePaths) {
		if n := len(outer); n == 0 || !tree.Below(path, outer[n-1]) {
			outer = append(outer, path)
		}
	}
	return outer
}

// ErrLocalChanges is matched by every [*LocalChangesError].
var ErrLocalChanges = errors.New("local changes would be lost")

// LocalChangesError means that an operation did not begin, because it would
// overwrite data that exists only in the worktree or the index.
type LocalChangesError struct{ Obstacles []Obstacle }

// Obstacle is a path that an operation must not overwrite, with the reason.
type Obstacle struct{ Path, Reason string }

func (e *LocalChangesError) Error() string {
	if len(e.Obstacles) == 1 {
		return fmt.Sprintf("%v: %q: %s", ErrLocalChanges, e.Obstacles[0].Path, e.Obstacles[0].Reason)
	}
	return fmt.Sprintf("%v: %d paths", ErrLocalChanges, len(e.Obstacles))
}

// Is makes errors.Is(err, ErrLocalChanges) true.
func (e *LocalChangesError) Is(target error) bool { return target == ErrLocalChanges }

// Indexed returns the index's entry at path in the form of a tree's entry, or
// nil. A directory's entry has no content.
func Indexed(idx *index.Index, path string) *object.Entry {
	if e := idx.Entry(path); e != nil {
		o := e.Object()
		return &o
	}
	if d := idx.Dir(path); d != nil {
		o := d.Properties()
		return &o
	}
	return nil
}

// SameEntry reports whether two entries are equal. Directories are equal if
// their modes and metadata are: the paths below them are compared on their own.
func SameEntry(a, b *object.Entry) bool {
	if a != nil && b != nil && a.Type == object.TypeDir && b.Type == object.TypeDir {
		same := *b
		same.Content, same.Size, same.Files = a.Content, a.Size, a.Files
		return tree.ContentEqual(a, &same)
	}
	return tree.ContentEqual(a, b)
}
