package kist

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree/index"
)

// ErrNoMatch is matched by the error for a path that is nowhere.
var ErrNoMatch = errors.New("matches nothing")

// EditIndex changes the index, and publishes it. From is what the index was when
// it was looked at: it is changed, and not to be used after, unless that is
// outdated.
func (r *Repository) EditIndex(ctx context.Context, from *index.Index, edit func(idx *index.Index) error) error {
	return r.Publish(ctx, func(ctx context.Context) error {
		return index.UpdateWith(ctx, r.dir, index.Options{From: from}, edit)
	})
}

// Publish runs f, which changes names, but stores no objects.
func (r *Repository) Publish(ctx context.Context, f func(ctx context.Context) error) error {
	return r.PublishWith(ctx, nil, f)
}

// PublishWith runs f, which changes names, and makes sure of the objects that
// were stored in session. Without one, f names what was published before.
func (r *Repository) PublishWith(ctx context.Context, session *volume.Session, f func(ctx context.Context) error) error {
	if session != nil {
		return session.Publish(ctx, f)
	}
	session = r.objects.Begin(volume.SessionOptions{})
	err := session.Publish(ctx, f)
	return errors.Join(err, session.Close())
}
