package object

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// Encode returns the node's canonical encoding (docs/format/objects.md). It returns an
// [*InvalidError] for a node that decoders would reject.
func (c *Commit) Encode() ([]byte, error) {
	data, err := c.encode()
	return data, encodeError(KindCommit, err)
}

func (c *Commit) encode() ([]byte, error) { return c.encodeAs(versionFor(c.Signature), c.Signature) }

// ToSign returns the bytes that a key signs: the commit in version 2, without a signature. Errors
// are those of Encode.
func (c *Commit) ToSign() ([]byte, error) {
	data, err := c.encodeAs(signedVersion, nil)
	return data, encodeError(KindCommit, err)
}

func (c *Commit) encodeAs(version byte, signature []byte) ([]byte, error) {
	if err := c.checkRules(); err != nil {
		return nil, err
	}
	set := getLinkSet()
	defer set.free()
	body := commitBody{
		Tree:   set.addLink(Key{KindTree, c.Tree}),
		Author: newStampBody(c.Author), Committer: newStampBody(c.Committer),
		Message: c.Message, Host: c.Host, Files: c.Files, Bytes: c.Bytes, SkippedCount: c.SkippedCount, Signature: signature,
	}
	for _, p := range c.Parents {
		body.Parents = append(body.Parents, set.addLink(Key{KindCommit, p}))
	}
	for _, s := range c.Skipped {
		body.Skipped = append(body.Skipped, skippedBody{Path: cbor.ByteString(s.Path), Reason: s.Reason})
	}
	if !c.SkippedRest.IsZero() {
		body.SkippedRest = set.addLink(Key{KindChunk, c.SkippedRest})
	}
	return appendNode(KindCommit, version, set, &body)
}

func (c *Commit) checkRules() error {
	if c.Tree.IsZero() {
		return faultf(ReasonTarget, "commit without a tree")
	}
	links := 1 + len(c.Parents)
	if !c.SkippedRest.IsZero() {
		links++
	}
	if links > MaxLinks {
		return faultf(ReasonParents, "%d parents", len(c.Parents))
	}
	seen := make(map[ID]bool, len(c.Parents))
	for _, p := range c.Parents {
		if p.IsZero() || seen[p] {
			return faultf(ReasonParents, "zero, or the same twice")
		}
		seen[p] = true
	}
	return cmp.Or(
		checkStamp(c.Author), checkStamp(c.Committer), checkMessage(c.Message),
		checkText("host", c.Host), c.checkAllSkipped(), checkSignature(c.Signature))
}

// DecodeCommit decodes a commit. It accepts exactly the encodings that [Commit.Encode]
// returns. Errors are [*FormatError]. The commit does not refer to data.
func DecodeCommit(data []byte) (*Commit, error) {
	return decodeNode(KindCommit, data, decodeCommit, (*Commit).encode)
}

func decodeCommit(h *header) (_ *Commit, err error) {
	var body commitBody
	if err := h.decodeBody(&body); err != nil {
		return nil, err
	}

	c := &Commit{
		Author: body.Author.stamp(), Committer: body.Committer.stamp(),
		Message: body.Message, Host: body.Host, Files: body.Files, Bytes: body.Bytes, SkippedCount: body.SkippedCount, Signature: body.Signature,
	}

	if c.Tree, err = h.useOptional(body.Tree, KindTree); err != nil {
		return nil, err
	}
	for _, pos := range body.Parents {
		id, err := h.useOptional(pos, KindCommit)
		if err != nil {
			return nil, err
		}
		c.Parents = append(c.Parents, id)
	}
	for _, s := range body.Skipped {
		c.Skipped = append(c.Skipped, Skipped{Path: string(s.Path), Reason: s.Reason})
	}
	if c.SkippedRest, err = h.useOptional(body.SkippedRest, KindChunk); err != nil {
		return nil, err
	}
	return c, nil
}

// Encode returns the node's canonical encoding (docs/format/objects.md). It returns an
// [*InvalidError] for a node that decoders would reject.
func (t *Tag) Encode() ([]byte, error) {
	data, err := t.encode()
	return data, encodeError(KindTag, err)
}

func (t *Tag) encode() ([]byte, error) { return t.encodeAs(versionFor(t.Signature), t.Signature) }

// ToSign returns the bytes that a key signs: the tag in version 2, without a signature. Errors are
// those of Encode.
func (t *Tag) ToSign() ([]byte, error) {
	data, err := t.encodeAs(signedVersion, nil)
	return data, encodeError(KindTag, err)
}

func (t *Tag) encodeAs(version byte, signature []byte) ([]byte, error) {
	if t.Target.IsZero() {
		return nil, faultf(ReasonTarget, "tag without a commit")
	}
	if t.Name == "" {
		return nil, faultf(ReasonText, "tag without a name")
	}
	if err := cmp.Or(checkText("name", t.Name), checkStamp(t.Tagger), checkMessage(t.Message), checkSignature(t.Signature)); err != nil {
		return nil, err
	}
	set := getLinkSet()
	defer set.free()
	body := tagBody{
		Target: set.addLink(Key{KindCommit, t.Target}),
		Name:   t.Name, Tagger: newStampBody(t.Tagger), Message: t.Message, Signature: signature,
	}
	return appendNode(KindTag, version, set, &body)
}

// DecodeTag decodes a tag. It accepts exactly the encodings that [Tag.Encode] returns. Errors
// are [*FormatError]. The tag does not refer to data.
func DecodeTag(data []byte) (*Tag, error) {
	return decodeNode(KindTag, data, decodeTag, (*Tag).encode)
}

func decodeTag(h *header) (_ *Tag, err error) {
	var body tagBody
	if err := h.decodeBody(&body); err != nil {
		return nil, err
	}
	t := &Tag{Name: body.Name, Tagger: body.Tagger.stamp(), Message: body.Message, Signature: body.Signature}
	if t.Target, err = h.useOptional(body.Target, KindCommit); err != nil {
		return nil, err
	}
	return t, nil
}

// MaxPathSize is the largest size of a skipped path, in bytes: that of the deepest path with
// the longest names.
const MaxPathSize = MaxDepth * (MaxNameSize + 1)

// maxSkippedSize is the number of bytes of paths and reasons that SetSkipped puts into a
// commit itself, so that the commit stays below MaxNodeSize.
const maxSkippedSize = 512 << 10

// SetSkipped records the skipped paths in c. The first ones go into the commit itself, the
// rest into a chunk that SetSkipped stores in w. The chunk has at most MaxChunkSize bytes of
// them; SkippedCount counts all. The commit keeps a part of the slice all.
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

// AllSkipped yields the skipped paths of a commit: those in the commit, then those in its
// chunk. It yields an error once, with a zero Skipped, as the last value.
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

// encodeSkipped encodes a list as a sequence of CBOR arrays. It leaves out the end of a list
// that is too large for a chunk.
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

// decodeSkipped decodes the first item of an encoded list.
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
