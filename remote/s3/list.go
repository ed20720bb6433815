package s3

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/kist-vcs/kist/remote"
)

// List implements [remote.Blobs].
func (b *Backend) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return b.ListAfter(ctx, prefix, "")
}

// ListAfter is List without the names up to and including after.
func (b *Backend) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		if err := remote.CheckPrefix(prefix); err != nil {
			yield(remote.Info{}, err)
			return
		}
		err := b.call(ctx, "list", prefix, func(ctx context.Context, client *minio.Core, _ *answer) error {
			return b.list(ctx, client, prefix, after, yield)
		})
		if err != nil {
			yield(remote.Info{}, err)
		}
	}
}

func (b *Backend) list(ctx context.Context, client *minio.Core, prefix, after string, yield func(remote.Info, error) bool) error {
	owner := false
	options := minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true, FetchOwner: &owner}
	if after != "" {
		options.StartAfter = b.prefix + after
	}

	last := options.StartAfter
	for object := range client.ListObjectsIter(ctx, b.bucket, options) {
		if object.Err != nil {
			return object.Err
		}
		if !strings.HasPrefix(object.Key, options.Prefix) || object.Key <= last {
			return notS3(http.StatusOK, fmt.Sprintf("the store's list is not sorted, or not of what was asked for: %q after %q", object.Key, last))
		}
		last = object.Key
		name := object.Key[len(b.prefix):]
		if remote.CheckName(name) != nil {
			continue // not an object of kist
		}
		modified := object.LastModified.Truncate(time.Second) // to the second, as in Stat
		if !yield(remote.Info{Name: name, Size: object.Size, Modified: modified}, nil) {
			return nil
		}
	}

	return ctx.Err() // minio-go ends a cancelled list without an error
}
