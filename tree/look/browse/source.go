package browse

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
)

// Source is where a history comes from. It is safe for concurrent use.
type Source interface {
	object.Reader
	object.LossKeeper

	// Head returns the commit or tag object that HEAD leads to, or zero.
	Head(ctx context.Context) (object.ID, error)

	// Refs returns the refs whose full names begin with prefix, sorted by name.
	Refs(ctx context.Context, prefix string) ([]refs.Ref, error)

	// Resolve returns the commit or tag object that a revision names, or zero if the
	// source knows no such name. Then the revision may abbreviate an ID.
	Resolve(ctx context.Context, rev string) (object.ID, error)

	// Records returns the records that are known now.
	Records() (*record.Effects, error)

	// CheckUsable returns an [*object.AbsentError] if the content of a commit has expired.
	CheckUsable(ctx context.Context, commit object.ID) error

	// CloseRemoved closes files that were removed since they were opened.
	CloseRemoved()
}

// repositorySource is the source of a repository.
type repositorySource struct {
	*volume.Store
	repo *kist.Repository
}

func (s *repositorySource) Head(context.Context) (object.ID, error) {
	head, err := s.repo.Refs().Head()
	return head.ID, err
}

// Refs passes over damaged refs, if others are readable.
func (s *repositorySource) Refs(_ context.Context, prefix string) ([]refs.Ref, error) {
	list, err := s.repo.Refs().List(prefix)
	if len(list) > 0 {
		err = nil
	}
	return list, err
}

func (s *repositorySource) Resolve(ctx context.Context, rev string) (object.ID, error) {
	return s.repo.Resolve(ctx, rev)
}

func (s *repositorySource) Records() (*record.Effects, error) { return s.repo.Purges().View() }

func (s *repositorySource) CheckUsable(ctx context.Context, commit object.ID) error {
	records, err := s.Records()
	if _, expired := records.Expired(commit); err == nil && !expired {
		return nil // nearly always, and quicker
	}
	return kist.CheckUsable(ctx, s.repo, commit)
}

func (s *repositorySource) CloseRemoved() { volume.Relist(s.Store) }
