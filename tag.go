package kist

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
)

// TagOptions say what [Repository.CreateTag] makes.
type TagOptions struct {
	Name    string
	Rev     string // of the commit
	Message string // of an annotated tag; empty: the tag is only a name
	Force   bool   // replace a tag of this name
}

// CreateTag gives a commit a name that stays, and returns what the tag is now,
// and was. An annotated tag is an object of its own, which says who made it,
// when and why.
func (r *Repository) CreateTag(ctx context.Context, o TagOptions) (id, was object.ID, err error) {
	if was, err = r.checkNew(refs.Tags, o.Name, o.Force); err != nil {
		return id, was, err
	}
	err = retryStale(func() error {
		id, err = r.createTag(ctx, o, was)
		return err
	})
	return id, was, err
}

func (r *Repository) createTag(ctx context.Context, o TagOptions, was object.ID) (object.ID, error) {
	id, err := r.Resolve(ctx, o.Rev)
	if err != nil {
		return id, err
	}
	change := refs.Change{Name: refs.Tags + o.Name, Old: was, New: id, Reason: "tag: " + o.Rev}
	if o.Message == "" {
		return id, r.updateRef(ctx, change)
	}
	session := r.objects.Begin(volume.SessionOptions{})
	defer session.Close()
	tag := &object.Tag{Target: id, Name: o.Name, Tagger: r.signature(), Message: o.Message}
	data, err := tag.Encode()
	if err != nil {
		return id, err
	}
	if change.New, err = session.Put(ctx, object.KindTag, data); err != nil {
		return id, err
	}
	return change.New, session.Publish(ctx, func(ctx context.Context) error {
		if err := r.stillThere(ctx, id); err != nil {
			return err
		}
		return r.refs.Update(ctx, []refs.Change{change}, r.who())
	})
}

// DeleteTag deletes a tag and returns what it was.
func (r *Repository) DeleteTag(ctx context.Context, name string) (object.ID, error) {
	id, err := r.refs.Get(refs.Tags + name)
	if errors.Is(err, refs.ErrNotFound) {
		return id, fmt.Errorf("tag %q: %w", name, err)
	}
	if err != nil {
		return id, err
	}
	return id, r.updateRef(ctx, refs.Change{Name: refs.Tags + name, Old: id})
}
