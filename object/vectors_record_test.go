package object_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
)

func manifestVectors(t *testing.T) []vector {
	kind := object.KindManifest
	a, c := chunkKey("a"), chunkKey("c")
	leaf := func(links []object.Key, items ...any) []byte { return raw(kind, links, l{0, append(l{}, items...)}) }
	inner := func(links []object.Key, items ...any) []byte { return raw(kind, links, l{1, append(l{}, items...)}) }
	ab := []object.Key{manifestKey("a"), manifestKey("b")}

	same := make([]object.ChunkRef, 50)
	for i := range same {
		same[i] = object.ChunkRef{ID: quietID(0), Size: 2 << 20}
	}

	long := &object.Manifest{}
	for i := range 17 {
		long.Chunks = append(long.Chunks, object.ChunkRef{ID: quietID(i), Size: 1})
	}
	long.Chunks[15].ID = boundaryID()
	return concat([]vector{
		valid(t, kind, "leaf", fullManifest()),
		valid(t, kind, "same chunk 50 times", &object.Manifest{Chunks: same}),
		valid(t, kind, "inner node of level 15", innerManifest()),
		invalid("goes on after a boundary", object.ReasonSplit, mustEncode(t, long)),
		invalid("too many bytes", object.ReasonTooBig, concat(mustEncode(t, fullManifest()), make([]byte, object.MaxListSize))),
		invalid("level 16", object.ReasonLevel, raw(kind, ab[:1], l{16, l{l{1, 10}}})),
		invalid("leaf without chunks", object.ReasonItems, leaf(nil)),
		invalid("inner node without children", object.ReasonItems, inner(nil)),
		invalid("too many items", object.ReasonItems, concat(rawHeader(kind, []object.Key{a}), []byte{0x82, 0, 0x99, 0x04, 0x01}, bytes.Repeat(rawBody(l{1, 1}), 1025))),
		invalid("chunk of no bytes", object.ReasonChunk, leaf([]object.Key{a}, l{1, 0})),
		invalid("chunk too large", object.ReasonChunk, leaf([]object.Key{a}, l{1, object.MaxChunkSize + 1})),
		invalid("chunk far too large", object.ReasonBody, leaf([]object.Key{a}, l{1, uint64(math.MaxUint64)})),
		invalid("leaf to a manifest", object.ReasonLinkKind, leaf(ab[:1], l{1, 1})),
		invalid("inner node to a chunk", object.ReasonLinkKind, inner([]object.Key{a}, l{1, 1})),
		invalid("chunk without a link", object.ReasonLinkKind, leaf(nil, l{0, 1})),
		invalid("child without a link", object.ReasonLinkKind, inner(nil, l{0, 1})),
		invalid("first child without bytes", object.ReasonOrder, inner(ab, l{1, 0}, l{2, 10})),
		invalid("child without bytes", object.ReasonOrder, inner(ab, l{1, 10}, l{2, 10})),
		invalid("ends that go back", object.ReasonOrder, inner(ab, l{1, 10}, l{2, 9})),
		invalid("end beyond the largest file", object.ReasonOrder, inner(ab, l{1, 10}, l{2, uint64(math.MaxInt64 + 1)})),
		invalid("largest end", object.ReasonOrder, inner(ab, l{1, 10}, l{2, uint64(math.MaxUint64)})),
		invalid("link beyond the last", object.ReasonLinkOrder, leaf([]object.Key{a}, l{1, 1}, l{2, 1})),
		invalid("links not in first-use order", object.ReasonLinkOrder, leaf([]object.Key{a, c}, l{2, 1}, l{1, 1})),
		invalid("unused link", object.ReasonLinkUnused, leaf([]object.Key{a, c}, l{1, 1})),
		invalid("number not shortest", object.ReasonCanonical, concat(rawHeader(kind, []object.Key{a}), []byte{0x82, 0, 0x81, 0x82, 0x01, 0x18, 0x01})),
		invalid("number of items not shortest", object.ReasonCanonical, concat(rawHeader(kind, []object.Key{a}), []byte{0x82, 0, 0x98, 0x01, 0x82, 0x01, 0x01})),
	}, headerVectors(kind, mustEncode(t, fullManifest()), a, object.KindTree, object.KindCommit, object.KindTag))
}

// quietID returns ID number i of the chunks that are no boundaries.
func quietID(i int) object.ID {
	for n := 0; ; n++ {
		if id := sum(fmt.Sprint(n)); object.Sum(append([]byte{0}, id[:]...))[0]%128 != 0 {
			if i--; i < 0 {
				return id
			}
		}
	}
}

func boundaryID() object.ID {
	for n := 0; ; n++ {
		if id := sum(fmt.Sprint(n)); object.Sum(append([]byte{0}, id[:]...))[0]%128 == 0 {
			return id
		}
	}
}

// stamped returns a valid stamp with changed fields, by their index.
func stamped(changes m) l {
	s := l{"Ann", "ann@example.org", 1_700_000_000, 0, 60}
	for i, value := range changes {
		s[i] = value
	}
	return s
}

var badStamps = []struct {
	name    string
	reason  object.Reason
	changes m
}{
	{"name with a line break", object.ReasonText, m{0: "Ann\nx"}},
	{"name too long", object.ReasonText, m{0: strings.Repeat("n", 1025)}},
	{"email with a control character", object.ReasonText, m{1: "\x1b[31m"}},
	{"email with DEL", object.ReasonText, m{1: "\x7f"}},
	{"nanoseconds", object.ReasonStamp, m{3: 1_000_000_000}},
	{"zone of a day", object.ReasonStamp, m{4: 24 * 60}},
	{"zone of minus a day", object.ReasonStamp, m{4: -24 * 60}},
	{"name as bytes", object.ReasonBody, m{0: b("Ann")}},
	{"seconds that do not fit", object.ReasonBody, m{2: uint64(math.MaxUint64)}},
}

func commitVectors(t *testing.T) []vector {
	kind := object.KindCommit
	tree, p, q, rest := treeKey("a"), object.Key{Kind: kind, ID: sum("p")}, object.Key{Kind: kind, ID: sum("q")}, chunkKey("rest")

	commit := func(links []object.Key, changes m) []byte {
		body := m{1: 1, 3: stamped(nil), 4: stamped(nil)}
		for key, value := range changes {
			if body[key] = value; value == nil {
				delete(body, key)
			}
		}
		return raw(kind, links, body)
	}

	root := []object.Key{tree}
	path := func(path, reason any) l { return l{l{path, reason}} }
	many := make([]object.Skipped, 1000)
	for i := range many {
		many[i].Path = fmt.Sprint(i)
	}

	thousand := l{}
	for i := range 1001 {
		thousand = append(thousand, l{b(fmt.Sprint(i)), ""})
	}
	vectors := concat([]vector{
		valid(t, kind, "least", &object.Commit{Tree: sum("a")}),
		valid(t, kind, "all fields", fullCommit()),
		valid(t, kind, "a thousand skipped", &object.Commit{Tree: sum("a"), SkippedCount: 1000, Skipped: many}),
		valid(t, kind, "skipped in the chunk only", &object.Commit{Tree: sum("a"), SkippedCount: 1, SkippedRest: sum("rest")}),
		invalid("too many bytes", object.ReasonTooBig, concat(commit(root, nil), make([]byte, object.MaxNodeSize))),
		invalid("no tree", object.ReasonTarget, commit(nil, m{1: 0})),
		invalid("tree left out", object.ReasonTarget, commit(nil, m{1: nil})),
		invalid("commit for a tree", object.ReasonLinkKind, commit([]object.Key{p}, nil)),
		invalid("tree for a parent", object.ReasonLinkKind, commit(root, m{2: l{1}})),
		invalid("tree for the rest of what was skipped", object.ReasonLinkKind, commit(root, m{9: 1, 11: 1})),
		invalid("parents not in first-use order", object.ReasonLinkOrder, commit([]object.Key{tree, p, q}, m{2: l{3, 2}})),
		invalid("parent before the tree", object.ReasonLinkOrder, commit([]object.Key{p, tree}, m{1: 2, 2: l{1}})),
		invalid("parent beyond the last link", object.ReasonLinkOrder, commit(root, m{2: l{2}})),
		invalid("unused link", object.ReasonLinkUnused, commit([]object.Key{tree, p}, nil)),
		invalid("same parent twice", object.ReasonParents, commit([]object.Key{tree, p}, m{2: l{2, 2}})),
		invalid("parent 0", object.ReasonParents, commit(root, m{2: l{0}})),
		invalid("no parents but the field", object.ReasonCanonical, commit(root, m{2: l{}})),
		invalid("no author", object.ReasonCanonical, commit(root, m{3: nil})),
		invalid("author of four fields", object.ReasonBody, commit(root, m{3: l{"", "", 0, 0}})),
		invalid("message with NUL", object.ReasonText, commit(root, m{5: "a\x00"})),
		invalid("message too long", object.ReasonText, commit(root, m{5: strings.Repeat("m", object.MaxMessageSize+1)})),
		invalid("message not UTF-8", object.ReasonBody, concat(rawHeader(kind, root), bytes.Replace(rawBody(m{1: 1, 3: stamped(nil), 4: stamped(nil), 5: "MARK"}), b("MARK"), b("MAR\xff"), 1))),
		invalid("message as bytes", object.ReasonBody, commit(root, m{5: b("message")})),
		invalid("host with a line break", object.ReasonText, commit(root, m{6: "a\nb"})),
		invalid("unknown field", object.ReasonBody, commit(root, m{12: 1})),
		invalid("zero field", object.ReasonCanonical, commit(root, m{7: 0})),
		invalid("fewer skipped than listed", object.ReasonSkipped, commit(root, m{10: path(b("a"), "")})),
		invalid("more skipped than listed", object.ReasonSkipped, commit(root, m{9: 2, 10: path(b("a"), "")})),
		invalid("nothing skipped for the chunk", object.ReasonSkipped, commit([]object.Key{tree, rest}, m{9: 1, 10: path(b("a"), ""), 11: 2})),
		invalid("too many skipped", object.ReasonSkipped, commit(root, m{9: 1001, 10: thousand})),
		invalid("skipped without a path", object.ReasonSkipped, commit(root, m{9: 1, 10: path(b(""), "")})),
		invalid("skipped path with NUL", object.ReasonSkipped, commit(root, m{9: 1, 10: path(b("a\x00"), "")})),
		invalid("skipped path too long", object.ReasonSkipped, commit(root, m{9: 1, 10: path(make([]byte, object.MaxPathSize+1), "")})),
		invalid("skipped path as text", object.ReasonBody, commit(root, m{9: 1, 10: path("a", "")})),
		invalid("reason with a control character", object.ReasonText, commit(root, m{9: 1, 10: path(b("a"), "\r")})),
	}, signedVectors(t, kind, root, m{1: 1, 3: stamped(nil), 4: stamped(nil)}, 12, sign(t, &object.Commit{Tree: sum("a")}), sign(t, fullCommit())),
		headerVectors(kind, mustEncode(t, &object.Commit{Tree: sum("a")}), tree, object.KindManifest, object.KindTag))

	for _, s := range badStamps {
		vectors = append(vectors,
			invalid("author: "+s.name, s.reason, commit(root, m{3: stamped(s.changes)})),
			invalid("committer: "+s.name, s.reason, commit(root, m{4: stamped(s.changes)})))
	}
	return vectors
}

// signedVectors returns vectors of signed nodes of a kind: the given ones, and some that break the
// rules. The body is that of an unsigned node, and field is the number of the signature's field.
func signedVectors(t *testing.T, kind object.Kind, links []object.Key, body m, field int, least, full signable) []vector {
	signature := signatureOf(kind, nil)
	signed := func(value any) []byte {
		with := maps.Clone(body)
		with[field] = value
		return raw(kind, links, with)
	}
	both := maps.Clone(body)
	both[field], both[field+1] = b(signature), b(signature)
	mapOf := func(n int) byte { return 0xa0 | byte(n) } // the first byte of a map with n fields
	twice := concat(with(signed(b(signature)), len(rawHeader(kind, links)), mapOf(len(body)+2)), rawBody(field), rawBody(b(signature)))

	return []vector{
		valid(t, kind, "signed", least),
		valid(t, kind, "all fields, signed", full),
		invalid("signature too large", object.ReasonSignature, with(signed(b(strings.Repeat("s", object.MaxSignatureSize+1))), 3, 2)),
		invalid("version 2 without a signature", object.ReasonCanonical, with(raw(kind, links, body), 3, 2)),
		invalid("version 1 with a signature", object.ReasonCanonical, signed(b(signature))),
		invalid("empty signature", object.ReasonCanonical, with(signed(b("")), 3, 2)),
		invalid("empty signature in version 1", object.ReasonCanonical, signed(b(""))),
		invalid("signature as text", object.ReasonBody, with(signed("signature"), 3, 2)),
		invalid("signature as a list", object.ReasonCanonical, with(signed(l{1, 2}), 3, 2)),
		invalid("field after the signature", object.ReasonBody, with(raw(kind, links, both), 3, 2)),
		invalid("two signatures", object.ReasonBody, with(twice, 3, 2)),
	}
}

func tagVectors(t *testing.T) []vector {
	kind := object.KindTag
	target, other := object.Key{Kind: object.KindCommit, ID: sum("c")}, object.Key{Kind: object.KindCommit, ID: sum("d")}

	tag := func(links []object.Key, changes m) []byte {
		body := m{1: 1, 2: "v1", 3: stamped(nil)}
		for key, value := range changes {
			if body[key] = value; value == nil {
				delete(body, key)
			}
		}
		return raw(kind, links, body)
	}

	one := []object.Key{target}
	vectors := concat([]vector{
		valid(t, kind, "least", &object.Tag{Target: sum("c"), Name: "v"}),
		valid(t, kind, "all fields", fullTag()),
		invalid("too many bytes", object.ReasonTooBig, concat(tag(one, nil), make([]byte, object.MaxNodeSize))),
		invalid("no target", object.ReasonTarget, tag(nil, m{1: 0})),
		invalid("second commit", object.ReasonLinkUnused, tag([]object.Key{target, other}, nil)),
		invalid("target beyond the last link", object.ReasonLinkOrder, tag(one, m{1: 2})),
		invalid("no name", object.ReasonText, tag(one, m{2: ""})),
		invalid("name with a line break", object.ReasonText, tag(one, m{2: "a\n"})),
		invalid("name too long", object.ReasonText, tag(one, m{2: strings.Repeat("v", 1025)})),
		invalid("no tagger", object.ReasonCanonical, tag(one, m{3: nil})),
		invalid("message with NUL", object.ReasonText, tag(one, m{4: "\x00"})),
		invalid("empty message", object.ReasonCanonical, tag(one, m{4: ""})),
		invalid("unknown field", object.ReasonBody, tag(one, m{5: 1})),
	}, signedVectors(t, kind, one, m{1: 1, 2: "v1", 3: stamped(nil)}, 5, sign(t, &object.Tag{Target: sum("c"), Name: "v"}), sign(t, fullTag())),
		headerVectors(kind, mustEncode(t, fullTag()), target, object.KindChunk, object.KindManifest, object.KindTree, object.KindTag))

	for _, s := range badStamps {
		vectors = append(vectors, invalid("tagger: "+s.name, s.reason, tag(one, m{3: stamped(s.changes)})))
	}
	return vectors
}
