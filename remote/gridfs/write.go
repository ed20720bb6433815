package gridfs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/kist-vcs/kist/remote"
)

// batchSize is how many bytes of chunks the driver collects and sends at once;
// the last ones go together with the files document.
const batchSize = 16 << 20

// deletePasses is how often a blob that is uploaded just now is deleted.
const deletePasses = 3

// Put implements [remote.Blobs]: a stored file is written by the driver.
func (b *Backend) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	c, err := b.begin(ctx, "put", name, remote.CheckBlob(name))
	if err != nil {
		return err
	}
	if err := c.makeIndexes(ctx); err != nil {
		return b.failure(ctx, "put", name, err)
	}
	var bucket *mongo.GridFSBucket
	select {
	case bucket = <-c.uploads:
		defer func() { c.uploads <- bucket }()
	case <-ctx.Done():
		return &remote.Error{Op: "put", Name: name, Err: ctx.Err()}
	}
	closing, err := upload(ctx, bucket, name, body, size)
	switch {
	case err == nil && size < batchSize:
		return nil
	case err == nil:
		return b.confirm(ctx, c, name, size)
	case mongo.IsDuplicateKeyError(err): // the chunks are somebody else's
	default:
		b.abort(ctx, c, name, size, closing)
	}
	var local *bodyError
	if errors.As(err, &local) {
		return &remote.Error{Op: "put", Name: name, Err: local.err}
	}
	return b.failure(ctx, "put", name, err)
}

// bodyError is an error of what is to be stored, not of the store.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return e.err.Error() }

// upload stores a body. closing says, with an error, that the files document may
// have been sent.
func upload(ctx context.Context, bucket *mongo.GridFSBucket, name string, body io.ReaderAt, size int64) (closing bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the stream's context ends with its use
	stream, err := bucket.OpenUploadStreamWithID(ctx, name, name)
	if err != nil {
		return false, err
	}
	buf := make([]byte, min(size, 1<<20))
	for off := int64(0); off < size; off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), size-off)]
		if n, err := body.ReadAt(buf, off); n < len(buf) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return false, &bodyError{err}
		}
		if _, err := stream.Write(buf); err != nil {
			return false, err
		}
	}
	return true, stream.Close() // once: a second time it would append what is left in its buffer
}

// confirm checks that all chunks of a blob that was just stored are there, if
// they were sent one batch after the other. While it waited for the next, a
// collector may have taken the first ones for orphans, condemned the name and
// deleted them: then nothing of the blob is to stay.
func (b *Backend) confirm(ctx context.Context, c *collections, name string, size int64) error {
	have, err := c.chunks.CountDocuments(ctx, chunksOf(name))
	if err != nil {
		return b.failure(ctx, "put", name, err)
	}
	if want := b.chunksIn(size); have < want {
		_ = b.Delete(ctx, name) // what it leaves is garbage for the next collection
		return &remote.Error{Op: "put", Name: name, Kind: remote.ErrTemporary, Err: fmt.Errorf("%d of its %d chunks were deleted meanwhile", want-have, want)}
	}
	return nil
}

// abort deletes the chunks of an upload that failed, but not those of a stored
// file. If it failed when it was closed and all chunks are there, the files
// document may take effect yet: then they stay as well, and belong to a whole
// blob or are found by Orphans.
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

// chunksIn returns how many chunks a blob of size bytes is stored as.
func (b *Backend) chunksIn(size int64) int64 {
	return (size + int64(b.chunkSize) - 1) / int64(b.chunkSize)
}

// Create implements [remote.Creator]: _id is unique.
func (b *Backend) Create(ctx context.Context, name string, data []byte) error {
	c, err := b.begin(ctx, "create", name, remote.CheckRecord(name, len(data)))
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err = c.roots.InsertOne(short, bson.D{
		{Key: "_id", Value: recordID(name)},
		{Key: "length", Value: int64(len(data))},
		{Key: "uploadDate", Value: bson.NewDateTimeFromTime(b.now())},
		{Key: "data", Value: bson.Binary{Data: data}},
	})
	if err != nil {
		return b.failure(ctx, "create", name, err)
	}
	return nil
}

// Delete implements [remote.Blobs]. Of a blob, the files document goes first.
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
		// These were chunks of an upload, which may have ended just now.
	}
	return &remote.Error{Op: "delete", Name: name, Kind: remote.ErrTemporary, Err: errors.New("it is being uploaded")}
}

func byID(id any) bson.D { return bson.D{{Key: "_id", Value: id}} }
