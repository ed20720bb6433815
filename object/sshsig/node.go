package sshsig

import (
	"context"

	"github.com/kist-vcs/kist/object"
)

// SignCommit gives a commit the signature of s, in place of one that it has.
func SignCommit(ctx context.Context, s *Signer, c *object.Commit) error {
	message, err := c.ToSign()
	if err != nil {
		return err
	}
	c.Signature, err = s.Sign(ctx, CommitNamespace, message)
	return err
}

// SignTag gives a tag the signature of s, in place of one that it has.
func SignTag(ctx context.Context, s *Signer, t *object.Tag) error {
	message, err := t.ToSign()
	if err != nil {
		return err
	}
	t.Signature, err = s.Sign(ctx, TagNamespace, message)
	return err
}

// CheckNode checks the signature of a commit at the committer's time, or of a tag at the tagger's
// time. It reads the object itself, because [object.ReadCommit] leaves out lost parents.
func (a *AllowedSigners) CheckNode(ctx context.Context, r object.Reader, key object.Key) (Result, error) {
	data, err := r.Get(ctx, key)
	if err != nil {
		return Result{}, err
	}
	if key.Kind == object.KindTag {
		t, err := object.DecodeTag(data)
		if err != nil {
			return Result{}, err
		}
		message, err := t.ToSign()
		return a.Check(TagNamespace, message, t.Signature, t.Tagger.Time.Time()), err
	}
	c, err := object.DecodeCommit(data)
	if err != nil {
		return Result{}, err
	}
	message, err := c.ToSign()
	return a.Check(CommitNamespace, message, c.Signature, c.Committer.Time.Time()), err
}
