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
	"iter"
	"net/http"
	"strings"
	"time"

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
	err := b.callStore(ctx, "get", name, func(ctx context.Context, client *minio.Core, a *answer) error {
		body, part, err := b.openSpan(ctx, client, a, span{name, off, int64(len(p))})
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
	err := b.callStore(ctx, "stat", name, func(ctx context.Context, client *minio.Core, a *answer) error {
		body, part, err := b.openSpan(ctx, client, a, span{name, 0, 1})
		info.Archived = minio.ToErrorResponse(err).Code == codeArchived
		if err != nil && !info.Archived {
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

// openSpan requests a span. The body has all its bytes, unless the blob ends before.
func (b *Backend) openSpan(ctx context.Context, client *minio.Core, a *answer, want span) (io.ReadCloser, part, error) {
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
			return 0, 0, minio.ErrorResponse{StatusCode: status, Code: codeNoRanges, Message: "the store ignores ranges: it returns all of a file, not the requested part"}
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

// Put implements [remote.Blobs]. It is one request, which the store refuses if
// the name is taken, unless the URL has conditional=false.
func (b *Backend) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if err := remote.CheckBlob(name); err != nil {
		return err
	}
	return b.putFree(ctx, "put", name, body, size)
}

// Create implements [remote.Creator].
func (b *Backend) Create(ctx context.Context, name string, data []byte) error {
	if err := remote.CheckRecord(name, len(data)); err != nil {
		return err
	}
	return b.putFree(ctx, "create", name, bytes.NewReader(data), int64(len(data)))
}

// Replace implements [remote.Replacer] by a request without a condition.
func (b *Backend) Replace(ctx context.Context, name string, data []byte) error {
	if err := remote.CheckRecord(name, len(data)); err != nil {
		return err
	}
	return b.sendObject(ctx, "replace", name, markedBody{bytes.NewReader(data), int64(len(data))}, false)
}

// putFree stores an object under a free name.
func (b *Backend) putFree(ctx context.Context, op, name string, body io.ReaderAt, size int64) error {
	if b.unconditional {
		_, err := b.Stat(ctx, name)
		if err == nil {
			return &remote.Error{Op: op, Name: name, Kind: remote.ErrExists}
		}
		if !errors.Is(err, remote.ErrNotFound) {
			return err
		}
	}
	return b.sendObject(ctx, op, name, markedBody{body, size}, !b.unconditional)
}

// sendObject stores an object. If conditional, the name must be free.
func (b *Backend) sendObject(ctx context.Context, op, name string, body markedBody, conditional bool) error {
	return b.callStore(ctx, op, name, func(ctx context.Context, client *minio.Core, a *answer) error {
		// Core does not send parts, whatever the size. The end of such an upload
		// would not be conditional.
		options := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableContentSha256: true}
		if conditional {
			options.SetMatchETagExcept("*")
		}
		if remote.IsContent(ctx) && body.size >= remote.MinClassed {
			options.StorageClass = b.class
		}
		if lock := b.lock.Load(); lock != nil {
			options.Mode, options.RetainUntilDate = mode(lock.Governance), b.now().Add(lock.Age).UTC()
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

	err := b.callStore(ctx, "delete", name, func(ctx context.Context, client *minio.Core, a *answer) error {
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

// MayDelete returns an error that matches [remote.ErrPermission] if the
// credentials may not delete packs. It deletes a pack that does not exist: S3
// has no other way to find out.
func (b *Backend) MayDelete(ctx context.Context) error {
	return b.Delete(ctx, "packs/00/"+strings.Repeat("0", 32))
}

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
		err := b.callStore(ctx, "list", prefix, func(ctx context.Context, client *minio.Core, _ *answer) error {
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
			return notS3(http.StatusOK, fmt.Sprintf("the store's list is not sorted, or is of another prefix: %q after %q", object.Key, last))
		}
		last = object.Key
		name := object.Key[len(b.prefix):]
		if remote.CheckName(name) != nil {
			continue // not an object of kist
		}
		modified := object.LastModified.Truncate(time.Second) // to the second, as in Stat
		if !yield(remote.Info{Name: name, Size: object.Size, Modified: modified, Archived: thawTimes[object.StorageClass] > 0}, nil) {
			return nil
		}
	}

	return ctx.Err() // minio-go ends a cancelled list without an error
}
