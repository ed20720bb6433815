package gridfs

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/kist-vcs/kist/remote"
)

// deletePasses is the number of attempts to delete a blob that is being uploaded.
const deletePasses = 3

// Create implements [remote.Creator]. It relies on the unique _id.
func (b *Backend) Create(ctx context.Context, name string, data []byte) error {
	c, err := b.begin(ctx, "create", name, remote.CheckRecord(name, len(data)))
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err = c.roots.InsertOne(short, b.recordDocument(name, data))
	if err != nil {
		return b.failure(ctx, "create", name, err)
	}
	return nil
}

// recordDocument returns the document of a record.
func (b *Backend) recordDocument(name string, data []byte) bson.D {
	return bson.D{
		{Key: "_id", Value: recordID(name)},
		{Key: "length", Value: int64(len(data))},
		{Key: "uploadDate", Value: bson.NewDateTimeFromTime(b.now())},
		{Key: "data", Value: bson.Binary{Data: data}},
	}
}

// Replace implements [remote.Replacer].
func (b *Backend) Replace(ctx context.Context, name string, data []byte) error {
	c, err := b.begin(ctx, "replace", name, remote.CheckRecord(name, len(data)))
	if err != nil {
		return err
	}
	if _, err := c.roots.ReplaceOne(ctx, byID(recordID(name)), b.recordDocument(name, data)); err != nil {
		return b.failure(ctx, "replace", name, err)
	}
	return nil
}

// Delete implements [remote.Blobs]. It deletes a blob's files document first.
func (b *Backend) Delete(ctx context.Context, name string) error {
	c, err := b.begin(ctx, "delete", name, remote.CheckName(name))
	if err != nil {
		return err
	}
	if remote.IsRecord(name) {
		if _, err := c.roots.DeleteOne(ctx, byID(recordID(name))); err != nil {
			return b.failure(ctx, "delete", name, err)
		}
		return nil
	}

	b.forget(name)
	for range deletePasses {
		file, err := c.files.DeleteOne(ctx, byID(name))
		if err != nil {
			return b.failure(ctx, "delete", name, err)
		}
		chunks, err := c.chunks.DeleteMany(ctx, chunksOf(name))
		if err != nil {
			return b.failure(ctx, "delete", name, err)
		}
		if file.DeletedCount > 0 || chunks.DeletedCount == 0 {
			return nil
		}
		// The chunks may belong to an upload that has ended just now.
	}

	return &remote.Error{Op: "delete", Name: name, Kind: remote.ErrTemporary, Err: errors.New("it is being uploaded")}
}

func byID(id any) bson.D { return bson.D{{Key: "_id", Value: id}} }
