package object

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// MaxPathSize is the limit of a skipped path, in bytes: that of the deepest
// path of the longest names.
const MaxPathSize = MaxDepth * (MaxNameSize + 1)

// Encode returns the node's canonical encoding (docs/format/objects.md). A
// node that decoders would reject gives an [*InvalidError].
func (c *Commit) Encode() ([]byte, error) {
	data, err := c.encode()
	if err != nil {
		return nil, encodeError(KindCommit, err)
	}
	return data, nil
}

func (c *Commit) encode() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	set := getLinkSet()
	defer set.free()
	body := commitBody{
		Tree:   set.add(Key{KindTree, c.Tree}),
		Author: newSignatureBody(c.Author), Committer: newSignatureBody(c.Committer),
		Message: c.Message, Host: c.Host, Files: c.Files, Bytes: c.Bytes, SkippedCount: c.SkippedCount,
	}
	for _, p := range c.Parents {
		body.Parents = append(body.Parents, set.add(Key{KindCommit, p}))
	}
	for _, s := range c.Skipped {
		body.Skipped = append(body.Skipped, skippedBody{Path: cbor.ByteString(s.Path), Reason: s.Reason})
	}
	if !c.SkippedRest.IsZero() {
		body.SkippedRest = set.add(Key{KindChunk, c.SkippedRest})
	}
	return appendNode(KindCommit, set, &body)
}

func (c *Commit) check() error {
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
	if err := checkSignature(c.Author); err != nil {
		return err
	}
	if err := checkSignature(c.Committer); err != nil {
		return err
	}
	if err := checkMessage(c.Message); err != nil {
		return err
	}
	if err := checkText("host", c.Host); err != nil {
		return err
	}
	return c.checkSkipped()
}

func (c *Commit) checkSkipped() error {
	n := uint64(len(c.Skipped))
	if n > MaxSkipped || n > c.SkippedCount || (n < c.SkippedCount) == c.SkippedRest.IsZero() {
		return faultf(ReasonSkipped, "%d of %d listed", n, c.SkippedCount)
	}
	for _, s := range c.Skipped {
		if err := checkSkippedPath(s); err != nil {
			return err
		}
	}
	return nil
}

func checkSkippedPath(s Skipped) error {
	if s.Path == "" || len(s.Path) > MaxPathSize || strings.IndexByte(s.Path, 0) >= 0 {
		return faultf(ReasonSkipped, "path that is empty, too long or has a NUL byte")
	}
	return checkText("reason", s.Reason)
}

// DecodeCommit decodes a commit. It accepts exactly what [Commit.Encode]
// returns; errors are [*FormatError]. The commit does not refer to data.
func DecodeCommit(data []byte) (*Commit, error) {
	c, err := decodeCommit(data)
	if err != nil {
		return nil, decodeError(KindCommit, err)
	}
	return c, nil
}

func decodeCommit(data []byte) (*Commit, error) {
	h, err := parseHeader(KindCommit, data)
	if err != nil {
		return nil, err
	}
	var body commitBody
	if err := textCodec.unmarshal(h.body, &body); err != nil {
		return nil, err
	}
	c := &Commit{
		Author: body.Author.signature(), Committer: body.Committer.signature(),
		Message: body.Message, Host: body.Host, Files: body.Files, Bytes: body.Bytes, SkippedCount: body.SkippedCount,
	}
	if c.Tree, err = h.useKind(body.Tree, KindTree); err != nil {
		return nil, err
	}
	for _, pos := range body.Parents {
		id, err := h.useKind(pos, KindCommit)
		if err != nil {
			return nil, err
		}
		c.Parents = append(c.Parents, id)
	}
	for _, s := range body.Skipped {
		c.Skipped = append(c.Skipped, Skipped{Path: string(s.Path), Reason: s.Reason})
	}
	if c.SkippedRest, err = h.useKind(body.SkippedRest, KindChunk); err != nil {
		return nil, err
	}
	if err := h.done(); err != nil {
		return nil, err
	}
	return c, compareEncoding(data, c.encode)
}

// useKind is use for a position that holds links of one kind, or none.
func (h *header) useKind(pos uint16, kind Kind) (ID, error) {
	key, err := h.use(pos)
	if err == nil && pos != 0 && key.Kind != kind {
		err = faultf(ReasonLinkKind, "%s in place of a %s", key.Kind, kind)
	}
	return key.ID, err
}

// appendNode encodes a node that is not a list.
func appendNode(kind Kind, set *linkSet, body any) ([]byte, error) {
	var buf bytes.Buffer
	buf.Write(appendHeader(nil, kind, set))
	if err := textCodec.marshal(&buf, body); err != nil {
		return nil, err
	}
	if buf.Len() > MaxNodeSize {
		return nil, faultf(ReasonTooBig, "%d bytes", buf.Len())
	}
	return buf.Bytes(), nil
}

// compareEncoding checks that encoding a decoded node gives data again;
// encoding checks the rules about fields.
func compareEncoding(data []byte, encode func() ([]byte, error)) error {
	again, err := encode()
	if err == nil && !bytes.Equal(again, data) {
		err = &fault{reason: ReasonCanonical}
	}
	return err
}

func checkSignature(s Signature) error {
	if err := checkText("name", s.Name); err != nil {
		return err
	}
	if err := checkText("email", s.Email); err != nil {
		return err
	}
	const day = 24 * 60
	if s.Time.Nsec >= 1e9 || s.Zone <= -day || s.Zone >= day {
		return faultf(ReasonSignature, "%d nanoseconds, %d minutes from UTC", s.Time.Nsec, s.Zone)
	}
	return nil
}

// checkText checks a line of text.
func checkText(what, s string) error {
	if len(s) > MaxTextSize || !utf8.ValidString(s) || strings.ContainsFunc(s, isControl) {
		return faultf(ReasonText, "%s longer than %d bytes, not UTF-8 or with control characters", what, MaxTextSize)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func checkMessage(s string) error {
	if len(s) > MaxMessageSize || !utf8.ValidString(s) || slices.Contains([]byte(s), 0) {
		return faultf(ReasonText, "message longer than %d bytes, not UTF-8 or with a NUL", MaxMessageSize)
	}
	return nil
}
