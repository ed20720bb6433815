package stage

import (
	"context"
	"errors"
	"io/fs"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// findLost returns the unchanged files in the worktree whose staged content is not here any
// more: it is damaged or missing, or only a remote had it, and none has it now. Found has the
// changed files, which are read anyway. Storing the files restores the content.
//
// Remotes are asked only with [AddOptions.AskRemotes]. Without it, findLost knows what a verify
// or a read has noted.
func (s *stager) findLost(ctx context.Context, found []*worktree.Found, o AddOptions) ([]*worktree.Found, error) {
	damaged, err := volume.HasDamage(s.repo.Objects())
	if err != nil || !damaged && !o.AskRemotes {
		return nil, err
	}
	read := make(map[string]bool, len(found))
	for i := range found {
		read[found[i].Path] = true
	}

	var lost []*worktree.Found
	for path, e := range s.idx.All() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if e.Content.IsZero() || read[path] || !Selected(path, o.Paths) {
			continue
		}
		gone, err := s.isGone(ctx, e, o.AskRemotes)
		if err != nil {
			return nil, err
		}
		if !gone {
			continue
		}
		if info, err := s.worktree.Lstat(path); err == nil && info.Type == e.Type {
			lost = append(lost, &worktree.Found{Path: path, State: worktree.Modified, Type: info.Type, Mode: info.Mode, Stat: info.Stat, Old: e})
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.repo.Options().Warn(err.Error())
		}
	}

	return lost, nil
}

// isGone reports whether a part of the content of a file is not here any more, and was not
// purged. With ask, it asks the remotes about evicted content.
func (s *stager) isGone(ctx context.Context, e *index.Entry, ask bool) (bool, error) {
	store := s.repo.Objects()
	keys := []object.Key{e.Content}
	if e.Content.Kind == object.KindManifest {
		err := graph.Walk(ctx, map[object.Key]bool{}, keys[:1], func(key object.Key) ([]object.Key, error) {
			if key.Kind != object.KindManifest {
				keys = append(keys, key)
				return nil, nil
			}
			return graph.Links(ctx, store, key)
		})
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if err != nil { // the list of chunks is damaged or missing
			return s.isUnpurged(ctx, e)
		}
	}

	if ask {
		if _, err := volume.CheckAway(ctx, store, keys); err != nil {
			return false, err
		}
	}
	absent, err := volume.Absent(store, keys)
	if err != nil || len(absent) == 0 {
		return false, err
	}
	return s.isUnpurged(ctx, e)
}

// isUnpurged reports whether no part of the content of a file was purged, as far as its list of
// chunks can be read.
func (s *stager) isUnpurged(ctx context.Context, e *index.Entry) (bool, error) {
	entry := e.Object()
	why, err := s.repo.PurgedIn(ctx, s.purges, s.repo.Objects(), &entry)
	if object.IsUnreadable(err) {
		return true, nil
	}
	return why == nil, err
}
