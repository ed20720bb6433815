package object

import (
	"encoding/binary"
	"slices"
)

// A node's encoding: 'k' 'n', kind, version, number of links (uvarint), the
// links (kind and ID), body. See docs/format/objects.md.
const (
	magic0, magic1 = 'k', 'n'
	nodeVersion    = 1
	prefixSize     = 4 // magic, kind, version
	linkSize       = 1 + len(ID{})
)

// linkKinds has the kinds that objects may link to, by the linking kind.
var linkKinds = [...][]Kind{
	KindManifest: {KindChunk, KindManifest},
	KindTree:     {KindChunk, KindManifest, KindTree},
	KindCommit:   {KindChunk, KindTree, KindCommit},
	KindTag:      {KindCommit},
}

// Links returns the links of an encoded node, in their order. It reads the
// header only, and checks all of it: kind, version, limits, and that links are
// unique and of kinds that may be linked to. It does not look at the body. A
// chunk has no links. Errors are [*FormatError].
func Links(kind Kind, data []byte) ([]Key, error) {
	if kind == KindChunk {
		return nil, nil
	}
	h, err := parseHeader(kind, data)
	if err != nil {
		return nil, decodeError(kind, err)
	}
	keys := make([]Key, h.len())
	for i := range keys {
		keys[i] = h.key(i)
	}
	return keys, nil
}

// header is a node's parsed header, and its body. Both slices are the data's.
type header struct {
	links []byte // linkSize bytes each
	body  []byte

	used int // links used so far, see use
}

func (h *header) len() int { return len(h.links) / linkSize }

// key returns the i-th link, counted from 0.
func (h *header) key(i int) Key {
	raw := h.links[i*linkSize : (i+1)*linkSize]
	return Key{Kind(raw[0]), ID(raw[1:])}
}

// use returns the link at a position in the body, where positions count from
// 1 and 0 is no link. Positions must first appear in ascending order.
func (h *header) use(pos uint16) (Key, error) {
	if pos == 0 {
		return Key{}, nil
	}
	if int(pos) > h.len() || int(pos) > h.used+1 {
		return Key{}, faultf(ReasonLinkOrder, "position %d after %d of %d", pos, h.used, h.len())
	}
	h.used = max(h.used, int(pos))
	return h.key(int(pos) - 1), nil
}

// done checks that all links were used.
func (h *header) done() error {
	if h.used != h.len() {
		return faultf(ReasonLinkUnused, "%d of %d used", h.used, h.len())
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
	case data[3] > nodeVersion:
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
	for i := range h.len() {
		key := h.key(i)
		if !slices.Contains(linkKinds[kind], key.Kind) {
			return nil, faultf(ReasonLinkKind, "link %d: %s", i+1, key.Kind)
		}
		if key.ID.IsZero() {
			return nil, faultf(ReasonLinkID, "link %d", i+1)
		}
		if set.add(key); set.len() != i+1 {
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

// appendHeader appends a node's header up to where the body begins.
func appendHeader(dst []byte, kind Kind, set *linkSet) []byte {
	dst = append(dst, magic0, magic1, byte(kind), nodeVersion)
	dst = binary.AppendUvarint(dst, uint64(set.len()))
	return append(dst, set.raw...)
}
