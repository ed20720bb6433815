package gridfs

import (
	"context"
	"errors"
	"iter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/kist-vcs/kist/remote"
)

// Orphans yields, sorted by name, the blobs that have chunks but no files
// document: from failed uploads, or from uploads still running. Nothing
// distinguishes these, so gc treats them like other names. Their size is unknown and
// reported as 0. Modified is the time of the last chunk, by the uploader's
// clock. An error is yielded once, with a zero Info, and ends the iteration.
func (b *Backend) Orphans(ctx context.Context) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		c, err := b.begin(ctx, "list", "", nil)
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
			yield(remote.Info{}, b.failure(ctx, "list", "", err))
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
			yield(remote.Info{}, b.failure(ctx, "list", "", err))
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
		return time.Time{}, false, b.failure(ctx, "list", name, err)
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
		if err := files.fill(ctx, ""); err != nil {
			return false, b.failure(ctx, "list", "", err)
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

	_, err := b.file(ctx, c, "list", name) // the upload may have ended since
	if errors.Is(err, remote.ErrNotFound) {
		return true, nil
	}

	return false, err
}
