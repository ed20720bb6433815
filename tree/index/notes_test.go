package index

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

func conflicted(t *testing.T) *Index {
	x := New()
	side := &object.Entry{Name: "any", Type: object.TypeFile, Size: 1, Inline: []byte("x")}
	for _, path := range []string{"b", "a/x", "a-b", "a", "a/b/c"} {
		must(t, x.SetConflict(path, nil, side, side))
		must(t, x.SetSkipped(path, "because"))
	}
	return x
}

func noted(x *Index) (conflicts, skipped string) {
	var a, b []string
	for _, c := range x.Conflicts() {
		a = append(a, c.Path)
	}
	for _, s := range x.Skipped() {
		b = append(b, s.Path)
	}
	return strings.Join(a, " "), strings.Join(b, " ")
}

func TestNotes(t *testing.T) {
	for _, test := range []struct {
		name               string
		edit               func(x *Index)
		conflicts, skipped string
	}{
		{"nothing", func(x *Index) {}, "a a/b/c a/x a-b b", "a a/b/c a/x a-b b"},
		{"set", func(x *Index) { x.Set("a/x", file(1)) }, "a a/b/c a-b b", "a a/b/c a-b b"},
		{"set in place of a directory", func(x *Index) { x.Set("a", file(1)) }, "a-b b", "a-b b"},
		{"set a directory", func(x *Index) { x.SetDir("a", object.Entry{Mode: 0o755}) }, "a/b/c a/x a-b b", "a/b/c a/x a-b b"},
		{"remove", func(x *Index) { x.Remove("a/b") }, "a a/x a-b b", "a a/x a-b b"},
		{"remove all", func(x *Index) { x.Remove("") }, "", ""},
		{"clear", func(x *Index) { x.ClearConflict("a"); x.ClearSkipped("a") }, "a/b/c a/x a-b b", "a-b b"},
		{"clear nothing", func(x *Index) { x.ClearConflict("x"); x.ClearSkipped("x") }, "a a/b/c a/x a-b b", "a a/b/c a/x a-b b"},
		{"stat data", func(x *Index) { x.SetStat("a", Stat{Inode: 1}) }, "a a/b/c a/x a-b b", "a a/b/c a/x a-b b"},
	} {
		x := conflicted(t)
		test.edit(x)
		if conflicts, skipped := noted(x); conflicts != test.conflicts || skipped != test.skipped {
			t.Errorf("%s: conflicts %q, skipped %q, want %q and %q", test.name, conflicts, skipped, test.conflicts, test.skipped)
		}
		same(t, roundTrip(t, x), x)
	}
}

func TestConflictSides(t *testing.T) {
	tree := &object.Entry{Name: "ignored", Type: object.TypeDir, Mode: 0o700, Size: 3, Files: 4, Content: object.Key{Kind: object.KindTree, ID: object.Sum(nil)}, Meta: &object.Metadata{Owner: "ada"}}
	link := &object.Entry{Name: "ignored", Type: object.TypeSymlink, Mode: 0o777, Target: "x", MTime: object.Time{Sec: 5}}
	x := New()
	must(t, x.SetConflict("a/b", tree, nil, link))
	c, ok := roundTrip(t, x).Conflict("a/b")
	named := func(o object.Entry) *object.Entry { o.Name = "b"; return &o }
	want := Conflict{Path: "a/b", Base: named(*tree), Theirs: named(*link)}
	if diff := cmp.Diff(want, c); !ok || diff != "" {
		t.Errorf("conflict (-want +got):\n%s", diff)
	}
	if tree.Name != "ignored" {
		t.Error("SetConflict changes the caller's entry")
	}
	for _, bad := range []*object.Entry{{}, {Type: object.TypeDir}, {Type: object.TypeFile, Size: 1}, {Type: object.TypeFile, Meta: &object.Metadata{Device: 1}}} {
		if err := x.SetConflict("c", bad, nil, nil); err == nil {
			t.Errorf("SetConflict accepts %+v", bad)
		}
	}
}

func TestConflictsStopWriteTree(t *testing.T) {
	x := conflicted(t)
	store := objecttest.NewMemory()
	_, err := x.WriteTree(context.Background(), store)
	var conflicts *ConflictError
	if !errors.As(err, &conflicts) || !errors.Is(err, ErrConflict) || !slices.Equal(conflicts.Paths, []string{"a", "a/b/c", "a/x", "a-b", "b"}) {
		t.Fatalf("got %v", err)
	}
	if _, err := x.PreviewTree(context.Background(), store); err != nil {
		t.Errorf("preview: %v", err)
	}
}

func TestReasons(t *testing.T) {
	x := New()
	for _, path := range []string{"", "a//b", "../a", "a\x00b"} {
		if err := x.SetSkipped(path, "x"); err == nil {
			t.Errorf("accepted %q", path)
		}
	}
	must(t, x.SetSkipped("a/.kist", "a\nb\x1b[31m\xff"))
	must(t, x.SetSkipped("long", strings.Repeat("ü", 1000)))
	x = roundTrip(t, x)
	if got := x.Skipped()[0].Reason; got != "ab[31m\ufffd" {
		t.Errorf("got %q", got)
	}
	if got := x.Skipped()[1].Reason; len(got) != 254 || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// Intents are no skipped paths. The index keeps them until the path is set or removed.
func TestIntents(t *testing.T) {
	dir := t.TempDir()
	must(t, Update(t.Context(), dir, func(x *Index) error {
		set(t, x, "a/old", file(1))
		must(t, x.SetSkipped("a/s", "\n"))
		must(t, SetIntent(x, "new"))
		must(t, SetIntent(x, "a/b"))
		return SetIntent(x, "c")
	}))
	x, err := Load(dir)
	must(t, err)
	if got := x.Intents(); !slices.Equal(got, []string{"a/b", "c", "new"}) || !x.Intended("c") || x.Intended("a/s") {
		t.Errorf("intents: %q", got)
	}
	if got := x.Skipped(); len(got) != 1 || got[0].Path != "a/s" || got[0].Reason != "unknown" {
		t.Errorf("skipped: %v", got)
	}
	set(t, x, "new", file(2))
	x.Remove("a")
	if got := x.Intents(); !slices.Equal(got, []string{"c"}) {
		t.Errorf("intents after Set and Remove are %q, want c", got)
	}
	if err := SetIntent(x, "../up"); err == nil {
		t.Error("SetIntent accepts a path outside the worktree")
	}
}
