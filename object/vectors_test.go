package object_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

var update = flag.Bool("update", false, "write the test vectors instead of comparing them")

const vectorDir = "../testdata/vectors"

// vector is the encoding of a node, or bytes that decoders reject. docs/format/objects.md
// describes the files of vectors.
type vector struct {
	Name   string          `json:"name"`
	Hex    string          `json:"hex"`
	Fill   *fill           `json:"fill,omitempty"`   // to insert into the bytes of Hex
	Reason object.Reason   `json:"reason,omitempty"` // why decoders reject it; empty if valid
	ID     string          `json:"id,omitempty"`
	Links  []string        `json:"links,omitempty"`
	Node   json.RawMessage `json:"node,omitempty"`

	data []byte
}

// fill is a run of one byte that Hex omits.
type fill struct {
	At    int  `json:"at"`
	Byte  byte `json:"byte"`
	Count int  `json:"count"`
}

// valid returns the vector of a node.
func valid(t *testing.T, kind object.Kind, name string, node interface{ Encode() ([]byte, error) }) vector {
	data := mustEncode(t, node)
	links, err := object.Links(kind, data)
	if err != nil {
		t.Fatal(err)
	}
	v := vector{Name: name, data: data, ID: object.Sum(data).String(), Node: viewOf(t, node)}
	for _, key := range links {
		v.Links = append(v.Links, key.Kind.String()+":"+key.ID.String())
	}
	return v
}

// invalid returns the vector of bytes that decoders reject.
func invalid(name string, reason object.Reason, data []byte) vector {
	return vector{Name: name, Reason: reason, data: data}
}

// pack sets Hex. It moves the longest run of one byte to Fill if that has over 200 bytes.
func (v *vector) pack() {
	data, at, count := v.data, 0, 0
	for i, run := 0, 0; i < len(data); i += run {
		for run = 1; i+run < len(data) && data[i+run] == data[i]; run++ {
		}
		if run > count {
			at, count = i, run
		}
	}
	if count > 200 {
		v.Fill = &fill{at, data[at], count}
		data = concat(data[:at], data[at+count:])
	}
	v.Hex = hex.EncodeToString(data)
}

func (v *vector) unpack(t testing.TB) {
	data, err := hex.DecodeString(v.Hex)
	if err != nil {
		t.Fatal(err)
	}
	if f := v.Fill; f != nil {
		data = slices.Insert(data, f.At, bytes.Repeat([]byte{f.Byte}, f.Count)...)
	}
	v.data = data
}

// readVectors reads the vectors of a kind from their file.
func readVectors(t testing.TB, kind object.Kind) []vector {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectorDir, kind.String()+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	for i := range vectors {
		vectors[i].unpack(t)
	}
	return vectors
}

func TestVectors(t *testing.T) {
	for _, file := range []struct {
		kind    object.Kind
		vectors []vector
		decode  func([]byte) (any, error)
	}{
		{object.KindTree, treeVectors(t), func(data []byte) (any, error) { return object.DecodeTree(data) }},
		{object.KindManifest, manifestVectors(t), func(data []byte) (any, error) { return object.DecodeManifest(data) }},
		{object.KindCommit, commitVectors(t), func(data []byte) (any, error) { return object.DecodeCommit(data) }},
		{object.KindTag, tagVectors(t), func(data []byte) (any, error) { return object.DecodeTag(data) }},
	} {
		for i := range file.vectors {
			file.vectors[i].pack()
		}
		objecttest.CheckVectors(t, filepath.Join(vectorDir, file.kind.String()+".json"), file.vectors, *update)

		// Check the content of the file, not the values in memory.
		for _, v := range readVectors(t, file.kind) {
			t.Run(file.kind.String()+"/"+strings.ReplaceAll(v.Name, " ", "-"), func(t *testing.T) {
				v.check(t, file.kind, file.decode)
			})
		}
	}
}

func (v *vector) check(t *testing.T, kind object.Kind, decode func([]byte) (any, error)) {
	node, err := decode(v.data)
	if v.Reason == object.ReasonSplit {
		if err != nil {
			t.Errorf("the decoder checks boundaries, want only Check to do so: %v", err)
		}
		err = object.Check(kind, v.data)
	}

	if v.Reason != "" {
		wantReason(t, err, v.Reason)
		wantReason(t, object.Check(kind, v.data), v.Reason)
		return
	}

	if err := errors.Join(err, object.Check(kind, v.data)); err != nil {
		t.Fatal(err)
	}
	links, err := object.Links(kind, v.data)
	if err != nil || len(links) != len(v.Links) {
		t.Fatalf("%d links, want %d: %v", len(links), len(v.Links), err)
	}

	for i, key := range links {
		if got := key.Kind.String() + ":" + key.ID.String(); got != v.Links[i] {
			t.Errorf("link %d is %s, want %s", i, got, v.Links[i])
		}
	}

	if got := object.Sum(v.data).String(); got != v.ID {
		t.Errorf("ID %s, want %s", got, v.ID)
	}
	var want, got any
	if err := errors.Join(json.Unmarshal(v.Node, &want), json.Unmarshal(viewOf(t, node), &got)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestVectorsAreComplete checks that each reason to reject a single node has a vector.
func TestVectorsAreComplete(t *testing.T) {
	seen := map[object.Reason]bool{}
	for _, v := range concat(treeVectors(t), manifestVectors(t), commitVectors(t), tagVectors(t)) {
		seen[v.Reason] = true
	}
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}

	page, err := os.ReadFile("../docs/format/objects.md")
	if err != nil {
		t.Fatal(err)
	}

	count := 0
	for line := range strings.Lines(string(source)) {
		_, rest, ok := strings.Cut(line, `Reason = "`)
		if !ok {
			continue
		}
		code, _, _ := strings.Cut(rest, `"`)
		count++
		reason := object.Reason(code)
		severalNodes := reason == object.ReasonRoot || reason == object.ReasonChild || reason == object.ReasonSize
		if !seen[reason] && !severalNodes {
			t.Errorf("no vector with reason %s", reason)
		}
		if !bytes.Contains(page, []byte("`"+code+"`")) {
			t.Errorf("reason %s is not in docs/format/objects.md", code)
		}
	}
	if count < 20 {
		t.Errorf("%d reasons in errors.go, want at least 20", count)
	}
}
