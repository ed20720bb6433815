package index

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// paths lists the paths of an index. Directories end in a slash.
func paths(x *Index) (list []string) {
	for path, d := range x.Dirs() {
		if path != "" {
			list = append(list, path+"/")
		}
		for e := range d.Entries() {
			list = append(list, tree.Join(path, e.Name))
		}
	}
	return list
}

func TestEdits(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(x *Index) error
		want string
	}{
		{"nothing", func(x *Index) error { return nil }, "f a/ a/f a/b/ a/b/f a/b/g e/"},
		{"add", func(x *Index) error { return x.Set("a/b/h", file(1)) }, "f a/ a/f a/b/ a/b/f a/b/g a/b/h e/"},
		{"add with directories", func(x *Index) error { return x.Set("c/d/f", file(1)) }, "f a/ a/f a/b/ a/b/f a/b/g c/ c/d/ c/d/f e/"},
		{"file in place of a directory", func(x *Index) error { return x.Set("a", file(1)) }, "a f e/"},
		{"directory in place of a file", func(x *Index) error { return x.Set("f/g", file(1)) }, "a/ a/f a/b/ a/b/f a/b/g e/ f/ f/g"},
		{"empty directory in place of a file", func(x *Index) error { return x.SetDir("a/f", object.Entry{Mode: 0o700}) }, "f a/ a/b/ a/b/f a/b/g a/f/ e/"},
		{"directory that is there", func(x *Index) error { return x.SetDir("a/b", object.Entry{Mode: 0o700}) }, "f a/ a/f a/b/ a/b/f a/b/g e/"},
		{"remove", func(x *Index) error { x.Remove("a/b/f"); return nil }, "f a/ a/f a/b/ a/b/g e/"},
		{"remove the last", func(x *Index) error { x.Remove("a/b/f"); x.Remove("a/b/g"); return nil }, "f a/ a/f a/b/ e/"},
		{"remove a directory", func(x *Index) error { x.Remove("a"); return nil }, "f e/"},
		{"remove all", func(x *Index) error { x.Remove(""); return nil }, ""},
		{"remove nothing", func(x *Index) error { x.Remove("a/x/y"); return nil }, "f a/ a/f a/b/ a/b/f a/b/g e/"},
		{"move a file", func(x *Index) error { return x.Move("f", "e/f") }, "a/ a/f a/b/ a/b/f a/b/g e/ e/f"},
		{"move over a file", func(x *Index) error { return x.Move("f", "a/f") }, "a/ a/f a/b/ a/b/f a/b/g e/"},
		{"move over a directory", func(x *Index) error { return x.Move("f", "a") }, "a e/"},
		{"move a directory", func(x *Index) error { return x.Move("a/b", "n/b") }, "f a/ a/f e/ n/ n/b/ n/b/f n/b/g"},
		{"move a directory over another", func(x *Index) error { return x.Move("a", "e") }, "f e/ e/f e/b/ e/b/f e/b/g"},
		{"move a directory over a file", func(x *Index) error { return x.Move("a", "f") }, "e/ f/ f/f f/b/ f/b/f f/b/g"},
	} {
		x := New()
		for i, path := range []string{"a/b/f", "a/b/g", "a/f", "f"} {
			set(t, x, path, file(i))
		}
		must(t, x.SetDir("e", object.Entry{Mode: 0o755}))

		x = roundTrip(t, x)
		if err := test.edit(x); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if got := strings.Join(paths(x), " "); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, got, test.want)
		}
		same(t, roundTrip(t, x), x)
	}
}

func TestBadPaths(t *testing.T) {
	deep := strings.Repeat("d/", object.MaxDepth)
	for _, path := range []string{"", "/", "a//b", "/a", "a/", ".", "a/../b", "a/.kist/config", ".KIST", "a\x00", strings.Repeat("x", 256), deep + "f"} {
		x := New()
		var pathError *tree.PathError
		if err := x.Set(path, file(1)); !errors.As(err, &pathError) {
			t.Errorf("set %q: %v", path, err)
		}
		if err := x.SetConflict(path, nil, nil, nil); !errors.As(err, &pathError) {
			t.Errorf("conflict %q: %v", path, err)
		}
		if path != "" {
			if err := x.SetDir(path, object.Entry{Mode: 0o755}); !errors.As(err, &pathError) {
				t.Errorf("set directory %q: %v", path, err)
			}
		}
		if x.Len() != 0 || x.dirs != 1 {
			t.Errorf("the refused path %q changed the index", path)
		}
	}
	if err := New().SetDir("a", object.Entry{Mode: 0o40755}); err == nil {
		t.Error("SetDir accepts type bits in a mode")
	}
}

func TestDeepest(t *testing.T) {
	x := New()
	set(t, x, strings.Repeat("d/", object.MaxDepth-1)+"f", file(1))
	must(t, x.SetDir(strings.Repeat("e/", object.MaxDepth-1)+"d", object.Entry{Mode: 0o755}))
	same(t, roundTrip(t, x), x)
	set(t, x, "a/b/f", file(1))
	if err := x.Move("a", strings.Repeat("d/", object.MaxDepth-2)+"x"); err == nil {
		t.Error("Move accepts a path that is too deep")
	}
	must(t, x.Move("a", strings.Repeat("d/", object.MaxDepth-3)+"x"))
	same(t, roundTrip(t, x), x)
}

func TestMoveRefuses(t *testing.T) {
	x := New()
	set(t, x, "a/b/f", file(1))
	for _, test := range [][2]string{{"a", "a/b/c"}, {"a/b", "a"}, {"x", "y"}, {"a/x", "y"}, {"a/b/f", "../f"}} {
		if err := x.Move(test[0], test[1]); err == nil {
			t.Errorf("moved %q to %q", test[0], test[1])
		}
	}
	if err := x.Move("x", "y"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Move of a missing path: error %v, want ErrNotExist", err)
	}
	if got := paths(x); !slices.Equal(got, []string{"a/", "a/b/", "a/b/f"}) {
		t.Errorf("after refused moves: %q", got)
	}
}

// TestForget checks which edits make the index forget the trees that it knows.
func TestForget(t *testing.T) {
	changed := file(1)
	changed.Data = "changed 1"
	touched := file(1)
	touched.Stat.Inode++

	for _, test := range []struct {
		name  string
		edit  func(x *Index)
		known string // directories whose tree is still known
	}{
		{"nothing", func(x *Index) {}, ". a a/b c"},
		{"the same", func(x *Index) { x.Set("a/b/f", file(1)) }, ". a a/b c"},
		{"stat data", func(x *Index) { x.Set("a/b/f", touched) }, ". a a/b c"},
		{"only stat data", func(x *Index) { x.SetStat("a/b/f", touched.Stat) }, ". a a/b c"},
		{"content", func(x *Index) { x.Set("a/b/f", changed) }, "c"},
		{"new", func(x *Index) { x.Set("a/g", file(1)) }, "a/b c"},
		{"gone", func(x *Index) { x.Remove("a/b/f") }, "c"},
		{"directory gone", func(x *Index) { x.Remove("a/b") }, "c"},
		{"mode", func(x *Index) { x.SetDir("a/b", object.Entry{Mode: 0o700}) }, "a/b c"},
		{"same mode", func(x *Index) { x.SetDir("a/b", object.Entry{Mode: 0o755}) }, ". a a/b c"},
		{"mode of the root", func(x *Index) { x.SetDir("", object.Entry{Mode: 0o700}) }, ". a a/b c"},
		{"new directory", func(x *Index) { x.SetDir("c/d", object.Entry{Mode: 0o700}) }, "a a/b"},
		{"move", func(x *Index) { x.Move("a/b", "c/b") }, "c/b"},
		{"conflict", func(x *Index) { x.SetConflict("a/b/f", nil, nil, nil) }, ". a a/b c"},
	} {
		x := New()
		set(t, x, "a/b/f", file(1))
		set(t, x, "c/f", file(1))
		for _, d := range x.Dirs() {
			d.tree = tree.Info{ID: object.Sum([]byte(d.name))}
		}
		test.edit(x)
		check(t, x)

		var known []string
		for path, d := range x.Dirs() {
			if _, ok := d.Tree(); ok && path == "" {
				known = append(known, ".")
			} else if ok {
				known = append(known, path)
			}
		}

		if got := strings.Join(known, " "); got != test.known {
			t.Errorf("%s: trees are known of %q, want %q", test.name, got, test.known)
		}
	}
}

func TestChildren(t *testing.T) {
	x := New()
	for _, path := range []string{"b", "a/x", "a-", "a.txt", "c/x", "aa"} {
		set(t, x, path, file(1))
	}
	var got []string
	for e, d := range x.Root().Children() {
		if d != nil {
			got = append(got, d.Name()+"/")
		} else {
			got = append(got, e.Name)
		}
	}
	if want := []string{"a/", "a-", "a.txt", "aa", "b", "c/"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if x.Dir("a").Path() != "a" || x.Root().Path() != "" || x.Dir("a").parent != x.Root() {
		t.Error("wrong paths of directories")
	}
	if x.Dir("b") != nil || x.Entry("a") != nil || x.Entry("nothing/x") != nil || x.Entry("a/x") == nil {
		t.Error("wrong results of Dir or Entry")
	}
}
