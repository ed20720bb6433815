package main

import (
	"encoding/binary"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// rawEntry is an item of a tree node, encoded without checks. See
// docs/format/objects.md. The encoding omits zero fields.
type rawEntry struct {
	name    string
	typ     uint64
	mode    uint64
	size    uint64
	files   uint64
	seconds int64
	inline  string
	content object.Key
	target  string
	unknown bool // add a field that the format does not have
}

func rawFile(name, content string) rawEntry {
	return rawEntry{name: name, typ: 1, mode: 0o644, size: uint64(len(content)), inline: content}
}

func rawLink(name, target string) rawEntry {
	return rawEntry{name: name, typ: 3, mode: 0o777, target: target}
}

// rawNode is a node, encoded without checks.
type rawNode struct {
	kind    object.Kind
	version byte
	links   []object.Key
	body    []byte
}

func (n rawNode) encode() []byte {
	data := append([]byte("kn"), byte(n.kind), n.version)
	data = binary.AppendUvarint(data, uint64(len(n.links)))
	for _, link := range n.links {
		data = append(append(data, byte(link.Kind)), link.ID[:]...)
	}
	return append(data, n.body...)
}

// link returns the position of a link, from 1. It adds a missing link.
func (n *rawNode) link(key object.Key) uint64 {
	if i := slices.Index(n.links, key); i >= 0 {
		return uint64(i + 1)
	}
	n.links = append(n.links, key)
	return uint64(len(n.links))
}

// The major types of CBOR.
const (
	cborUint  = 0 << 5
	cborInt   = 1 << 5
	cborBytes = 2 << 5
	cborArray = 4 << 5
	cborMap   = 5 << 5
)

// cborHead appends the head of an item in its shortest form.
func cborHead(data []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(data, major|byte(n))
	case n < 1<<8:
		return append(data, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(data, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(data, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(data, major|27), n)
}

func cborString(data []byte, text string) []byte {
	return append(cborHead(data, cborBytes, uint64(len(text))), text...)
}

// rawTree returns a leaf of a tree with these entries.
func rawTree(entries ...rawEntry) rawNode {
	n := rawNode{kind: object.KindTree, version: 1}
	n.body = cborHead([]byte{cborArray | 2, 0}, cborArray, uint64(len(entries)))
	for _, e := range entries {
		n.body = append(n.body, n.entry(e)...)
	}
	return n
}

func (n *rawNode) entry(e rawEntry) []byte {
	var fields []byte
	count := uint64(0)
	add := func(key byte, present bool, value []byte) {
		if present {
			count++
			fields = append(append(fields, key), value...)
		}
	}
	number := func(v uint64) []byte { return cborHead(nil, cborUint, v) }
	seconds := number(uint64(e.seconds))
	if e.seconds < 0 {
		seconds = cborHead(nil, cborInt, uint64(-1-e.seconds))
	}
	add(1, true, cborString(nil, e.name))
	add(2, true, number(e.typ))
	add(3, e.mode != 0, number(e.mode))
	add(4, e.size != 0, number(e.size))
	add(5, e.files != 0, number(e.files))
	add(6, e.seconds != 0, seconds)
	add(8, e.inline != "", cborString(nil, e.inline))
	if !e.content.IsZero() {
		add(9, true, number(n.link(e.content)))
	}
	add(10, e.target != "", cborString(nil, e.target))
	add(12, e.unknown, number(1))
	return append(cborHead(nil, cborMap, count), fields...)
}

// rawChild is an item of an inner tree node, which uses last, or of a manifest,
// which uses end.
type rawChild struct {
	last string
	end  uint64
	key  object.Key
}

// rawInner returns an inner node of a tree.
func rawInner(level byte, children ...rawChild) rawNode {
	n := rawNode{kind: object.KindTree, version: 1}
	n.body = cborHead([]byte{cborArray | 2, level}, cborArray, uint64(len(children)))
	for _, c := range children {
		n.body = cborString(append(n.body, cborArray|2), c.last)
		n.body = cborHead(n.body, cborUint, n.link(c.key))
	}
	return n
}

// rawManifest returns a manifest node. At level 0, the end of an item is the
// length of its chunk.
func rawManifest(level byte, children ...rawChild) rawNode {
	n := rawNode{kind: object.KindManifest, version: 1}
	n.body = cborHead([]byte{cborArray | 2, level}, cborArray, uint64(len(children)))
	for _, c := range children {
		n.body = cborHead(append(n.body, cborArray|2), cborUint, n.link(c.key))
		n.body = cborHead(n.body, cborUint, c.end)
	}
	return n
}
