package web

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// restorePage is the content of the page after a file was restored.
type restorePage struct {
	Path   string
	Commit object.ID
	Same   bool // the worktree had this version already
}

// errReadOnly means that the server does not change anything, or has no worktree.
var errReadOnly = &shownError{"Not allowed", "Only 'kist serve --write' in a folder with a worktree restores files.", http.StatusForbidden}

// restoreFile writes a file of a commit to the worktree. It never overwrites local changes.
func (s *site) restoreFile(r *request) (page, error) {
	if !s.Write || s.Repo.IsBare() {
		return page{}, errReadOnly
	}
	r.Body = http.MaxBytesReader(nil, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		return page{}, &shownError{"Bad request", "The form cannot be read.", http.StatusBadRequest}
	}
	ctx := r.Context()
	path, err := url.PathUnescape(r.PostForm.Get("path")) // fields of forms cannot have all bytes
	r.rev = r.PostForm.Get("rev")
	if err != nil || path == "" || tree.CheckPath(path) != nil || r.rev == "" {
		return page{}, tree.ErrNotExist
	}
	if tree.GitFolder(path) != "" {
		return page{}, &shownError{"Not allowed", "Git runs commands from this folder, so no server writes it.", http.StatusForbidden}
	}
	v, err := r.site.Open(r.Context(), r.rev)
	if err != nil {
		return page{}, err
	}
	e, err := v.Find(ctx, path)
	if err != nil {
		return page{}, err
	}
	if err := v.Rules.MayWrite(ctx, path); err != nil {
		return page{}, &shownError{"Not allowed", "You may read this file, but not write it.", http.StatusForbidden}
	}
	if e.Type != object.TypeFile && e.Type != object.TypeSymlink {
		return page{}, errNotFile
	}

	s.restoring.Lock()
	defer s.restoring.Unlock()
	changed, err := s.restoreOne(r, v.Side, path)
	var local *stage.LocalChangesError
	switch {
	case errors.As(err, &local):
		return page{}, &shownError{"Not restored", "The file in the worktree has changes that no commit has. Nothing was written.", http.StatusConflict}
	case err != nil:
		return page{}, err
	}
	return page{name: "restored", Title: "Restored", Nav: "files", Data: restorePage{path, v.Commit, changed == 0}}, nil
}

// restoreOne restores a path, and returns the number of changed paths. The error is a
// [*stage.LocalChangesError] if the worktree has something there that would be lost.
func (s *site) restoreOne(r *request, v compare.Side, path string) (int, error) {
	ctx := r.Context()
	idx, err := s.Repo.Index()
	if err != nil {
		return 0, err
	}
	ops, _, err := v.OpsAt(ctx, path)
	if err != nil {
		return 0, err
	}
	obstacles, err := s.Repo.Worktree().Check(ctx, idx, ops)
	if err != nil {
		return 0, err
	}
	if len(obstacles) > 0 {
		return 0, stage.ObstacleError(stage.Obstacles(s.Repo, ops, obstacles))
	}
	return checkout.Restore(ctx, s.Repo, checkout.RestoreOptions{Paths: []string{path}, Source: v.Commit.String(), Worktree: true, Overlay: true})
}
