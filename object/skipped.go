package object

import (
	"bytes"
	"context"
	"iter"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

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
