package tree

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
)

// lines returns n lines that differ from the lines of other seeds.
func lines(seed, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d of text %d\n", i, seed)
	}
	return b.String()
}

func TestDetectRenames(t *testing.T) {
	m := memory()
	file := func(content string) object.Entry { return text(t, m, content) }
	twenty := lines(1, 20)
	edited := strings.Replace(twenty, "line 7 ", "LINE 7 ", 1)
	half := lines(1, 10) + lines(2, 12)
	forty := lines(1, 40)
	other := strings.Replace(forty, "line 7 ", "LINE 7 ", 1)
	longer := strings.Replace(forty, "line 7 ", "line 7 xx ", 1)
	big := count(3000)
	tests := []struct {
		name     string
		old, new files
		want     []string
	}{
		{"moved", files{"a": inline("content"), "k": inline("k")}, files{"b": inline("content"), "k": inline("k")},
			[]string{`b: "content"(644) => "content"(644) from a 100%`}},
		{"moved with another mode", files{"a": inline("content")}, files{"b": withMode(inline("content"), 0o600)},
			[]string{`b: "content"(644) => "content"(600) from a 100%`}},
		{"symlink", files{"a": symlink("x")}, files{"b": symlink("x")}, []string{`b: ->x => ->x from a 100%`}},
		{"empty files are all alike", files{"a": inline("")}, files{"b": inline("")},
			[]string{`a: ""(644) => -`, `b: - => ""(644)`}},
		{"copies are no renames", files{"a": inline("c")}, files{"a": inline("c"), "b": inline("c")}, []string{`b: - => "c"(644)`}},
		{"equal names first", files{"x/1": inline("c"), "x/2": inline("c")}, files{"y/2": inline("c"), "y/3": inline("c")},
			[]string{`x: dir(755) => -`, `y: - => dir(755)`, `y/2: "c"(644) => "c"(644) from x/2 100%`, `y/3: "c"(644) => "c"(644) from x/1 100%`}},
		{"folder", files{"d/1": inline("one"), "d/2": inline("two")}, files{"e/1": inline("one"), "e/2": inline("two")},
			[]string{`d: dir(755) => -`, `e: - => dir(755)`, `e/1: "one"(644) => "one"(644) from d/1 100%`, `e/2: "two"(644) => "two"(644) from d/2 100%`}},
		{"similar text", files{"a": file(twenty), "b": file(lines(3, 20))}, files{"c": file(edited), "d": file(lines(4, 20))},
			[]string{"b: " + describe(to(file(lines(3, 20)))) + " => -",
				"c: " + describe(to(file(twenty))) + " => " + describe(to(file(edited))) + " from a 95%",
				"d: - => " + describe(to(file(lines(4, 20))))}},
		{"not similar enough", files{"a": file(twenty)}, files{"c": file(half)},
			[]string{"a: " + describe(to(file(twenty))) + " => -", "c: - => " + describe(to(file(half)))}},
		{"most similar first", files{"a": file(twenty)}, files{"b": file(twenty + lines(5, 10)), "c": file(edited)},
			[]string{"b: - => " + describe(to(file(twenty+lines(5, 10)))), "c: " + describe(to(file(twenty))) + " => " + describe(to(file(edited))) + " from a 95%"}},
		{"most similar of equal percentages", files{"a": file(longer), "b": file(other)}, files{"c": file(forty)},
			[]string{"a: " + describe(to(file(longer))) + " => -",
				"c: " + describe(to(file(other))) + " => " + describe(to(file(forty))) + " from b 97%"}},
		{"chunks", files{"a": chunked(t, m, big)}, files{"b": chunked(t, m, splice(big, 1000, 500, 9000))},
			[]string{"b: " + describe(to(chunked(t, m, big))) + " => " + describe(to(chunked(t, m, splice(big, 1000, 500, 9000)))) + " from a 83%"}},
		{"content that is not there", files{"a": chunked(t, m, []int{1})}, files{"b": chunked(t, m, []int{2})},
			[]string{"a: " + describe(to(chunked(t, m, []int{1}))) + " => -", "b: - => " + describe(to(chunked(t, m, []int{2})))}},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var changes []Change
			for c, err := range Diff(ctx, m, tt.old.build(t, m).ID, tt.new.build(t, m).ID, DiffOptions{Recursive: true}) {
				if err != nil {
					t.Fatal(err)
				}
				changes = append(changes, c)
			}

			before := len(changes)
			renamed, err := DetectRenames(ctx, m, changes)
			if err != nil {
				t.Fatal(err)
			}

			var got []string
			for _, c := range renamed {
				got = append(got, changeLine(c))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}

			for _, c := range changes[:before] {
				if c.From != "" {
					t.Error("DetectRenames changes its argument")
				}
			}
		})
	}
}

func TestDetectRenamesIsBounded(t *testing.T) {
	m := memory()
	from, into := files{}, files{}
	for i := range 20_000 { // many files with equal content
		from[fmt.Sprint("a/", i)] = inline(fmt.Sprint("content ", i%3))
		into[fmt.Sprint("b/", i+7)] = inline(fmt.Sprint("content ", i%3))
	}

	for i := range MaxSimilarFiles + 1 {
		from[fmt.Sprint("c/", i)] = inline(fmt.Sprint("old", i))
	}
	into["d"] = inline("old1 ")

	var changes []Change
	for c, err := range Diff(ctx, m, from.build(t, m).ID, into.build(t, m).ID, DiffOptions{Recursive: true}) {
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, c)
	}

	got, err := DetectRenames(ctx, m, changes)
	if err != nil {
		t.Fatal(err)
	}

	renames := 0
	for _, c := range got {
		if c.From != "" {
			renames++
			if c.Similarity != 100 {
				t.Errorf("DetectRenames searched for similar content: %s", changeLine(c))
			}
		}
	}
	if renames != 20_000 {
		t.Errorf("%d renames, want 20000", renames)
	}
}

func TestMergeFollowsRenames(t *testing.T) {
	type edits = map[string]*object.Entry
	long := func(n int) *object.Entry { return to(inline(lines(n, 20))) }

	edit := func(n, line int, to_ string) *object.Entry {
		return to(inline(strings.Replace(lines(n, 20), fmt.Sprintf("line %d ", line), to_+" ", 1)))
	}

	both := to(inline(strings.Replace(strings.Replace(lines(1, 20), "line 3 ", "ours ", 1), "line 15 ", "theirs ", 1)))
	base := files{"a": *long(1), "b": *long(2), "d/1": *long(3), "d/2": *long(4), "s": inline("same"), "t": inline("same")}

	sum := func(e *object.Entry) string {
		if len(e.Inline) > object.MaxInline {
			return object.Sum(e.Inline).Short() + "(644)"
		}
		return describe(e)
	}
	for _, tt := range []struct {
		name         string
		ours, theirs edits
		want         edits
		conflicts    []string
	}{
		{"moved here, changed there", edits{"a": nil, "n/a": long(1)}, edits{"a": edit(1, 3, "theirs")}, edits{"a": nil, "n/a": edit(1, 3, "theirs")}, nil},
		{"moved and changed here, changed there", edits{"a": nil, "n": edit(1, 3, "ours")}, edits{"a": edit(1, 15, "theirs")}, edits{"a": nil, "n": both}, nil},
		{"changed here, moved and changed there", edits{"a": edit(1, 3, "ours")}, edits{"a": nil, "n": edit(1, 15, "theirs")}, edits{"a": nil, "n": both}, nil},
		{"folder moved, file in it changed", edits{"d": nil, "e/1": long(3), "e/2": long(4)}, edits{"d/1": edit(3, 1, "theirs")},
			edits{"d": nil, "e/1": edit(3, 1, "theirs"), "e/2": long(4)}, nil},
		{"both moved it to one place", edits{"a": nil, "n": edit(1, 3, "ours")}, edits{"a": nil, "n": edit(1, 15, "theirs")}, edits{"a": nil, "n": both}, nil},
		{"moved into a folder of its name", edits{"a": nil, "a/a": long(1)}, edits{"a": edit(1, 3, "theirs")}, edits{"a": nil, "a/a": edit(1, 3, "theirs")}, nil},
		{"moved in the place of a folder", edits{"a": nil, "d": long(1)}, edits{"a": edit(1, 3, "theirs")},
			edits{"a": nil, "d": edit(1, 3, "theirs")}, nil},
		{"moved in the place of a folder that both removed", edits{"a": nil, "d": long(1)}, edits{"a": edit(1, 3, "theirs"), "d": nil},
			edits{"a": nil, "d": edit(1, 3, "theirs")}, nil},
		{"moved in the place of a folder with something new", edits{"a": nil, "d": long(1)}, edits{"a": edit(1, 3, "theirs"), "d/n": to(inline("n"))},
			edits{"a": nil, "d~HEAD": edit(1, 3, "theirs"), "d/1": nil, "d/2": nil, "d/n": to(inline("n"))},
			[]string{"file/directory: d: dir(755) | " + sum(long(1)) + " | dir(755) ours at d~HEAD"}},
		{"moved to two places", edits{"a": nil, "n": long(1)}, edits{"a": nil, "m": long(1)}, edits{"a": nil, "n": long(1), "m": long(1)},
			[]string{"rename/rename: a: " + sum(long(1)) + " | " + sum(long(1)) + " | " + sum(long(1)) + " ours at n theirs at m"}},
		{"moved and deleted", edits{"a": nil, "n": long(1)}, edits{"a": nil}, edits{"a": nil, "n": long(1)},
			[]string{"rename/delete: n: " + sum(long(1)) + " | " + sum(long(1)) + " | - from a"}},
		{"moved, and the new place is taken", edits{"a": nil, "n": long(1)}, edits{"a": edit(1, 3, "theirs"), "n": to(symlink("x"))},
			edits{"a": edit(1, 3, "theirs"), "n": long(1), "n~topic": to(symlink("x"))},
			[]string{"modify/delete: a: " + sum(long(1)) + " | - | " + sum(edit(1, 3, "theirs")), "add/add: n: - | " + sum(long(1)) + " | ->x theirs at n~topic"}},
		{"not clear which", edits{"s": nil, "t": nil, "n": to(inline("same")), "m": to(inline("same"))}, edits{"s": to(inline("changed"))},
			edits{"t": nil, "n": to(inline("same")), "m": to(inline("same")), "s": to(inline("changed"))},
			[]string{`modify/delete: s: "same"(644) | - | "changed"(644)`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkMerge(t, base, base.but(tt.ours), base.but(tt.theirs), base.but(tt.want), tt.conflicts)
		})
	}

	t.Run("conflict says where it was", func(t *testing.T) {
		m := memory()
		ours, theirs := edit(1, 3, "ours"), edit(1, 3, "theirs")
		merged, err := Merge(ctx, m, Versions{
			base.stored(t, m).build(t, m).ID, base.but(edits{"a": nil, "n": ours}).stored(t, m).build(t, m).ID,
			base.but(edits{"a": theirs}).stored(t, m).build(t, m).ID,
		}, MergeOptions{Split: splitEven})
		if err != nil {
			t.Fatal(err)
		}
		if len(merged.Conflicts) != 1 || merged.Conflicts[0].From != "a" || merged.Conflicts[0].Path != "n" || !merged.Conflicts[0].Markers {
			t.Fatalf("conflicts are %+v, want one at n from a with markers", merged.Conflicts)
		}

		e, err := Find(ctx, m, merged.Tree.ID, "n")
		if err != nil {
			t.Fatal(err)
		}
		got, err := readContent(ctx, m, &e)
		if err != nil || !strings.Contains(string(got), "<<<<<<< ours:n\nours of text 1\n=======\ntheirs of text 1\n>>>>>>> theirs:a\n") {
			t.Errorf("merged text is %s, error %v", got, err)
		}
	})
}
