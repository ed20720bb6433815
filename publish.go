package kist

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree/index"
)

// EditIndex changes the index and publishes it. It edits from, the index that the
// caller read, if from is still up to date, and otherwise reads the index again.
// The caller must not use from afterwards.
func (r *Repository) EditIndex(ctx context.Context, from *index.Index, edit func(idx *index.Index) error) error {
	return r.Publish(ctx, func(ctx context.Context) error {
		return index.UpdateWith(ctx, r.dir, index.Options{From: from}, edit)
	})
}

// Publish runs f, which changes names and stores no objects.
func (r *Repository) Publish(ctx context.Context, f func(ctx context.Context) error) error {
	return r.PublishWith(ctx, nil, f)
}

// PublishWith seals the objects of session, checks that the objects it relied on
// are still here, and then runs f, which changes names. Session may be nil: then f
// names only published objects.
func (r *Repository) PublishWith(ctx context.Context, session *volume.Session, f func(ctx context.Context) error) error {
	if session != nil {
		return session.Publish(ctx, f)
	}
	session = r.objects.Begin(volume.SessionOptions{})
	err := session.Publish(ctx, f)
	return errors.Join(err, session.Close())
}
