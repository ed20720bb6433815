package worktree

import (
	"errors"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/tree"
)

// Anchors are the folders on which the absence of other paths depends: the roots of
// [Options.Roots], and the folders where another file system is mounted. If one goes away
// while files are read, the paths below it only seem to be deleted. A scan with
// [ScanOptions.Anchors] notes them.
type Anchors struct {
	mu   sync.Mutex
	list []anchor
}

// anchor is a folder as the scan found it.
type anchor struct {
	path     string
	dev, ino uint64
	filled   bool // it had names
}

// The reasons why an anchor is not the folder that the scan read.
var (
	errReplaced = errors.New("another folder since the scan began; was its disk unmounted?")
	errEmptied  = errors.New("emptied since the scan began; was its disk unmounted?")
)

// noteAnchor adds the task's folder to the anchors if it is one. Self describes the folder.
func (d *dirScan) noteAnchor(self *fileStat) {
	a := d.o.Anchors
	if a == nil || self.ino == 0 || d.roots != nil || d.path == "" {
		return
	}
	if !d.isRoot && self.dev == d.above {
		return
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, anchor{path: d.path, dev: self.dev, ino: self.ino, filled: d.only == nil && len(d.list.entries) > 0})
}

// Recheck returns the anchors that cannot be read any more, that are empty now, or that are
// other folders, as Unreadable. The result is sorted, and no path in it is below another.
func (a *Anchors) Recheck(w *Worktree) []*Found {
	a.mu.Lock()
	defer a.mu.Unlock()

	slices.SortFunc(a.list, func(x, y anchor) int { return tree.ComparePaths(x.path, y.path) })
	var away []*Found
	for i := range a.list {
		at := &a.list[i]
		if n := len(away); n > 0 && tree.Below(at.path, away[n-1].Path) {
			continue
		}
		if err := at.checkAgain(w); err != nil {
			away = append(away, &Found{Path: at.path, State: Unreadable, Dir: true, Err: pathError("read", at.path, err)})
		}
	}

	return away
}

// checkAgain returns the reason why the anchor is not as the scan found it, or nil.
func (a *anchor) checkAgain(w *Worktree) error {
	d, err := w.openFolder(a.path)
	if err != nil {
		return err
	}
	defer d.Close()

	st, err := d.lstat("")
	switch {
	case err != nil:
		return err
	case st.dev != a.dev || st.ino != a.ino:
		return errReplaced
	case !a.filled:
		return nil
	}

	var l listing
	if err := d.readNames(&l); err != nil {
		return err
	}
	if len(l.entries) == 0 {
		return errEmptied
	}
	return nil
}
