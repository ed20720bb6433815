package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

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

// Replace implements [remote.Replacer] by a request without a condition.
func (b *Backend) Replace(ctx context.Context, name string, data []byte) error {
	if err := remote.CheckRecord(name, len(data)); err != nil {
		return err
	}
	return b.send(ctx, "replace", name, markedBody{bytes.NewReader(data), int64(len(data))}, false)
}

// put stores an object under a free name.
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
	return b.send(ctx, op, name, markedBody{body, size}, !b.unconditional)
}

// send stores an object. If conditional, the name must be free.
func (b *Backend) send(ctx context.Context, op, name string, body markedBody, conditional bool) error {
	return b.call(ctx, op, name, func(ctx context.Context, client *minio.Core, a *answer) error {
		// Core does not send parts, whatever the size. The end of such an upload
		// would not be conditional.
		options := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableContentSha256: true}
		if conditional {
			options.SetMatchETagExcept("*")
		}
		for {
			sum, err := b.checksum(io.NewSectionReader(body, 0, body.size))
			if err != nil {
				return err
			}
			r := io.NewSectionReader(body, 0, body.size)
			info, err := client.PutObject(ctx, b.bucket, b.prefix+name, r, body.size, sum.md5, sum.sha256, options)
			switch {
			case err == nil && info.ETag == "":
				return notS3(a.status, "an answer without an ETag: there is no S3 at this address")
			case sum.md5 == "" && asksForMD5(err):
				b.md5.Store(true)
			default:
				return err
			}
		}
	})
}

// checksum is the checksum of a body: one of the two. The request's signature
// covers it, and so the body.
type checksum struct {
	sha256 string // in hexadecimal
	md5    string // in base 64
}

// checksum returns the checksum to send with a body: SHA-256, which is fast on
// today's processors, or MD5 if the store wants that.
func (b *Backend) checksum(body io.Reader) (checksum, error) {
	if b.md5.Load() {
		h := md5.New()
		_, err := io.Copy(h, body)
		return checksum{md5: base64.StdEncoding.EncodeToString(h.Sum(nil))}, err
	}
	h := sha256.New()
	_, err := io.Copy(h, body)
	return checksum{sha256: hex.EncodeToString(h.Sum(nil))}, err
}

// asksForMD5 reports whether a store refused a request without MD5, as S3 does
// for buckets with object locks.
func asksForMD5(err error) bool {
	resp := minio.ToErrorResponse(err)
	return resp.StatusCode == http.StatusBadRequest && strings.Contains(strings.ToLower(resp.Message), "content-md5")
}

// markedBody is a body whose errors are marked, to distinguish them from errors
// of the store.
type markedBody struct {
	body io.ReaderAt
	size int64
}

// bodyError is the error of reading a body.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

func (w markedBody) ReadAt(p []byte, off int64) (int, error) {
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
