package transfer

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
)

func FuzzParseSent(f *testing.F) {
	binding := sha256.Sum256([]byte("binding"))
	name := pack.Name{1, 2, 3}
	w := pack.NewWriter(nil)
	value := []byte("\x00some chunk")
	if err := w.Add(object.Key{Kind: object.KindChunk, ID: object.Sum(value[1:])}, value, len(value)-1); err != nil {
		f.Fatal(err)
	}
	_, entries, err := w.Finish(name)
	if err != nil {
		f.Fatal(err)
	}
	good := appendSent(nil, &sentPack{info: entries[0].Pack, start: 7, entries: entries}, binding)
	if s, to, err := parseSent(name, good); err != nil || to != binding || s.start != 7 || s.info != entries[0].Pack || !slices.Equal(s.entries, entries) {
		f.Fatalf("parseSent = %+v, %v", s, err)
	}
	f.Add(good)
	f.Add(good[:40])
	f.Fuzz(func(t *testing.T, data []byte) {
		s, binding, err := parseSent(name, data)
		if err == nil && !bytes.Equal(appendSent(nil, s, binding), data) {
			t.Error("the parsed note has another encoding")
		}
	})
}
