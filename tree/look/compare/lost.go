package compare

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Known passes over damaged and missing nodes of folders, so that the rest of a tree can
// be read. It notes the paths of the incomplete folders.
type Known struct {
	object.Reader
	hidden map[object.Key]bool // count as missing
	paths  map[string]bool     // of incomplete folders
}

// NewKnown returns a Known that reads from objects.
func NewKnown(objects object.Reader) *Known {
	return &Known{objects, map[object.Key]bool{}, map[string]bool{}}
}

// Hide makes the trees of the index's folders of unknown content count as missing, though
// they may have been restored since.
func (k *Known) Hide(idx *index.Index) {
	for _, d := range idx.LostDirs() {
		t, _ := d.Tree()
		k.hidden[object.Key{Kind: object.KindTree, ID: t.ID}] = true
	}
}

// Complete reports whether all nodes could be read so far.
func (k *Known) Complete() bool { return len(k.paths) == 0 }

// Get implements [object.Reader].
func (k *Known) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if k.hidden[key] {
		return nil, object.ErrNotFound
	}
	return k.Reader.Get(ctx, key)
}

// Below implements [object.Layer].
func (k *Known) Below() object.Reader { return k.Reader }

// PassOver implements [object.Lenient].
func (k *Known) PassOver(path string, _ object.Key, err error) bool {
	if object.IsUnreadable(err) {
		k.paths[path] = true
	}
	return object.IsUnreadable(err)
}

// LostFolder is a folder that is unreadable, at least in part.
type LostFolder struct {
	Path   string
	Entry  object.Entry
	Err    error
	Staged bool // the index has files in it, and they stay
}

// LostIn returns the outermost of the noted folders that are unreadable in a view. If the
// root folder is unreadable, it returns an error.
func (k *Known) LostIn(ctx context.Context, v Side) ([]LostFolder, error) {
	var list []LostFolder
	for _, path := range slices.SortedFunc(maps.Keys(k.paths), tree.ComparePaths) {
		if n := len(list); n > 0 && tree.Below(path, list[n-1].Path) {
			continue
		}

		e, err := v.Find(ctx, path)
		if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) || err == nil && e.Type != object.TypeDir {
			continue // the folder is in another view
		}
		if err == nil && !e.Content.ID.IsZero() {
			err = k.readAll(ctx, e.Content.ID)
		}

		switch {
		case err == nil:
			continue
		case path == "" || !object.IsUnreadable(err):
			return nil, err
		case !v.Commit.IsZero():
			err = fmt.Errorf("commit %s: %w", v.Commit.Short(), err)
		}
		list = append(list, LostFolder{Path: path, Entry: e, Err: err})
	}
	return list, nil
}

// readAll reads all entries of a folder and returns the first error.
func (k *Known) readAll(ctx context.Context, id object.ID) error {
	for _, err := range object.Entries(ctx, k, id) {
		if err != nil {
			return err
		}
	}
	return nil
}

// DiffKnown is [DiffWith] with lost folders as empty ones. It also returns the lost folders
// of b.
func DiffKnown(ctx context.Context, a, b Side, o tree.DiffOptions) ([]tree.Change, []LostFolder, error) {
	known := NewKnown(layeredReader{b.Objects, a.Objects})
	changes, err := diffTrees(ctx, known, a, b, o)
	if err != nil {
		return nil, nil, err
	}
	lost, err := known.LostIn(ctx, b)
	return changes, lost, err
}

// FromKnown is [FromIndex], but folders of unknown content are empty in the view. So a
// comparison with a tree that has the content again lists all of it.
func FromKnown(ctx context.Context, r *kist.Repository, idx *index.Index) (Side, error) {
	folders := maps.Collect(idx.LostDirs())
	if len(folders) == 0 {
		return FromIndex(ctx, r, idx)
	}
	known, err := index.Load(r.Dir())
	if err != nil {
		return Side{}, err
	}
	for path, d := range folders {
		known.Remove(path)
		if err := known.SetDir(path, d.Properties()); err != nil {
			return Side{}, err
		}
	}

	return FromIndex(ctx, r, known)
}

// WithLost adds folders that could not be read to the paths that could not be
// written.
func WithLost(err error, lost []LostFolder) error {
	list := make([]worktree.FailedPath, len(lost))
	for i, l := range lost {
		list[i] = worktree.FailedPath{Path: l.Path, Err: l.Err}
	}
	return WithFailed(err, list)
}

// WithFailed adds paths to an error about unwritten paths.
func WithFailed(err error, lost []worktree.FailedPath) error {
	var failed *worktree.ApplyError
	if len(lost) == 0 || err != nil && !errors.As(err, &failed) {
		return err
	}
	all := &worktree.ApplyError{Failed: lost}
	if failed != nil {
		all.Failed, all.Stopped = append(all.Failed, failed.Failed...), failed.Stopped
	}
	slices.SortStableFunc(all.Failed, func(a, b worktree.FailedPath) int { return tree.ComparePaths(a.Path, b.Path) })
	return all
}

// StageLost makes lost folders ones of unknown content in the index: their files are
// untracked, and commits keep the recorded trees. If the operation was not done, it skips
// folders with staged files.
func StageLost(idx *index.Index, lost []LostFolder, done bool) error {
	for _, l := range lost {
		if d := idx.Dir(l.Path); l.Staged || !done && (d == nil || d.Len()+len(d.Subdirs()) > 0) {
			continue
		}
		if err := idx.SetLost(l.Path, l.Entry); err != nil {
			return err
		}
	}
	return nil
}

// BelowLost reports whether a path lies in a folder whose content the index
// does not know.
func BelowLost(idx *index.Index, path string) bool {
	for dir, _ := tree.Split(path); dir != ""; dir, _ = tree.Split(dir) {
		if d := idx.Dir(dir); d != nil {
			return d.Lost()
		}
	}
	return false
}
