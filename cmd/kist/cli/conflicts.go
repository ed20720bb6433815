package cli

import (
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/commits"
)

// conflictJSON is a conflict as merge and revert print it with --json.
type conflictJSON struct {
	Path          string `json:"path"`
	PathRaw       []byte `json:"path_raw,omitempty"`
	Kind          string `json:"kind"`
	OursPath      string `json:"ours_path,omitempty"` // where our version is, if not at path
	OursPathRaw   []byte `json:"ours_path_raw,omitempty"`
	TheirsPath    string `json:"theirs_path,omitempty"`
	TheirsPathRaw []byte `json:"theirs_path_raw,omitempty"`
}

func newConflictsJSON(list []tree.Conflict) []conflictJSON {
	out := make([]conflictJSON, len(list))
	for i, c := range list {
		out[i] = conflictJSON{
			c.Path, rawPath(c.Path), string(c.Kind), c.OursPath, rawPath(c.OursPath), c.TheirsPath, rawPath(c.TheirsPath),
		}
	}
	return out
}

// hintDecide says how a conflict ends.
const hintDecide = "'kist status' lists them; 'kist add' each one to keep, and 'kist rm' each one to drop"

// conflictCount returns the number of paths to be decided on, in words. It is
// larger than the number of conflicts if a version was put aside or moved.
func conflictCount(list []tree.Conflict) string {
	return plural(uint64(len(commits.ConflictPaths(list))), "path to decide on", "paths to decide on")
}

// tellConflicts lists conflicts for a person.
func (e *Env) tellConflicts(r *kist.Repository, list []tree.Conflict) {
	for _, c := range list {
		fmt.Fprintf(e.Stderr, "%s %s\n", e.paintErr(red, fmt.Sprintf("CONFLICT (%s):", c.Kind)), e.conflictText(r, c))
	}
}

// conflictText describes a conflict, and the decision that it needs.
func (e *Env) conflictText(r *kist.Repository, c tree.Conflict) string {
	path := e.shown(r, c.Path)
	aside := ""
	switch {
	case c.TheirsPath != "":
		aside = "; theirs is put aside as " + e.shown(r, c.TheirsPath)
	case c.OursPath != "":
		aside = "; ours is put aside as " + e.shown(r, c.OursPath)
	}
	by := func(ours bool) string {
		if ours {
			return "us"
		}
		return "them"
	}
	switch c.Kind {
	case tree.ConflictContent, tree.ConflictAddAdd, tree.ConflictType:
		if c.Markers {
			return "merge conflict in " + path
		}
		return path + " cannot be merged; ours stays" + aside
	case tree.ConflictMode:
		return path + ": both changed its permissions; ours stay"
	case tree.ConflictModifyDelete:
		return fmt.Sprintf("%s was deleted by %s and changed by %s; the changed one stays", path, by(c.Ours == nil), by(c.Ours != nil))
	case tree.ConflictFileDirectory:
		return path + " is a folder on one side; it stays" + aside
	case tree.ConflictRenameDelete:
		return fmt.Sprintf("%s was renamed to %s by %s and deleted by %s; the renamed one stays", e.shown(r, c.From), path, by(c.Ours != nil), by(c.Ours == nil))
	case tree.ConflictRenameRename:
		return fmt.Sprintf("%s was renamed to %s by us and to %s by them; both stay", path, e.shown(r, c.OursPath), e.shown(r, c.TheirsPath))
	}
	return path + aside
}
