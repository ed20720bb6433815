package cli

import (
	"cmp"
	"slices"

	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// statusLine is a path in a status: git's two letters for it, or spaces.
type statusLine struct {
	path            string // that of a folder ends with a slash
	from            string // where it was in HEAD, if it was renamed
	index, worktree byte
	reason          string // why it cannot be read
}

// alike reports whether the letters stand for one thing, not two.
func (l *statusLine) alike() bool {
	return l.index == '?' || l.index == '!' || conflictNames[string([]byte{l.index, l.worktree})] != ""
}

// statusLines returns the paths of a status, in git's order: tracked paths, then
// untracked ones, then ignored ones.
func statusLines(s *stage.Status) []statusLine {
	at := map[string]*statusLine{}
	line := func(path string) *statusLine {
		l := at[path]
		if l == nil {
			l = &statusLine{path: path, index: ' ', worktree: ' '}
			at[path] = l
		}
		return l
	}
	for _, c := range s.Staged {
		l := line(folded(c.Path, ofFolder(c)))
		l.index, l.from = changeLetter(c), c.From
	}
	for _, f := range changedPaths(s) {
		// A folder in the place of a file goes by the name of the file.
		line(folded(f.Path, f.Dir && f.State != worktree.TypeChanged)).worktree = foundLetter(f)
	}
	for _, f := range s.Skipped {
		if f.State == worktree.Unreadable {
			l := line(folded(f.Path, f.Dir))
			l.worktree, l.reason = 'X', skipReason(f)
		}
	}
	for _, c := range s.Conflicts {
		letters := conflictLetters(c)
		l := line(c.Path)
		l.index, l.worktree = letters[0], letters[1]
	}
	lines := make([]statusLine, 0, len(at)+len(s.Untracked)+len(s.Ignored))
	for _, l := range at {
		lines = append(lines, *l)
	}
	slices.SortFunc(lines, func(a, b statusLine) int { return tree.ComparePaths(a.path, b.path) })
	for _, f := range listedChanges(s.Untracked) {
		lines = append(lines, statusLine{path: folded(f.Path, f.Dir), index: '?', worktree: '?'})
	}
	for _, f := range listedChanges(s.Ignored) {
		lines = append(lines, statusLine{path: folded(f.Path, f.Dir), index: '!', worktree: '!'})
	}
	return lines
}

// folded returns a path with a slash at its end if it is a folder's.
func folded(path string, folder bool) string {
	if !folder {
		return path
	}
	return cmp.Or(path, ".") + "/"
}

// changedPaths returns the tracked paths that have changed in the worktree.
// Where a FIFO or the like has taken the place of a file, the file is gone.
func changedPaths(s *stage.Status) []worktree.Found {
	changed := listedChanges(s.Changed)
	for _, f := range s.Skipped {
		if f.State != worktree.Unreadable && f.Old != nil {
			changed = append(changed, worktree.Found{Path: f.Path, State: worktree.Deleted, Old: f.Old})
		}
	}
	return changed
}

// listedChanges leaves out folders that came or went with their files: these are
// listed.
func listedChanges(found []worktree.Found) []worktree.Found {
	var shown []worktree.Found
	for i, f := range found {
		whole := f.State == worktree.Deleted || f.State == worktree.Untracked || f.State == worktree.Ignored
		if f.Dir && whole && i+1 < len(found) && tree.Below(found[i+1].Path, f.Path) {
			continue
		}
		shown = append(shown, f)
	}
	return shown
}

// foundLetter returns git's letter for how the worktree differs from the index.
func foundLetter(f worktree.Found) byte {
	switch f.State {
	case worktree.Deleted:
		return 'D'
	case worktree.TypeChanged:
		return 'T'
	}
	return 'M'
}

// skipReason says why a path cannot be stored.
func skipReason(f worktree.Found) string {
	if f.Err != nil && f.State == worktree.Unreadable {
		return bareError(f.Err)
	}
	return f.State.String()
}

// conflictNames says what the letters of conflicts mean.
var conflictNames = map[string]string{
	"DD": "both deleted", "AU": "added by us", "UD": "deleted by them", "UA": "added by them",
	"DU": "deleted by us", "AA": "both added", "UU": "both modified",
}

// conflictLetters returns git's letters for a conflict: what we did, and what
// they did.
func conflictLetters(c index.Conflict) string {
	switch ours, theirs := c.Ours != nil, c.Theirs != nil; {
	case ours && theirs && c.Base == nil:
		return "AA"
	case ours && theirs:
		return "UU"
	case ours && c.Base == nil:
		return "AU"
	case theirs && c.Base == nil:
		return "UA"
	case ours:
		return "UD"
	case theirs:
		return "DU"
	}
	return "DD"
}
