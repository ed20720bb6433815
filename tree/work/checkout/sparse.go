package checkout

import (
	"context"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// SparseResult is the result of [SetFolders]. Lists are sorted.
type SparseResult struct {
	Written, Removed int      // files
	Changed          []string // files that keep their folders in the worktree, because they have changes, or conflicts
	Kept             []string // files that stay in folders that are left out: untracked, or not as recorded
	Own              []string // files that were in the way of a new folder, and are its modified files now
}

// SetFolders makes the worktree one that has only the folders of a cone, or all folders if it is
// nil. The configuration gets the cone first. It removes only files whose content the index has:
// a folder with changes stays as it is, and so do untracked files. The error is a
// [*stage.LocalChangesError], and nothing is changed, if a file is in the place of a folder. So it is
// if content to write is away, or only a file to remove has content here, and a remote does not answer.
//
// A kill at any moment loses nothing, and the same call completes the work. Removed
// files never look deleted: the index leaves out a folder before its files are removed.
func SetFolders(ctx context.Context, r *kist.Repository, cone *tree.Cone, progress kist.Progress) (*SparseResult, error) {
	s := &sparsePlan{repo: r, cone: cone, result: &SparseResult{}}
	if err := s.plan(ctx); err != nil {
		return nil, err
	}
	if err := r.EditConfig(ctx, func(c *kist.Config) error { return c.SetCone(cone) }); err != nil {
		return nil, err
	}
	if err := s.changeIndex(ctx, progress); err != nil && !stage.IsPartial(err) {
		return nil, err
	}
	return s.result, s.removeFiles(ctx)
}

// sparsePlan is one call of SetFolders.
type sparsePlan struct {
	repo   *kist.Repository
	cone   *tree.Cone
	result *SparseResult

	idx     *index.Index // first as stored; then with the new folders open
	opening *stage.Opening
	writes  []worktree.Op
	closing []string      // open folders that will be left out
	removes []worktree.Op // files and folders of closing, and what a killed call left in other folders
}

// plan finds the folders that come and go, and their files.
func (s *sparsePlan) plan(ctx context.Context) (err error) {
	if s.idx, err = s.repo.Index(); err != nil {
		return err
	}
	found, err := s.repo.Worktree().Scan(ctx, s.idx, worktree.ScanOptions{ListIgnored: true})
	if err != nil {
		return err
	}
	if found, _, err = s.repo.Worktree().Confirm(ctx, found); err != nil {
		return err
	}
	s.planClosing(found)
	if err := s.planRest(ctx, found); err != nil {
		return err
	}
	if err := s.planOpening(ctx); err != nil {
		return err
	}
	_, err = stage.AskRemotes(ctx, s.repo, slices.Concat(s.writes, s.removes), false)
	return err
}

// planClosing finds the open folders outside of the cone that have no changes.
func (s *sparsePlan) planClosing(found []*worktree.Found) {
	changed := map[string]bool{} // folders with changes, at any depth
	note := func(path string) {
		dir, _ := tree.Split(path)
		if s.idx.Dir(path) != nil {
			dir = path
		}
		if !s.cone.Has(dir) {
			s.result.Changed = append(s.result.Changed, path)
		}
		for ; dir != ""; dir, _ = tree.Split(dir) {
			changed[dir] = true
		}
	}

	for _, f := range found {
		switch f.State {
		case worktree.Untracked, worktree.Ignored, worktree.Special, worktree.Nested:
		default:
			note(f.Path)
		}
	}
	for _, c := range s.idx.Conflicts() {
		note(c.Path)
	}
	for _, path := range s.idx.Intents() {
		note(path)
	}
	slices.SortFunc(s.result.Changed, tree.ComparePaths)
	s.result.Changed = slices.Compact(s.result.Changed)

	last := "" // the last folder that closes, with everything below it
	for path, d := range s.idx.Dirs() {
		switch {
		case d.LeftOut() || s.cone.Has(path) || changed[path] || last != "" && tree.Below(path, last):
			continue
		}
		last = path
		s.closing = append(s.closing, path)
		for at, e := range d.All() {
			s.removes = append(s.removes, worktree.Op{Path: at, Old: e})
		}
		for at := range d.Walk() {
			s.removes = append(s.removes, worktree.Op{Path: at})
		}
	}
}

// planRest finds files in folders that are left out already: those with the recorded content, of
// a call that was killed, and others, which stay.
func (s *sparsePlan) planRest(ctx context.Context, found []*worktree.Found) error {
	for path := range index.LeftOutDirs(s.idx) {
		if !s.cone.Has(path) {
			s.removes = append(s.removes, worktree.Op{Path: path})
		}
	}
	for _, f := range found {
		switch {
		case !f.LeftOut || s.cone.Has(index.LeftOutAt(s.idx, f.Path).Path()):
			continue
		case f.Dir:
			s.removes = append(s.removes, worktree.Op{Path: f.Path})
			continue
		}
		e, err := stage.IndexedIn(ctx, s.repo.Objects(), s.idx, f.Path)
		if err != nil {
			return err
		}
		if e == nil || tree.IsDir(e) {
			if f.State != worktree.Ignored {
				s.result.Kept = append(s.result.Kept, f.Path)
			}
			continue
		}
		old := index.NewEntry(*e, index.Stat{})
		s.removes = append(s.removes, worktree.Op{Path: f.Path, Old: &old})
	}
	return nil
}

// planOpening opens the folders of the cone, and finds the files to write. A file of the user stays.
func (s *sparsePlan) planOpening(ctx context.Context) (err error) {
	if s.opening, err = stage.OpenIn(ctx, s.repo.Objects(), s.idx, s.cone); err != nil {
		return err
	}
	s.writes = s.opening.Ops(s.idx, nil)
	obstacles, err := s.repo.Worktree().Check(ctx, s.idx, s.writes)
	if err != nil {
		return err
	}
	own := map[string]bool{}
	inWay := obstacles[:0]
	for _, o := range obstacles {
		if s.idx.Entry(o.Path) == nil {
			inWay = append(inWay, o)
			continue
		}
		own[o.Path] = true
		s.result.Own = append(s.result.Own, o.Path)
	}
	s.writes = slices.DeleteFunc(s.writes, func(op worktree.Op) bool { return own[op.Path] })
	for _, op := range s.writes {
		if !tree.IsDir(op.New) {
			s.result.Written++
		}
	}
	return stage.ObstacleError(stage.Obstacles(s.repo, s.writes, inWay))
}

// changeIndex writes the new files. Then the index has their folders, and leaves out those
// of s.closing.
func (s *sparsePlan) changeIndex(ctx context.Context, progress kist.Progress) error {
	if len(s.opening.Folders())+len(s.closing) == 0 {
		return nil
	}
	tx := s.repo.Begin(volume.SessionOptions{})
	defer tx.Close()

	before, err := s.idx.PreviewTree(ctx, tx)
	if err != nil {
		return err
	}
	leave := func(idx *index.Index) error {
		now, err := idx.PreviewTree(ctx, object.NewOverlay(s.repo.Objects()))
		if err == nil && now != before {
			err = stage.ErrChanged
		}
		for _, path := range s.closing {
			if err != nil {
				return err
			}
			var e object.Entry
			if e, err = tree.Find(ctx, s.repo.Objects(), before.ID, path); err == nil {
				err = index.SetLeftOut(idx, path, e)
			}
		}
		return err
	}
	return stage.ApplyOps(ctx, s.repo, s.idx, s.writes, stage.ApplyOptions{Tx: tx, AllOrNothing: true, Opening: s.opening, Edit: leave, Progress: progress})
}

// removeFiles removes the files of folders that are left out, except changed ones and the only
// copies of purged content.
func (s *sparsePlan) removeFiles(ctx context.Context) error {
	w := s.repo.Worktree()
	only, err := stage.OnlyCopies(s.repo, s.removes)
	if err != nil {
		return err
	}
	changed, err := w.Check(ctx, nil, s.removes)
	if err != nil {
		return err
	}
	stays := map[string]bool{}
	for _, o := range append(only, stage.Obstacles(s.repo, nil, changed)...) {
		stays[o.Path] = true
		s.result.Kept = append(s.result.Kept, o.Path)
	}
	slices.SortFunc(s.result.Kept, tree.ComparePaths)
	s.result.Kept = slices.Compact(s.result.Kept)

	ops := slices.DeleteFunc(s.removes, func(op worktree.Op) bool {
		return stays[op.Path] || op.Old == nil && s.repo.At() != "" && tree.Below(s.repo.At(), op.Path)
	})
	for _, op := range ops {
		if op.Old != nil && w.Exists(op.Path) {
			s.result.Removed++
		}
	}
	return stage.RemoveUntracked(ctx, s.repo, ops)
}
