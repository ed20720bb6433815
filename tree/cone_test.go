package tree

import (
	"fmt"
	"testing"
)

func TestCone(t *testing.T) {
	for _, c := range []struct {
		dirs    []string
		chosen  string
		in, out []string
	}{
		{nil, "[]", []string{""}, []string{"a", "a/b"}},
		{[]string{"a/b"}, "[a/b]", []string{"", "a", "a/b", "a/b/c", "a/b/c/d"}, []string{"b", "a/c", "a/b2", "a/a", "a/bb/c"}},
		{[]string{"a/b", "a", "a/c"}, "[a]", []string{"", "a", "a/x/y"}, []string{"a2", "A"}},
		{[]string{"z", "a/b/c", "a/d"}, "[a/b/c a/d z]", []string{"a", "a/b", "a/b/c/x", "a/d", "z/z"}, []string{"a/b/d", "a/e", "y"}},
		{[]string{"a", "a-b/c"}, "[a a-b/c]", []string{"a", "a/b", "a-b", "a-b/c"}, []string{"a-b/d", "a-"}},
		{[]string{"a", ""}, "[]", []string{"", "x", "x/y"}, nil},
	} {
		cone, err := NewCone(c.dirs)
		if err != nil || fmt.Sprint(cone.Dirs()) != c.chosen {
			t.Errorf("cone of %q has %q, want %s; %v", c.dirs, cone.Dirs(), c.chosen, err)
		}
		for _, dir := range c.in {
			if !cone.Has(dir) {
				t.Errorf("cone of %q lacks %q", c.dirs, dir)
			}
		}
		for _, dir := range c.out {
			if cone.Has(dir) {
				t.Errorf("cone of %q has %q", c.dirs, dir)
			}
		}
	}
	for _, bad := range []string{"/a", "a/", "a//b", "..", "a/../b", ".kist/x"} {
		if cone, err := NewCone([]string{bad}); err == nil {
			t.Errorf("cone of %q is %q, want an error", bad, cone.Dirs())
		}
	}
}
