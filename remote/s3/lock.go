package s3

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/kist-vcs/kist/remote"
)

// SetLock implements [remote.Locker] by Object Lock, which the bucket must have.
func (b *Backend) SetLock(lock remote.Lock) {
	if lock.Age <= 0 {
		b.lock.Store(nil)
		return
	}
	b.md5.Store(true) // S3 requires a checksum of a locked object
	b.lock.Store(&lock)
}

func mode(governance bool) minio.RetentionMode {
	if governance {
		return minio.Governance
	}
	return minio.Compliance
}

// Retention implements [remote.Locker].
func (b *Backend) Retention(ctx context.Context, name string) (remote.Retention, error) {
	if err := remote.CheckName(name); err != nil {
		return remote.Retention{}, err
	}

	var found remote.Retention
	err := b.callStore(ctx, "stat", name, func(ctx context.Context, client *minio.Core, _ *answer) error {
		mode, until, err := client.GetObjectRetention(ctx, b.bucket, b.prefix+name, "")
		switch {
		case minio.ToErrorResponse(err).Code == "NoSuchObjectLockConfiguration":
			return nil
		case err == nil && mode != nil && until != nil:
			found = remote.Retention{Until: *until, Governance: *mode == minio.Governance}
		}
		return err
	})
	return found, err
}

// Retain implements [remote.Locker].
func (b *Backend) Retain(ctx context.Context, name string, r remote.Retention) error {
	if err := remote.CheckName(name); err != nil {
		return err
	}
	return b.callStore(ctx, "lock", name, func(ctx context.Context, client *minio.Core, _ *answer) error {
		mode, until := mode(r.Governance), r.Until.UTC()
		return client.PutObjectRetention(ctx, b.bucket, b.prefix+name, minio.PutObjectRetentionOptions{Mode: &mode, RetainUntilDate: &until})
	})
}

// lacksLock reports whether the store refused a request because the bucket has
// no Object Lock.
func lacksLock(resp minio.ErrorResponse) bool {
	return resp.Code == "InvalidRequest" && strings.Contains(strings.ReplaceAll(resp.Message, " ", ""), "ObjectLockConfiguration")
}

// errDeleted is the cause of the error for a deleted record.
var errDeleted = errors.New("it was deleted; the bucket keeps older versions: see 'kist help immutable'")

// isDeleted reports whether an answer is that for a deleted record in a bucket with
// versions. kist deletes only those of its checks.
func isDeleted(op, name string, h http.Header) bool {
	return (op == "get" || op == "stat") && h.Get("X-Amz-Delete-Marker") == "true" && remote.IsRecord(name) && !strings.HasPrefix(name, "probe/")
}
