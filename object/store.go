package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/fxamacker/cbor/v2"
)

// Reader reads objects. Implementations are safe for concurrent use.
type Reader interface {
	// Get returns an object's bytes, verified against its ID. The slice is the
	// caller's own. An object that is not there is a [*NotFoundError], one that
	// is there but cannot be read back whole is a [*CorruptError].
	Get(ctx context.Context, key Key) ([]byte, error)

	// Missing returns those of keys that are not there, in their order.
	Missing(ctx context.Context, keys []Key) ([]Key, error)
}

// Lender is a [Reader] that can lend an object's bytes, which spares a slice
// for each.
type Lender interface {
	Reader

	// Lend calls use with an object's bytes, verified as by Get, and returns
	// its error. Use must not keep or change them. It is not called if they
	// cannot be had; then errors are those of Get.
	Lend(ctx context.Context, key Key, use func(data []byte) error) error
}

// Lend has use called with an object's bytes by r, if that is a [Lender]; else
// it gets them first.
func Lend(ctx context.Context, r Reader, key Key, use func(data []byte) error) error {
	if l, ok := r.(Lender); ok {
		return l.Lend(ctx, key, use)
	}
	data, err := r.Get(ctx, key)
	if err != nil {
		return err
	}
	return use(data)
}

// Writer stores objects. Implementations are safe for concurrent use.
type Writer interface {
	// Put stores data and returns its ID. It is idempotent: an existing object
	// is not stored again. Put does not keep data, and does not change it. A
	// node is stored by its encoding.
	Put(ctx context.Context, kind Kind, data []byte) (ID, error)
}

// ReadWriter is a [Reader] that sees at once what its [Writer] has put.
type ReadWriter interface {
	Reader
	Writer
}

// ErrNotFound is matched by every [*NotFoundError].
var ErrNotFound = errors.New("object not found")

// NotFoundError says that a store does not have an object.
type NotFoundError struct {
	Key  Key
	Lost bool // its loss was accepted
}

func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("%s %s not found", e.Key.Kind, e.Key.ID)
	if e.Lost {
		text += "; its loss was accepted"
	}
	return text
}

// Is makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// LostKey returns the missing object that err is about, if its loss was accepted.
func LostKey(err error) (key Key, lost bool) {
	var e *NotFoundError
	if !errors.As(err, &e) || !e.Lost {
		return Key{}, false
	}
	return e.Key, true
}

// ErrPurged is matched by errors that say that a content was given up on
// purpose: whoever asks for it has to do without.
var ErrPurged = errors.New("content was purged")

// ErrCorrupt is matched by every error that says that stored data is damaged.
var ErrCorrupt = errors.New("damaged data")

// CorruptError says that a store has an object but cannot give its bytes back.
type CorruptError struct {
	Key   Key
	Where string // file and offset, or pack and offset
	Err   error  // the cause
}

func (e *CorruptError) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("%s %s is damaged: %v", e.Key.Kind, e.Key.ID, e.Err)
	}
	return fmt.Sprintf("%s %s is damaged (%s): %v", e.Key.Kind, e.Key.ID, e.Where, e.Err)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// DamageError is a damaged or missing file of a store. It matches [ErrCorrupt], and also
// Kind, if that is set.
type DamageError struct {
	Name string // of the file in the store, or on the remote
	Err  error  // the damage
	Kind error
}

func (e *DamageError) Error() string { return fmt.Sprintf("%s is damaged: %v", e.Name, e.Err) }

// Is makes errors.Is work with [ErrCorrupt] and Kind.
func (e *DamageError) Is(target error) bool {
	return target == ErrCorrupt || e.Kind != nil && target == e.Kind
}

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Err }

// Discard is a [Writer] that stores nothing and returns each object's ID.
var Discard Writer = discard{}

type discard struct{}

func (discard) Put(ctx context.Context, kind Kind, data []byte) (ID, error) {
	return Sum(data), ctx.Err()
}

// Overlay holds nodes in memory over a store that it does not change, so that
// uncommitted trees can be compared like committed ones. It hashes chunks and
// drops them.
type Overlay struct {
	under Reader

	mu    sync.Mutex
	nodes map[Key][]byte
}

func NewOverlay(under Reader) *Overlay {
	return &Overlay{under: under, nodes: map[Key][]byte{}}
}

// Put implements [object.Writer].
func (o *Overlay) Put(ctx context.Context, kind Kind, data []byte) (ID, error) {
	id := Sum(data)
	if kind.IsNode() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if key := (Key{Kind: kind, ID: id}); o.nodes[key] == nil {
			o.nodes[key] = append([]byte(nil), data...)
		}
	}
	return id, ctx.Err()
}

// Get implements [object.Reader].
func (o *Overlay) Get(ctx context.Context, key Key) ([]byte, error) {
	o.mu.Lock()
	data, ok := o.nodes[key]
	o.mu.Unlock()
	if ok {
		return append([]byte(nil), data...), nil
	}
	return o.under.Get(ctx, key)
}

// PassOver implements [Lenient], if the reader below does.
func (o *Overlay) PassOver(path string, key Key, err error) bool {
	return PassOver(o.under, path, key, err)
}

// Missing implements [object.Reader].
func (o *Overlay) Missing(ctx context.Context, keys []Key) ([]Key, error) {
	var rest []Key
	o.mu.Lock()
	for _, key := range keys {
		if o.nodes[key] == nil {
			rest = append(rest, key)
		}
	}
	o.mu.Unlock()
	return o.under.Missing(ctx, rest)
}

// MaxPathSize is the limit of a skipped path, in bytes: that of the deepest
// path of the longest names.
const MaxPathSize = MaxDepth * (MaxNameSize + 1)

// maxSkippedSize is how many bytes of paths and reasons SetSkipped puts in a
// commit itself, so that it stays below MaxNodeSize.
const maxSkippedSize = 512 << 10

// SetSkipped records the skipped paths in c: the first paths in the commit
// itself, the rest in a chunk that it stores in w. The chunk is cut at
// MaxChunkSize; SkippedCount counts all. c keeps a part of all.
func (c *Commit) SetSkipped(ctx context.Context, w Writer, all []Skipped) error {
	c.SkippedCount, c.Skipped, c.SkippedRest = uint64(len(all)), nil, ID{}
	n, size := 0, 0
	for ; n < min(len(all), MaxSkipped); n++ {
		if size += len(all[n].Path) + len(all[n].Reason); size > maxSkippedSize {
			break
		}
	}
	if c.Skipped = all[:n:n]; n == len(all) {
		return nil
	}
	rest, err := encodeSkipped(all[n:])
	if err != nil {
		return encodeError(KindCommit, err)
	}
	c.SkippedRest, err = w.Put(ctx, KindChunk, rest)
	return err
}

// AllSkipped iterates over all skipped paths of a commit: those in the commit,
// then those in its chunk. An error is yielded once, with a zero Skipped, and
// ends the iteration.
func AllSkipped(ctx context.Context, r Reader, c *Commit) iter.Seq2[Skipped, error] {
	return func(yield func(Skipped, error) bool) {
		for _, s := range c.Skipped {
			if !yield(s, nil) {
				return
			}
		}
		if c.SkippedRest.IsZero() {
			return
		}
		key := Key{KindChunk, c.SkippedRest}
		data, err := r.Get(ctx, key)
		for len(data) > 0 && err == nil {
			var s Skipped
			if s, data, err = decodeSkipped(data); err == nil && !yield(s, nil) {
				return
			}
		}
		if err != nil {
			yield(Skipped{}, readError(key, decodeError(KindCommit, err)))
		}
	}
}

// encodeSkipped encodes a list as a sequence of CBOR arrays, up to the size of
// a chunk.
func encodeSkipped(list []Skipped) ([]byte, error) {
	var buf bytes.Buffer
	for _, s := range list {
		if err := checkSkipped(s); err != nil {
			return nil, err
		}
		end := buf.Len()
		if err := textCodec.marshal(&buf, &skippedBody{Path: cbor.ByteString(s.Path), Reason: s.Reason}); err != nil {
			return nil, err
		}
		if buf.Len() > MaxChunkSize {
			return buf.Bytes()[:end], nil
		}
	}
	return buf.Bytes(), nil
}

// decodeSkipped decodes the first item of what encodeSkipped returns.
func decodeSkipped(data []byte) (s Skipped, rest []byte, err error) {
	var body skippedBody
	if rest, err = textCodec.dec.UnmarshalFirst(data, &body); err != nil {
		return Skipped{}, nil, &fault{ReasonSkipped, err}
	}
	s = Skipped{Path: string(body.Path), Reason: body.Reason}
	return s, rest, checkSkipped(s)
}

func (c *Commit) checkAllSkipped() error {
	n := uint64(len(c.Skipped))
	if n > MaxSkipped || n > c.SkippedCount || (n < c.SkippedCount) == c.SkippedRest.IsZero() {
		return faultf(ReasonSkipped, "%d of %d listed", n, c.SkippedCount)
	}
	for _, s := range c.Skipped {
		if err := checkSkipped(s); err != nil {
			return err
		}
	}
	return nil
}

func checkSkipped(s Skipped) error {
	if s.Path == "" || len(s.Path) > MaxPathSize || strings.IndexByte(s.Path, 0) >= 0 {
		return faultf(ReasonSkipped, "path that is empty, too long or has a NUL byte")
	}
	return checkText("reason", s.Reason)
}
