package object_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/object"
)

// m is a CBOR map with integer keys, l an array.
type (
	m = map[int]any
	l = []any
)

// b is a byte string.
func b(s string) []byte { return []byte(s) }

// raw encodes a node without the package under test: the links in the given order, and the
// body in canonical CBOR.
func raw(kind object.Kind, links []object.Key, body any) []byte {
	return concat(rawHeader(kind, links), rawBody(body))
}

func rawBody(body any) []byte {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err)
	}
	data, err := mode.Marshal(body)
	if err != nil {
		panic(err)
	}
	return data
}

func rawHeader(kind object.Kind, links []object.Key) []byte {
	data := binary.AppendUvarint([]byte{'k', 'n', byte(kind), 1}, uint64(len(links)))
	for _, key := range links {
		data = append(append(data, byte(key.Kind)), key.ID[:]...)
	}
	return data
}

// with returns a copy of data with one byte changed.
func with(data []byte, at int, value byte) []byte {
	data = slices.Clone(data)
	data[at] = value
	return data
}

// headerVectors returns vectors with invalid headers and bodies for nodes of a kind. Data is
// a valid node, and good a link that it may have. Forbidden are kinds that it cannot link to.
func headerVectors(kind object.Kind, data []byte, good object.Key, forbidden ...object.Kind) []vector {
	other := object.KindTag
	if kind == other {
		other = object.KindCommit
	}
	newest := byte(1)
	if kind == object.KindCommit || kind == object.KindTag {
		newest = 2
	}
	body := l{}
	vectors := []vector{
		invalid("no bytes", object.ReasonTruncated, []byte{}),
		invalid("three bytes", object.ReasonTruncated, data[:3]),
		invalid("other magic", object.ReasonMagic, with(data, 1, 'm')),
		invalid("other kind", object.ReasonKind, with(data, 2, byte(other))),
		invalid("unknown kind", object.ReasonKind, with(data, 2, 99)),
		invalid("version 0", object.ReasonVersion, with(data, 3, 0)),
		invalid(fmt.Sprintf("version %d", newest+1), object.ReasonNewerVersion, with(data, 3, newest+1)),
		invalid("no link count", object.ReasonLinkCount, data[:4]),
		invalid("link count cut off", object.ReasonLinkCount, concat(data[:4], []byte{0x80})),
		invalid("link count not shortest", object.ReasonLinkCount, concat(data[:4], []byte{data[4] | 0x80, 0}, data[5:])),
		invalid("link count overflows", object.ReasonLinkCount, concat(data[:4], bytes.Repeat([]byte{0xff}, 10), data[5:])),
		invalid("huge link count", object.ReasonLinkCount, concat(data[:4], binary.AppendUvarint(nil, math.MaxUint64), data[5:])),
		invalid("more links than bytes", object.ReasonLinkCount, raw(kind, []object.Key{good}, body)[:30]),
		invalid("more links than allowed", object.ReasonLinkCount, concat(data[:4], binary.AppendUvarint(nil, 1025), make([]byte, 1025*33))),
		invalid("link to kind 0", object.ReasonLinkKind, raw(kind, []object.Key{{ID: good.ID}}, body)),
		invalid("link to kind 99", object.ReasonLinkKind, raw(kind, []object.Key{{Kind: 99, ID: good.ID}}, body)),
		invalid("link to the zero ID", object.ReasonLinkID, raw(kind, []object.Key{{Kind: good.Kind}}, body)),
		invalid("same link twice", object.ReasonLinkTwice, raw(kind, []object.Key{good, good}, body)),
		invalid("no body", object.ReasonBody, rawHeader(kind, []object.Key{good})),
		invalid("body cut off", object.ReasonBody, data[:len(data)-1]),
		invalid("byte behind the body", object.ReasonBody, concat(data, []byte{0})),
		invalid("body of another shape", object.ReasonBody, raw(kind, nil, "text")),
		invalid("body null", object.ReasonBody, concat(rawHeader(kind, nil), []byte{0xf6})),
		invalid("body of deep nesting", object.ReasonBody, concat(rawHeader(kind, nil), bytes.Repeat([]byte{0x81}, 100_000))),
		invalid("body with a huge count", object.ReasonBody, concat(rawHeader(kind, nil), []byte{0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})),
	}

	for _, k := range forbidden {
		vectors = append(vectors, invalid("link to a "+k.String(), object.ReasonLinkKind, raw(kind, []object.Key{{Kind: k, ID: good.ID}}, body)))
	}
	return vectors
}
