package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/kist-vcs/kist/remote"
)

// Put implements [remote.Blobs]. It is one request, which the store refuses if
// the name is taken, unless the URL has conditional=false.
func (b *Backend) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if err := remote.CheckBlob(name); err != nil {
		return err
	}
	return b.put(ctx, "put", name, body, size)
}

// Create implements [remote.Creator].
func (b *Backend) Create(ctx context.Context, name string, data []byte) error {
	if err := remote.CheckRecord(name, len(data)); err != nil {
		return err
	}
	return b.put(ctx, "create", name, bytes.NewReader(data), int64(len(data)))
}

func (b *Backend) put(ctx context.Context, op, name string, body io.ReaderAt, size int64) error {
	if b.unconditional {
		_, err := b.Stat(ctx, name)
		if err == nil {
			return &remote.Error{Op: op, Name: name, Kind: remote.ErrExists}
		}
		if !errors.Is(err, remote.ErrNotFound) {
			return err
		}
	}
	return b.call(ctx, op, name, func(ctx context.Context, client *minio.Core, a *answer) error {
		options := minio.PutObjectOptions{
			ContentType: "application/octet-stream",
			// Above 16 MiB minio-go would send parts, and the end of such an
			// upload is not conditional.
			DisableMultipart: true,
			// The MD5 is signed, and so are the bytes by it.
			SendContentMd5:       true,
			DisableContentSha256: true,
		}
		if !b.unconditional {
			options.SetMatchETagExcept("*")
		}
		info, err := client.Client.PutObject(ctx, b.bucket, b.prefix+name, io.NewSectionReader(wholeBody{body, size}, 0, size), size, options)
		if err == nil && info.ETag == "" {
			return notS3(a.status, "an answer without an ETag: there is no S3 at this address")
		}
		return err
	})
}

// wholeBody is a body of which errors can be told from those of the store.
type wholeBody struct {
	body io.ReaderAt
	size int64
}

// bodyError is the error of reading a body.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

func (w wholeBody) ReadAt(p []byte, off int64) (int, error) {
	n, err := w.body.ReadAt(p, off)
	switch {
	case n == len(p):
		return n, nil
	case err == io.EOF || err == nil:
		err = fmt.Errorf("the body ends after %d of %d bytes: %w", off+int64(n), w.size, io.ErrUnexpectedEOF)
	}
	return n, &bodyError{err}
}

// Delete implements [remote.Blobs].
func (b *Backend) Delete(ctx context.Context, name string) error {
	if err := remote.CheckName(name); err != nil {
		return err
	}
	err := b.call(ctx, "delete", name, func(ctx context.Context, client *minio.Core, a *answer) error {
		err := client.RemoveObject(ctx, b.bucket, b.prefix+name, minio.RemoveObjectOptions{})
		if a.status == http.StatusOK || a.status == http.StatusAccepted {
			return nil // minio-go expects 204
		}
		return err
	})
	if errors.Is(err, remote.ErrNotFound) {
		return nil
	}
	return err
}
