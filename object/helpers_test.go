package object_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// files returns n entries of files, sorted by name.
func files(n int) []object.Entry {
	entries := make([]object.Entry, n)
	for i := range entries {
		entries[i] = file(fmt.Sprintf("some-file-%07d.txt", i), fmt.Sprint(i))
	}
	return entries
}

// file returns an entry of a file with one chunk. The chunk has the ID of content, but not
// its size.
func file(name, content string) object.Entry {
	return object.Entry{
		Name: name, Type: object.TypeFile, Mode: 0o644, Size: 123_456,
		MTime:   object.Time{Sec: 1_700_000_000, Nsec: 123_456_789},
		Content: object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(content))},
	}
}

func writeTree(t testing.TB, w object.Writer, entries []object.Entry) object.ID {
	t.Helper()
	tw := object.NewTreeWriter(w)
	for _, e := range entries {
		if err := tw.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	root, err := tw.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func readEntries(t testing.TB, r object.Reader, root object.ID) []object.Entry {
	t.Helper()
	var entries []object.Entry
	for e, err := range object.Entries(t.Context(), r, root) {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

// bigFile stores a file of n random chunks of up to max bytes, and returns its entry and
// content.
func bigFile(t testing.TB, w object.Writer, n, max int) (object.Entry, []byte) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(uint64(n), uint64(max)))
	mw := object.NewManifestWriter(w)
	var content []byte
	for range n {
		chunk := make([]byte, 1+rnd.IntN(max))
		for i := range chunk {
			chunk[i] = byte(rnd.Uint32())
		}
		content = append(content, chunk...)
		id, err := w.Put(t.Context(), object.KindChunk, chunk)
		if err != nil {
			t.Fatal(err)
		}
		if err := mw.Add(t.Context(), object.ChunkRef{ID: id, Size: uint32(len(chunk))}); err != nil {
			t.Fatal(err)
		}
	}
	key, size, err := mw.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if size != uint64(len(content)) {
		t.Fatalf("manifest has %d bytes, content %d", size, len(content))
	}
	return object.Entry{Name: "big", Type: object.TypeFile, Size: size, Content: key}, content
}

// wantReason checks that err is a FormatError with a reason.
func wantReason(t testing.TB, err error, want object.Reason) {
	t.Helper()
	var f *object.FormatError
	if !errors.As(err, &f) || f.Reason != want {
		t.Errorf("error %v, want a FormatError with reason %s", err, want)
	}
	if newer := want == object.ReasonNewerVersion; errors.Is(err, object.ErrNewerFormat) != newer || errors.Is(err, object.ErrCorrupt) == newer {
		t.Errorf("error %v does not match the sentinel for %s", err, want)
	}
}

func mustEncode(t testing.TB, node interface{ Encode() ([]byte, error) }) []byte {
	t.Helper()
	data, err := node.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func concat[T any](parts ...[]T) []T { return slices.Concat(parts...) }
