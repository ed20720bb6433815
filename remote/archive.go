package remote

import (
	"context"
	"time"
)

// Archiver is a store in which blobs can lie in an archive: they are there, but Get returns an error that matches
// [ErrArchived] until they were thawed. Get it with [As]: its methods make each request once.
type Archiver interface {
	// Class returns the class of storage of large packs that hold only chunks (see [WithContent]). "" is the store's usual
	// class.
	Class() string

	// ArchiveState returns whether a blob can be read. A missing one is ErrNotFound.
	ArchiveState(ctx context.Context, name string) (ArchiveState, error)

	// Thaw asks for a copy of an archived blob that can be read for some days. If that was asked for before, and the copy
	// is not there yet, Thaw returns nil. Thaw of a copy that is there extends its time.
	Thaw(ctx context.Context, name string, days int) error
}

// ArchiveState says whether a blob can be read.
type ArchiveState struct {
	Class    string        // of storage, in the store's words; "": the usual one
	Archived bool          // Get does not work
	Thawing  bool          // somebody has asked for a copy, which is not there yet
	Takes    time.Duration // the longest time that a thaw of this class usually takes; 0: not known
}

// MinClassed is the least size, in bytes, of a blob that a store keeps in the class of an [Archiver]. Smaller blobs are
// merged again and again, which archives make expensive.
const MinClassed = 8 << 20

// contentKey is the key of the mark of WithContent.
type contentKey struct{}

// WithContent marks the Puts of a context as those of packs that hold only chunks. A store may keep such a pack in another
// class of storage. The mark is in the context because each wrapper of a store passes that on.
func WithContent(ctx context.Context) context.Context {
	return context.WithValue(ctx, contentKey{}, true)
}

// IsContent reports whether WithContent has marked a context.
func IsContent(ctx context.Context) bool { return ctx.Value(contentKey{}) != nil }
