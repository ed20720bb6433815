package tree

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// verify returns the problems of a directory as "path: reason" or "path: missing kind".
func verify(t testing.TB, v *Verifier, root object.ID) (Info, []string) {
	t.Helper()
	var problems []string
	v.Report = func(p Problem) {
		what := "?"
		var format *object.FormatError
		switch {
		case errors.Is(p.Err, object.ErrNotFound):
			what = "missing " + p.Key.Kind.String()
		case errors.Is(p.Err, ErrTooDeep):
			what = "too deep"
		case errors.As(p.Err, &format):
			what = string(format.Reason)
		case errors.Is(p.Err, object.ErrCorrupt):
			what = "damaged " + p.Key.Kind.String()
		}
		problems = append(problems, p.Path+": "+what)
	}
	info, err := v.Verify(ctx, root)
	if err != nil {
		t.Fatal(err)
	}
	return info, problems
}

func TestVerifyGood(t *testing.T) {
	for seed := range uint64(30) {
		m := memory()
		g := newGenerator(seed, m)
		f := g.change(t, nil, 300)
		v := &Verifier{Reader: m, Sizes: sizes{m}}
		for range 5 {
			want := f.build(t, m)
			info, problems := verify(t, v, want.ID)
			if len(problems) > 0 || info != want {
				t.Fatalf("seed %d: problems %q, totals %+v, want %+v", seed, problems, info, want)
			}
			f = g.change(t, f, 3)
		}
	}
	m := memory()
	info, problems := verify(t, &Verifier{Reader: m}, big(5000).build(t, m).ID)
	if len(problems) > 0 || info.Files != 5000 {
		t.Errorf("large directory: problems %q, totals %+v", problems, info)
	}
}

// sizes is a Sizer of objects in memory.
type sizes struct{ object.Reader }

func (s sizes) StoredSize(ctx context.Context, key object.Key) (raw, stored int64, err error) {
	data, err := s.Get(ctx, key)
	return int64(len(data)), int64(len(data)), err
}

func TestVerifyFindsWhatIsMissing(t *testing.T) {
	m := memory()
	f := big(2000)
	long := strings.Repeat("long content ", 10)
	f["d/e/f"], f["d/g"] = text(t, m, long), text(t, m, long+"!")
	f["x"] = chunked(t, m, count(300)) // its chunks are missing
	root := f.build(t, m).ID
	_, problems := verify(t, &Verifier{Reader: m, Sizes: sizes{m}}, root)
	if len(problems) != 300 || problems[0] != "x: missing chunk" || problems[299] != "x: missing chunk" {
		t.Errorf("%d problems, want 300 missing chunks: %.3q", len(problems), problems)
	}

	delete(f, "x")
	root = f.build(t, m).ID
	present := maps.Collect(func(yield func(object.Key, bool) bool) {
		for _, key := range reach(t, m, root) {
			yield(key, true)
		}
	})

	for key := range present {
		data, err := m.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		m.Delete(key)

		if _, problems := verify(t, &Verifier{Reader: m}, root); len(problems) != 1 || !strings.HasSuffix(problems[0], "missing "+key.Kind.String()) {
			t.Errorf("without %s: problems %q, want one", key, problems)
		}
		if _, err := m.Put(ctx, key.Kind, data); err != nil {
			t.Fatal(err)
		}

		if key.Kind == object.KindChunk {
			continue
		}
		m.Damage(key)
		if _, problems := verify(t, &Verifier{Reader: m}, root); len(problems) != 1 || !strings.HasSuffix(problems[0], "damaged "+key.Kind.String()) {
			t.Errorf("with %s damaged: problems %q, want one", key, problems)
		}
		m.Damage(key)
	}
	if len(present) < 15 {
		t.Errorf("%d objects, want at least 15", len(present))
	}
}

// reach returns the keys of all objects that a directory refers to.
func reach(t testing.TB, r object.Reader, root object.ID) []object.Key {
	t.Helper()
	keys := []object.Key{treeKey(root)}
	for i := 0; i < len(keys); i++ {
		if keys[i].Kind == object.KindChunk {
			continue
		}
		data, err := r.Get(ctx, keys[i])
		if err != nil {
			t.Fatal(err)
		}
		links, err := object.Links(keys[i].Kind, data)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range links {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

func TestVerifyFindsBadLists(t *testing.T) {
	m := memory()
	want := map[string]string{"only child": ": bad-root"}
	for name, id := range badLists(t, m) {
		_, problems := verify(t, &Verifier{Reader: m}, id)
		if w := cmp.Or(want[name], ": bad-child"); !slices.Contains(problems, w) {
			t.Errorf("%s: %q, want %q", name, problems, w)
		}
	}
}

// If a node contradicts an intact object below it, Verify reports the node. Other nodes may use
// the object.
func TestVerifyBlames(t *testing.T) {
	m := memory()
	chunk, err := m.Put(ctx, object.KindChunk, bytes.Repeat([]byte("c"), 100))
	if err != nil {
		t.Fatal(err)
	}
	empty := putTree(t, m, &object.Tree{})
	one := putTree(t, m, &object.Tree{Entries: []object.Entry{{Name: "a", Type: object.TypeFile}}})
	inner := putTree(t, m, &object.Tree{Level: 1, Children: []object.TreeChild{{Last: "a", ID: one}}})
	file := object.Entry{Name: "f", Type: object.TypeFile, Size: 99, Content: object.Key{Kind: object.KindChunk, ID: chunk}}
	for name, root := range map[string]*object.Tree{
		"size of a chunk":     {Entries: []object.Entry{file}},
		"empty child":         {Level: 1, Children: []object.TreeChild{{Last: "a", ID: one}, {Last: "b", ID: empty}}},
		"level of a child":    {Level: 2, Children: []object.TreeChild{{Last: "a", ID: one}, {Last: "b", ID: one}}},
		"root with one child": {Entries: []object.Entry{{Name: "d", Type: object.TypeDir, Files: 1, Content: treeKey(inner)}}},
	} {
		id := putTree(t, m, root)
		var problems []Problem
		v := &Verifier{Reader: m, Sizes: sizes{m}, Report: func(p Problem) { problems = append(problems, p) }}
		if _, err := v.Verify(ctx, id); err != nil {
			t.Fatal(err)
		}
		if len(problems) == 0 || slices.ContainsFunc(problems, func(p Problem) bool { return p.Key != treeKey(id) }) {
			t.Errorf("%s: problems %v, want only problems of %s", name, problems, id.Short())
		}
	}
}

func TestVerifyFindsBadSplits(t *testing.T) {
	m := memory()
	node := &object.Tree{} // entries of several nodes in one
	for i := range object.MaxListItems {
		e := inline("")
		e.Name = fmt.Sprintf("%04d", i)
		node.Entries = append(node.Entries, e)
	}
	info, problems := verify(t, &Verifier{Reader: m}, putTree(t, m, node))
	if !slices.Equal(problems, []string{": bad-split"}) || info.Files != object.MaxListItems {
		t.Errorf("problems %q, want bad-split; totals %+v", problems, info)
	}
}

func TestVerifyFindsBadEntries(t *testing.T) {
	m := memory()
	sub := files{"a": inline("four"), "b": inline("four")}.build(t, m)
	content := strings.Repeat("content ", 10)
	chunk := text(t, m, content)
	manifest := chunked(t, m, []int{1, 2, 3})

	dir := func(files, bytes uint64) object.Entry {
		return object.Entry{Type: object.TypeDir, Mode: 0o755, Files: files, Size: bytes, Content: treeKey(sub.ID)}
	}

	longer := func(e object.Entry) object.Entry { e.Size++; return e }
	leaf := manifest.Content
	data, err := (&object.Manifest{Level: 1, Children: []object.ManifestChild{{ID: leaf.ID, End: manifest.Size}, {ID: leaf.ID, End: 2*manifest.Size - 1}}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	badEnd, _ := m.Put(ctx, object.KindManifest, data)
	data, _ = (&object.Manifest{Level: 2, Children: []object.ManifestChild{{ID: leaf.ID, End: manifest.Size}, {ID: leaf.ID, End: 2 * manifest.Size}}}).Encode()
	badLevel, _ := m.Put(ctx, object.KindManifest, data)
	data, _ = (&object.Manifest{Chunks: []object.ChunkRef{{ID: chunk.Content.ID, Size: uint32(chunk.Size)}}}).Encode()
	only, _ := m.Put(ctx, object.KindManifest, data)

	ofManifest := func(id object.ID, size uint64) object.Entry {
		return object.Entry{Type: object.TypeFile, Size: size, Content: object.Key{Kind: object.KindManifest, ID: id}}
	}
	for _, tt := range []struct {
		name  string
		entry object.Entry
		want  []string
	}{
		{"good directory", dir(2, 8), nil},
		{"count of files", dir(3, 8), []string{"e: bad-totals"}},
		{"bytes", dir(2, 9), []string{"e: bad-totals"}},
		{"chunk", chunk, nil},
		{"size of a chunk", longer(chunk), []string{"e: bad-size"}},
		{"size of a manifest", longer(manifest), []string{"e: bad-size", "e: missing chunk", "e: missing chunk", "e: missing chunk"}},
		{"end in a manifest", ofManifest(badEnd, 2*manifest.Size-1), []string{"e: bad-size", "e: missing chunk", "e: missing chunk", "e: missing chunk"}},
		{"level in a manifest", ofManifest(badLevel, 2*manifest.Size), []string{"e: bad-child", "e: bad-child", "e: missing chunk", "e: missing chunk", "e: missing chunk"}},
		{"one item in a manifest", ofManifest(only, chunk.Size), []string{"e: bad-root"}},
	} {
		e := tt.entry
		e.Name = "e"
		root := putTree(t, m, &object.Tree{Entries: []object.Entry{e}})
		if _, problems := verify(t, &Verifier{Reader: m, Sizes: sizes{m}}, root); !slices.Equal(problems, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, problems, tt.want)
		}
	}
}

func TestVerifyIsLinear(t *testing.T) {
	// Each level links twice to the next one. The number of paths overflows.
	m := memory()
	info := files{"f": inline("f")}.build(t, m)
	for level := range 70 {
		e := object.Entry{Type: object.TypeDir, Mode: 0o755, Files: info.Files, Size: info.Bytes, Content: treeKey(info.ID)}
		node := &object.Tree{}
		for _, name := range []string{"a", "b"} {
			e.Name = name
			node.Entries = append(node.Entries, e)
		}
		info.ID = putTree(t, m, node)
		info.Files, info.Bytes = 2*info.Files, 2*info.Bytes
		counted := objecttest.NewFaulty(m)
		_, problems := verify(t, &Verifier{Reader: counted}, info.ID)
		if n := counted.Calls(objecttest.Get); n > level+3 {
			t.Fatalf("%d levels: read %d nodes, want at most %d", level, n, level+3)
		}
		if level < 63 && len(problems) > 0 || level == 63 && !strings.HasSuffix(problems[0], string(ReasonTotals)) {
			t.Fatalf("%d levels: problems %q", level, problems)
		}
	}
}

func TestVerifyDepth(t *testing.T) {
	m := memory()
	for dirs, want := range map[int]int{object.MaxDepth - 1: 0, object.MaxDepth: 1, 10_000: 1} {
		v := &Verifier{Reader: m}
		root := chain(t, m, dirs).ID
		_, problems := verify(t, v, root)
		if len(problems) != want || want > 0 && !strings.HasSuffix(problems[0], ": too deep") {
			t.Errorf("%d directories: %d problems, want %d", dirs, len(problems), want)
		}
		// One level deeper, the same directory is too deep.
		if dirs == object.MaxDepth-1 {
			below := putTree(t, m, &object.Tree{Entries: []object.Entry{
				{Name: "d", Type: object.TypeDir, Files: 1, Size: 1, Content: treeKey(root)},
			}})
			if _, problems := verify(t, v, below); len(problems) != 1 || problems[0] != "d: too deep" {
				t.Errorf("one level deeper: problems %q", problems)
			}
		}
	}
}

func TestVerifyReportsOnce(t *testing.T) {
	m := memory()
	f := files{"a/x": inline("x"), "b/x": inline("x")} // the same directory twice
	v := &Verifier{Reader: m}
	root := f.build(t, m).ID
	sub, err := Find(ctx, m, root, "a")
	if err != nil {
		t.Fatal(err)
	}
	m.Delete(sub.Content)
	if _, problems := verify(t, v, root); !slices.Equal(problems, []string{"a: missing tree"}) {
		t.Errorf("problems %q, want a once", problems)
	}
	if _, problems := verify(t, v, root); len(problems) != 0 || len(v.trees) != 2 {
		t.Errorf("verified again: problems %q, %d nodes; want none, 2", problems, len(v.trees))
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := (&Verifier{Reader: m, Report: func(Problem) { t.Error("reports a problem") }}).Verify(cancelled, root); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v, want Canceled", err)
	}
}

func BenchmarkVerify(b *testing.B) {
	m := memory()
	root := spread(200_000).build(b, m).ID
	for b.Loop() {
		if _, problems := verify(b, &Verifier{Reader: m}, root); len(problems) > 0 {
			b.Fatal(problems)
		}
	}
}
