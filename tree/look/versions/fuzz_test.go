package versions

import (
	"bytes"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// payload returns the payload of a block with all of an index.
func (x *Index) payload(sums map[object.ID]object.ID) []byte {
	var out bytes.Buffer
	x.encodeBlock(&out, 0, 0, 0, sums) // a buffer gives no errors
	return out.Bytes()
}

func (x *Index) decodePayload(payload []byte) error {
	return x.decodeBlock(bytes.NewReader(payload), uint64(len(payload)))
}

// sample returns an index of three commits. The last one is a merge.
func sample() *Index {
	x := newIndex(indexFile{})
	a, b := x.paths.numberOf("a"), x.paths.numberOf("dir/b")
	id := func(n byte) object.ID { return object.Sum([]byte{n}) }
	for i, parents := range [][]int32{nil, {0}, {0, 1}} {
		x.addCommit(commit{id: id(byte(i)), parents: parents, seconds: int64(100 * i), expired: i == 1})
	}
	for _, c := range []change{
		{commit: 0, path: a, from: -1, kind: object.TypeFile, flags: flagAdded, mode: 0o644, size: 1 << 40, mtime: object.Time{Sec: 7, Nsec: 8}, id: id(9), manifest: true},
		{commit: 1, path: a, from: -1, flags: flagMoved},
		{commit: 1, path: b, from: a, kind: object.TypeSymlink, flags: flagAdded, size: 3, id: id(10), attrs: encodeAttrs(&object.Entry{Attrs: map[string]string{"k": "v"}})},
		{commit: 2, path: a, from: -1, same: 1},
		{commit: 2, path: b, from: -1, same: 1},
	} {
		x.changes.add(c)
	}
	return x
}

func TestEncodeAndDecode(t *testing.T) {
	x := sample()
	sums := map[object.ID]object.ID{object.Sum([]byte("list")): object.Sum([]byte("bytes"))}
	payload := x.payload(sums)
	again := newIndex(indexFile{})
	if err := again.decodePayload(payload); err != nil {
		t.Fatal(err)
	}
	if again.changes.len() != x.changes.len() || !bytes.Equal(payload, again.payload(again.sums)) {
		t.Errorf("changes %+v are decoded as %+v", x.changes, again.changes)
	}
	for i := range x.changes.len() {
		if *again.changes.at(i) != *x.changes.at(i) {
			t.Errorf("change %d: %+v is decoded as %+v", i, x.changes.at(i), again.changes.at(i))
		}
	}
	for n := range payload {
		if newIndex(indexFile{}).decodePayload(payload[:n]) == nil {
			t.Errorf("accepts the first %d of %d bytes", n, len(payload))
		}
	}
}

// No input makes the decoder, or a query of the result, panic or run forever.
func FuzzDecode(f *testing.F) {
	f.Add(sample().payload(nil))
	f.Add(newIndex(indexFile{}).payload(map[object.ID]object.ID{{1}: {2}}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		x := newIndex(indexFile{})
		if x.decodePayload(payload) != nil {
			return
		}
		if len(x.commits) > 0 {
			x.tips = []Tip{{"HEAD", x.commits[len(x.commits)-1].id}}
		}
		x.noteReached()
		x.sortChanges()

		for v := range x.All() {
			for use := range x.Uses(map[object.ID]bool{v.ID: true}) {
				if len(use.Since) == 0 {
					t.Error("a use without a change")
				}
			}
			x.Attrs(v.Commit, v.Path)
		}

		for _, tip := range x.tips {
			for number := range x.paths.len() {
				path := x.paths.path(number)
				if file, err := x.File(t.Context(), tip, path); err != nil {
					t.Fatal(err)
				} else if file != nil {
					x.Find(t.Context(), file.ID.String())
				}
			}
			if _, err := x.Deleted(t.Context(), tip); err != nil {
				t.Fatal(err)
			}
		}

		if again := newIndex(indexFile{}); again.decodePayload(x.payload(x.sums)) != nil {
			t.Error("a decoded index cannot be encoded and decoded again")
		}
	})
}
