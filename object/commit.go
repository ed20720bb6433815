package object

import "github.com/fxamacker/cbor/v2"

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
	return c.checkAllSkipped()
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
	if err := h.decode(&body); err != nil {
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

// Encode returns the node's canonical encoding (docs/format/objects.md). A
// node that decoders would reject gives an [*InvalidError].
func (t *Tag) Encode() ([]byte, error) {
	data, err := t.encode()
	if err != nil {
		return nil, encodeError(KindTag, err)
	}
	return data, nil
}

func (t *Tag) encode() ([]byte, error) {
	if t.Target.IsZero() {
		return nil, faultf(ReasonTarget, "tag without a commit")
	}
	if t.Name == "" {
		return nil, faultf(ReasonText, "tag without a name")
	}
	if err := checkText("name", t.Name); err != nil {
		return nil, err
	}
	if err := checkSignature(t.Tagger); err != nil {
		return nil, err
	}
	if err := checkMessage(t.Message); err != nil {
		return nil, err
	}
	set := getLinkSet()
	defer set.free()
	body := tagBody{
		Target: set.add(Key{KindCommit, t.Target}),
		Name:   t.Name, Tagger: newSignatureBody(t.Tagger), Message: t.Message,
	}
	return appendNode(KindTag, set, &body)
}

// DecodeTag decodes a tag. It accepts exactly what [Tag.Encode] returns;
// errors are [*FormatError]. The tag does not refer to data.
func DecodeTag(data []byte) (*Tag, error) {
	t, err := decodeTag(data)
	if err != nil {
		return nil, decodeError(KindTag, err)
	}
	return t, nil
}

func decodeTag(data []byte) (*Tag, error) {
	h, err := parseHeader(KindTag, data)
	if err != nil {
		return nil, err
	}
	var body tagBody
	if err := h.decode(&body); err != nil {
		return nil, err
	}
	t := &Tag{Name: body.Name, Tagger: body.Tagger.signature(), Message: body.Message}
	if t.Target, err = h.useKind(body.Target, KindCommit); err != nil {
		return nil, err
	}
	if err := h.done(); err != nil {
		return nil, err
	}
	return t, compareEncoding(data, t.encode)
}
