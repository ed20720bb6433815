package serve

import (
	"context"
	"fmt"
	"io/fs"
	"sync"

	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// history is the index of history that the requests of a [Site] share.
type history struct {
	mu    sync.Mutex
	names string // the names for which the index is complete
	index *versions.Index
}

// History calls use with the index of history, which has all commits that names lead to. Only
// one call runs at a time.
func (s *Site) History(ctx context.Context, use func(*versions.Index) error) error {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	names, err := s.namesVersion()
	if err != nil {
		return err
	}
	if s.history.index == nil || names != s.history.names {
		index, err := versions.Open(ctx, s.Repo, nil)
		if err != nil {
			return err
		}
		s.history.index, s.history.names = index, names
	}
	return use(s.history.index)
}

// namesVersion returns a text that changes whenever a name moves.
func (s *Site) namesVersion() (string, error) {
	head, err := s.Repo.Refs().Head()
	if err != nil {
		return "", err
	}
	list, err := s.Repo.Refs().List("")
	return fmt.Sprint(head, list), err
}

// historyJSON is the life of a file.
type historyJSON struct {
	File     *object.ID             `json:"file" doc:"the ID of the file for all time; null: its first version is hidden from the user"`
	Versions []jsonform.FileVersion `json:"versions" doc:"the versions, newest first"`
}

func (s *Site) apiHistory(ctx context.Context, q apiRequest) (any, error) {
	c, err := s.Open(ctx, q.Get("rev"))
	if err == nil {
		err = c.Rules.MayRead(ctx, q.path)
	}
	if err != nil {
		return nil, err
	}
	v := historyJSON{Versions: []jsonform.FileVersion{}}
	viewer := s.Viewer(ctx)
	err = s.History(ctx, func(x *versions.Index) error {
		f, err := x.File(ctx, versions.Tip{Commit: c.Commit}, q.path)
		if err != nil {
			return err
		}
		if f == nil {
			return &tree.PathError{Path: q.path, Err: fs.ErrNotExist}
		}
		for i := len(f.Versions) - 1; i >= 0; i-- {
			shown, ok, err := viewer.Version(ctx, x, f.Versions[i])
			if err != nil {
				return err
			}
			if ok && i == 0 { // its path is in the ID
				v.File = &f.ID
			}
			if ok {
				v.Versions = append(v.Versions, jsonform.NewFileVersion(object.ID{}, &shown))
			}
		}
		if len(v.Versions) == 0 {
			_, err := c.Find(ctx, q.path) // a hidden file that was deleted does not exist
			return err
		}
		for i := range v.Versions {
			v.Versions[i].File = v.File
		}
		return nil
	})
	return v, err
}
