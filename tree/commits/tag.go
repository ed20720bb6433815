package commits

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/tree/checkout"
)

// TagOptions configure [CreateTag].
type TagOptions struct {
	Name    string
	Rev     string // the commit
	Message string // message of an annotated tag; empty: the tag is only a name
	Force   bool   // replace a tag of this name
}

// CreateTag makes a tag and returns its new and its former value. An annotated
// tag is an object of its own that records who made it, when and why.
func CreateTag(ctx context.Context, r *kist.Repository, o TagOptions) (id, was object.ID, err error) {
	if was, err = checkout.CheckNew(r, refs.Tags, o.Name, o.Force); err != nil {
		return id, was, err
	}
	err = kist.RetryStale(func() error {
		id, err = createTag(ctx, r, o, was)
		return err
	})
	return id, was, err
}

func createTag(ctx context.Context, r *kist.Repository, o TagOptions, was object.ID) (object.ID, error) {
	id, err := r.Resolve(ctx, o.Rev)
	if err != nil {
		return id, err
	}

	change := refs.Change{Name: refs.Tags + o.Name, Old: was, New: id, Reason: "tag: " + o.Rev}
	if o.Message == "" {
		return id, updateRef(ctx, r, change)
	}

	session := r.Objects().Begin(volume.SessionOptions{})
	defer session.Close()
	tag := &object.Tag{Target: id, Name: o.Name, Tagger: r.Signature(), Message: o.Message}
	data, err := tag.Encode()
	if err != nil {
		return id, err
	}
	if change.New, err = session.Put(ctx, object.KindTag, data); err != nil {
		return id, err
	}

	return change.New, session.Publish(ctx, func(ctx context.Context) error {
		if err := intact.Check(ctx, r, id); err != nil {
			return err
		}
		return r.Refs().Update(ctx, []refs.Change{change}, r.Who())
	})
}

// DeleteTag deletes a tag and returns its value.
func DeleteTag(ctx context.Context, r *kist.Repository, name string) (object.ID, error) {
	id, err := r.Refs().Get(refs.Tags + name)
	if errors.Is(err, refs.ErrNotFound) {
		return id, fmt.Errorf("tag %q: %w", name, err)
	}
	if err != nil {
		return id, err
	}
	return id, updateRef(ctx, r, refs.Change{Name: refs.Tags + name, Old: id})
}
