package views

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/tree"
)

// VerifyOptions configure [Verify].
type VerifyOptions struct {
	Fix     bool // make missing links and files, and replace wrong ones
	Vacuum  bool // remove orphaned links and files
	Rebuild bool // read no file of the pool; refuse a folder with files of others
}

// ProblemKind is a kind of problem of a view.
type ProblemKind string

// The kinds of problems.
const (
	MissingLink  ProblemKind = "missing link"
	WrongLink    ProblemKind = "wrong link"
	OrphanedLink ProblemKind = "orphaned link"
	ForeignFile  ProblemKind = "foreign file" // in the folder, and not made by kist
	MissingFile  ProblemKind = "missing file" // of the pool
	DamagedFile  ProblemKind = "damaged file" // of the pool
	OrphanedFile ProblemKind = "orphaned file"
	LostState    ProblemKind = "missing state"
)

// Problem is a problem of a view.
type Problem struct {
	Kind  ProblemKind
	Path  string // below the folder, or below the pool
	Fixed bool
}

// Report is the result for a view.
type Report struct {
	View
	Commit   object.ID
	Links    int // without the link to the pool
	Skipped  int // files left out: their content was purged or lost, or the link would be in a .git folder
	Problems []Problem
}

// Left returns the number of problems that are not fixed.
func (r *Report) Left() (n int) {
	for _, p := range r.Problems {
		if !p.Fixed {
			n++
		}
	}
	return n
}

// foreignError returns the error for the files that kist did not make.
func (r *Report) foreignError() error {
	e := &ForeignError{Dir: r.Dir}
	for _, p := range r.Problems {
		if p.Kind == ForeignFile {
			e.Paths = append(e.Paths, p.Path)
		}
	}
	return e
}

func (w *viewUpdate) newReport(s *state) *Report {
	return &Report{View: w.View, Commit: s.source.commit, Links: len(s.linkSums()), Skipped: w.skipped}
}

// Verify compares a view with the commit that it shows, and reads the files of the pool that
// the view needs. It changes only what the options allow. It never touches files that kist did
// not make.
func Verify(ctx context.Context, r *kist.Repository, name string, o VerifyOptions) (*Report, error) {
	v, err := Find(r, name)
	if err != nil {
		return nil, err
	}
	w, err := beginUpdate(ctx, r, v)
	if err != nil {
		return nil, err
	}
	defer w.endWork()

	w.learnAll()
	w.pool.dry = !o.Rebuild
	s, err := w.buildState(ctx, true)
	if err != nil {
		return nil, err
	}
	w.pool.dry = false
	report := w.newReport(s)
	if w.old == nil {
		report.addProblems(LostState, o.Fix, name)
	}
	if !o.Rebuild {
		if err := w.checkPool(ctx, s, report, o.Fix); err != nil {
			return report, err
		}
	}
	if err := w.checkLinks(s, report, o); err != nil {
		return report, err
	}
	if o.Fix {
		if err := s.save(r, name); err != nil {
			return report, err
		}
		if err := disk.Remove(statePath(r, name) + ".dirty"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return report, err
		}
	}

	orphans, err := w.vacuumPool(s, o.Vacuum, false)
	if errors.Is(err, ErrState) && !o.Vacuum {
		return report, nil // another view, whose own check reports it
	}
	report.addProblems(OrphanedFile, o.Vacuum, orphans...)
	return report, err
}

func (r *Report) addProblems(kind ProblemKind, fixed bool, paths ...string) {
	for _, path := range paths {
		r.Problems = append(r.Problems, Problem{kind, path, fixed})
	}
}

// checkPool compares the files of the pool with their names.
func (w *viewUpdate) checkPool(ctx context.Context, s *state, report *Report, fix bool) error {
	sums := slices.SortedFunc(maps.Keys(w.entries), object.ID.Compare)
	for _, sum := range sums {
		damaged, err := w.pool.isDamaged(sum)
		kind := DamagedFile
		switch {
		case errors.Is(err, fs.ErrNotExist):
			kind = MissingFile
		case err != nil:
			return err
		case !damaged:
			if fix {
				if err := w.pool.makeReadOnly(sum); err != nil {
					return err
				}
			}
			continue
		}
		if fix {
			e := w.entries[sum]
			if err := w.pool.removeFile(poolPath(sum)); err != nil {
				return err
			}
			if _, err := w.pool.putFile(ctx, &e); err != nil {
				return err
			}
		}
		report.addProblems(kind, fix, poolPath(sum))
	}
	return ctx.Err()
}

// checkLinks compares the links with the state as it should be.
func (w *viewUpdate) checkLinks(s *state, report *Report, o VerifyOptions) error {
	if o.Fix {
		if err := disk.MkdirAll(w.Dir, 0o777); err != nil {
			return err
		}
	}
	f, err := openFolder(w.Dir, w.pool.dir)
	if errors.Is(err, fs.ErrNotExist) {
		report.addProblems(MissingLink, false, slices.SortedFunc(maps.Keys(s.linkSums()), tree.ComparePaths)...)
		return nil
	}
	if err != nil {
		return err
	}
	defer f.close()

	want, known := f.wantedLinks(s.linkSums()), f.wantedLinks(s.linkSums())
	if w.old != nil {
		maps.Copy(known, f.wantedLinks(w.old.linkSums()))
	}
	found, foreign, err := f.scanLinks(known)
	if err != nil {
		return err
	}
	if o.Rebuild && len(foreign) > 0 {
		return &ForeignError{w.Dir, foreign}
	}

	orphans := links{}
	for link, target := range found {
		if _, wanted := want[link]; !wanted {
			orphans[link] = target
			delete(found, link)
		}
	}
	report.addProblems(OrphanedLink, o.Vacuum, slices.SortedFunc(maps.Keys(orphans), tree.ComparePaths)...)
	for _, link := range slices.SortedFunc(maps.Keys(want), tree.ComparePaths) {
		target, is := found[link]
		switch {
		case !is && isBlocked(link, foreign):
			report.addProblems(MissingLink, false, link)
			delete(want, link)
		case !is:
			report.addProblems(MissingLink, o.Fix, link)
		case target != want[link]:
			report.addProblems(WrongLink, o.Fix, link)
		}
	}
	report.addProblems(ForeignFile, false, foreign...)

	if o.Vacuum {
		if err := f.updateLinks(orphans, nil); err != nil {
			return err
		}
	}
	if o.Fix {
		return f.updateLinks(found, want)
	}
	return nil
}

// isBlocked reports whether a file of foreign is in the place of a link, or of a folder of it.
func isBlocked(link string, foreign []string) bool {
	return slices.ContainsFunc(foreign, func(path string) bool { return tree.Below(link, path) || tree.Below(path, link) })
}

// CheckFiles returns the lost states of views, and the missing and damaged files of the pool
// that a state names. It compares no links, and reads the files only if read is set. Paths
// are below the .kist folder.
func CheckFiles(ctx context.Context, r *kist.Repository, read bool) ([]Problem, error) {
	var found Report
	sums := map[object.ID]bool{}
	for _, v := range All(r) {
		s, err := loadState(r, v.Name)
		if errors.Is(err, ErrState) {
			found.addProblems(LostState, false, viewsDir+"/"+stateDir+"/"+v.Name)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, f := range s.files {
			sums[f.sum] = true
		}
	}
	if len(sums) == 0 {
		return found.Problems, nil
	}

	dir := filepath.Join(r.Dir(), viewsDir, poolDir)
	root, err := disk.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		found.addProblems(MissingFile, false, viewsDir+"/"+poolDir)
		return found.Problems, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()

	p := &pool{dir: dir, root: root}
	for _, sum := range slices.SortedFunc(maps.Keys(sums), object.ID.Compare) {
		damaged, err := false, error(nil)
		if read {
			damaged, err = p.isDamaged(sum)
		} else {
			_, err = root.Lstat(poolPath(sum))
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			found.addProblems(MissingFile, false, viewsDir+"/"+poolDir+"/"+poolPath(sum))
		case err != nil:
			return nil, err
		case damaged:
			found.addProblems(DamagedFile, false, viewsDir+"/"+poolDir+"/"+poolPath(sum))
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return found.Problems, nil
}
