package object

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// A node's encoding: 'k' 'n', kind, version, number of links (uvarint), the
// links (kind and ID), body. See docs/format/objects.md.
const (
	magic0, magic1 = 'k', 'n'
	plainVersion   = 1 // of every node, except signed commits and tags
	signedVersion  = 2 // of a commit or tag with a signature, or as a key signs it
	prefixSize     = 4 // magic, kind, version
	linkSize       = 1 + len(ID{})
)

// newestVersion returns the newest version of a kind's encoding.
func newestVersion(kind Kind) byte {
	if kind == KindCommit || kind == KindTag {
		return signedVersion
	}
	return plainVersion
}

// versionFor returns the version of a commit or tag with a signature, which may be empty.
func versionFor(signature []byte) byte {
	if len(signature) > 0 {
		return signedVersion
	}
	return plainVersion
}

// linkKinds lists the kinds that objects may link to, by the linking kind.
var linkKinds = [...][]Kind{
	KindManifest: {KindChunk, KindManifest},
	KindTree:     {KindChunk, KindManifest, KindTree},
	KindCommit:   {KindChunk, KindTree, KindCommit},
	KindTag:      {KindCommit},
}

// Links returns the links of an encoded node, in their order. It reads and checks the
// header: kind, version, limits, and that links are unique and of allowed kinds. It does
// not read the body. A chunk has no links. Errors are [*FormatError].
func Links(kind Kind, data []byte) ([]Key, error) {
	if kind == KindChunk {
		return nil, nil
	}
	h, err := parseHeader(kind, data)
	if err != nil {
		return nil, decodeError(kind, err)
	}
	keys := make([]Key, h.linkCount())
	for i := range keys {
		keys[i] = h.linkAt(i)
	}
	return keys, nil
}

// header is a node's parsed header, and its body. Both slices share the memory of the data.
type header struct {
	links []byte // linkSize bytes each
	body  []byte

	used int // links used so far, see useLink
}

func (h *header) linkCount() int { return len(h.links) / linkSize }

// linkAt returns the i-th link, counted from 0.
func (h *header) linkAt(i int) Key {
	raw := h.links[i*linkSize : (i+1)*linkSize]
	return Key{Kind(raw[0]), ID(raw[1:])}
}

// useLink returns the link for a position in the body. Positions count from 1, and 0 is no link.
// The first uses of positions must come in ascending order.
func (h *header) useLink(pos uint16) (Key, error) {
	if pos == 0 {
		return Key{}, nil
	}
	if int(pos) > h.linkCount() || int(pos) > h.used+1 {
		return Key{}, faultf(ReasonLinkOrder, "position %d after %d of %d", pos, h.used, h.linkCount())
	}
	h.used = max(h.used, int(pos))
	return h.linkAt(int(pos) - 1), nil
}

// checkAllUsed checks that all links were used.
func (h *header) checkAllUsed() error {
	if h.used != h.linkCount() {
		return faultf(ReasonLinkUnused, "%d of %d used", h.used, h.linkCount())
	}
	return nil
}

func parseHeader(kind Kind, data []byte) (*header, error) {
	switch {
	case !kind.IsNode():
		return nil, faultf(ReasonKind, "not a kind of node")
	case len(data) > MaxNodeSize:
		return nil, faultf(ReasonTooBig, "%d bytes", len(data))
	case len(data) < prefixSize:
		return nil, faultf(ReasonTruncated, "%d bytes", len(data))
	case data[0] != magic0 || data[1] != magic1:
		return nil, faultf(ReasonMagic, "% x", data[:2])
	case data[2] != byte(kind):
		return nil, faultf(ReasonKind, "is a %s", Kind(data[2]))
	case data[3] == 0:
		return nil, faultf(ReasonVersion, "version 0")
	case data[3] > newestVersion(kind):
		return nil, faultf(ReasonNewerVersion, "version %d", data[3])
	}
	data = data[prefixSize:]
	count, n := binary.Uvarint(data)
	if n <= 0 || n != uvarintSize(count) {
		return nil, faultf(ReasonLinkCount, "not a canonical number")
	}
	data = data[n:]
	if count > MaxLinks || int(count)*linkSize > len(data) {
		return nil, faultf(ReasonLinkCount, "%d links in %d bytes", count, len(data))
	}
	size := int(count) * linkSize
	h := &header{links: data[:size:size], body: data[size:]}

	set := getLinkSet()
	defer set.free()
	for i := range h.linkCount() {
		key := h.linkAt(i)
		if !slices.Contains(linkKinds[kind], key.Kind) {
			return nil, faultf(ReasonLinkKind, "link %d: %s", i+1, key.Kind)
		}
		if key.ID.IsZero() {
			return nil, faultf(ReasonLinkID, "link %d", i+1)
		}
		if set.addLink(key); set.len() != i+1 {
			return nil, faultf(ReasonLinkTwice, "link %d: %s", i+1, key)
		}
	}
	return h, nil
}

func uvarintSize(n uint64) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// appendHeader appends the header of a node.
func appendHeader(dst []byte, kind Kind, version byte, set *linkSet) []byte {
	dst = append(dst, magic0, magic1, byte(kind), version)
	dst = binary.AppendUvarint(dst, uint64(set.len()))
	return append(dst, set.raw...)
}

// The bodies of nodes in CBOR. Positions of links count from 1, and 0 is no link. Maps do not
// have fields that are zero. In trees and manifests every string is a byte string, because a
// name need not be UTF-8.

type entryBody struct {
	Name   string    `cbor:"1,keyasint"`
	Type   uint8     `cbor:"2,keyasint"`
	Mode   uint16    `cbor:"3,keyasint,omitempty"`
	Size   uint64    `cbor:"4,keyasint,omitempty"`
	Files  uint64    `cbor:"5,keyasint,omitempty"`
	Sec    int64     `cbor:"6,keyasint,omitempty"`
	Nsec   uint32    `cbor:"7,keyasint,omitempty"`
	Inline []byte    `cbor:"8,keyasint,omitempty"`
	Link   uint16    `cbor:"9,keyasint,omitempty"`
	Target string    `cbor:"10,keyasint,omitempty"`
	Meta   *metaBody `cbor:"11,keyasint,omitempty"`
}

type metaBody struct {
	UID      uint32            `cbor:"1,keyasint,omitempty"`
	GID      uint32            `cbor:"2,keyasint,omitempty"`
	Owner    string            `cbor:"3,keyasint,omitempty"`
	Group    string            `cbor:"4,keyasint,omitempty"`
	Xattrs   map[string][]byte `cbor:"5,keyasint,omitempty"`
	Device   uint64            `cbor:"6,keyasint,omitempty"`
	HardLink uint64            `cbor:"7,keyasint,omitempty"`
	Attrs    map[string]string `cbor:"8,keyasint,omitempty"`
}

// newMetaBody returns the metadata and attributes of an entry in one map, or nil for none.
func newMetaBody(e *Entry) *metaBody {
	m := e.Meta
	switch {
	case m != nil:
		return &metaBody{m.UID, m.GID, m.Owner, m.Group, m.Xattrs, m.Device, m.HardLink, e.Attrs}
	case len(e.Attrs) > 0:
		return &metaBody{Attrs: e.Attrs}
	}
	return nil
}

// copyTo sets the metadata and attributes of e. If the map has only attributes, e gets no
// metadata.
func (b *metaBody) copyTo(e *Entry) {
	if b == nil {
		return
	}
	e.Attrs = b.Attrs
	m := &Metadata{b.UID, b.GID, b.Owner, b.Group, b.Xattrs, b.Device, b.HardLink}
	if len(b.Attrs) == 0 || !m.isEmpty() {
		e.Meta = m
	}
}

type treeChildBody struct {
	_    struct{} `cbor:",toarray"`
	Last string
	Link uint16
}

type chunkBody struct {
	_    struct{} `cbor:",toarray"`
	Link uint16
	Size uint32
}

type manifestChildBody struct {
	_    struct{} `cbor:",toarray"`
	Link uint16
	End  uint64
}

type stampBody struct {
	_     struct{} `cbor:",toarray"`
	Name  string
	Email string
	Sec   int64
	Nsec  uint32
	Zone  int16
}

type skippedBody struct {
	_      struct{} `cbor:",toarray"`
	Path   cbor.ByteString
	Reason string
}

type commitBody struct {
	Tree         uint16        `cbor:"1,keyasint"`
	Parents      []uint16      `cbor:"2,keyasint,omitempty"`
	Author       stampBody     `cbor:"3,keyasint"`
	Committer    stampBody     `cbor:"4,keyasint"`
	Message      string        `cbor:"5,keyasint,omitempty"`
	Host         string        `cbor:"6,keyasint,omitempty"`
	Files        uint64        `cbor:"7,keyasint,omitempty"`
	Bytes        uint64        `cbor:"8,keyasint,omitempty"`
	SkippedCount uint64        `cbor:"9,keyasint,omitempty"`
	Skipped      []skippedBody `cbor:"10,keyasint,omitempty"`
	SkippedRest  uint16        `cbor:"11,keyasint,omitempty"`
	Signature    []byte        `cbor:"12,keyasint,omitempty"`
}

type tagBody struct {
	Target  uint16    `cbor:"1,keyasint"`
	Name    string    `cbor:"2,keyasint"`
	Tagger  stampBody `cbor:"3,keyasint"`
	Message string    `cbor:"4,keyasint,omitempty"`

	Signature []byte `cbor:"5,keyasint,omitempty"`
}

// codec encodes and decodes the bodies of some kinds.
type codec struct {
	enc cbor.UserBufferEncMode
	dec cbor.DecMode
}

var (
	textCodec = newCodec(cbor.StringToTextString, cbor.ByteStringToStringForbidden)
	listCodec = newCodec(cbor.StringToByteString, cbor.ByteStringToStringAllowed)
)

func newCodec(enc cbor.StringMode, dec cbor.ByteStringToStringMode) codec {
	o := cbor.CoreDetEncOptions()
	o.NilContainers = cbor.NilContainerAsEmpty
	o.TagsMd = cbor.TagsForbidden
	o.String = enc
	encMode, err := o.UserBufferEncMode()
	if err != nil {
		panic(err) // impossible: the options are constant
	}
	decMode, err := cbor.DecOptions{
		DupMapKey:          cbor.DupMapKeyEnforcedAPF,
		IndefLength:        cbor.IndefLengthForbidden,
		TagsMd:             cbor.TagsForbidden,
		ByteStringToString: dec,
		MaxNestedLevels:    8,
		MaxArrayElements:   MaxListItems,
		MaxMapPairs:        MaxListItems,
		ExtraReturnErrors:  cbor.ExtraDecErrorUnknownField,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return codec{encMode, decMode}
}

// unmarshal decodes a body, or a part of one.
func (c codec) unmarshal(data []byte, body any) error {
	if err := c.dec.Unmarshal(data, body); err != nil {
		return &fault{ReasonBody, err}
	}
	return nil
}

// marshal appends the CBOR encoding of body to buf.
func (c codec) marshal(buf *bytes.Buffer, body any) error {
	if err := c.enc.MarshalToBuffer(body, buf); err != nil {
		return &fault{ReasonBody, err}
	}
	return nil
}

func (b *stampBody) stamp() Stamp {
	return Stamp{b.Name, b.Email, Time{b.Sec, b.Nsec}, b.Zone}
}

func newStampBody(s Stamp) stampBody {
	return stampBody{Name: s.Name, Email: s.Email, Sec: s.Time.Sec, Nsec: s.Time.Nsec, Zone: s.Zone}
}

// useKind is useLink for a position whose link must have the given kind.
func (h *header) useKind(pos uint16, kind Kind) (ID, error) {
	key, err := h.useLink(pos)
	if err == nil && key.Kind != kind {
		err = faultf(ReasonLinkKind, "%s in place of a %s", key.Kind, kind)
	}
	return key.ID, err
}

// useOptional is useKind for a position that may be 0, which stands for the zero ID.
func (h *header) useOptional(pos uint16, kind Kind) (ID, error) {
	if pos == 0 {
		return ID{}, nil
	}
	return h.useKind(pos, kind)
}

// decodeBody decodes a body that is a map.
func (h *header) decodeBody(body any) error {
	if len(h.body) == 0 || h.body[0]&(7<<5) != cborMap {
		return faultf(ReasonBody, "not a map")
	}
	return textCodec.unmarshal(h.body, body)
}

// appendNode encodes a node that is not a list.
func appendNode(kind Kind, version byte, set *linkSet, body any) ([]byte, error) {
	buf := bytes.NewBuffer(appendHeader(make([]byte, 0, 512), kind, version, set))
	if err := textCodec.marshal(buf, body); err != nil {
		return nil, err
	}
	if buf.Len() > MaxNodeSize {
		return nil, faultf(ReasonTooBig, "%d bytes", buf.Len())
	}
	return buf.Bytes(), nil
}

// decodeNode decodes a node that is not a list. It encodes the result again: that checks the
// rules about fields, and must give the same data. Errors are [*FormatError].
func decodeNode[N any](kind Kind, data []byte, decode func(*header) (*N, error), encode func(*N) ([]byte, error)) (*N, error) {
	var node *N
	h, err := parseHeader(kind, data)
	if err == nil {
		node, err = decode(h)
	}
	if err == nil {
		err = h.checkAllUsed()
	}
	var again []byte
	if err == nil {
		again, err = encode(node)
	}
	if err == nil && !bytes.Equal(again, data) {
		err = &fault{reason: ReasonCanonical}
	}
	if err != nil {
		return nil, decodeError(kind, err)
	}
	return node, nil
}

func checkStamp(s Stamp) error {
	if err := cmp.Or(checkText("name", s.Name), checkText("email", s.Email)); err != nil {
		return err
	}
	const day = 24 * 60
	if s.Time.Nsec >= 1e9 || s.Zone <= -day || s.Zone >= day {
		return faultf(ReasonStamp, "%d nanoseconds, %d minutes from UTC", s.Time.Nsec, s.Zone)
	}
	return nil
}

func checkSignature(signature []byte) error {
	if len(signature) > MaxSignatureSize {
		return faultf(ReasonSignature, "%d bytes", len(signature))
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
	if len(s) > MaxMessageSize || !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return faultf(ReasonText, "message longer than %d bytes, not UTF-8 or with a NUL", MaxMessageSize)
	}
	return nil
}
