package gridfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/kist-vcs/kist/remote"
)

// batchSize limits a batch of chunks, in bytes; a single chunk may be larger.
// The driver holds several copies of a batch.
const batchSize = 2 << 20

// Put implements [remote.Blobs]. It holds one batch of the body in memory, and
// the driver's copies of it.
func (b *Backend) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	c, err := b.beginCall(ctx, "put", name, remote.CheckBlob(name))
	if err != nil {
		return err
	}
	if err := c.makeIndexes(ctx); err != nil {
		return b.convertError(ctx, "put", name, err)
	}

	closing, err := b.uploadBody(ctx, c, name, body, size)
	switch {
	case err == nil:
		return nil
	case mongo.IsDuplicateKeyError(err): // another upload owns the chunks
	default:
		b.abortUpload(ctx, c, name, size, closing)
	}

	if local, ok := errors.AsType[*bodyError](err); ok {
		return &remote.Error{Op: "put", Name: name, Err: local.err}
	}

	return b.convertError(ctx, "put", name, err)
}

// bodyError is an error of reading the body, not of the store.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return e.err.Error() }

// uploadBody stores a body as the specification of GridFS requires: first its
// chunks, then the files document. With an error, closing means that the files
// document may have been sent.
func (b *Backend) uploadBody(ctx context.Context, c *collections, name string, body io.ReaderAt, size int64) (closing bool, err error) {
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
		if err := b.confirmChunks(ctx, c, name, size); err != nil {
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

// confirmChunks checks that all chunks of a blob exist, if they were sent in several
// batches. While the upload waited between batches, remote gc may have taken
// the first chunks for orphans, marked the name for deletion and deleted them.
// Then the upload must fail. If gc does so later, no root may refer to the
// name any more.
func (b *Backend) confirmChunks(ctx context.Context, c *collections, name string, size int64) error {
	have, err := c.chunks.CountDocuments(ctx, chunksOf(name))
	if err != nil {
		return err
	}
	if want := b.chunksIn(size); have < want {
		return &remote.Error{Op: "put", Name: name, Kind: remote.ErrTemporary, Err: fmt.Errorf("%d of its %d chunks were deleted meanwhile", want-have, want)}
	}
	return nil
}

// abortUpload deletes the chunks of a failed upload, but not those of a stored file.
// If the files document may have been sent and all chunks exist, the blob may
// still appear. Then abort keeps the chunks: they belong to an intact blob, or
// InterruptedUploads will list them.
func (b *Backend) abortUpload(ctx context.Context, c *collections, name string, size int64, closing bool) {
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

// deletePasses is the number of attempts to delete a blob that is being uploaded.
const deletePasses = 3

// Create implements [remote.Creator]. It relies on the unique _id.
func (b *Backend) Create(ctx context.Context, name string, data []byte) error {
	c, err := b.beginCall(ctx, "create", name, remote.CheckRecord(name, len(data)))
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err = c.roots.InsertOne(short, b.recordDocument(name, data))
	if err != nil {
		return b.convertError(ctx, "create", name, err)
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
	c, err := b.beginCall(ctx, "replace", name, remote.CheckRecord(name, len(data)))
	if err != nil {
		return err
	}
	if _, err := c.roots.ReplaceOne(ctx, byID(recordID(name)), b.recordDocument(name, data)); err != nil {
		return b.convertError(ctx, "replace", name, err)
	}
	return nil
}

// Delete implements [remote.Blobs]. It deletes a blob's files document first.
func (b *Backend) Delete(ctx context.Context, name string) error {
	c, err := b.beginCall(ctx, "delete", name, remote.CheckName(name))
	if err != nil {
		return err
	}
	if remote.IsRecord(name) {
		if _, err := c.roots.DeleteOne(ctx, byID(recordID(name))); err != nil {
			return b.convertError(ctx, "delete", name, err)
		}
		return nil
	}

	b.forgetFile(name)
	for range deletePasses {
		file, err := c.files.DeleteOne(ctx, byID(name))
		if err != nil {
			return b.convertError(ctx, "delete", name, err)
		}
		chunks, err := c.chunks.DeleteMany(ctx, chunksOf(name))
		if err != nil {
			return b.convertError(ctx, "delete", name, err)
		}
		if file.DeletedCount > 0 || chunks.DeletedCount == 0 {
			return nil
		}
		// The chunks may belong to an upload that has ended just now.
	}

	return &remote.Error{Op: "delete", Name: name, Kind: remote.ErrTemporary, Err: errors.New("it is being uploaded")}
}

func byID(id any) bson.D { return bson.D{{Key: "_id", Value: id}} }

// InterruptedUploads yields, sorted by name, the blobs that have chunks but no files
// document: from failed uploads, or from uploads still running. Nothing
// distinguishes these, so gc treats them like other names. Their size is unknown and
// reported as 0. Modified is the time of the last chunk, by the uploader's
// clock. An error is yielded once, with a zero Info, and ends the iteration.
func (b *Backend) InterruptedUploads(ctx context.Context) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		c, err := b.beginCall(ctx, "list", "", nil)
		if err != nil {
			yield(remote.Info{}, err)
			return
		}
		chunks, err := c.chunks.Aggregate(ctx, bson.A{
			bson.D{{Key: "$match", Value: withPrefix("files_id", "", "")}},
			bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$files_id"}}}},
			bson.D{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}},
		}, options.Aggregate().SetAllowDiskUse(true))
		if err != nil {
			yield(remote.Info{}, b.convertError(ctx, "list", "", err))
			return
		}
		defer closeCursor(ctx, chunks)
		files := &source{in: c.files, filter: withPrefix("_id", "", ""), name: blobName}
		defer files.close(ctx)
		for chunks.Next(ctx) {
			name := blobName(chunks.Current.Lookup("_id"))
			if name == "" {
				continue
			}
			orphan, err := b.isOrphan(ctx, c, files, name)
			var sent time.Time
			if err == nil && orphan {
				sent, orphan, err = b.lastSent(ctx, c, name)
			}
			if err != nil {
				yield(remote.Info{}, err)
				return
			}
			if orphan && !yield(remote.Info{Name: name, Modified: sent}, nil) {
				return
			}
		}
		if err := chunks.Err(); err != nil {
			yield(remote.Info{}, b.convertError(ctx, "list", "", err))
		}
	}
}

// lastSent returns the time of the last chunk of a blob, and whether there is
// any chunk.
func (b *Backend) lastSent(ctx context.Context, c *collections, name string) (sent time.Time, any bool, err error) {
	last := options.FindOne().SetSort(bson.D{{Key: "n", Value: -1}}).SetProjection(bson.D{{Key: "_id", Value: 1}})
	chunk, err := c.chunks.FindOne(ctx, chunksOf(name), last).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return time.Time{}, false, nil
	}
	if err != nil {
		return time.Time{}, false, b.convertError(ctx, "list", name, err)
	}
	if id, ok := chunk.Lookup("_id").ObjectIDOK(); ok {
		sent = id.Timestamp()
	}
	return sent, true, nil
}

// isOrphan reports whether a name has no files document. It reads files up to
// that name.
func (b *Backend) isOrphan(ctx context.Context, c *collections, files *source, name string) (bool, error) {
	for {
		if err := files.fillNext(ctx, ""); err != nil {
			return false, b.convertError(ctx, "list", "", err)
		}
		if files.ended || files.info.Name > name {
			break
		}
		found := files.info.Name == name
		files.info = remote.Info{}
		if found {
			return false, nil
		}
	}

	_, err := b.readFileDocument(ctx, c, "list", name) // the upload may have ended since
	if errors.Is(err, remote.ErrNotFound) {
		return true, nil
	}

	return false, err
}
