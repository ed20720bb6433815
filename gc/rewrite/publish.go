package rewrite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/view"
)

// nothingStaged makes sure that the index holds HEAD's tree, or the one that
// HEAD is to have: then a rewrite was stopped before it moved HEAD.
func (w *rewriter) nothingStaged(ctx context.Context) error {
	from, err := intact.CommitTree(ctx, w.r, w.head.ID)
	if err != nil {
		return err
	}
	err = commits.NothingStaged(ctx, w.r, from)
	var local *stage.LocalChangesError
	became, moves := w.headMoves()
	if !errors.As(err, &local) || !moves {
		return err
	}
	to, cerr := object.ReadCommit(ctx, w.rw, became)
	if cerr != nil {
		return cerr
	}
	if staged, serr := view.OfIndex(ctx, w.r); serr != nil || staged.Tree == to.Tree {
		return serr
	}
	return err
}

// headMoves returns what the commit that is checked out becomes, and whether
// that is another one.
func (w *rewriter) headMoves() (object.ID, bool) {
	became, known := w.commits[w.head.ID]
	return became, known && became != w.head.ID
}

// unchanged makes sure that no branch or tag has moved or is new: a new one
// would keep the old commits. It is called while publishing.
func (w *rewriter) unchanged() error {
	list, err := branchesAndTags(w.r)
	if err != nil {
		return err
	}
	if now, err := w.r.Refs().Head(); err != nil {
		return err
	} else if !slices.Equal(list, w.listed) || now != w.head {
		return fmt.Errorf("branches were moved while history was rewritten: %w", refs.ErrMoved)
	}
	return nil
}

// publish puts the new commits in the place of the old ones. It may be stopped
// after each step, and is then run again: first is recorded what need not be
// there of the new commits. Then comes the index, since what was removed must
// not look as if it had just been staged; and of the refs, HEAD last, in which
// the paths are looked for.
func (w *rewriter) publish(ctx context.Context, changes []refs.Change) error {
	became := make(map[object.ID]object.ID, len(w.order))
	for _, c := range w.order {
		became[c.Old] = c.New
	}
	if err := w.record(ctx, became); err != nil {
		return err
	}
	if id, moves := w.headMoves(); moves {
		to, err := w.r.RecordedTree(ctx, id)
		if err != nil {
			return err
		}
		err = index.Update(ctx, w.r.Dir(), func(idx *index.Index) error { return idx.ReadTree(ctx, w.r.Objects(), to) })
		if err != nil {
			return err
		}
	}
	if err := w.r.Refs().Update(ctx, w.headLast(changes), w.r.Who()); err != nil {
		return err
	}
	return w.forget(ctx, changes)
}

// headLast returns changes with the current branch at the end.
func (w *rewriter) headLast(changes []refs.Change) []refs.Change {
	last := func(c refs.Change) bool { return c.Name == "HEAD" || c.Name == refs.Heads+w.head.Branch }
	sorted := slices.DeleteFunc(slices.Clone(changes), last)
	return append(sorted, slices.DeleteFunc(slices.Clone(changes), func(c refs.Change) bool { return !last(c) })...)
}

// record has those new commits expire whose old ones had. A hold that was made
// meanwhile ends the rewrite before it has changed anything.
func (w *rewriter) record(ctx context.Context, became map[object.ID]object.ID) error {
	return w.r.Records().Update(ctx, func(set *record.Set) error {
		now := w.r.Options().Now()
		for _, rec := range slices.Collect(set.All()) {
			id, ok := became[rec.Key.ID]
			if !ok || !rec.On || rec.Over(now) || rec.Key.Kind != object.KindCommit {
				continue
			}
			if rec.Kind == record.Hold {
				return &retain.HeldError{Holds: []record.Record{rec}}
			}
			rec.Key.ID = id
			if err := set.Switch(rec); err != nil {
				return err
			}
		}
		return nil
	})
}

// forget drops log entries and special names of old commits: commits that were just
// rewritten, and unreachable ones of earlier rewrites.
func (w *rewriter) forget(ctx context.Context, changes []refs.Change) error {
	old, err := gc.Rewritten(w.r)
	if err != nil {
		return err
	}
	for id := range old {
		if became, known := w.commits[id]; known && became == id {
			delete(old, id)
		}
	}
	for _, change := range changes { // tag objects, too
		old[change.Old] = true
	}
	for _, name := range []string{refs.OrigHead, refs.FetchHead} {
		id, err := w.r.Refs().Special(name)
		if errors.Is(err, refs.ErrNotFound) {
			continue
		}
		if err == nil && old[id] {
			err = w.r.Refs().ClearSpecial(ctx, name)
		}
		if err != nil {
			return err
		}
	}
	return gc.ExpireLogs(ctx, w.r, func(e refs.LogEntry) bool { return !old[e.Old] && !old[e.New] })
}

// writeMap writes down which commit became which: a line for each, the old ID, a
// space, the new one. It returns the file's name in the .kist folder.
func (w *rewriter) writeMap() (string, error) {
	dir := filepath.Join(w.r.Dir(), gc.RewrittenDir)
	if err := errors.Join(disk.MkdirAll(dir, 0o777), disk.SyncDir(w.r.Dir())); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, c := range w.order {
		fmt.Fprintf(&text, "%s %s\n", c.Old, c.New)
	}
	name := w.r.Options().Now().UTC().Format("20060102T150405.000000000Z")
	return gc.RewrittenDir + "/" + name, disk.WriteFile(filepath.Join(dir, name), []byte(text.String()))
}
