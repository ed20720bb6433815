package worktree

import (
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// GitName is the name of git's folder, or of the file that names it.
const GitName = ".git"

// ErrGit means that kist does not write to git's own folder: git runs commands that the folder
// names, and they may be somebody else's. [Options.Git] permits it.
var ErrGit = errors.New("git's own folder stays as it is, because git runs commands from it")

// AllowGit sets [Options.Git]. Call it before other methods.
func (w *Worktree) AllowGit() { w.opt.Git = true }

// MayWrite returns [ErrGit] if a path is one of git or below one, and the worktree does not
// permit changes there. Every method that writes calls it, or splitGit.
func (w *Worktree) MayWrite(path string) error {
	if w.opt.Git || tree.GitFolder(path) == "" {
		return nil
	}
	return ErrGit
}

// splitGit splits operations into those that MayWrite permits and the others. With keep, it
// permits none in git's folders.
func (w *Worktree) splitGit(ops []Op, keep bool) (allowed, refused []Op) {
	isGit := func(op Op) bool {
		return w.MayWrite(op.Path) != nil || keep && tree.GitFolder(op.Path) != ""
	}
	if !slices.ContainsFunc(ops, isGit) {
		return ops, nil
	}
	for _, op := range ops {
		if isGit(op) {
			refused = append(refused, op)
		} else {
			allowed = append(allowed, op)
		}
	}
	return allowed, refused
}

// DropGit returns the operations that Apply would carry out, and an error for each folder of
// git that it would leave as it is.
func (w *Worktree) DropGit(ops []Op) ([]Op, []Failed) {
	allowed, refused := w.splitGit(ops, false)
	_, failed := w.leaveGit(refused)
	return allowed, failed
}

// leaveGit returns the results of operations that Apply refuses. A path to remove that is
// absent is done. Otherwise each folder of git gets one error.
func (w *Worktree) leaveGit(refused []Op) (done []Applied, failed []Failed) {
	for _, op := range refused {
		if op.New == nil {
			if _, err := w.Lstat(op.Path); errors.Is(err, fs.ErrNotExist) {
				done = append(done, Applied{Path: op.Path})
				continue
			}
		}
		at := tree.GitFolder(op.Path)
		if n := len(failed); n == 0 || failed[n-1].Path != at {
			failed = append(failed, Failed{at, ErrGit})
		}
	}
	return done, failed
}

// LeftOutGit returns the folders of git that scans left out, sorted: those that the index does
// not have, and those that it has but that no command wrote here.
func (w *Worktree) LeftOutGit() (untracked, unwritten []string) {
	w.gitMu.Lock()
	defer w.gitMu.Unlock()

	for _, path := range slices.SortedFunc(maps.Keys(w.git), tree.ComparePaths) {
		if w.git[path] {
			unwritten = append(unwritten, path)
		} else {
			untracked = append(untracked, path)
		}
	}
	return untracked, unwritten
}

// hidesGit reports whether a name is git's folder, which the scan does not list unless it
// is selected, so that no command adds or removes it. Leaf is as in name.
func (d *dirScan) hidesGit(n *scanName, leaf bool) bool {
	if leaf || n.kid != nil || d.o.IncludeIgnored || !d.isGit(n) {
		return false
	}
	if n.tracked() {
		d.seen++
	}

	d.w.gitMu.Lock()
	defer d.w.gitMu.Unlock()
	if d.w.git == nil {
		d.w.git = map[string]bool{}
	}
	d.w.git[d.join(n.name)] = n.tracked()
	return true
}

// isGit reports whether a name is git's folder and not in the index. An entry of the index
// that kist has neither read nor written here does not count: it belongs to another
// worktree. If the name is selected, it counts as ignored.
func (d *dirScan) isGit(n *scanName) bool {
	switch {
	case d.w.opt.Roots != nil || d.o.Git:
		return false
	case n.tracked():
		return object.IsGitName(n.name) && !n.isHere()
	}
	return n.name == GitName
}

// isHere reports whether kist has read or written the name in this worktree: the index has
// stat data of it, or of a file below it.
func (n *scanName) isHere() bool {
	if n.entry != nil {
		return !n.entry.Stat.IsZero()
	}
	return anyRead(n.sub)
}

func anyRead(d *index.Dir) bool {
	for _, e := range d.All() {
		if !e.Stat.IsZero() {
			return true
		}
	}
	return false
}
