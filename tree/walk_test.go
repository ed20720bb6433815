package tree

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
)

func TestWalk(t *testing.T) {
	m := memory()
	root := files{"a": inline("a"), "d/x": inline("x"), "d/y": inline("y"), "d-": inline("-"), "e": directory(0o700), "z/z": symlink("a")}.build(t, m).ID
	boom := errors.New("boom")
	for _, tt := range []struct {
		name string
		at   string
		do   error
		want string
		err  error
	}{
		{"all", "", nil, "a d d/x d/y d- e z z/z", nil},
		{"skip a directory", "d", SkipDir, "a d d- e z z/z", nil},
		{"skip the rest of a directory", "d/x", SkipDir, "a d d/x d- e z z/z", nil},
		{"fail", "d", boom, "a d", boom},
	} {
		var got []string
		err := Walk(ctx, m, root, func(path string, e object.Entry) error {
			got = append(got, path)
			if path == tt.at {
				return tt.do
			}
			return nil
		})
		if err != tt.err || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: walked over %q, error %v; want %q, error %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

// WalkInto leaves out folders, and nodes of a long list, that its function refuses.
func TestWalkInto(t *testing.T) {
	m := memory()
	all := files{"a/deep/file": inline("1"), "b/file": inline("2")}
	for i := range 1200 {
		all[fmt.Sprintf("long/%04d", i)] = inline(fmt.Sprint(i))
	}
	root := all.build(t, m).ID
	long, err := Find(ctx, m, root, "long")
	if err != nil {
		t.Fatal(err)
	}

	top, err := object.ReadTree(ctx, m, long.Content.ID)
	if err != nil || top.Level != 1 || len(top.Children) < 3 {
		t.Fatalf("the long folder has %d nodes below one of level %d; %v", len(top.Children), top.Level, err)
	}
	only := top.Children[1]
	var got, asked []string
	err = WalkInto(ctx, m, root, func(path string, node object.ID) (bool, error) {
		asked = append(asked, path)
		return path == "" || path == "b" || node == long.Content.ID || node == only.ID, nil
	}, func(path string, e object.Entry) error {
		got = append(got, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	var want []string
	err = Walk(ctx, m, root, func(path string, e object.Entry) error {
		name, in := strings.CutPrefix(path, "long/")
		if in && name > top.Children[0].Last && name <= only.Last || !in && !strings.HasPrefix(path, "a/") {
			want = append(want, path)
		}
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("walked over %d entries, want %d; %v", len(got), len(want), err)
	}
	if wanted := append([]string{"", "a", "b"}, slices.Repeat([]string{"long"}, 1+len(top.Children))...); !slices.Equal(asked, wanted) {
		t.Errorf("asked for %q, want %q", asked, wanted)
	}

	boom := errors.New("boom")
	for _, at := range []object.ID{root, long.Content.ID, only.ID} {
		err := WalkInto(ctx, m, root, func(_ string, node object.ID) (bool, error) {
			if node == at {
				return false, boom
			}
			return true, nil
		}, func(string, object.Entry) error { return nil })
		if err != boom {
			t.Errorf("error %v, want %v", err, boom)
		}
	}
}

func TestFind(t *testing.T) {
	m := memory()
	f := big(500)
	f["d/e/f"], f["d/l"] = inline("f"), symlink("x")

	info := f.build(t, m)
	for path, want := range map[string]string{
		"file 0000321": `"321"(644)`, "d": "dir(755)", "d/e/f": `"f"(644)`, "d/l": "->x", "": "dir(755)",
	} {
		e, err := Find(ctx, m, info.ID, path)
		if err != nil || describe(&e) != want {
			t.Errorf("Find(%q) = %s, %v, want %s", path, describe(&e), err, want)
		}
	}

	root, err := Find(ctx, m, info.ID, "")
	if err != nil || root.Files != info.Files || root.Size != info.Bytes || root.Content != treeKey(info.ID) {
		t.Errorf("root: %+v, %v, want %+v", root, err, info)
	}

	for path, want := range map[string]error{
		"nothing": ErrNotExist, "d/x": ErrNotExist, "d/x/y": ErrNotExist, "d/l/x": ErrNotDir, "file 0000001/x": ErrNotDir,
	} {
		_, err := Find(ctx, m, info.ID, path)
		var at *PathError
		if !errors.Is(err, want) || !errors.As(err, &at) || at.Path != path {
			t.Errorf("Find(%q): %v, want %v", path, err, want)
		}
	}

	m.Delete(root.Content)
	if _, err := Find(ctx, m, info.ID, "d"); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("missing node: error %v, want ErrNotFound", err)
	}
}

// chain returns the root of n nested directories. The innermost one has a file.
func chain(t testing.TB, w object.Writer, n int) Info {
	t.Helper()
	info := files{"f": inline("f")}.build(t, w)
	for range n {
		info.ID = putTree(t, w, &object.Tree{Entries: []object.Entry{
			{Name: "d", Type: object.TypeDir, Mode: 0o755, Files: 1, Size: 1, Content: treeKey(info.ID)},
		}})
	}
	return info
}

func putTree(t testing.TB, w object.Writer, node *object.Tree) object.ID {
	t.Helper()
	data, err := node.Encode()
	if err != nil {
		t.Fatal(err)
	}
	id, err := w.Put(ctx, object.KindTree, data)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestDepthIsBounded(t *testing.T) {
	m := memory()
	for _, tt := range []struct {
		dirs int
		want error
	}{{object.MaxDepth - 1, nil}, {object.MaxDepth, ErrTooDeep}, {20_000, ErrTooDeep}} {
		root := chain(t, m, tt.dirs).ID
		n := 0
		err := Walk(ctx, m, root, func(string, object.Entry) error { n++; return nil })
		if !errors.Is(err, tt.want) || n > object.MaxDepth {
			t.Errorf("walk of %d directories: %d entries, error %v, want %v", tt.dirs, n, err, tt.want)
		}
		err = nil
		for _, e := range Diff(ctx, m, object.ID{}, root, DiffOptions{Recursive: true}) {
			err = errors.Join(err, e)
		}
		if !errors.Is(err, tt.want) {
			t.Errorf("diff of %d directories: error %v, want %v", tt.dirs, err, tt.want)
		}
		err = nil
		path := strings.Repeat("d/", object.MaxDepth-1) + "d"
		for _, e := range Diff(ctx, m, object.ID{}, root, DiffOptions{Recursive: true, Paths: []string{path}}) {
			err = errors.Join(err, e)
		}
		if !errors.Is(err, tt.want) {
			t.Errorf("diff of one path in %d directories: error %v, want %v", tt.dirs, err, tt.want)
		}
	}
}

// badLists returns directories whose nodes contradict each other.
func badLists(t testing.TB, w object.Writer) map[string]object.ID {
	leaf := func(names ...string) object.ID {
		node := &object.Tree{}
		for _, name := range names {
			e := inline(name)
			e.Name = name
			node.Entries = append(node.Entries, e)
		}
		return putTree(t, w, node)
	}
	inner := func(level uint8, children ...object.TreeChild) object.ID {
		return putTree(t, w, &object.Tree{Level: level, Children: children})
	}
	ab, cd := leaf("a", "b"), leaf("c", "d")
	good := inner(1, object.TreeChild{Last: "b", ID: ab}, object.TreeChild{Last: "d", ID: cd})
	return map[string]object.ID{
		"level":          inner(2, object.TreeChild{Last: "b", ID: ab}, object.TreeChild{Last: "d", ID: cd}),
		"deeper level":   inner(2, object.TreeChild{Last: "d", ID: good}, object.TreeChild{Last: "f", ID: leaf("e", "f")}),
		"last name":      inner(1, object.TreeChild{Last: "b", ID: ab}, object.TreeChild{Last: "e", ID: cd}),
		"order":          inner(1, object.TreeChild{Last: "b", ID: ab}, object.TreeChild{Last: "c", ID: leaf("a", "c")}),
		"duplicate":      inner(1, object.TreeChild{Last: "b", ID: ab}, object.TreeChild{Last: "d", ID: leaf("b", "d")}),
		"order, far":     inner(2, object.TreeChild{Last: "d", ID: good}, object.TreeChild{Last: "f", ID: inner(1, object.TreeChild{Last: "e", ID: leaf("d", "e")}, object.TreeChild{Last: "f", ID: leaf("f")})}),
		"only child":     inner(1, object.TreeChild{Last: "b", ID: ab}),
		"empty child":    inner(1, object.TreeChild{Last: "b", ID: ab}, object.TreeChild{Last: "d", ID: leaf()}),
		"child twice":    inner(1, object.TreeChild{Last: "b", ID: ab}, object.TreeChild{Last: "c", ID: ab}),
		"inner for leaf": inner(1, object.TreeChild{Last: "d", ID: good}, object.TreeChild{Last: "f", ID: leaf("e", "f")}),
	}
}

func TestBadListsAreRefused(t *testing.T) {
	m := memory()
	other := files{"b": inline("other"), "zz": inline("")}.build(t, m)
	for name, id := range badLists(t, m) {
		errs := map[string]error{"walk": Walk(ctx, m, id, func(string, object.Entry) error { return nil })}
		for _, err := range Diff(ctx, m, other.ID, id, DiffOptions{}) {
			errs["diff"] = err
		}
		e := NewEditor(m, Info{ID: id})
		errs["edit"] = e.Set(ctx, "zzz", inline(""))
		if errs["edit"] == nil {
			_, errs["edit"] = e.Finish(ctx)
		}
		for what, err := range errs {
			var format *object.FormatError
			if !errors.As(err, &format) || !errors.Is(err, object.ErrCorrupt) {
				t.Errorf("%s: %s: error %v, want a FormatError", name, what, err)
			}
			var at *PathError
			if !errors.As(err, &at) {
				t.Errorf("%s: %s: error %v, want a PathError", name, what, err)
			}
		}
	}
}
