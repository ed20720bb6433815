package gridfs

import (
	"context"
	"errors"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/kist-vcs/kist/remote"
)

// Orphans yields, sorted, the names of blobs that have chunks but no files
// document: what uploads left that failed, or did not yet end. Nothing tells
// the two apart, so a collector treats them as names like any other. An error
// is yielded once, with an empty name, and ends it.
func (b *Backend) Orphans(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		c, err := b.begin(ctx, "list", "", nil)
		if err != nil {
			yield("", err)
			return
		}
		chunks, err := c.chunks.Aggregate(ctx, bson.A{
			bson.D{{Key: "$match", Value: withPrefix("files_id", "", "")}},
			bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$files_id"}}}},
			bson.D{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}},
		}, options.Aggregate().SetAllowDiskUse(true))
		if err != nil {
			yield("", b.failure(ctx, "list", "", err))
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
			switch orphan, err := b.isOrphan(ctx, c, files, name); {
			case err != nil:
				yield("", err)
				return
			case orphan && !yield(name, nil):
				return
			}
		}
		if err := chunks.Err(); err != nil {
			yield("", b.failure(ctx, "list", "", err))
		}
	}
}

// isOrphan reports whether there is no files document of a name. files is read
// up to it.
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
	_, err := b.file(ctx, c, "list", name) // it may be there since
	if errors.Is(err, remote.ErrNotFound) {
		return true, nil
	}
	return false, err
}
