package object_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/object"
)

func treeVectors(t *testing.T) []vector {
	kind := object.KindTree
	a, c := chunkKey("a"), chunkKey("c")
	leaf := func(links []object.Key, items ...any) []byte { return raw(kind, links, l{0, append(l{}, items...)}) }
	inner := func(links []object.Key, items ...any) []byte { return raw(kind, links, l{1, append(l{}, items...)}) }
	one := mustEncode(t, &object.Tree{Entries: files(1)})
	vectors := []vector{
		valid(t, kind, "empty directory", &object.Tree{}),
		valid(t, kind, "all types", &object.Tree{Entries: allEntries()}),
		valid(t, kind, "inner node", innerTree()),
		valid(t, kind, "top level", &object.Tree{Level: 15, Children: innerTree().Children}),
		valid(t, kind, "as many entries as may be", splitTree(1024, 1023)),
		valid(t, kind, "ends at a boundary", splitTree(16, 15)),
		valid(t, kind, "boundaries before the sixteenth item", splitTree(20, 0, 14)),
		invalid("goes on after a boundary", object.ReasonSplit, mustEncode(t, splitTree(17, 15))),
		invalid("too many bytes", object.ReasonTooBig, concat(one, make([]byte, object.MaxListSize))),
		invalid("level 16", object.ReasonLevel, raw(kind, []object.Key{treeKey("a")}, l{16, l{l{b("a"), 1}}})),
		invalid("level not shortest", object.ReasonLevel, concat(rawHeader(kind, nil), []byte{0x82, 0x18, 0, 0x80})),
		invalid("level -1", object.ReasonLevel, raw(kind, nil, l{-1, l{}})),
		invalid("items are a map", object.ReasonBody, raw(kind, nil, l{0, m{}})),
		invalid("items are null", object.ReasonBody, raw(kind, nil, l{0, nil})),
		invalid("too many items", object.ReasonItems, concat(rawHeader(kind, nil), []byte{0x82, 0, 0x99, 0x04, 0x01}, bytes.Repeat(rawBody(m{}), 1025))),
		invalid("huge number of items", object.ReasonItems, concat(rawHeader(kind, nil), []byte{0x82, 0, 0x9b, 0, 0, 0, 1, 0, 0, 0, 0})),
		invalid("inner node without children", object.ReasonItems, inner(nil)),
		invalid("indefinite length", object.ReasonItems, concat(rawHeader(kind, nil), []byte{0x82, 0, 0x9f, 0xff})),
		invalid("entries in an inner node", object.ReasonBody, inner(nil, m{1: b("a"), 2: 1})),
		invalid("children in a leaf", object.ReasonBody, leaf([]object.Key{treeKey("a")}, l{b("a"), 1})),
		invalid("child with a third field", object.ReasonBody, inner([]object.Key{treeKey("a")}, l{b("a"), 1, 1})),
		invalid("child to a chunk", object.ReasonLinkKind, inner([]object.Key{a}, l{b("a"), 1})),
		invalid("child without a link", object.ReasonLinkKind, inner(nil, l{b("a"), 0})),
		invalid("children out of order", object.ReasonOrder, inner([]object.Key{treeKey("a"), treeKey("b")}, l{b("b"), 1}, l{b("a"), 2})),
		invalid("child with a bad name", object.ReasonName, inner([]object.Key{treeKey("a")}, l{b(".."), 1})),
		invalid("link beyond the last", object.ReasonLinkOrder, leaf([]object.Key{a}, m{1: b("a"), 2: 1, 4: 40, 9: 2})),
		invalid("links not in first-use order", object.ReasonLinkOrder, leaf([]object.Key{c, a}, m{1: b("a"), 2: 1, 4: 40, 9: 2}, m{1: b("b"), 2: 1, 4: 40, 9: 1})),
		invalid("unused link", object.ReasonLinkUnused, leaf([]object.Key{a, c}, m{1: b("a"), 2: 1, 4: 40, 9: 1})),
		invalid("same name twice", object.ReasonOrder, leaf(nil, m{1: b("a"), 2: 1}, m{1: b("a"), 2: 1})),
		invalid("names out of order", object.ReasonOrder, leaf(nil, m{1: b("b"), 2: 1}, m{1: b("a"), 2: 1})),
		invalid("no name", object.ReasonName, leaf(nil, m{2: 1})),
		invalid("name as text", object.ReasonCanonical, leaf(nil, m{1: "a", 2: 1})),
		invalid("unknown field", object.ReasonBody, leaf(nil, m{1: b("a"), 2: 1, 99: 1})),
		invalid("field with a text key", object.ReasonBody, leaf(nil, map[any]any{1: b("a"), 2: 1, "mode": 1})),
		invalid("zero field", object.ReasonCanonical, leaf(nil, m{1: b("a"), 2: 1, 3: 0})),
		invalid("null field", object.ReasonCanonical, leaf(nil, m{1: b("a"), 2: 1, 8: nil})),
		invalid("null entry", object.ReasonName, leaf(nil, nil)),
		invalid("fields out of order", object.ReasonCanonical, leafBytes(0xa2, 0x02, 0x01, 0x01, 0x41, 'a')),
		invalid("deep nesting in an entry", object.ReasonBody, leafBytes(bytes.Repeat([]byte{0x81}, 100_000)...)),
		invalid("huge byte string", object.ReasonBody, leafBytes(0xa2, 0x01, 0x5b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 'a')),
		invalid("huge map", object.ReasonBody, leafBytes(0xbb, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01)),
		invalid("field twice", object.ReasonBody, leafBytes(0xa3, 0x01, 0x41, 'a', 0x02, 0x01, 0x02, 0x01)),
		invalid("number not shortest", object.ReasonCanonical, leafBytes(0xa2, 0x01, 0x41, 'a', 0x02, 0x18, 0x01)),
		invalid("name of indefinite length", object.ReasonBody, leafBytes(0xa2, 0x01, 0x5f, 0x41, 'a', 0xff, 0x02, 0x01)),
		invalid("tagged name", object.ReasonBody, leafBytes(0xa2, 0x01, 0xc0, 0x41, 'a', 0x02, 0x01)),
		invalid("type as a float", object.ReasonBody, leafBytes(0xa2, 0x01, 0x41, 'a', 0x02, 0xf9, 0x3c, 0x00)),
		invalid("mode that does not fit", object.ReasonBody, leaf(nil, m{1: b("a"), 2: 1, 3: 1 << 16})),
		invalid("size that is negative", object.ReasonBody, leaf(nil, m{1: b("a"), 2: 1, 4: -1})),
		invalid("entry too big", object.ReasonEntrySize, leaf(nil, m{1: b("a"), 2: 1, 11: m{5: map[cbor.ByteString][]byte{"user.x": make([]byte, 1<<16)}}})),
	}

	for _, e := range badEntries() {
		vectors = append(vectors, invalid(e.name, e.reason, leaf(e.links, e.entry)))
	}
	for _, name := range []string{"..", "a/b", "a\x00b", ".KIST", strings.Repeat("n", 256)} {
		vectors = append(vectors, invalid("name "+strings.ToValidUTF8(strings.ReplaceAll(name[:min(len(name), 8)], "\x00", "NUL"), "?"), object.ReasonName, leaf(nil, m{1: b(name), 2: 1})))
	}
	return concat(vectors, headerVectors(kind, one, a, object.KindCommit, object.KindTag))
}

// leafBytes returns a leaf with one entry, given in CBOR.
func leafBytes(entry ...byte) []byte {
	return concat(rawHeader(object.KindTree, nil), []byte{0x82, 0, 0x81}, entry)
}

// splitTree returns a leaf of n entries. The entries at the given indexes are boundaries.
func splitTree(n int, boundaries ...int) *object.Tree {
	tree := &object.Tree{}
	for i := range n {
		want := slices.Contains(boundaries, i)
		for try := 0; ; try++ {
			name := fmt.Sprintf("%04d-%d", i, try)
			if (object.Sum([]byte("\x00" + name))[0]%128 == 0) == want {
				tree.Entries = append(tree.Entries, object.Entry{Name: name, Type: object.TypeFile})
				break
			}
		}
	}
	return tree
}

type badEntry struct {
	name   string
	reason object.Reason
	links  []object.Key
	entry  m
}

func badEntries() []badEntry {
	a, tree, list := chunkKey("a"), treeKey("a"), manifestKey("a")
	file := func(fields m) m { fields[1], fields[2] = b("a"), 1; return fields }
	typed := func(typ int, fields m) m { fields[1], fields[2] = b("a"), typ; return fields }
	one := func(key object.Key) []object.Key { return []object.Key{key} }
	return []badEntry{
		{"type 0", object.ReasonEntry, nil, typed(0, m{})},
		{"type 8", object.ReasonEntry, nil, typed(8, m{})},
		{"more than permission bits", object.ReasonEntry, nil, file(m{3: 0o10000})},
		{"nanoseconds", object.ReasonEntry, nil, file(m{7: 1_000_000_000})},
		{"file without its bytes", object.ReasonEntry, nil, file(m{4: 5})},
		{"file with too few bytes", object.ReasonEntry, nil, file(m{4: 5, 8: b("abcd")})},
		{"empty file with bytes", object.ReasonEntry, nil, file(m{8: b("abcd")})},
		{"large file with bytes", object.ReasonEntry, nil, file(m{4: 33, 8: make([]byte, 33)})},
		{"small file in a chunk", object.ReasonEntry, one(a), file(m{4: 32, 9: 1})},
		{"empty file in a chunk", object.ReasonEntry, one(a), file(m{9: 1})},
		{"large file without content", object.ReasonEntry, nil, file(m{4: 33})},
		{"file in a chunk and inline", object.ReasonEntry, one(a), file(m{4: 33, 8: b("a"), 9: 1})},
		{"file larger than a chunk", object.ReasonEntry, one(a), file(m{4: object.MaxChunkSize + 1, 9: 1})},
		{"file larger than a file may be", object.ReasonEntry, one(list), file(m{4: uint64(math.MaxInt64 + 1), 9: 1})},
		{"file with a tree", object.ReasonEntry, one(tree), file(m{4: 33, 9: 1})},
		{"file with a target", object.ReasonEntry, nil, file(m{10: b("t")})},
		{"file with a count of files", object.ReasonEntry, nil, file(m{5: 1})},
		{"directory without a tree", object.ReasonEntry, nil, typed(2, m{})},
		{"directory with a chunk", object.ReasonEntry, one(a), typed(2, m{9: 1})},
		{"directory with a manifest", object.ReasonEntry, one(list), typed(2, m{9: 1})},
		{"directory with bytes", object.ReasonEntry, one(tree), typed(2, m{8: b("a"), 9: 1})},
		{"directory with a target", object.ReasonEntry, one(tree), typed(2, m{9: 1, 10: b("t")})},
		{"symlink without a target", object.ReasonEntry, nil, typed(3, m{})},
		{"symlink with NUL", object.ReasonEntry, nil, typed(3, m{10: b("a\x00")})},
		{"symlink with a target too long", object.ReasonEntry, nil, typed(3, m{10: b(strings.Repeat("t", 4096))})},
		{"symlink with a size", object.ReasonEntry, nil, typed(3, m{4: 1, 10: b("t")})},
		{"symlink with content", object.ReasonEntry, one(a), typed(3, m{9: 1, 10: b("t")})},
		{"fifo with content", object.ReasonEntry, one(a), typed(4, m{9: 1})},
		{"device with a target", object.ReasonEntry, nil, typed(5, m{10: b("t")})},
		{"socket with a size", object.ReasonEntry, nil, typed(7, m{4: 1})},
		{"file with a device number", object.ReasonMetadata, nil, file(m{11: m{6: 1}})},
		{"directory with a hard link", object.ReasonMetadata, one(tree), typed(2, m{9: 1, 11: m{7: 1}})},
		{"owner too long", object.ReasonMetadata, nil, file(m{11: m{3: make([]byte, 256)}})},
		{"group too long", object.ReasonMetadata, nil, file(m{11: m{4: make([]byte, 256)}})},
		{"extended attribute without a name", object.ReasonMetadata, nil, file(m{11: m{5: map[cbor.ByteString][]byte{"": b("x")}}})},
		{"extended attribute with NUL", object.ReasonMetadata, nil, file(m{11: m{5: map[cbor.ByteString][]byte{"a\x00": b("x")}}})},
		{"attribute without a key", object.ReasonMetadata, nil, file(m{11: m{8: map[cbor.ByteString][]byte{"": b("x")}}})},
		{"attribute that is not UTF-8", object.ReasonMetadata, nil, file(m{11: m{8: map[cbor.ByteString][]byte{"a": b("\xff")}}})},
		{"attribute key that is not UTF-8", object.ReasonMetadata, nil, file(m{11: m{8: map[cbor.ByteString][]byte{"\xff": b("x")}}})},
		{"attributes as text", object.ReasonCanonical, nil, file(m{11: m{8: map[string]string{"a": "x"}}})},
		{"no attributes but the field", object.ReasonCanonical, nil, file(m{11: m{8: map[string]string{}}})},
		{"unknown metadata", object.ReasonBody, nil, file(m{11: m{99: 1}})},
	}
}
