package index

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
)

var update = flag.Bool("update", false, "write the golden files")

// An index of format version 1 can be read, and the same index is written as the same bytes.
func TestGolden(t *testing.T) {
	const golden = "testdata/v1"
	dir, _, _, x := small(t)
	must(t, os.Remove(filepath.Join(dir, lockName)))
	compareGolden(t, dir, golden)
	y, err := Load(golden)
	must(t, err)
	same(t, y, x)
}

// compareGolden compares the files in a folder with those in golden.
func compareGolden(t *testing.T, dir, golden string) {
	files, err := os.ReadDir(dir)
	must(t, err)
	for _, f := range files {
		got, err := os.ReadFile(filepath.Join(dir, f.Name()))
		must(t, err)
		if *update {
			must(t, os.MkdirAll(golden, 0o777))
			must(t, os.WriteFile(filepath.Join(golden, f.Name()), got, 0o666))
		}
		want, err := os.ReadFile(filepath.Join(golden, f.Name()))
		must(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from the golden file", f.Name())
		}
	}
}

// TestFormatPage checks the vectors that the format page shows.
func TestFormatPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/format/index.md")
	must(t, err)
	blocks := regexp.MustCompile("(?s)```hex\n(.*?)```").FindAllSubmatch(page, -1)
	vectors := []*Index{vector(t), sparseVector(t)}
	if len(blocks) != len(vectors) {
		t.Fatalf("the page has %d vectors, want %d", len(blocks), len(vectors))
	}
	for i, block := range blocks {
		var digits strings.Builder
		for line := range strings.Lines(string(block[1])) {
			line, _, _ = strings.Cut(line, "|")
			digits.WriteString(strings.Join(strings.Fields(line), ""))
		}
		want, err := hex.DecodeString(digits.String())
		must(t, err)
		if got := encodeHead(t, vectors[i]); !bytes.Equal(got, want) {
			t.Errorf("the page has\n%x\nwant\n%x", want, got)
		}
	}
}

// vector is the index that the format page shows.
func vector(t *testing.T) *Index {
	x := New()
	set(t, x, "a/hi", Entry{
		Type: object.TypeFile, Mode: 0o644, Size: 3, Data: "hi\n", MTime: object.Time{Sec: 1},
		Stat: Stat{Size: 3, MTime: 1e9, CTime: 2e9, Inode: 300, Mode: 0o100644, ReadAt: 100e9},
	})
	set(t, x, "z", Entry{Type: object.TypeSymlink, Mode: 0o777, Data: "a/hi", MTime: object.Time{Sec: -1}})
	must(t, x.SetSkipped("s", "no"))
	return x
}

// sparseVector is the index with a folder that is left out.
func sparseVector(t *testing.T) *Index {
	x := New()
	set(t, x, "f", Entry{Type: object.TypeFile, Mode: 0o644, Size: 3, Data: "hi\n", MTime: object.Time{Sec: 1}})
	id, _ := object.EmptyTree()
	must(t, SetLeftOut(x, "d", object.Entry{Type: object.TypeDir, Mode: 0o755, Content: object.Key{Kind: object.KindTree, ID: id}}))
	return x
}
