package web

import (
	"context"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// blobPage is the content of the page with a file.
type blobPage struct {
	*preview
	Parts   []part
	Changed *commitLine // the file last; nil: not known
}

// showFile shows a file.
func (s *site) showFile(r *request) (page, error) {
	ctx := r.Context()
	v, err := r.openCommit()
	if err != nil {
		return page{}, err
	}
	path := strings.TrimSuffix(r.PathValue("path"), "/")
	e, err := v.Find(ctx, path)
	if err != nil {
		return page{}, err
	}
	if e.Type == object.TypeDir {
		return page{redirect: address("tree", path, r.rev)}, nil
	}
	p, err := s.previewFile(ctx, v, path, e, r.viewingParameters())
	if err != nil {
		return page{}, err
	}
	names, err := s.refNames(ctx)
	if err != nil {
		return page{}, err
	}
	_, title := tree.Split(path)
	return page{name: "blob", Title: title, Nav: "files", Data: blobPage{p, partsOf(path), s.lastChange(ctx, v.Commit, path)}, Names: names}, nil
}

// lastChange returns the commit that changed a path last, or nil if the index of history is not at
// hand.
func (s *site) lastChange(ctx context.Context, commit object.ID, path string) *commitLine {
	var id object.ID
	err := s.versions.useIndex(ctx, niceIndexing, func(x *versions.Index) error {
		id = x.LastChange(commit, path)
		return nil
	})
	if err != nil || id.IsZero() {
		return nil
	}
	c, err := object.ReadCommit(ctx, s.Repo.Objects(), id)
	if err != nil {
		return nil
	}
	return new(newCommitLine(log.Logged{ID: id, Commit: c}, nil))
}
