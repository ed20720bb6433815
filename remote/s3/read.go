package s3

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/kist-vcs/kist/remote"
)

// Get implements [remote.Blobs].
func (b *Backend) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, &remote.Error{Op: "get", Name: name, Err: fmt.Errorf("offset %d", off)}
	}
	if len(p) == 0 {
		_, err := b.Stat(ctx, name)
		return 0, err
	}
	if err := remote.CheckName(name); err != nil {
		return 0, err
	}

	n := 0
	err := b.call(ctx, "get", name, func(ctx context.Context, client *minio.Core, a *answer) error {
		body, part, err := b.open(ctx, client, a, span{name, off, int64(len(p))})
		if err != nil || part.size == 0 {
			return err
		}
		defer body.Close()
		n, err = io.ReadFull(body, p[:part.size])
		return err
	})
	if err != nil {
		return 0, err
	}

	return n, nil
}

// Stat implements [remote.Blobs]. It requests the first byte, because the
// answer to a HEAD request does not contain the reason for an error.
func (b *Backend) Stat(ctx context.Context, name string) (remote.Info, error) {
	if err := remote.CheckName(name); err != nil {
		return remote.Info{}, err
	}

	info := remote.Info{Name: name}
	err := b.call(ctx, "stat", name, func(ctx context.Context, client *minio.Core, a *answer) error {
		body, part, err := b.open(ctx, client, a, span{name, 0, 1})
		if err != nil {
			return err
		}
		if part.size == 0 { // the answer has no time
			object, err := client.StatObject(ctx, b.bucket, b.prefix+name, minio.StatObjectOptions{})
			info.Size, info.Modified = object.Size, object.LastModified
			return err
		}
		defer body.Close()
		info.Size, info.Modified = part.total, part.object.LastModified
		_, err = io.ReadFull(body, make([]byte, 1)) // so that the connection can be reused
		return err
	})
	if err != nil {
		return remote.Info{}, err
	}

	return info, nil
}

// part describes the part of a blob in a body.
type part struct {
	size   int64 // bytes of the body; 0: the blob ends before off, so there is no body
	total  int64 // bytes of the blob
	object minio.ObjectInfo
}

// span is a range of a blob, in bytes.
type span struct {
	name      string
	off, size int64
}

// open requests a span. The body has all its bytes, unless the blob ends before.
func (b *Backend) open(ctx context.Context, client *minio.Core, a *answer, want span) (io.ReadCloser, part, error) {
	var options minio.GetObjectOptions
	options.Set("Range", fmt.Sprintf("bytes=%d-%d", want.off, want.off+want.size-1))
	body, object, header, err := client.GetObject(ctx, b.bucket, b.prefix+want.name, options)
	if a.status == http.StatusRequestedRangeNotSatisfiable {
		return nil, part{}, nil
	}
	if err != nil {
		return nil, part{}, err
	}

	p := part{object: object}
	if p.size, p.total, err = checkRange(a.status, header.Get("Content-Range"), object.Size, want.off, want.size); err != nil {
		body.Close()
		return nil, part{}, err
	}

	return body, p, nil
}

// checkRange checks that an answer has the requested size bytes from off on,
// or those up to the end of the blob. It returns their number and the blob's
// size. Length is the length of the body, or -1 if unknown.
func checkRange(status int, contentRange string, length, off, size int64) (n, whole int64, err error) {
	if status != http.StatusPartialContent {
		if off > 0 || length < 0 {
			return 0, 0, notS3(status, "the store does not give a part of a blob")
		}
		return min(size, length), length, nil
	}

	var first, last int64
	if _, err := fmt.Sscanf(contentRange, "bytes %d-%d/%d", &first, &last, &whole); err != nil || first != off || last < first || whole <= last {
		return 0, 0, notS3(status, fmt.Sprintf("another part of the blob than was asked for: Content-Range %q, offset %d", contentRange, off))
	}

	n = last - first + 1
	if want := min(size, whole-off); n != want || length >= 0 && length != n {
		return 0, 0, fmt.Errorf("%w: %d bytes with Content-Range %q, not %d", io.ErrUnexpectedEOF, length, contentRange, want)
	}

	return n, whole, nil
}

// notS3 returns the error for an answer that no S3 server would give.
func notS3(status int, text string) error {
	return minio.ErrorResponse{StatusCode: status, Message: text}
}
