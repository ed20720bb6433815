package object_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kist-vcs/kist/object"
)

var cmpEmpty = cmpopts.EquateEmpty()

func sum(s string) object.ID { return object.Sum([]byte(s)) }

func chunkKey(s string) object.Key    { return object.Key{Kind: object.KindChunk, ID: sum(s)} }
func manifestKey(s string) object.Key { return object.Key{Kind: object.KindManifest, ID: sum(s)} }
func treeKey(s string) object.Key     { return object.Key{Kind: object.KindTree, ID: sum(s)} }

// allEntries has an entry of each type and each kind of content.
func allEntries() []object.Entry {
	at := object.Time{Sec: 1_700_000_000, Nsec: 999_999_999}
	return []object.Entry{
		{Name: "before 1970", Type: object.TypeFile, MTime: object.Time{Sec: -1, Nsec: 5}},
		{Name: "block", Type: object.TypeBlockDevice, Meta: &object.Metadata{Device: 1 << 40, HardLink: 2}},
		{Name: "char", Type: object.TypeCharDevice, Mode: 0o666, Meta: &object.Metadata{Device: 259, GID: 5, Group: "tty"}},
		{Name: "chunk", Type: object.TypeFile, Mode: 0o755, Size: 33, MTime: at, Content: chunkKey("a")},
		{Name: "dir", Type: object.TypeDir, Mode: 0o1777, Size: 1 << 50, Files: 12, Content: treeKey("a")},
		{Name: "fifo", Type: object.TypeFIFO, Mode: 0o600, MTime: at},
		{Name: "inline", Type: object.TypeFile, Mode: 0o4755, Size: 32, MTime: at, Inline: bytes.Repeat([]byte{0xff}, 32)},
		{Name: "large", Type: object.TypeFile, Mode: 0o644, Size: math.MaxInt64, MTime: at, Content: manifestKey("a")},
		{Name: "meta", Type: object.TypeFile, Size: 40, Content: chunkKey("a"), Meta: &object.Metadata{
			UID: 1000, GID: 1000, Owner: "ann", Group: "users", HardLink: 7,
			Xattrs: map[string][]byte{"user.empty": {}, "user.long": bytes.Repeat([]byte("x"), 300), "security.\xff": {0}},
		}, Attrs: map[string]string{"tag": "holiday", "empty": ""}},
		{Name: "root's", Type: object.TypeDir, Content: treeKey("b"), Meta: &object.Metadata{}},
		{Name: "socket", Type: object.TypeSocket},
		{Name: "symlink", Type: object.TypeSymlink, Mode: 0o777, MTime: at, Target: "../\xff/" + strings.Repeat("t", 300)},
		{Name: "\xff\xfenot UTF-8", Type: object.TypeFile},
	}
}

func fullCommit() *object.Commit {
	return &object.Commit{
		Tree: sum("tree"), Parents: []object.ID{sum("p1"), sum("p2")},
		Author:    object.Stamp{Name: "Ann Example", Email: "ann@example.org", Time: object.Time{Sec: 1_700_000_000, Nsec: 1}, Zone: 330},
		Committer: object.Stamp{Name: "Bób", Time: object.Time{Sec: -5}, Zone: -720},
		Message:   "Subject\n\nBody\twith tab\n", Host: "host.example.org", Files: 12, Bytes: 1 << 40,
		SkippedCount: 3, Skipped: []object.Skipped{{Path: "a/\xff", Reason: "permission denied"}, {Path: "b"}}, SkippedRest: sum("rest"),
	}
}

func fullTag() *object.Tag {
	return &object.Tag{Target: sum("commit"), Name: "v1.0", Tagger: fullCommit().Author, Message: "Release\n"}
}

func fullManifest() *object.Manifest {
	return &object.Manifest{Chunks: []object.ChunkRef{{ID: sum("a"), Size: 1}, {ID: sum("b"), Size: object.MaxChunkSize}, {ID: sum("a"), Size: 1}}}
}

func innerManifest() *object.Manifest {
	return &object.Manifest{Level: 15, Children: []object.ManifestChild{{ID: sum("a"), End: 10}, {ID: sum("a"), End: 20}, {ID: sum("b"), End: math.MaxInt64}}}
}

func innerTree() *object.Tree {
	return &object.Tree{Level: 1, Children: []object.TreeChild{{Last: "m", ID: sum("a")}, {Last: "n\xff", ID: sum("b")}}}
}

func TestRoundTrips(t *testing.T) {
	for _, tree := range []*object.Tree{{}, {Entries: allEntries()}, innerTree(), {Entries: files(1024)}} {
		data := mustEncode(t, tree)
		got, err := object.DecodeTree(data)
		clear(data) // got must not share it
		if diff := cmp.Diff(tree, got, cmpEmpty); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
	for _, m := range []*object.Manifest{fullManifest(), innerManifest()} {
		got, err := object.DecodeManifest(mustEncode(t, m))
		if diff := cmp.Diff(m, got, cmpEmpty); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
	for _, c := range []*object.Commit{{Tree: sum("t")}, fullCommit()} {
		got, err := object.DecodeCommit(mustEncode(t, c))
		if diff := cmp.Diff(c, got, cmpEmpty); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
	tag, err := object.DecodeTag(mustEncode(t, fullTag()))
	if diff := cmp.Diff(fullTag(), tag); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestLinks(t *testing.T) {
	tree := &object.Tree{Entries: allEntries()}
	links, err := object.Links(object.KindTree, mustEncode(t, tree))
	want := []object.Key{chunkKey("a"), treeKey("a"), manifestKey("a"), treeKey("b")}
	if diff := cmp.Diff(want, links); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if links, err := object.Links(object.KindChunk, []byte("knkn")); err != nil || len(links) != 0 {
		t.Errorf("Links of a chunk: %v, %v; want none", links, err)
	}
}

// TestEncodeRefuses checks that encoders refuse invalid nodes with the reasons of decoders.
func TestEncodeRefuses(t *testing.T) {
	commit := func(change func(c *object.Commit)) *object.Commit {
		c := fullCommit()
		change(c)
		return c
	}

	manyParents := make([]object.ID, 1023)
	for i := range manyParents {
		manyParents[i] = sum(fmt.Sprint(i))
	}

	for _, test := range []struct {
		name string
		node interface{ Encode() ([]byte, error) }
		want object.Reason
	}{
		{"many entries", &object.Tree{Entries: files(1025)}, object.ReasonItems},
		{"entries in an inner node", &object.Tree{Level: 1, Entries: files(1)}, object.ReasonLevel},
		{"children in a leaf", &object.Tree{Children: innerTree().Children}, object.ReasonLevel},
		{"level", &object.Tree{Level: 16, Children: innerTree().Children}, object.ReasonLevel},
		{"no children", &object.Tree{Level: 1}, object.ReasonItems},
		{"zero child", &object.Tree{Level: 1, Children: []object.TreeChild{{Last: "a"}}}, object.ReasonLinkID},
		{"child's name", &object.Tree{Level: 1, Children: []object.TreeChild{{Last: "a/b", ID: sum("a")}}}, object.ReasonName},
		{"no chunks", &object.Manifest{}, object.ReasonItems},
		{"zero chunk", &object.Manifest{Chunks: []object.ChunkRef{{Size: 1}}}, object.ReasonLinkID},
		{"empty chunk", &object.Manifest{Chunks: []object.ChunkRef{{ID: sum("a")}}}, object.ReasonChunk},
		{"children in a manifest's leaf", &object.Manifest{Children: innerManifest().Children}, object.ReasonLevel},
		{"manifest's level", &object.Manifest{Level: 16, Children: innerManifest().Children}, object.ReasonLevel},
		{"many parents", commit(func(c *object.Commit) { c.Parents = manyParents }), object.ReasonParents},
		{"zero parent", commit(func(c *object.Commit) { c.Parents[1] = object.ID{} }), object.ReasonParents},
		{"no tree", commit(func(c *object.Commit) { c.Tree = object.ID{} }), object.ReasonTarget},
		{"commit too big", commit(func(c *object.Commit) {
			c.Skipped = []object.Skipped{{Path: strings.Repeat("a", 500<<10)}, {Path: strings.Repeat("b", 500<<10)}}
			c.Message = strings.Repeat("m", object.MaxMessageSize)
		}), object.ReasonTooBig},
		{"not UTF-8", commit(func(c *object.Commit) { c.Message = "\xff" }), object.ReasonText},
		{"tag of nothing", &object.Tag{Name: "v1"}, object.ReasonTarget},
		{"tag without a name", &object.Tag{Target: sum("a")}, object.ReasonText},
	} {
		_, err := test.node.Encode()
		var invalid *object.InvalidError
		if !errors.As(err, &invalid) || invalid.Reason != test.want || errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

func TestCheck(t *testing.T) {
	good := map[object.Kind][]byte{
		object.KindChunk:    []byte("kn\x09\x01"),
		object.KindTree:     mustEncode(t, innerTree()),
		object.KindManifest: mustEncode(t, fullManifest()),
		object.KindCommit:   mustEncode(t, fullCommit()),
		object.KindTag:      mustEncode(t, fullTag()),
	}
	for kind, data := range good {
		for other := object.Kind(0); other < 8; other++ {
			err := object.Check(other, data)
			if ok := kind == other || other == object.KindChunk; ok != (err == nil) {
				t.Errorf("Check of a %s as %s: %v", kind, other, err)
			} else if !ok {
				wantReason(t, err, object.ReasonKind)
			}
		}
	}
	wantReason(t, object.Check(object.KindChunk, nil), object.ReasonChunk)
	wantReason(t, object.Check(object.KindChunk, make([]byte, object.MaxChunkSize+1)), object.ReasonChunk)
}

func TestTime(t *testing.T) {
	at := time.Date(1969, 12, 31, 23, 59, 59, 5, time.FixedZone("", 3600))
	if got := object.TimeOf(at); !got.Time().Equal(at) || got.IsZero() {
		t.Errorf("TimeOf(%v) is %v", at, got.Time())
	}
	if !object.TimeOf(time.Time{}).IsZero() || !(object.Time{}).Time().IsZero() {
		t.Error("the zero time does not stay zero")
	}
	a, b := object.Time{Sec: 1, Nsec: 5}, object.Time{Sec: 1, Nsec: 6}
	if a.Compare(b) >= 0 || b.Compare(a) <= 0 || a.Compare(a) != 0 || b.Compare(object.Time{Sec: 2}) >= 0 {
		t.Error("Compare orders times wrongly")
	}
	if got := (object.Stamp{Time: object.Time{Sec: 60}, Zone: -90}).When().Format(time.RFC3339); got != "1969-12-31T22:31:00-01:30" {
		t.Errorf("When = %s, want 1969-12-31T22:31:00-01:30", got)
	}
}
