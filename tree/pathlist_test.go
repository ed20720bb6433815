package tree

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// Paths and bytes of many sizes come back in the order of Add, across blocks.
func TestPathList(t *testing.T) {
	type item struct {
		path string
		data []byte
	}
	want := []item{{"", nil}, {"a", []byte{}}, {"a/b", []byte{0, 1}}, {"a/b/c", bytes.Repeat([]byte("x"), 3*maxPathBlock)}}
	for i := range 3000 {
		path := fmt.Sprintf("folder%02d/%s/%d", i/100, strings.Repeat("sub", i%7), i)
		want = append(want, item{path, bytes.Repeat([]byte{byte(i)}, i%150)})
	}
	want = append(want, item{"a/b", []byte("again")})

	var l PathList
	for _, item := range want {
		l.Add(item.path, item.data)
	}
	if l.Len() != len(want) || len(l.blocks) < 6 {
		t.Fatalf("%d paths in %d blocks, want %d in at least 6", l.Len(), len(l.blocks), len(want))
	}

	i := 0
	for path, data := range l.All() {
		if path != want[i].path || !bytes.Equal(data, want[i].data) {
			t.Fatalf("path %d is %q with %d bytes, want %q with %d", i, path, len(data), want[i].path, len(want[i].data))
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d paths, want %d", i, len(want))
	}
	if paths := l.Paths(); len(paths) != len(want) || paths[2] != "a/b" {
		t.Errorf("%d paths, the third is %q, want %d and a/b", len(paths), paths[2], len(want))
	}
	for path := range l.All() {
		if path == "a" {
			break
		}
	}

	drained := 0
	for path := range l.Drain() {
		if path != want[drained].path {
			t.Fatalf("drained %q, want %q", path, want[drained].path)
		}
		drained++
	}
	if drained != len(want) || l.Len() > 0 || len(l.Paths()) > 0 {
		t.Errorf("drained %d of %d paths, %d remain", drained, len(want), l.Len())
	}
}
