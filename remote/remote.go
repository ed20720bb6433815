// Package remote says what kist needs of a store that others share: an
// S3 bucket, a MongoDB database, a folder. A [Backend] keeps immutable blobs
// under names, and creates small records at most once; it knows nothing of
// packs, roots or refs. What lies on a remote, and the protocol by which any
// number of processes share it, is described in docs/format/remote.md.
package remote

import (
	"context"
	"io"
	"iter"
	"time"
)

// Info describes a blob.
type Info struct {
	Name     string
	Size     int64     // bytes
	Modified time.Time // by the store's clock; nothing safe depends on it
}

// Blobs keeps immutable byte strings under names. A blob is complete or
// missing, and never changes. Once it is stored, everybody sees it with Get
// and Stat.
//
// Names must pass [CheckName]. Errors are [*Error]; a call whose context has
// ended returns an error that matches the context's. Implementations are safe
// for concurrent use.
type Blobs interface {
	// Get reads a blob from offset off on, until p is full or the blob ends,
	// and returns the number of bytes read. Fewer than len(p) without an error
	// means that the blob ends there. An off at or behind the end reads
	// nothing. A body that was cut short is an error. After an error, the
	// content of p has no meaning. A missing blob is ErrNotFound.
	Get(ctx context.Context, name string, p []byte, off int64) (int, error)

	// Put stores size bytes of body under a name that was never used before:
	// a new one for every attempt. ErrExists says that the name is taken,
	// where the store can tell. After any other error the blob may appear,
	// now or later, or never. body is read from any offset, more than once,
	// and by one goroutine at a time.
	Put(ctx context.Context, name string, body io.ReaderAt, size int64) error

	// Stat describes a blob. An absent one is ErrNotFound.
	Stat(ctx context.Context, name string) (Info, error)

	// List yields the blobs and records whose names begin with prefix, sorted
	// by name. The prefix is empty or ends with a slash. The list may miss
	// names stored a short while ago, and have deleted ones: absence from a
	// list proves nothing. An error is yielded once, with a zero Info, and
	// ends it.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]

	// Delete removes a blob or record. One that is not there is no error. A
	// nil error means that it is gone, or will be.
	Delete(ctx context.Context, name string) error
}

// Creator creates records.
type Creator interface {
	// Create stores a record, a blob of at most MaxRecord bytes, under a name
	// for which [IsRecord] is true, if and only if the name is free; of any
	// number of callers at most one succeeds. ErrExists says that the name is
	// taken: by somebody else, or by an earlier attempt of the caller's own.
	// After any other error the record may have been created, or may be later.
	// Get, Stat, List and Delete are for records too; they see one at once.
	Create(ctx context.Context, name string, data []byte) error
}

// Replacer replaces records. All stores of this module are Replacers.
type Replacer interface {
	// Replace stores data under the name of a record that exists, in place of
	// its bytes, in one step: at no moment is the name free. Only a repair calls
	// it, with the bytes that the record had before it was damaged.
	Replace(ctx context.Context, name string, data []byte) error
}

// Backend is a store that can be a remote.
type Backend interface {
	Blobs
	Creator

	// Close ends the use of the store. Calls under way may fail.
	io.Closer
}

// MaxRecord is the most bytes of a record.
const MaxRecord = 4 << 20

// As returns b, or the first of the backends that it wraps that is a T: for
// what only some stores have. A backend that wraps another has a method Unwrap
// that returns it.
func As[T any](b Backend) (T, bool) {
	for {
		if t, ok := b.(T); ok {
			return t, true
		}
		outer, ok := b.(interface{ Unwrap() Backend })
		if !ok {
			var none T
			return none, false
		}
		b = outer.Unwrap()
	}
}
