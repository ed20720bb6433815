package tree

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
)

func TestCleanPath(t *testing.T) {
	for in, want := range map[string]string{
		"": "", ".": "", "./": "", "a": "a", "a/": "a", "a/b": "a/b", "./a//b/./c/": "a/b/c",
		"a\\b": "a\\b", "\xff/\n": "\xff/\n", "...": "...", " ": " ",
	} {
		if got, err := CleanPath(in); err != nil || got != want {
			t.Errorf("CleanPath(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	deep := strings.Repeat("d/", object.MaxDepth)
	if got, err := CleanPath(deep); err != nil || got != deep[:len(deep)-1] {
		t.Errorf("%d names: %v", object.MaxDepth, err)
	}
	var name *object.NameError
	for in, want := range map[string]error{
		"/": ErrAbsolute, "/a": ErrAbsolute, "..": ErrOutside, "a/../b": ErrOutside, "a/..": ErrOutside, deep + "d": ErrTooDeep,
		"a/.kist": nil, ".KIST/config": nil, "a\x00": nil, strings.Repeat("n", 256): nil,
	} {
		_, err := CleanPath(in)
		var at *PathError
		if !errors.As(err, &at) || at.Path != in || want != nil && !errors.Is(err, want) || want == nil && !errors.As(err, &name) {
			t.Errorf("CleanPath(%.20q): %v, want %v", in, err, want)
		}
	}
}

func TestComparePaths(t *testing.T) {
	sorted := []string{"", "a", "a/b", "a/b/c", "a/b-", "a\n", "a\n/x", "a ", "a-", "a-/b", "a0", "b"}
	for i, a := range sorted {
		for j, b := range sorted {
			got := ComparePaths(a, b)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("ComparePaths(%q, %q) = %d", a, b, got)
			}
		}
	}
	// Paths have the order of their lists of names.
	byNames := slices.Clone(sorted)
	slices.SortFunc(byNames, func(a, b string) int { return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) })
	if !slices.Equal(sorted, byNames) {
		t.Errorf("sorted by lists of names: %q, want %q", byNames, sorted)
	}
}

func TestGitFolder(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "a": "", "a/b": "", ".gitignore": "", "a/.github/x": "", ".git": ".git", ".git/config": ".git", "a/.GIT": "a/.GIT", "a/git~1/b/.git/c": "a/git~1",
	} {
		if got := GitFolder(path); got != want {
			t.Errorf("GitFolder(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestBelow(t *testing.T) {
	for _, tt := range []struct {
		path, dir string
		want      bool
	}{
		{"a", "", true}, {"", "", true}, {"a", "a", true}, {"a/b", "a", true}, {"ab", "a", false}, {"a", "a/b", false}, {"", "a", false},
	} {
		if got := Below(tt.path, tt.dir); got != tt.want {
			t.Errorf("Below(%q, %q) = %t, want %t", tt.path, tt.dir, got, tt.want)
		}
	}
}

func FuzzCleanPath(f *testing.F) {
	for _, s := range []string{"", "a/b", "/a", "../x", "a//b", ".kist", "a/.KiSt::$DATA", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := CleanPath(in)
		if err != nil {
			return
		}
		if again, err := CleanPath(got); err != nil || again != got {
			t.Errorf("CleanPath(%q) = %q, and cleaned again %q, %v", in, got, again, err)
		}
		if got == "" {
			return
		}
		for name := range strings.SplitSeq(got, "/") {
			if err := object.CheckName(name); err != nil {
				t.Errorf("%q: %v", in, err)
			}
		}
	})
}
