package gridfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/kist-vcs/kist/remote"
)

// batchSize limits a batch of chunks, in bytes; a single chunk may be larger.
// The driver holds several copies of a batch.
const batchSize = 2 << 20

// Put implements [remote.Blobs]. It holds one batch of the body in memory, and
// the driver's copies of it.
func (b *Backend) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	c, err := b.begin(ctx, "put", name, remote.CheckBlob(name))
	if err != nil {
		return err
	}
	if err := c.makeIndexes(ctx); err != nil {
		return b.failure(ctx, "put", name, err)
	}

	closing, err := b.upload(ctx, c, name, body, size)
	switch {
	case err == nil:
		return nil
	case mongo.IsDuplicateKeyError(err): // another upload owns the chunks
	default:
		b.abort(ctx, c, name, size, closing)
	}

	var local *bodyError
	if errors.As(err, &local) {
		return &remote.Error{Op: "put", Name: name, Err: local.err}
	}

	return b.failure(ctx, "put", name, err)
}

// bodyError is an error of reading the body, not of the store.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return e.err.Error() }

// upload stores a body as the specification of GridFS requires: first its
// chunks, then the files document. With an error, closing means that the files
// document may have been sent.
func (b *Backend) upload(ctx context.Context, c *collections, name string, body io.ReaderAt, size int64) (closing bool, err error) {
	batch := max(1, batchSize/int64(b.chunkSize)) * int64(b.chunkSize)
	buf := make([]byte, min(size, batch)) // reused, because the driver copies it before it returns
	docs := make([]bson.D, 0, b.chunksIn(int64(len(buf))))
	for off := int64(0); off < size; off += batch {
		buf = buf[:min(batch, size-off)]
		if n, err := body.ReadAt(buf, off); n < len(buf) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return false, &bodyError{err}
		}
		docs = docs[:0]
		n := int32(off / int64(b.chunkSize))
		for data := range slices.Chunk(buf, int(b.chunkSize)) {
			docs = append(docs, bson.D{
				{Key: "_id", Value: bson.NewObjectID()},
				{Key: "files_id", Value: name},
				{Key: "n", Value: n},
				{Key: "data", Value: bson.Binary{Data: data}},
			})
			n++
		}
		if _, err := c.chunks.InsertMany(ctx, docs); err != nil {
			return false, err
		}
	}

	if size > batch {
		if err := b.confirm(ctx, c, name, size); err != nil {
			return false, err
		}
	}

	_, err = c.files.InsertOne(ctx, bson.D{
		{Key: "_id", Value: name},
		{Key: "length", Value: size},
		{Key: "chunkSize", Value: b.chunkSize},
		{Key: "uploadDate", Value: bson.NewDateTimeFromTime(b.now())},
		{Key: "filename", Value: name},
	})

	return true, err
}

// confirm checks that all chunks of a blob exist, if they were sent in several
// batches. While the upload waited between batches, remote gc may have taken
// the first chunks for orphans, marked the name for deletion and deleted them.
// Then the upload must fail. If gc does so later, no root may refer to the
// name any more.
func (b *Backend) confirm(ctx context.Context, c *collections, name string, size int64) error {
	have, err := c.chunks.CountDocuments(ctx, chunksOf(name))
	if err != nil {
		return err
	}
	if want := b.chunksIn(size); have < want {
		return &remote.Error{Op: "put", Name: name, Kind: remote.ErrTemporary, Err: fmt.Errorf("%d of its %d chunks were deleted meanwhile", want-have, want)}
	}
	return nil
}

// abort deletes the chunks of a failed upload, but not those of a stored file.
// If the files document may have been sent and all chunks exist, the blob may
// still appear. Then abort keeps the chunks: they belong to an intact blob, or
// Orphans will list them.
func (b *Backend) abort(ctx context.Context, c *collections, name string, size int64, closing bool) {
	limit := answerTime
	if ctx.Err() != nil {
		limit = b.endTime
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := c.files.FindOne(ctx, byID(name)).Err(); !errors.Is(err, mongo.ErrNoDocuments) {
		return
	}
	if closing {
		if have, err := c.chunks.CountDocuments(ctx, chunksOf(name)); err != nil || have >= b.chunksIn(size) {
			return
		}
	}

	_, _ = c.chunks.DeleteMany(ctx, chunksOf(name))
}

func chunksOf(name string) bson.D { return bson.D{{Key: "files_id", Value: name}} }

// chunksIn returns the number of chunks of a blob of size bytes.
func (b *Backend) chunksIn(size int64) int64 {
	return (size + int64(b.chunkSize) - 1) / int64(b.chunkSize)
}
