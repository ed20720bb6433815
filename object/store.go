package object

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Reader reads objects. Implementations are safe for concurrent use.
type Reader interface {
	// Get returns an object's bytes, verified against its ID. The slice belongs to
	// the caller. If the object is missing, the error is an [*AbsentError]; if it
	// is damaged, a [*CorruptError].
	Get(ctx context.Context, key Key) ([]byte, error)

	// Missing returns the keys of missing objects, in the order of keys.
	Missing(ctx context.Context, keys []Key) ([]Key, error)
}

// BriefReader is a [Reader] that can show an object's bytes briefly, without a new slice for each.
type BriefReader interface {
	Reader

	// GetBriefly calls use with an object's bytes, verified as by Get, and returns the
	// error of use. Use must not keep or change the bytes. If they cannot be read,
	// GetBriefly does not call use, and its error is that of Get.
	GetBriefly(ctx context.Context, key Key, use func(data []byte) error) error
}

// GetBriefly calls use with an object's bytes. If r is a [BriefReader], no slice is made for them.
func GetBriefly(ctx context.Context, r Reader, key Key, use func(data []byte) error) error {
	if l, ok := r.(BriefReader); ok {
		return l.GetBriefly(ctx, key, use)
	}
	data, err := r.Get(ctx, key)
	if err != nil {
		return err
	}
	return use(data)
}

// BatchReader is a [Reader] for which many objects cost less together than one by one.
type BatchReader interface {
	Reader

	// GetAll calls take once with each object of keys that can be read, verified as by Get, in any
	// order and from several goroutines at once. Take must not keep or change the bytes. Get
	// returns the reason why an object cannot be read. The error is that of take, of the
	// context, or of a connection.
	GetAll(ctx context.Context, keys []Key, take func(key Key, data []byte) error) error
}

// Prefetcher is a [Reader] that may have to fetch objects from far away.
type Prefetcher interface {
	Reader

	// Prefetch brings objects near that will soon be read, in few requests. It passes over
	// objects that it cannot bring: Get returns the reason. Callers pass at most
	// [MaxPrefetch] bytes of objects.
	Prefetch(ctx context.Context, keys []Key)

	// HasFar reports whether objects are far away. If not, a caller need not prefetch.
	HasFar() bool
}

// MaxPrefetch is the number of bytes of objects to prefetch at once. A reader that does not store
// them keeps the last four times as many in memory.
const MaxPrefetch = 16 << 20

// Layer is a [Reader] over another one, from which it reads far objects.
type Layer interface{ Below() Reader }

// below returns the first T from r down.
func below[T any](r Reader) (found T, ok bool) {
	for r != nil {
		if found, ok = r.(T); ok {
			break
		}
		layer, more := r.(Layer)
		if !more {
			break
		}
		r = layer.Below()
	}
	return found, ok
}

// Prefetch calls the Prefetch of r, or of a reader below it, if one is a [Prefetcher].
func Prefetch(ctx context.Context, r Reader, keys []Key) {
	if p, ok := below[Prefetcher](r); ok && len(keys) > 0 {
		p.Prefetch(ctx, keys)
	}
}

// HasFar calls the HasFar of r, or of a reader below it, and returns false if none is a [Prefetcher].
func HasFar(r Reader) bool {
	p, ok := below[Prefetcher](r)
	return ok && p.HasFar()
}

type passingKey struct{}

// Passing returns a context for reads of objects that the caller writes to a file of the worktree. A reader that has to fetch
// them does not store them: the file is the copy here.
func Passing(ctx context.Context) context.Context { return context.WithValue(ctx, passingKey{}, true) }

// IsPassing reports whether ctx comes from [Passing].
func IsPassing(ctx context.Context) bool { return ctx.Value(passingKey{}) != nil }

// HasFarNodes reports whether r may have to fetch trees and manifests, too.
func HasFarNodes(r Reader) bool {
	f, ok := below[interface{ HasFarNodes() bool }](r)
	return ok && f.HasFarNodes()
}

// Writer stores objects. Implementations are safe for concurrent use.
type Writer interface {
	// Put stores data, unless the object exists, and returns its ID. It neither keeps
	// nor changes data. The data of a node is its encoding.
	Put(ctx context.Context, kind Kind, data []byte) (ID, error)
}

// ReadWriter is a [Reader] that immediately sees the objects of its [Writer].
type ReadWriter interface {
	Reader
	Writer
}

// Discard is a [Writer] that stores nothing and returns each object's ID.
var Discard Writer = discard{}

type discard struct{}

func (discard) Put(ctx context.Context, kind Kind, data []byte) (ID, error) {
	return Sum(data), ctx.Err()
}

// LossKeeper is a [Reader] that knows the objects whose loss was accepted.
type LossKeeper interface {
	// IsLost reports whether the loss of an object was accepted, and the object is
	// still missing.
	IsLost(key Key) bool
}

// IsLost calls the IsLost of r, and returns false if r is no [LossKeeper].
func IsLost(r Reader, key Key) bool {
	losses, ok := r.(LossKeeper)
	return ok && losses.IsLost(key)
}

// Lenient is a [Reader] that may leave out damaged and missing nodes of folders and
// history.
type Lenient interface {
	// PassOver reports whether the caller leaves out an object that it cannot read
	// because of err. Path is that of the folder or file, or empty.
	PassOver(path string, key Key, err error) bool
}

// PassOver calls the PassOver of r, and returns false if r is not [Lenient].
func PassOver(r Reader, path string, key Key, err error) bool {
	l, ok := r.(Lenient)
	return ok && err != nil && l.PassOver(path, key, err)
}

// PassOverContent is [PassOver] for the content of a file. It also reports true for purged
// content.
func PassOverContent(r Reader, path string, key Key, err error) bool {
	return errors.Is(err, ErrPurged) || PassOver(r, path, key, err)
}

// PutNode encodes a commit or a tag and stores it.
func PutNode(ctx context.Context, w Writer, kind Kind, node interface{ Encode() ([]byte, error) }) (ID, error) {
	data, err := node.Encode()
	if err != nil {
		return ID{}, err
	}
	return w.Put(ctx, kind, data)
}

// ReadTree reads and decodes a tree node. Errors name the node, and wrap those of
// [Reader.Get] and [DecodeTree].
func ReadTree(ctx context.Context, r Reader, id ID) (*Tree, error) {
	return readNode(ctx, r, Key{KindTree, id}, DecodeTree)
}

// ReadManifest reads and decodes a manifest node, like [ReadTree].
func ReadManifest(ctx context.Context, r Reader, id ID) (*Manifest, error) {
	return readNode(ctx, r, Key{KindManifest, id}, DecodeManifest)
}

// ReadCommit reads and decodes a commit, like [ReadTree]. If r is a [LossKeeper],
// it leaves out the parents whose loss was accepted, so that callers can follow the
// history.
func ReadCommit(ctx context.Context, r Reader, id ID) (*Commit, error) {
	c, err := readNode(ctx, r, Key{KindCommit, id}, DecodeCommit)
	if err == nil {
		c.Parents = slices.DeleteFunc(c.Parents, func(parent ID) bool { return IsLost(r, Key{KindCommit, parent}) })
	}
	return c, err
}

// ReadTag reads and decodes a tag, like [ReadTree].
func ReadTag(ctx context.Context, r Reader, id ID) (*Tag, error) {
	return readNode(ctx, r, Key{KindTag, id}, DecodeTag)
}

func readNode[T any](ctx context.Context, r Reader, key Key, decode func([]byte) (*T, error)) (*T, error) {
	data, err := r.Get(ctx, key)
	if err != nil {
		return nil, readError(key, ExplainMissing(r, key, err))
	}
	node, err := decode(data)
	if err != nil {
		return nil, readError(key, err)
	}
	return node, nil
}

func readError(key Key, err error) error { return fmt.Errorf("read %s: %w", key, err) }

// CheckSize returns an error if no object can have this kind and this size in bytes.
func CheckSize(kind Kind, n int) error {
	limit := MaxNodeSize
	if kind == KindChunk {
		limit = MaxChunkSize
	}
	switch {
	case !kind.Valid():
		return fmt.Errorf("put: invalid %s", kind)
	case n <= 0:
		return fmt.Errorf("put: empty %s", kind)
	case n > limit:
		return fmt.Errorf("put: %s of %d bytes, at most %d are allowed", kind, n, limit)
	}
	return nil
}
