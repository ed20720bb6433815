package tree

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// lenient continues to read if a node is damaged or missing.
type lenient struct {
	*objecttest.Memory
	passed []string
}

func (l *lenient) PassOver(path string, _ object.Key, err error) bool {
	l.passed = append(l.passed, path)
	return object.IsUnreadable(err)
}

// Walk and Diff with a lenient reader return the entries of all intact nodes.
func TestLenient(t *testing.T) {
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
	if err != nil || len(top.Children) < 3 {
		t.Fatalf("%d nodes, %v", len(top.Children), err)
	}
	deep, err := Find(ctx, m, root, "a/deep")
	if err != nil {
		t.Fatal(err)
	}
	m.Delete(deep.Content)
	m.Damage(treeKey(top.Children[1].ID))
	var want []string
	for path := range all {
		if name := path[len("long/"):]; path == "b/file" || path[0] == 'l' && (name <= top.Children[0].Last || name > top.Children[1].Last) {
			want = append(want, path)
		}
	}
	slices.Sort(want)
	where := []string{"a/deep", "long"}

	walked, l := []string(nil), &lenient{Memory: m}
	err = Walk(ctx, l, root, func(path string, e object.Entry) error {
		if e.Type != object.TypeDir {
			walked = append(walked, path)
		}
		return nil
	})
	if err != nil || !slices.Equal(walked, want) || !slices.Equal(l.passed, where) {
		t.Errorf("walked over %d files, want %d; passed over %q; %v", len(walked), len(want), l.passed, err)
	}
	for _, sides := range [][2]object.ID{{root, object.ID{}}, {object.ID{}, root}} {
		var compared []string
		l := &lenient{Memory: m}
		for c, err := range Diff(ctx, l, sides[0], sides[1], DiffOptions{Recursive: true}) {
			if err != nil {
				t.Fatal(err)
			}
			if (c.Old == nil || c.Old.Type != object.TypeDir) && (c.New == nil || c.New.Type != object.TypeDir) {
				compared = append(compared, c.Path)
			}
		}
		if !slices.Equal(compared, want) || !slices.Equal(l.passed, where) {
			t.Errorf("compared %d files, want %d; passed over %q", len(compared), len(want), l.passed)
		}
	}
	for c, err := range Diff(ctx, &lenient{Memory: m}, root, object.ID{}, DiffOptions{Paths: []string{"a/deep/file"}}) {
		t.Errorf("a path in the missing folder: %v, %v", c, err)
	}
	if err := Walk(ctx, m, root, func(string, object.Entry) error { return nil }); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("a strict reader: error %v, want ErrNotFound", err)
	}
}
