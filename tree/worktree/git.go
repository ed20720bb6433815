package worktree

import (
	"errors"
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

// splitGit returns the operations outside of git's folders, and the others.
func splitGit(ops []Op) (allowed, refused []Op) {
	isGit := func(op Op) bool { return tree.GitFolder(op.Path) != "" }
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

// leaveGit fails the operations in folders of git, with one error for each folder. It returns
// results for paths to remove that are absent.
func (a *applier) leaveGit(refused []Op) (done []Applied) {
	last := ""
	for _, op := range refused {
		if op.New == nil && !a.w.Exists(op.Path) {
			done = append(done, Applied{Path: op.Path})
			continue
		}
		if at := tree.GitFolder(op.Path); at != last {
			a.fails.addFailure(at, ErrGit)
			last = at
		}
	}
	return done
}

// LeftOutGit returns the folders of git that scans left out, sorted. The index has the second
// ones, but no command wrote them here.
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
// is selected, so that no command adds or removes it. Leaf is as in compareName.
func (d *dirScan) hidesGit(n *scanName, leaf bool) bool {
	if leaf || n.kid != nil || d.o.IncludeIgnored || !d.isGit(n) {
		return false
	}
	if n.isTracked() {
		d.seen++
	}

	d.w.gitMu.Lock()
	defer d.w.gitMu.Unlock()
	if d.w.git == nil {
		d.w.git = map[string]bool{}
	}
	d.w.git[d.joinPath(n.name)] = n.isTracked()
	return true
}

// isGit reports whether a name is git's folder and not in the index. An entry of the index
// that kist has neither read nor written here does not count: it belongs to another
// worktree. If the name is selected, it counts as ignored.
func (d *dirScan) isGit(n *scanName) bool {
	switch {
	case d.w.opt.Roots != nil || d.o.Git:
		return false
	case n.isTracked():
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
