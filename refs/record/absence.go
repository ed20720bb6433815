package record

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist/object"
)

// Decision returns the date and the author of a record, and its reason.
func (r *Record) Decision() string {
	text := "on " + r.Time.Format("2006-01-02")
	if r.Who != "" {
		text += " by " + r.Who
	}
	if r.Reason != "" {
		text += " (" + r.Reason + ")"
	}
	return text
}

// CheckPurged returns an [*object.AbsentError] if a content was purged, and otherwise nil.
func (v *Effects) CheckPurged(content object.Key) error {
	if rec, purged := v.Purged(content); purged {
		return absent(&rec, object.ErrPurged)
	}
	return nil
}

// CheckExpired returns an [*object.AbsentError] if the content of a commit has expired, and
// otherwise nil. The reason matches [object.ErrExpired].
func (v *Effects) CheckExpired(commit object.ID, reason error) error {
	if rec, expired := v.Expired(commit); expired {
		return absent(&rec, reason)
	}
	return nil
}

func absent(rec *Record, reason error) error {
	return &object.AbsentError{Key: rec.Key, Reason: reason, Record: rec.Decision()}
}

// ExplainMissing returns the error for an object that r does not have because of err: it was
// purged, or its loss was accepted. If there is no such reason, or for another error, it returns
// err.
func (v *Effects) ExplainMissing(r object.Reader, key object.Key, err error) error {
	if !errors.Is(err, object.ErrNotFound) {
		return err
	}
	if purged := v.CheckPurged(key); purged != nil {
		return purged
	}
	return object.ExplainMissing(r, key, err)
}

// CheckFile returns an [*object.AbsentError] if the content of e or a chunk of it was purged,
// and otherwise nil. It reads the manifests of e from r, but no chunks.
func (v *Effects) CheckFile(ctx context.Context, r object.Reader, e *object.Entry) error {
	if !v.AnyPurged() || e == nil || e.Type != object.TypeFile || e.Content.IsZero() {
		return nil
	}
	if err := v.CheckPurged(e.Content); err != nil || e.Content.Kind != object.KindManifest {
		return err
	}
	for c, err := range object.Chunks(ctx, r, e.Content, e.Size, 0) {
		if err == nil {
			err = v.CheckPurged(object.Key{Kind: object.KindChunk, ID: c.ID})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
