package object

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestItemsAsLibrary checks that the manual encoders produce the bytes of the CBOR library.
func TestItemsAsLibrary(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	number := func() uint64 { return rnd.Uint64() >> rnd.IntN(65) } // of all sizes, often 0

	text := func(max int) string {
		b := make([]byte, rnd.IntN(max))
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return string(b)
	}

	for range 20_000 {
		e := &Entry{
			Name: text(300), Type: EntryType(number()), Mode: uint16(number()), Size: number(), Files: number(),
			MTime: Time{int64(number()), uint32(number())}, Inline: []byte(text(40)), Target: text(5),
		}
		if rnd.IntN(4) == 0 {
			e.Meta = &Metadata{UID: uint32(number()), Owner: text(5), HardLink: number(), Xattrs: map[string][]byte{text(9): []byte(text(9)), "x": nil}}
			e.Attrs = map[string]string{"k": text(5)}
		}
		pos, last, end := uint16(number()), text(300), number()
		body := entryBody{
			Name: e.Name, Type: uint8(e.Type), Mode: e.Mode, Size: e.Size, Files: e.Files, Sec: e.MTime.Sec, Nsec: e.MTime.Nsec,
			Inline: e.Inline, Link: pos, Target: e.Target, Meta: newMetaBody(e),
		}
		got, err := appendEntry(nil, e, pos)
		if err != nil {
			t.Fatal(err)
		}

		for _, test := range []struct {
			got  []byte
			body any
		}{
			{got, &body},
			{appendTreeChild(nil, last, pos), &treeChildBody{Last: last, Link: pos}},
			{appendPair(nil, pos, end), &manifestChildBody{Link: pos, End: end}},
			{appendPair(nil, pos, uint64(uint32(end))), &chunkBody{Link: pos, Size: uint32(end)}},
		} {
			var want bytes.Buffer
			if err := listCodec.marshal(&want, test.body); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(test.got, want.Bytes()) {
				t.Fatalf("%+v:\n got %x\nwant %x", test.body, test.got, want.Bytes())
			}
		}
	}
}

func TestHeadSizes(t *testing.T) {
	for n, want := range map[int]int{0: 1, 23: 1, 24: 2, 255: 2, 256: 3, 1024: 3, math.MaxUint16 + 1: 5} {
		if got := headSize(n); got != want {
			t.Errorf("headSize(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestLinkSet(t *testing.T) {
	s := getLinkSet()
	defer s.free()
	key := func(i int) Key { return Key{Kind(i%3 + 1), Sum(fmt.Append(nil, i/3))} }
	for i := range MaxLinks {
		if pos := s.addLink(key(i)); int(pos) != i+1 || s.linkAt(i+1) != key(i) {
			t.Fatalf("link %d: position %d, want %d", i, pos, i+1)
		}
	}
	s.dropLast()
	if s.len() != MaxLinks-1 {
		t.Errorf("%d links after drop, want %d", s.len(), MaxLinks-1)
	}
	for i := range MaxLinks {
		if pos := s.addLink(key(i)); int(pos) != i+1 {
			t.Fatalf("link %d added again: position %d, want %d", i, pos, i+1)
		}
	}
}
