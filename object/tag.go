package object

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
